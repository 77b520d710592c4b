"""Scopes: a reader of a part of an index gets nothing of the rest, whatever it asks for."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    HybridStrategy,
    Models,
    PaperStrategy,
    ScopedReader,
    SourceDocument,
    TreeTraversalStrategy,
    tagged,
)
from e2graphrag_integrations.errors import (
    CorruptStoreError,
    InvalidInputError,
    UnknownDocumentError,
    UnknownEntityError,
)
from e2graphrag_integrations.retrieval import scopes, session
from e2graphrag_integrations.retrieval.scopes import Scope, ScopedSnapshots
from e2graphrag_integrations.search.bm25 import build_bm25
from e2graphrag_integrations.search.dense import DenseIndex
from e2graphrag_integrations.search.segmented import SegmentedIndex
from fakes import CountingLLM, NameExtractor
from scope_trials import A, B, Trials

pytestmark = pytest.mark.usefixtures("all_summaries")  # they count all nodes


def letters(tenant: str, *names: str) -> list[SourceDocument]:
    """Return a document for each name, in which other documents share only Bert and Oslo."""
    return [
        SourceDocument(
            f"{tenant}-{name}",
            f"{name} met Bert in Oslo. Bert gave {name} a map. {name} sailed to Rome with Bert. "
            f"Nobody saw {name} in Oslo again.",
            f"The Letter of {name}",
            {"tenant": tenant},
        )
        for name in names
    ]


@pytest.fixture
def two_tenants(open_index) -> E2GraphRAG:
    rag = open_index(group_size=2)
    rag.add([*letters("a", "Anna", "Cleo"), *letters("b", "Xenia", "Zoe")])
    return rag


def plain(result):
    """Return a result without timings, and without its age, which a scope does not tell."""
    trace = result.trace
    lists = dict(trace.lists)
    return replace(result, trace=replace(trace, timings={}, freshness=None, lists=lists))


# Arguments


@pytest.mark.parametrize(
    "where",
    [
        {},
        {"$and": []},
        {"$or": [A, {}]},
        {"$not": {"$or": []}},
        {"$and": [A, {"$and": []}]},
        lambda _: True,
        tagged("x"),
        None,
        "tenant=a",
        [("tenant", "a")],
        {"tenant": {"$near": 1}},
        {1: "a"},
        {"tenant": {1, 2}},
    ],
)
def test_a_scope_that_would_be_everything_or_is_malformed_is_rejected(two_tenants, where):
    with pytest.raises(InvalidInputError, match=r"where|scope"):
        two_tenants.scoped(where)


@pytest.mark.parametrize("statistics", ["all", None, 1])
def test_unknown_statistics_are_rejected(two_tenants, statistics):
    if statistics is None:
        assert two_tenants.scoped(A, statistics=statistics).statistics == "scope"
        return
    with pytest.raises(InvalidInputError, match="statistics"):
        two_tenants.scoped(A, statistics=statistics)


def test_later_changes_of_the_filter_have_no_effect(two_tenants):
    where = {"tenant": "a", "kind": {"$nin": {"x"}}}
    reader = two_tenants.scoped(where)
    where["tenant"] = "b"
    reader.where["tenant"] = "b"
    assert reader.document_ids == ["a-Anna", "a-Cleo"]
    assert reader.where == {"tenant": "a", "kind": {"$nin": ["x"]}}
    assert repr(reader) == f"ScopedReader(':memory:', where={reader.where!r})"


# Leaks


@pytest.mark.parametrize("questions", [40, pytest.param(500, marks=pytest.mark.slow)])
def test_answers_to_one_tenant_never_contain_words_of_another(questions):
    trials = Trials(seed=7)
    trials.run(questions, per_index=20)
    assert trials.asked == questions
    assert not trials.leaks


def test_the_trials_find_the_leaks_of_a_filter_alone(monkeypatch):
    def everything(self, records):
        return np.ones(len(records.starts), dtype=np.bool_)

    monkeypatch.setattr(Scope, "visible_nodes", everything)
    trials = Trials(seed=7)
    trials.run(10)
    assert trials.leaks


@pytest.mark.fast_cases(5)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mode": "local"},
        {"mode": "global", "fill": True},
        {"strategy": PaperStrategy()},
        {"strategy": TreeTraversalStrategy(), "expand": "leaves"},
        {"strategy": HybridStrategy(budget_summaries="flat"), "token_budget": 60},
        {"paths": True, "history": ["Whom did Anna meet?"], "boost": {"documents": {"a-Anna": 3}}},
        {"where": {"document_id": "a-Anna"}},
    ],
    ids=str,
)
def test_an_answer_is_the_same_as_if_the_other_documents_did_not_exist(
    two_tenants, open_index, options
):
    alone = open_index(group_size=2)
    alone.add(letters("a", "Anna", "Cleo"))
    scoped, reader = two_tenants.scoped(A), alone.scoped(A)
    for question in ("Who gave Anna a map?", "What about Xenia and Bert?", "Who met Zoee?"):
        found = scoped.retrieve(question, k=20, **options)
        assert plain(found) == plain(reader.retrieve(question, k=20, **options))
        assert plain(found) == plain(alone.retrieve(question, k=20, **options))
    assert scoped.entities() == alone.entities()
    assert scoped.entity("Bert") == alone.entity("Bert")
    assert scoped.communities() == alone.communities()
    assert scoped.document_ids == alone.document_ids
    expected = alone.stats()
    assert scoped.stats() == replace(expected, bytes=0, settings=scoped.stats().settings)


def test_ids_and_names_of_other_tenants_are_unknown(two_tenants):
    reader = two_tenants.scoped(A)
    nodes = {node.node_id for node in two_tenants.retrieve("Zoe", k=50).nodes}
    own = {node.node_id for node in reader.retrieve("Zoe", k=50).nodes}
    assert reader.nodes(nodes).keys() == own
    for unknown in ("b-Zoe", "nobody"):
        with pytest.raises(UnknownDocumentError) as caught:
            reader.document(unknown)
        assert str(caught.value) == f"no document {unknown!r} in :memory:"
        with pytest.raises(UnknownDocumentError) as caught:
            reader.retrieve("Who?", boost={"documents": {unknown: 2.0}})
        assert str(caught.value) == f"boost: no document {unknown!r} is in the index"
    for unknown in ("Zoe", "Zo", "Zuleika"):
        with pytest.raises(UnknownEntityError) as caught:
            reader.entity(unknown)
        assert str(caught.value) == (
            f"no entity {unknown!r} in the index: entities(prefix=) lists the names"
        )
    assert reader.document("a-Anna").metadata == A


def test_a_scope_without_documents_answers_nothing(two_tenants):
    reader = two_tenants.scoped({"tenant": "c"})
    result = reader.retrieve("Who met Anna?", fill=True, paths=True, token_budget=100)
    assert result.nodes == ()
    assert reader.document_ids == []
    assert reader.entities() == []
    assert reader.communities() == ()
    assert reader.stats().documents == reader.stats().windows == 0


def test_nothing_in_a_question_widens_a_scope(two_tenants):
    reader = two_tenants.scoped(A)
    for where in (B, {"tenant": {"$exists": True}}, lambda _: True, {"$or": [A, B]}):
        nodes = reader.retrieve("Who met Zoe?", k=50, where=where).nodes
        assert {node.metadata["tenant"] for node in nodes} <= {"a"}
        narrower = [node.metadata for node in nodes]
        assert narrower == [] if where is B else narrower


def test_scopes_of_scopes_only_narrow(two_tenants):
    reader = two_tenants.scoped(A).scoped({"document_id": {"$in": ["a-Anna", "b-Zoe"]}})
    assert reader.document_ids == ["a-Anna"]
    assert reader.where == {"$and": [A, {"document_id": {"$in": ["a-Anna", "b-Zoe"]}}]}
    assert reader.scoped(B).document_ids == []
    with pytest.raises(InvalidInputError, match="wider"):
        reader.scoped(A, statistics="index")
    outer = two_tenants.scoped(A, statistics="index")
    assert outer.scoped(A).statistics == "index"
    assert outer.scoped(A, statistics="scope").statistics == "scope"


def test_every_page_of_a_node_must_match(open_index):
    rag = open_index(chunk_size=100)
    text = "Anna sat in Oslo. Zoe stood in Rome."
    pages = [(0, 17, {"page": 1}), (18, 36, {"page": 2})]
    rag.add(SourceDocument("d", text, segments=pages))
    assert rag.retrieve("Who sat?", where={"page": 1}).nodes  # a filter matches any page
    assert rag.scoped({"page": 1}).retrieve("Who sat?").nodes == ()
    assert rag.scoped({"page": {"$in": [1, 2]}}).retrieve("Who sat?").nodes


# Documents of several tenants


@pytest.fixture
def shared_document(open_index) -> E2GraphRAG:
    rag = open_index(chunk_size=12, chunk_overlap=0, group_size=2, split_segments=True)
    first = "Anna met Bert in Oslo then. Anna met Bert in Rome then. Bert sold a map to Anna."
    second = "Zoe met Bert in Riga then. Zoe met Bert in Lima then."
    text = f"{first} {second}"
    spans = [(0, len(first)), (len(first) + 1, len(text))]
    segments = [(*spans[0], A), (*spans[1], B), (len(text), len(text), {"tenant": "Secret"})]
    rag.add(SourceDocument("shared", text, "Anna and Zoe", segments=segments))
    rag.add(letters("a", "Cleo"))
    return rag


def test_a_shared_document_shows_its_visible_chunks_alone(shared_document):
    reader = shared_document.scoped(A)
    nodes = reader.retrieve("Who met Zoe?", k=50).nodes
    shared = [node for node in nodes if node.document_id == "shared"]
    assert shared
    assert {node.level for node in shared} == {0, 1}
    for node in shared:
        assert "Zoe" not in repr(node)
        assert node.title is None
        assert node.parent_id is None or node.parent_id in {one.node_id for one in nodes}
    roots = reader.retrieve("Who?", strategy=TreeTraversalStrategy(), k=50).nodes
    assert {node.node_id for node in shared} <= {node.node_id for node in roots}
    hidden = shared_document.retrieve("x", k=50).nodes
    stored = reader.nodes([node.node_id for node in hidden])
    assert all(node.parent_id in {None, *stored} for node in stored.values())


def test_a_shared_document_cannot_be_read_as_a_whole(shared_document):
    reader = shared_document.scoped(A)
    assert reader.document_ids == ["a-Cleo"]
    with pytest.raises(UnknownDocumentError, match="no document 'shared'"):
        reader.document("shared")
    # Not even if the segments of others contain no text.
    both = shared_document.scoped({"tenant": {"$in": ["a", "b"]}})
    assert both.document_ids == ["a-Cleo", "shared"]
    with pytest.raises(UnknownDocumentError, match="no document 'shared'"):
        both.document("shared")
    every = shared_document.scoped({"tenant": {"$exists": True}})
    assert every.document("shared").title == "Anna and Zoe"


def test_text_outside_of_all_segments_needs_the_metadata_of_the_document(open_index):
    rag = open_index()
    text = "Anna sat in Oslo. Zoe stood in Rome."
    rag.add(SourceDocument("d", text, metadata=B, segments=[(0, 17, A)]))
    with pytest.raises(UnknownDocumentError):
        rag.scoped(A).document("d")
    assert rag.scoped({"tenant": {"$in": ["a", "b"]}}).document("d").text == text


# Settings of the owner


def test_an_alias_applies_if_the_scope_has_both_names(two_tenants):
    two_tenants.edit_entities(
        alias={"Anna": "Bert", "Zoe": "Oslo", "Xenia": "Zoe", "Boss": "Cleo", "Rome": "Xenia"},
    )
    reader = two_tenants.scoped(A)
    assert reader.entity("Anna").info.aliases == ("Anna",)
    # `Zoe`, `Xenia` and `Boss` are not in the scope; `Rome` means `Oslo` by way of them.
    aliases = {one.name: one.aliases for one in reader.entities() if one.aliases}
    assert aliases == {"bert": ("Anna",), "oslo": ("Rome",)}
    for hidden in ("Zoe", "Xenia", "Boss", "Zo"):
        assert not reader.entities(prefix=hidden)
        assert hidden in reader.retrieve(f"Who is {hidden}?").trace.unlinked
    both = two_tenants.scoped({"tenant": {"$in": ["a", "b"]}})
    assert both.entity("Oslo").info.aliases == ("Rome", "Xenia", "Zoe")


def test_tags_are_shared_but_only_those_of_the_scope_are_listed(two_tenants):
    two_tenants.set_tags(["anna", "zoe"])
    reader = two_tenants.scoped(A)
    counts = reader.tag_counts()
    assert "zoe" not in counts
    assert all(counts.values())
    assert reader.retrieve("Who?", where=tagged("zoe")).nodes == ()
    assert reader.retrieve("Who?", boost={"tag": {"zoe": 2.0}}).nodes
    with pytest.raises(InvalidInputError) as caught:
        reader.retrieve("Who?", where=tagged("nothing"))
    assert str(caught.value) == "unknown tag 'nothing'"


def test_a_question_is_read_in_the_languages_of_the_scope(open_index):
    rag = open_index(extractor={"en": NameExtractor(), "de": NameExtractor()})
    rag.add(SourceDocument("d", "Anna war in Oslo.", metadata=B, language="de"))
    rag.add(SourceDocument("e", "Anna was in Oslo.", metadata=A, language="en"))
    history = {"history": ["Whom did Anna meet in Oslo?"]}
    for reader, languages in ((rag.scoped(A), ("en",)), (rag.scoped(B), ("de",))):
        for options in ({}, history):
            trace = reader.retrieve("Anna Oslo?", **options).trace
            assert trace.question_languages == languages
        assert reader.stats().languages == {languages[0]: 1}
    assert rag.retrieve("Anna Oslo?").trace.question_languages == ("en", "de")


def test_document_frequencies_are_those_of_the_scope_or_the_index(two_tenants):
    def bm25(statistics):
        reader = two_tenants.scoped(A, statistics=statistics)
        index, scope = two_tenants._session, reader.scope
        return index.read(lambda snapshot, _: snapshot, scope).bm25

    own, all_ = bm25("scope"), bm25("index")
    whole = two_tenants._session.snapshot().bm25
    assert own.corpus is None
    assert all_.corpus.n_texts == whole.n_texts > all_.n_texts == own.n_texts
    assert all_.idf("oslo") == whole.idf("oslo")
    assert all_.idf("anna") == whole.idf("anna") > own.idf("anna")
    assert all_.idf("zoe") == own.idf("zoe") == 0
    assert "zoe" not in all_.corpus.doc_freq


# Changes and caches


def generation(reader: ScopedReader) -> str:
    return reader._session.read(lambda snapshot, _: snapshot.generation, reader.scope)


def test_changes_of_others_neither_show_nor_cost_a_snapshot(two_tenants, monkeypatch):
    reader = two_tenants.scoped(A)
    before = plain(reader.retrieve("Who met Bert?"))
    made: list[str] = []
    original = ScopedSnapshots._make
    monkeypatch.setattr(
        ScopedSnapshots, "_make", lambda self, *args: made.append("") or original(self, *args)
    )
    name = generation(reader)
    two_tenants.update(replace(letters("b", "Zoe")[0], text="Bert left. Zoe stayed with Bert."))
    two_tenants.add(letters("b", "Yves"))
    two_tenants.delete("b-Xenia")
    assert plain(reader.retrieve("Who met Bert?")) == before
    assert generation(reader) == name
    assert not made
    two_tenants.update(replace(letters("a", "Anna")[0], text="Anna met Bert in Kiel."))
    changed = reader.retrieve("Who met Bert in Kiel?")
    assert "Kiel" in changed.nodes[0].text
    assert generation(reader) != name
    assert len(made) == 1
    assert changed.trace.freshness is None
    assert "wait" not in changed.trace.timings


def test_a_document_that_changes_hands_disappears_at_once(tmp_path, open_index):
    path = tmp_path / "i.e2g"
    writer = open_index(path)
    writer.add([*letters("a", "Anna", "Cleo"), *letters("b", "Zoe")])
    reader = open_index(path, read_your_writes=False)
    scoped = {tenant: reader.scoped({"tenant": tenant}) for tenant in "ab"}
    assert {n.document_id for n in scoped["a"].retrieve("Anna", k=50).nodes} == {"a-Anna", "a-Cleo"}
    moved = replace(letters("a", "Anna")[0], metadata=B, text="Anna told Zoe the Secret.")
    writer.update(moved)
    # The state that answers may be the old one: the document is left out until the next one.
    nodes = scoped["a"].retrieve("Anna", k=50).nodes
    assert {node.document_id for node in nodes} == {"a-Cleo"}
    with pytest.raises(UnknownDocumentError):
        scoped["a"].document("a-Anna")
    reader.refresh()
    assert {n.document_id for n in scoped["a"].retrieve("Anna", k=50).nodes} == {"a-Cleo"}
    assert scoped["b"].document("a-Anna") == moved


def test_the_first_question_after_a_change_reads_the_newest_texts(tmp_path, open_index):
    path = tmp_path / "i.e2g"
    writer = open_index(path)
    writer.add([*letters("a", "Anna", "Cleo"), *letters("b", "Zoe")])
    reader = open_index(path, read_your_writes=False)
    reader.retrieve("Who?")  # prepares the state of the index, but no scope
    writer.update(replace(letters("a", "Anna")[0], text="Anna met Bert in Kiel."))
    nodes = reader.scoped(A).retrieve("Who met Bert in Kiel?").nodes
    assert "Kiel" in nodes[0].text


@pytest.mark.parametrize("place", ["i.e2g", ":memory:"])
def test_a_question_that_blocks_writers_does_not_wait_for_another_in_its_scope(
    tmp_path, open_index, monkeypatch, place
):
    rag = open_index(place if place == ":memory:" else tmp_path / place)
    rag.add([*letters("a", "Anna", "Cleo"), *letters("b", "Zoe")])
    reader, turns = rag.scoped(A), count()
    is_making, may_read = threading.Event(), threading.Event()

    def build(texts):
        if next(turns) == 0:
            is_making.set()
            assert may_read.wait(10)
        return build_bm25(texts)

    monkeypatch.setattr(session, "build_bm25", build)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(reader.retrieve, "Who met Bert?")
        assert is_making.wait(10)
        monkeypatch.setattr(session, "ATTEMPTS", 0)
        second = threads.submit(reader.retrieve, "Who met Bert?")
        found = second.result(5)
        may_read.set()
        assert plain(first.result(10)) == plain(found)


def test_the_cache_of_snapshots_is_bounded(open_index, monkeypatch):
    rag = open_index()
    rag.add([document for n in range(6) for document in letters(f"t{n}", "Anna")])
    whole = rag._session.snapshot()
    one = len(whole.dense.window_nodes) // 6
    cache = ScopedSnapshots(max_windows=2 * one)

    def take(tenant):
        scope = Scope.of({"tenant": tenant})
        return cache.get(scope, whole, lambda s: build_bm25([""] * len(s.dense.window_nodes)))

    first, second = take("t0"), take("t1")
    assert take("t0") is first
    take("t2")
    assert take("t0") is first
    assert take("t1") is not second
    assert cache._windows == 2 * one == sum(map(scopes._size, cache._entries.values()))
    alone = ScopedSnapshots(max_windows=1)
    scope = Scope.of({"tenant": "t0"})
    kept = alone.get(scope, whole, lambda s: build_bm25([""] * len(s.dense.window_nodes)))
    assert alone.get(scope, whole, lambda _: pytest.fail("made twice")) is kept


def test_the_snapshot_of_a_scope_does_not_keep_the_index_in_memory(tmp_path, open_index):
    rag = open_index(tmp_path / "i.e2g")
    rag.add([*letters("a", "Anna"), *letters("b", "Zoe")])
    rag.retrieve("Who?")
    snapshot = rag._session.read(lambda one, _: one, rag.scoped(A).scope)
    assert isinstance(snapshot.dense, DenseIndex)
    assert not isinstance(snapshot.dense, SegmentedIndex)
    assert snapshot.dense.vectors.base is None
    assert snapshot.mentions_factory is None
    assert snapshot.segments is None
    assert "zoe" not in repr(vars(snapshot)).lower()


# Faults


def test_a_damaged_document_of_another_tenant_is_not_named(tmp_path, open_index):
    path = tmp_path / "i.e2g"
    with E2GraphRAG.open(
        path, embedder=HashingEmbedder(), models=Models(extractor=NameExtractor())
    ) as rag:
        rag.add([*letters("a", "Anna"), *letters("b", "Zoe")])
    connection = sqlite3.connect(path)
    connection.execute("UPDATE documents SET title = 'Damaged Zoe' WHERE id = 'b-Zoe'")
    connection.commit()
    connection.close()
    reader = open_index(path, chunk_size=1200, chunk_overlap=100).scoped(A)
    with pytest.raises(CorruptStoreError) as caught:
        reader.retrieve("Who met Bert?")
    assert str(caught.value).endswith("is damaged: the owner of the index can call verify()")
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    with pytest.raises(CorruptStoreError, match="is damaged"):
        reader.document("b-Zoe")


def test_the_store_is_not_asked_for_documents_of_others(open_index, monkeypatch):
    index = open_index(chunk_size=1200, chunk_overlap=100)
    index.add([*letters("a", "Anna"), *letters("b", "Zoe")])
    reader, asked = index.scoped(A), []
    read = index.store.document

    def document(id_):
        asked.append(id_)
        return read(id_)

    monkeypatch.setattr(index.store, "document", document)
    messages = []
    for id_ in ("b-Zoe", "b-Zou"):
        with pytest.raises(UnknownDocumentError) as caught:
            reader.document(id_)
        messages.append(str(caught.value).replace(id_, "ID"))
    assert asked == []
    assert len(set(messages)) == 1
    assert reader.document("a-Anna").id == "a-Anna"
    index.delete("a-Anna")
    with pytest.raises(UnknownDocumentError):
        reader.document("a-Anna")


# Interfaces


def test_async_methods_return_the_same(two_tenants):
    reader = two_tenants.scoped(A)

    async def ask():
        return (
            plain(await reader.aretrieve("Who met Bert?")),
            await reader.aentities(),
            await reader.aentity("Bert"),
            await reader.acommunities(reports=None),
        )

    assert asyncio.run(ask()) == (
        plain(reader.retrieve("Who met Bert?")),
        reader.entities(),
        reader.entity("Bert"),
        reader.communities(reports=None),
    )


def test_reports_of_a_language_model_are_not_available_in_a_scope(open_index):
    llm = CountingLLM()
    rag = open_index(summarizer=llm)
    rag.add(letters("a", "Anna"))
    calls = llm.calls
    reader = rag.scoped(A)
    assert all(one.report for one in reader.communities())
    with pytest.raises(InvalidInputError, match="only reads"):
        reader.communities(reports="summarizer")
    assert llm.calls == calls


def test_equal_texts_share_cached_results_but_no_name(open_index):
    llm = CountingLLM()
    rag = open_index(summarizer=llm, group_size=2)
    text = letters("a", "Anna")[0].text
    rag.add(SourceDocument("one", text, "Secret One", A))
    prompts = list(llm.prompts) if hasattr(llm, "prompts") else []
    rag.add(SourceDocument("two", text, "Secret Two", B))
    assert not any("Two" in prompt for prompt in prompts)
    for tenant, other in (("a", "Two"), ("b", "One")):
        reader = rag.scoped({"tenant": tenant})
        assert other not in repr(reader.retrieve("Secret", k=50))


def test_real_vectors_answer_in_a_scope(real_embedder, real_extractor, open_index, caplog):
    rag = open_index(embedder=real_embedder, extractor=real_extractor, chunk_size=30)
    facts = {
        "a": "Marie Curie discovered polonium in Paris. She shared a prize with Pierre Curie.",
        "b": "Ada Lovelace wrote the first program in London. Charles Babbage built an engine.",
    }
    rag.add([SourceDocument(f"d{t}", text, metadata={"tenant": t}) for t, text in facts.items()])
    with caplog.at_level(logging.DEBUG, "e2graphrag_integrations"):
        found = rag.scoped(A).retrieve("Who wrote the first program, Ada Lovelase?", k=10)
        own = rag.scoped(B).retrieve("Who wrote the first program, Ada Lovelase?", k=10)
    assert {node.document_id for node in found.nodes} == {"da"}
    assert "Babbage" not in repr(found) + caplog.text
    assert "Lovelace" not in repr(found)
    assert own.nodes[0].text.startswith("Ada Lovelace")


@pytest.mark.parametrize("questions", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_no_answer_shows_a_document_that_just_changed_hands(tmp_path, open_index, questions):
    path = tmp_path / "i.e2g"
    reader = open_index(path, read_your_writes=False)
    writer = open_index(path)
    writer.add([*letters("a", "Cleo"), *letters("b", "Zoe"), *letters("a", "Moved")])
    moved = letters("a", "Moved")[0]
    stopping = threading.Event()

    def move():
        for turn in count():
            tenant, secret = "ba"[turn % 2], f"Secret{'BA'[turn % 2]}"
            text = f"{secret} met Bert in Oslo. {secret} told Bert all."
            writer.update(replace(moved, text=text, title=secret, metadata={"tenant": tenant}))
            if stopping.is_set():
                return

    thread = threading.Thread(target=move)
    thread.start()
    try:
        for number in range(questions):
            tenant, other = ("a", "secretb") if number % 2 else ("b", "secreta")
            scope = reader.scoped({"tenant": tenant})
            shown = repr(scope.retrieve("Whom did Bert meet, and who told him?", k=50))
            if number % 10 < 2:
                shown += repr([scope.entities(), scope.entity("Bert"), scope.communities()])
            with suppress(UnknownDocumentError):
                shown += repr(scope.document(moved.id))
            assert other not in shown.lower()
    finally:
        stopping.set()
        thread.join()
