"""Each feature once with the real models: MiniLM and the bundled English pipeline."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest

from e2graphrag_integrations import (
    E2GraphRAG,
    PaperStrategy,
    SourceDocument,
    TreeTraversalStrategy,
)
from e2graphrag_integrations.options import grouped
from fakes import CountingLLM
from tree_oracle import Oracle, layers_of

pytestmark = [
    pytest.mark.slow,  # loads PyTorch and spaCy
    pytest.mark.usefixtures("all_summaries"),  # they count all nodes
]

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
"""About one sentence per chunk."""


@pytest.fixture(scope="module")
def components(real_embedder, real_extractor):
    return {"embedder": real_embedder, "extractor": real_extractor}


@pytest.fixture(scope="module")
def rag(components):
    """An index of seven paragraphs on different topics, one per page, and another document."""
    pages = [(TEXT.index(p), TEXT.index(p) + len(p), {"page": n}) for n, p in enumerate(PARAGRAPHS)]
    with E2GraphRAG.open(":memory:", **grouped({**components, **OPTIONS})) as rag:
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
def test_global_retrieval_matches_by_meaning(rag, question, answer):
    result = rag.retrieve(question, k=3, mode="global")
    assert answer in result.nodes[0].text
    assert max(one.figures["cosine"] for one in result.trace.lists["dense"]) > 0.2


def test_two_entities_in_one_chunk_take_the_local_route(rag):
    result = rag.retrieve("What did Holmes think of Irene Adler?", k=3, strategy=PaperStrategy())
    assert result.route == "local"
    assert "irene adler" in [link.entity for link in result.trace.links]
    assert "Irene Adler" in result.nodes[0].text
    assert "irene adler" in result.context().split(":")[0]


def test_entity_edits_join_names_and_are_undone(rag):
    before, expected = rag.entity("Sherlock Holmes"), list(rag.export())
    edits = rag.edit_entities(alias={"Holmes": "Sherlock Holmes"}, stop=["photograph"])
    after = rag.entity("Holmes")
    assert after.info.mentions > before.info.mentions
    assert "irene adler" in [one.name for one in after.neighbors]
    question = "What did Sherlock Holmes think of Irene Adler?"
    result = rag.retrieve(question, k=3, strategy=PaperStrategy())
    assert result.route == "local"
    assert "Holmes admired Irene Adler" in result.nodes[0].text
    assert rag.retrieve("Who had a photograph?").trace.links == ()
    rag.edit_entities(undo=edits)
    assert rag.entity("Sherlock Holmes") == before
    assert list(rag.export()) == expected


def test_one_entity_reranks_dense_hits_by_occurrence(rag):
    result = rag.retrieve("Mary Morstan", k=4, strategy=PaperStrategy())
    assert result.trace.reason == "ranked by occurrence: one query entity"
    assert "Mary Morstan" in result.nodes[0].text
    figures = [ranked.figures["occurrence"] for ranked in result.trace.lists["occurrence"]]
    assert figures == sorted(figures, reverse=True)


@pytest.mark.parametrize(
    ("per_level", "threshold", "depth"),
    [(2, None, None), (3, 0.1, None), (None, 0.15, 2)],
)
def test_a_tree_is_traversed_as_in_the_raptor_paper(
    rag, real_embedder, per_level, threshold, depth
):
    oracle = Oracle(rag, real_embedder)
    strategy = TreeTraversalStrategy(per_level, threshold, depth)
    for question in ("how heavy is the largest animal?", "What did Holmes think of the King?"):
        result = rag.retrieve(question, k=100, strategy=strategy)
        expected = oracle.layers(question, per_level, threshold, depth)
        assert [set(layer) for layer in layers_of(result)] == [set(layer) for layer in expected]
        cosines = {id_: cosine for layer in expected for id_, cosine in layer.items()}
        assert {node.node_id: node.score for node in result.nodes} == pytest.approx(
            cosines, abs=1e-5
        )


def test_an_updated_index_equals_a_rebuilt_one_up_to_the_rounding_of_vectors(components):
    """The model sees different batches, which changes the last digits of its vectors."""
    texts = {f"d{n}": text * (1 + n % 3) for n, text in enumerate(PARAGRAPHS)}
    exports = []
    for batches in ([list(texts)], [["d4", "d0"], ["d6", "d2", "d1"], ["d5", "d3"]]):
        with E2GraphRAG.open(":memory:", **grouped({**components, **OPTIONS})) as rag:
            for batch in batches:
                rag.add([SourceDocument(id_, "Old text.") for id_ in batch])
                rag.update([SourceDocument(id_, texts[id_]) for id_ in batch])
            lines = [json.loads(line) for line in rag.export()]
        vectors = [
            np.frombuffer(base64.b64decode(vector), dtype="<f4")
            for line in lines
            for *_, vector in line.get("windows", ())
        ]
        for line in lines:
            line["windows"] = [span for *span, _ in line.get("windows", ())]
        exports.append((lines, np.stack(vectors)))
    (built, expected), (updated, found) = exports
    assert updated == built
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_filter_applies_before_the_limit(rag):
    at_sea = rag.retrieve("animals", k=9, where={"document_id": "sea"}).nodes
    assert {node.document_id for node in at_sea} == {"sea"}
    found = rag.retrieve("animals of the ocean", k=3, where={"page": {"$in": [2, 5]}}).nodes
    assert found
    assert all({2, 5} & set(node.metadata.get("pages", [node.metadata["page"]])) for node in found)


def test_expansion_respects_the_token_budget(rag):
    result = rag.retrieve("animals", k=3, mode="global", expand="leaves", token_budget=40)
    assert rag._index.components.counter.count(result.context()) <= 40
    assert all(node.level == 0 for node in result.nodes)
    for node in result.nodes:
        [(start, end)] = node.spans
        assert rag.document(node.document_id).text[start:end] == node.text


def test_text_longer_than_the_model_limit_is_found_by_its_end(components):
    """The sentence to find comes after 256 tokens, in a chunk of up to 1,200."""
    filler = "The committee discussed the drainage of the northern car park at length. " * 40
    last_sentence = "A penguin colony on the ice shelf was photographed from a satellite."
    with E2GraphRAG.open(
        ":memory:", **grouped({**components, "chunk_size": 1200, "chunk_overlap": 0})
    ) as rag:
        rag.add([SourceDocument("long", filler + last_sentence), SourceDocument("other", filler)])
        assert rag.stats().chunks == 2
        assert rag.stats().windows > 4
        result = rag.retrieve("antarctic birds seen from space", k=1)
        assert result.nodes[0].document_id == "long"
        assert result.trace.lists["dense"][0].figures["cosine"] > 0.2


def test_title_helps_dense_search_but_is_in_no_span(components):
    text = "It was raining. They waited for the bus. Nothing else happened that day."
    with E2GraphRAG.open(
        ":memory:", **grouped({**components, "chunk_size": 100, "chunk_overlap": 0})
    ) as rag:
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


def test_update_and_delete_equal_a_rebuild(components, tmp_path):
    new = SourceDocument("b", "Bees dance to tell the way. Doctor Watson kept bees in Sussex.")
    with E2GraphRAG.open(tmp_path / "i.e2g", **grouped({**components, **OPTIONS})) as rag:
        rag.add([SourceDocument("a", PARAGRAPHS[0]), SourceDocument("b", PARAGRAPHS[1])])
        rag.update(new)
        rag.add(SourceDocument("c", PARAGRAPHS[2]))
        rag.delete("c")
        assert rag.retrieve("Who kept bees?", k=1).nodes[0].document_id == "b"
        exported = [line for line in rag.export() if '"windows"' not in line]
        assert rag.verify().ok
    with E2GraphRAG.open(tmp_path / "j.e2g", **grouped({**components, **OPTIONS})) as rebuilt:
        rebuilt.add([new, SourceDocument("a", PARAGRAPHS[0])])
        assert [line for line in rebuilt.export() if '"windows"' not in line] == exported
    with E2GraphRAG.open(tmp_path / "i.e2g") as rag:  # loads the models that the manifest names
        assert rag.retrieve("Who kept bees?", k=1).nodes[0].document_id == "b"
        assert rag.stats().settings["embedder_model"] == "all-MiniLM-L6-v2"


async def test_async_indexing_and_retrieval_with_real_models(components):
    llm = CountingLLM()

    async def summarize(prompt):
        return llm(prompt)

    with E2GraphRAG.open(
        ":memory:", **grouped({**components, **OPTIONS, "summarizer": summarize})
    ) as rag:
        report = await rag.aadd(SourceDocument("mixed", TEXT))
        assert report.llm_calls == llm.calls == report.summaries > 0
        result = await rag.aretrieve("Did Sherlock Holmes know Doctor Watson?", k=2)
        assert result.route == "local"


def test_extractive_summary_quotes_the_text(rag):
    summaries = [n for n in rag.retrieve("summary", k=99, mode="global").nodes if n.level]
    assert summaries
    for node in summaries:
        source = " ".join(rag.document(node.document_id).text.split())
        assert all(sentence in source for sentence in node.text.split(". ")[:1])


def test_equal_queries_return_equal_results(rag):
    first, second = (rag.retrieve("Who came to Holmes for help?", k=4) for _ in range(2))
    assert first.nodes == second.nodes


def test_title_is_cut_to_leave_room_in_the_window(components):
    with E2GraphRAG.open(
        ":memory:", **grouped({**components, "chunk_size": 100, "chunk_overlap": 0})
    ) as rag:
        rag.add(SourceDocument("a", PARAGRAPHS[3], title="Endless title " * 400))
        assert rag.stats().windows == 1
        assert rag.retrieve("whales", k=1).nodes[0].score > 0
