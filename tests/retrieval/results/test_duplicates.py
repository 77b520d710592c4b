"""Equal texts of several documents are shown once, and the result names the other documents."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from e2graphrag_integrations import (
    E2GraphRAG,
    ExtractiveSummarizer,
    HashingEmbedder,
    HybridStrategy,
    PaperStrategy,
    SourceDocument,
)
from e2graphrag_integrations.options import grouped
from e2graphrag_integrations.retrieval.results.duplicates import Duplicates
from e2graphrag_integrations.views.answer import answer_view

TEXT = "The turbine at Halsen failed because the gearbox ran dry."
COPIES = [SourceDocument(f"copy{n}", TEXT, metadata={"tenant": "ab"[n % 2]}) for n in range(6)]
OTHERS = [
    SourceDocument("other1", "An inspector at Halsen blamed the turbine failure on lubrication."),
    SourceDocument("other2", "The turbine at Halsen was replaced after the gearbox failed."),
    SourceDocument("changed", TEXT.replace("Halsen", "Morvik")),
]


@pytest.fixture(scope="module", params=["hashing", None], ids=["hashed", "real vectors"])
def rag(request):
    with E2GraphRAG.open(":memory:", embedder=request.param) as rag:
        rag.add([*COPIES, *OTHERS, SourceDocument("case", f"“{TEXT.upper()}”\n")])
        yield rag


@pytest.mark.parametrize("options", [{"k": 5}, {"token_budget": 200}], ids=str)
def test_copies_take_one_place_and_name_each_other(rag, options):
    nodes = rag.retrieve("Why did the turbine at Halsen fail?", **options).nodes
    chunks = [node for node in nodes if not node.level]
    copies = [node for node in chunks if node.text.casefold().strip("“”\n") == TEXT.casefold()]
    assert len(copies) == 1
    assert {copies[0].document_id, *copies[0].also_in} <= {*(f"copy{n}" for n in range(6)), "case"}
    assert len(copies[0].also_in) >= 4
    assert {"other1", "other2"} <= {node.document_id for node in chunks}


def test_a_text_with_another_name_is_no_copy(rag):
    nodes = rag.retrieve("Which turbines failed?", k=9).nodes
    assert "changed" in {node.document_id for node in nodes}


@pytest.mark.parametrize("tenant", ["a", "b"])
def test_a_filter_holds_for_the_other_documents(rag, tenant):
    nodes = rag.retrieve("Why did the turbine fail?", k=3, where={"tenant": tenant}).nodes
    own = {one.id for one in COPIES if one.metadata["tenant"] == tenant}
    found = {node.document_id for node in nodes}.union(*(node.also_in for node in nodes))
    assert found <= own
    assert len(found) == 3


def test_the_trace_counts_the_copies(rag):
    assert rag.retrieve("Why did the turbine at Halsen fail?", k=5).trace.cuts["duplicates"] > 0


@pytest.fixture(scope="module")
def letters():
    plain = [SourceDocument(f"plain{n}", TEXT, metadata={"tenant": n % 2}) for n in range(30)]
    others = [SourceDocument(f"other{n}", f"Turbine {n} failed in {1900 + n}.") for n in range(60)]
    with E2GraphRAG.open(":memory:", embedder="hashing") as rag:
        rag.add([*plain, *others])
        yield rag


@pytest.mark.parametrize("k", [1, 2, 5, 20, 60])
def test_copies_do_not_depend_on_the_number_of_nodes(letters, k):
    nodes = letters.retrieve("Why did the turbine at Halsen fail?", k=k).nodes
    assert len(nodes) == k  # even if more nodes are copies
    shown = next(node for node in nodes if node.text == TEXT)
    copies = {shown.document_id, *shown.also_in}
    assert copies == {f"plain{n}" for n in range(30)}
    assert list(shown.also_in) == sorted(shown.also_in)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("k", [1, 5])
def test_copies_outside_of_a_filter_or_a_scope_are_not_named(letters, k):
    for answers in (
        letters.retrieve("Why did the turbine at Halsen fail?", k=k, where={"tenant": 1}),
        letters.scoped({"tenant": 1}).retrieve("Why did the turbine at Halsen fail?", k=k),
    ):
        (node,) = answers.nodes
        assert {node.document_id, *node.also_in} == {f"plain{n}" for n in range(1, 30, 2)}


# Nearly equal texts


REPORT = (
    "The annual report of Norwind says the turbine at Halsen failed because of a cracked blade "
    "that an inspector had already noticed in spring, and it lists the costs of the repair as well."
)
NEAR = {
    "report": REPORT,
    "verb": REPORT.replace("noticed", "seen"),
    "adverb": REPORT.replace("already ", ""),
    "small letters": REPORT.lower().replace("had already", "had"),
}
DIFFERENT = {
    "name": REPORT.replace("Halsen", "Morvik"),
    "name in small letters": REPORT.lower().replace("halsen", "kolvik"),
    "number": REPORT.replace("a cracked", "2 cracked"),
    "number word": REPORT.replace("a cracked", "two cracked"),
    "date": REPORT.replace("spring", "2024-05-01"),
    "other date": REPORT.replace("spring", "2025-05-01"),
    "code": REPORT.replace("blade", "RTX4090"),
    "other code": REPORT.replace("blade", "RTX4080"),
    "noun": REPORT.replace("repair", "inspection"),
    "negation": REPORT.replace("had already", "had not already"),
    "opposite": REPORT.replace("cracked", "uncracked"),
    "condition": REPORT.replace("because of", "despite of"),
    "order": REPORT.replace("Norwind", "X").replace("Halsen", "Norwind").replace("X", "Halsen"),
    "more": f"{REPORT} The owner paid.",
}
SPECIES = (
    "Peristoreus {} is a species of true weevil. It is endemic to New Zealand. It is associated "
    'with plants of the genus "Muehlenbeckia".'
)
DIFFERENT |= {name: SPECIES.format(name) for name in ("fulvus", "viridipennis")}


@pytest.fixture(scope="module")
def reports():
    with E2GraphRAG.open(":memory:", embedder="hashing") as rag:
        texts = {**NEAR, **DIFFERENT}
        rag.add(
            [
                SourceDocument(name, text, metadata={"secret": name in ("adverb", "report")})
                for name, text in texts.items()
            ]
        )
        yield rag


@pytest.mark.parametrize("options", [{"k": 30}, {"token_budget": 2000}], ids=str)
def test_texts_that_differ_in_few_small_words_take_one_place(reports, options):
    nodes = reports.retrieve("Why did the turbine at Halsen fail?", **options).nodes
    chunks = {node.document_id: node for node in nodes if not node.level}
    near = NEAR.keys() - {"small letters"}
    shown = [chunk for name, chunk in chunks.items() if name in near]
    assert len(shown) == 1
    assert near <= {shown[0].document_id, *shown[0].also_in}


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("options", [{"k": 30}, {"token_budget": 2000}], ids=str)
def test_texts_that_differ_in_a_telling_word_stay(reports, options):
    nodes = reports.retrieve("Why did the turbine at Halsen fail?", **options).nodes
    assert DIFFERENT.keys() <= {node.document_id for node in nodes if not node.level}


@pytest.mark.parametrize("secret", [True, False])
def test_a_scope_holds_for_nearly_equal_texts(reports, secret):
    scope = reports.scoped({"secret": secret})
    for reader, where in ((scope, None), (reports, {"secret": secret})):
        nodes = reader.retrieve("Why did the turbine fail?", k=30, where=where).nodes
        named = {node.document_id for node in nodes}.union(*(node.also_in for node in nodes))
        hidden = {"verb"} if secret else {"adverb", "report"}
        assert named.isdisjoint(hidden)
    assert any(node.also_in for node in nodes) == secret


# The other documents in the metadata of both faces


QUESTION = "Why did the turbine at Halsen fail?"


@pytest.mark.parametrize("options", [{"k": 3}, {}], ids=["nodes", "budget"])
def test_langchain_documents_name_the_other_sources_in_a_string(options):
    chroma = pytest.importorskip("langchain_chroma")
    core = pytest.importorskip("langchain_core.documents")
    from e2graphrag_integrations.langchain import E2GraphRAGIndex, create_e2graphrag_tool

    index = E2GraphRAGIndex.open(":memory:", embeddings=HashingEmbedder(64))
    texts = {"a.txt": TEXT, "b.txt": TEXT, "c.txt": TEXT, "d.txt": OTHERS[0].text}
    index.add_documents(
        [core.Document(text, id=name, metadata={"source": name}) for name, text in texts.items()]
    )
    found = index.as_retriever(**options).invoke(QUESTION)
    by_text = {hit.page_content: hit for hit in found if not hit.metadata["e2_level"]}
    copy = by_text[TEXT].metadata
    assert {copy["e2_source_id"], *copy["e2_also_in"].split(", ")} == {"a.txt", "b.txt", "c.txt"}
    assert by_text[OTHERS[0].text].metadata["e2_also_in"] == ""
    store = chroma.Chroma("copies", embedding_function=None, client_settings=None)
    values = [{"e2_also_in": hit.metadata["e2_also_in"]} for hit in found]
    vectors = HashingEmbedder(64).embed([hit.page_content for hit in found]).tolist()
    ids = [hit.id for hit in found]
    store._collection.add(ids, embeddings=vectors, metadatas=values)
    assert store._collection.count() == len(found)
    passages = create_e2graphrag_tool(index.as_retriever()).invoke({"query": QUESTION})
    assert f"also in {copy['e2_also_in']}" in passages
    index.close()


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("options", [{"similarity_top_k": 3}, {}], ids=["nodes", "budget"])
def test_llama_index_nodes_name_the_other_trees_in_a_string(options):
    pytest.importorskip("llama_index.core")
    from llama_index.core import Document
    from llama_index.core.schema import MetadataMode

    from e2graphrag_integrations.llama_index import E2GraphRAGIndex

    texts = {"a": TEXT, "b": TEXT, "c": TEXT, "d": OTHERS[0].text}
    index = E2GraphRAGIndex.from_documents(
        [
            Document(id_=name, text=text, metadata={"secret": name == "c"})
            for name, text in texts.items()
        ],
        embed_model=HashingEmbedder(64),
    )
    for part in (index, index.scoped({"secret": False})):
        nodes = [hit.node for hit in part.as_retriever(**options).retrieve(QUESTION)]
        copy = next(node for node in nodes if node.text == TEXT and not node.metadata["e2_level"])
        expected = {"a", "b", "c"} if part is index else {"a", "b"}
        assert {copy.ref_doc_id, *copy.metadata["e2_also_in"].split(", ")} == expected
        assert not any("e2_also_in" in node.metadata for node in nodes if node.text != TEXT)
        for mode in (MetadataMode.LLM, MetadataMode.EMBED):
            assert "e2_also_in" not in copy.get_content(mode)
    assert "e2_also_in" not in index.docstore.get_node(copy.node_id).metadata


def test_the_page_the_command_line_and_notebooks_name_the_other_documents(rag):
    result = rag.retrieve(QUESTION, k=5)
    copy = next(node for node in result.nodes if node.also_in)
    views = {node.node_id: node for node in answer_view(result).nodes}
    assert views[copy.node_id].also_in == copy.also_in
    assert f"also in {', '.join(copy.also_in)}" in result._repr_html_()


# Extractive summaries that repeat the chunks of a result


SENTENCES = [
    f"The {thing} of Halsen {verb} when the {place} was rebuilt near the old harbor."
    for thing, verb, place in zip(
        "turbine gearbox mill lantern ferry bakery school market".split(),
        "failed stopped closed vanished sank burned moved opened".split(),
        "bridge tower road wall pier oven roof square".split(),
        strict=True,
    )
]
FOUR_CHUNKS = SourceDocument("book", "\n\n".join(SENTENCES))
SMALL = {"embedder": "hashing", "chunk_size": 40, "chunk_overlap": 0}


def squeezed(text):
    return "".join(text.split())


def repeated(nodes):
    """Return the summaries that have no sentence which is not in a chunk of the same result."""
    chunks = squeezed("\n".join(node.text for node in nodes if not node.level))
    return [
        node
        for node in nodes
        if node.level
        and all(
            squeezed(one) in chunks for one in SENTENCES if squeezed(one) in squeezed(node.text)
        )
    ]


@pytest.fixture(scope="module")
def book():
    with E2GraphRAG.open(":memory:", **grouped({**SMALL, "group_size": 2})) as rag:
        rag.add([FOUR_CHUNKS, *OTHERS])
        yield rag


class Reversing:
    def __repr__(self):  # for the ids of tests
        return "Reversing()"

    def rerank(self, question, texts):
        return list(range(len(texts)))


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize(
    "options",
    [
        {"k": 4},
        {"k": 20},
        {"k": 4, "fill": True},
        {"k": 4, "boost": {"documents": {"book": 2}}},
        {"k": 4, "strategy": HybridStrategy(reranker=Reversing())},
        {"k": 4, "strategy": PaperStrategy()},
        {"k": 6, "expand": "children"},
        {"token_budget": 150, "strategy": PaperStrategy()},
        {"token_budget": 300, "strategy": HybridStrategy(budget_summaries="flat")},
    ],
    ids=str,
)
def test_a_summary_of_the_chunks_in_a_result_is_left_out(book, options, monkeypatch):
    question = "What happened to the turbine and the gearbox of Halsen at the harbor?"
    nodes = book.retrieve(question, **options).nodes
    assert nodes
    assert not repeated(nodes)
    monkeypatch.setattr(Duplicates, "add_repeats", lambda *_: False)
    before = book.retrieve(question, **options).nodes
    possible = len({node.node_id for node in before} - {node.node_id for node in repeated(before)})
    assert len(nodes) >= min(options.get("k", 1), possible)
    if options.get("k") == 4:
        assert len(nodes) == 4


def test_a_summary_above_its_chunks_gives_way_and_the_trace_counts_it(monkeypatch):
    with E2GraphRAG.open(":memory:", **grouped({**SMALL, "group_size": 2})) as rag:
        rag.add(SourceDocument("two", "\n\n".join(SENTENCES[:3])))
        result = rag.retrieve(SENTENCES[0], k=5)
        assert result.nodes
        assert not any(node.level for node in result.nodes)
        assert result.trace.cuts["duplicates"]
        monkeypatch.setattr(Duplicates, "add_repeats", lambda *_: False)
        assert any(node.level for node in rag.retrieve(SENTENCES[0], k=5).nodes)


@pytest.mark.parametrize(
    ("sentences", "is_repeat"), [([0, 1], True), ([0, 5, 6], False), ([5, 6], False)], ids=str
)
def test_a_summary_that_says_more_stays(book, sentences, is_repeat):
    nodes = book.retrieve(SENTENCES[0], k=20, strategy=PaperStrategy()).nodes
    chunk = replace(next(node for node in nodes if not node.level), text="\n".join(SENTENCES[:3]))
    summary = replace(chunk, level=1, text=" ".join(SENTENCES[one] for one in sentences))
    made_with = {"summarizer": ExtractiveSummarizer().fingerprint}
    reader = SimpleNamespace(
        snapshot=SimpleNamespace(made_with=made_with),
        candidates={summary.node_id: SimpleNamespace(row=7)},
    )
    for order in ([summary, chunk], [chunk, summary]):
        duplicates = Duplicates(reader)
        assert duplicates.add_repeats(order) == is_repeat
        assert duplicates.repeats == ({7} if is_repeat else set())
    assert not Duplicates(reader).add_repeats([summary])
    reader.snapshot.made_with["summarizer"] = "openai:gpt"
    assert not Duplicates(reader).add_repeats([summary, chunk])


@pytest.mark.parametrize("summary", ["They {} about ships.", "{}"], ids=["new", "copied"])
def test_summaries_of_a_language_model_stay(summary):
    def summarize(prompt):
        return summary.format(SENTENCES[0])

    with E2GraphRAG.open(
        ":memory:", **grouped({**SMALL, "group_size": 2, "summarizer": summarize})
    ) as rag:
        rag.add(FOUR_CHUNKS)
        assert any(node.level for node in rag.retrieve(SENTENCES[0], k=20).nodes)


@pytest.mark.parametrize("options", [{"k": 12}, {"k": 6, "expand": "children"}], ids=str)
def test_equal_summaries_of_equal_documents_take_one_place(options):
    copies = [SourceDocument(name, FOUR_CHUNKS.text) for name in "abc"]
    with E2GraphRAG.open(":memory:", **grouped({**SMALL, "group_size": 2})) as rag:
        rag.add([*copies, *OTHERS])
        nodes = rag.retrieve("What happened near the old harbor?", **options).nodes
        texts = [(bool(node.level), node.text) for node in nodes]
        assert len(set(texts)) == len(texts)
        shared = [node for node in nodes if node.document_id in "abc"]
        assert shared
        assert all({node.document_id, *node.also_in} == {*"abc"} for node in shared)


def test_equal_summaries_of_a_language_model_take_one_place():
    copies = [SourceDocument(name, FOUR_CHUNKS.text) for name in "abc"]
    options = {**SMALL, "group_size": 2, "summarizer": lambda prompt: f"About {len(prompt)}."}
    with E2GraphRAG.open(":memory:", **grouped(options)) as rag:
        rag.add(copies)
        summaries = [node for node in rag.retrieve("harbor", k=30, fill=True).nodes if node.level]
        assert summaries
        assert {node.document_id for node in summaries} | {*summaries[0].also_in} == {*"abc"}
        assert len({node.text for node in summaries}) == len(summaries)


SAME = "The red map of Oslo was sold in May."
SAME_AND_OTHERS = [
    SourceDocument("a", SAME),
    SourceDocument("b", SAME),
    SourceDocument("c", "A map of Oslo hangs in the mill."),
    SourceDocument("d", "Who sold maps in May is not known."),
]


@pytest.fixture(scope="module")
def pairs():
    with E2GraphRAG.open(":memory:", embedder=HashingEmbedder()) as rag:
        rag.add(SAME_AND_OTHERS)
        yield rag


@pytest.mark.parametrize("boosted", ["a", "b"])
def test_a_boost_brings_no_copy_back(pairs, boosted):
    result = pairs.retrieve("Who sold the red map?", k=2, boost={"documents": {boosted: 4}})
    first, second = result.nodes
    assert (first.document_id, first.also_in) == (boosted, ({"a": "b", "b": "a"}[boosted],))
    assert second.document_id in "cd"


def test_a_copy_takes_none_of_the_nodes_of_a_context(pairs):
    nodes = pairs.retrieve("Who sold the red map?", k=2, token_budget=1000).nodes
    assert len({node.node_id for node in nodes}) == 2
    assert {node.document_id for node in nodes} & {"c", "d"}
    trace = pairs.retrieve("Who sold the red map?", k=1, token_budget=1000).trace
    assert trace.cuts["k"] == 3
