"""Each feature once on real vectors and the real pipeline: MiniLM and the bundled English one."""

from __future__ import annotations

import pytest

from e2graphrag_integrations import E2GraphRAG, PaperStrategy, SourceDocument
from fakes import CountingLLM

PARAGRAPHS = [
    "Sherlock Holmes sat in Baker Street with Doctor Watson. Holmes played the violin all evening.",
    "Irene Adler had a photograph that the King of Bohemia wanted. Holmes admired Irene Adler.",
    "The recipe asks for flour, butter and three eggs. Bake the cake for forty minutes.",
    "Whales are mammals and breathe air. A blue whale may weigh more than a hundred tonnes.",
    "Doctor Watson married Mary Morstan in London. Mary Morstan had come to Holmes for help.",
    "The parliament passed the budget after a long night. Taxes on tobacco will rise in spring.",
    "Water freezes at zero degrees and boils at a hundred. Ice floats because it is less dense.",
]
TEXT = "\n\n".join(PARAGRAPHS)
OPTIONS = {"chunk_size": 16, "chunk_overlap": 0}
"""Room for one sentence."""


@pytest.fixture(scope="module")
def parts(real_embedder, real_extractor):
    return {"embedder": real_embedder, "extractor": real_extractor}


@pytest.fixture(scope="module")
def rag(parts):
    """Index seven paragraphs on different things, with pages, and another document."""
    pages = [(TEXT.index(p), TEXT.index(p) + len(p), {"page": n}) for n, p in enumerate(PARAGRAPHS)]
    with E2GraphRAG.open(":memory:", **parts, **OPTIONS) as rag:
        rag.add(
            [
                SourceDocument("mixed", TEXT, title="Notes", segments=pages),
                SourceDocument("sea", "Squids have three hearts. Corals are animals, not plants."),
            ]
        )
        yield rag


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("how heavy is the largest animal?", "blue whale"),
        ("how long must the pastry stay in the oven?", "Bake the cake"),
        ("how did the politicians decide about money?", "parliament"),
        ("at what temperature does it turn solid?", "freezes"),
    ],
)
def test_global_answers_go_by_meaning_not_words(rag, question, answer):
    result = rag.retrieve(question, k=3, mode="global")
    assert answer in result.nodes[0].text
    assert max(one.figures["cosine"] for one in result.trace.lists["dense"]) > 0.2


def test_two_entities_of_one_chunk_go_local(rag):
    result = rag.retrieve("What did Holmes think of Irene Adler?", k=3, strategy=PaperStrategy())
    assert result.route == "local"
    assert "irene adler" in [link.entity for link in result.trace.links]
    assert "Irene Adler" in result.nodes[0].text
    assert "irene adler" in result.context().split(":")[0]


def test_one_entity_reranks_the_nearest_by_occurrence(rag):
    result = rag.retrieve("Mary Morstan", k=4, strategy=PaperStrategy())
    assert result.trace.reason == "ranked by occurrence: one query entity"
    assert "Mary Morstan" in result.nodes[0].text
    figures = [ranked.figures["occurrence"] for ranked in result.trace.lists["occurrence"]]
    assert figures == sorted(figures, reverse=True)


def test_where_filters_before_the_nearest_are_taken(rag):
    at_sea = rag.retrieve("animals", k=9, where={"document_id": "sea"}).nodes
    assert {node.document_id for node in at_sea} == {"sea"}
    found = rag.retrieve("animals of the ocean", k=3, where={"page": {"$in": [2, 5]}}).nodes
    assert found
    assert {node.metadata["page"] for node in found} <= {2, 5}


def test_expansion_and_budget_hold(rag):
    result = rag.retrieve("animals", k=3, mode="global", expand="leaves", token_budget=40)
    assert rag._index.components.counter.count(result.context()) <= 40
    assert all(node.level == 0 for node in result.nodes)
    for node in result.nodes:
        [(start, end)] = node.spans
        assert rag.document(node.document_id).text[start:end] == node.text


def test_a_text_longer_than_the_model_reads_is_found_by_its_end(parts):
    """The needle lies behind 256 tokens, in one chunk of 1,200."""
    filler = "The committee discussed the drainage of the northern car park at length. " * 40
    needle = "A penguin colony on the ice shelf was photographed from a satellite."
    with E2GraphRAG.open(":memory:", **parts, chunk_size=1200, chunk_overlap=0) as rag:
        rag.add([SourceDocument("long", filler + needle), SourceDocument("other", filler)])
        assert rag.stats().chunks == 2
        assert rag.stats().windows > 4
        result = rag.retrieve("antarctic birds seen from space", k=1)
        assert result.nodes[0].document_id == "long"
        assert result.trace.lists["dense"][0].figures["cosine"] > 0.2


def test_a_title_helps_to_find_its_document_and_is_in_no_span(parts):
    text = "It was raining. They waited for the bus. Nothing else happened that day."
    with E2GraphRAG.open(":memory:", **parts, chunk_size=100, chunk_overlap=0) as rag:
        rag.add(
            [
                SourceDocument("a", text, title="Growing tomatoes in a greenhouse"),
                SourceDocument("b", text, title="A history of the steam engine"),
            ]
        )
        best = rag.retrieve("vegetable gardening", k=1).nodes[0]
        assert best.document_id == "a"
        assert best.text == text
        assert "tomatoes" not in rag.retrieve("vegetable gardening", k=2).context()


def test_update_and_delete_leave_what_a_rebuild_gives(parts, tmp_path):
    new = SourceDocument("b", "Bees dance to tell the way. Doctor Watson kept bees in Sussex.")
    with E2GraphRAG.open(tmp_path / "i.e2g", **parts, **OPTIONS) as rag:
        rag.add([SourceDocument("a", PARAGRAPHS[0]), SourceDocument("b", PARAGRAPHS[1])])
        rag.update(new)
        rag.add(SourceDocument("c", PARAGRAPHS[2]))
        rag.delete("c")
        assert rag.retrieve("Who kept bees?", k=1).nodes[0].document_id == "b"
        left = [line for line in rag.export() if '"windows"' not in line]
        assert rag.verify().ok
    with E2GraphRAG.open(tmp_path / "j.e2g", **parts, **OPTIONS) as anew:
        anew.add([new, SourceDocument("a", PARAGRAPHS[0])])
        assert [line for line in anew.export() if '"windows"' not in line] == left
    with E2GraphRAG.open(tmp_path / "i.e2g") as rag:  # by the names in its manifest
        assert rag.retrieve("Who kept bees?", k=1).nodes[0].document_id == "b"
        assert rag.stats().settings["embedder_model"] == "all-MiniLM-L6-v2"


async def test_async_indexing_and_retrieval_work_with_the_real_models(parts):
    llm = CountingLLM()

    async def summarize(prompt):
        return llm(prompt)

    with E2GraphRAG.open(":memory:", **parts, **OPTIONS, summarizer=summarize) as rag:
        report = await rag.aadd(SourceDocument("mixed", TEXT))
        assert report.llm_calls == llm.calls == report.summaries > 0
        result = await rag.aretrieve("Did Sherlock Holmes know Doctor Watson?", k=2)
        assert result.route == "local"


def test_the_extractive_summary_quotes_the_text(rag):
    tops = [n for n in rag.retrieve("summary", k=99, mode="global").nodes if n.level]
    assert tops
    for node in tops:
        source = " ".join(rag.document(node.document_id).text.split())
        assert all(sentence in source for sentence in node.text.split(". ")[:1])


def test_equal_questions_get_equal_answers(rag):
    one, other = (rag.retrieve("Who came to Holmes for help?", k=4) for _ in range(2))
    assert one.nodes == other.nodes


def test_the_title_is_cut_where_it_would_fill_the_window(parts):
    with E2GraphRAG.open(":memory:", **parts, chunk_size=100, chunk_overlap=0) as rag:
        rag.add(SourceDocument("a", PARAGRAPHS[3], title="Endless title " * 400))
        assert rag.stats().windows == 1
        assert rag.retrieve("whales", k=1).nodes[0].score > 0
