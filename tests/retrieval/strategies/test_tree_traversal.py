"""`TreeTraversalStrategy` against a plain reimplementation, and its options."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    IndexSettings,
    Models,
    Segment,
    SourceDocument,
    TreeTraversalStrategy,
)
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.retrieval.strategies import tree_traversal
from e2graphrag_integrations.retrieval.strategy import Query
from e2graphrag_integrations.search import dense
from e2graphrag_integrations.search.external import VectorStoreSearch
from fakes import NameExtractor
from strategies import examples
from tree_oracle import Oracle

pytestmark = pytest.mark.usefixtures("all_summaries")  # they count all nodes

words = st.sampled_from("Anna Bert met ran sea map ship storm night gold".split())
sentences = st.lists(words, min_size=2, max_size=6).map(lambda found: " ".join(found) + ". ")
texts = st.lists(sentences, min_size=1, max_size=14).map("".join)


EMBEDDER = HashingEmbedder(16)


def index(documents):
    rag = E2GraphRAG.open(
        ":memory:",
        embedder=EMBEDDER,
        models=Models(extractor=NameExtractor()),
        settings=IndexSettings(chunk_size=6, chunk_overlap=0, group_size=2),
    )
    rag.add([SourceDocument(f"d{n}", text) for n, text in enumerate(documents)])
    return rag


@examples(10)
@given(
    documents=st.lists(texts, min_size=1, max_size=4),
    question=sentences,
    per_level=st.integers(1, 4),
    threshold=st.one_of(st.none(), st.floats(-1, 1)),
    hidden=st.sets(st.integers(0, 30)),
)
def test_any_forest_is_traversed_as_in_the_paper_under_any_filter(
    documents, question, per_level, threshold, hidden
):
    with index(documents) as rag:
        oracle = Oracle(rag, EMBEDDER)
        ids = oracle.snapshot.nodes.ids
        allowed = np.asarray([row not in hidden for row in range(len(ids))])
        strategy = TreeTraversalStrategy(per_level, threshold)
        vector = EMBEDDER.embed_query(question)
        query = Query(question, k=1000, vector=vector, allowed=allowed)
        candidates, _ = strategy.rank(query, oracle.snapshot)
        visible = {ids[row] for row in np.flatnonzero(allowed)}
        found = [ids[one.row] for one in candidates]
        assert len(set(found)) == len(found)
        assert set(found) <= visible
        # Ties decide which way a narrow search goes, so it is compared only if there are none.
        expected = oracle.layers(question, per_level, threshold, allowed=visible)
        if not oracle.had_ties:
            assert set(found) == {id_ for layer in expected for id_ in layer}
        everything, _ = TreeTraversalStrategy(None, -1).rank(query, oracle.snapshot)
        assert {ids[one.row] for one in everything} == visible


def test_roots_are_the_first_layer_and_children_of_selected_nodes_the_next(open_index):
    rag = open_index(group_size=2, chunk_size=6, chunk_overlap=0)
    rag.add([SourceDocument("long", "Anna met Bert at sea. " * 9), SourceDocument("short", "Map.")])
    result = rag.retrieve("Anna at sea", k=50, strategy=TreeTraversalStrategy(2))
    first, second, *_ = result.trace.layers
    roots = [node for node in result.nodes if node.parent_id is None]
    nodes = rag.nodes(rag._session.snapshot().nodes.ids)
    assert first.nodes == sum(node.parent_id is None for node in nodes.values())
    assert len(roots) == first.selected == 2
    assert second.nodes == sum(len(node.child_ids) for node in roots)
    assert result.route == "global"
    assert result.nodes[0].reasons[0].startswith("layer ")
    assert f"layer 1: 2 of {first.nodes} node(s) selected" in result.trace.explain()


def test_nodes_below_a_summary_that_the_filter_excludes_are_reached(open_index):
    rag = open_index(chunk_size=6, chunk_overlap=0, group_size=2)
    sentence = "Anna met Bert at sea. "
    pages = [
        Segment(n * len(sentence), (n + 1) * len(sentence), {"author": "xyz"[n % 3]})
        for n in range(8)
    ]
    rag.add([SourceDocument("a", sentence * 8, segments=pages)])
    strategy = TreeTraversalStrategy(50)
    result = rag.retrieve("Anna", k=50, strategy=strategy, where={"author": "x"})
    assert {node.level for node in result.nodes} == {0}  # every summary covers two authors
    assert {node.metadata["author"] for node in result.nodes} == {"x"}
    assert len(result.nodes) == 3
    everything = rag.retrieve("Anna", k=50, strategy=strategy)
    assert len(everything.nodes) == rag.stats().chunks + rag.stats().summaries
    assert rag.retrieve("Anna", strategy=strategy, where={"author": "?"}).nodes == ()


def test_an_index_without_summaries_compares_its_chunks(open_index):
    rag = open_index()
    assert rag.retrieve("Anna", strategy=TreeTraversalStrategy()).nodes == ()
    rag.add(SourceDocument("a", "Anna met Bert."))
    [only] = rag.retrieve("Anna", strategy=TreeTraversalStrategy()).nodes
    assert (only.level, only.text) == (0, "Anna met Bert.")
    rag.add([SourceDocument(f"b{n}", f"Cleo saw ship {n}.") for n in range(5)])
    result = rag.retrieve("Cleo saw ship 3", strategy=TreeTraversalStrategy(2))
    assert [(one.nodes, one.selected) for one in result.trace.layers] == [(6, 2)]
    assert result.nodes[0].document_id == "b3"


def test_large_and_external_indexes_give_the_same_result(open_index, story, monkeypatch):
    rag = open_index(group_size=2)
    rag.add([story, SourceDocument("copy", story.text[:400])])
    snapshot = rag._session.snapshot()
    vector = HashingEmbedder().embed_query("Where is the map?")
    query = Query("Where is the map?", vector=vector, k=100)
    strategy = TreeTraversalStrategy(3, -0.5)
    expected = [(one.row, one.best_span) for one in strategy.rank(query, snapshot)[0]]
    assert len(expected) > 4

    def nearest(vector, count, _):
        order = np.argsort(-(snapshot.dense.vectors @ vector), kind="stable")[:count]
        return [(str(row), float(snapshot.dense.vectors[row] @ vector)) for row in order]

    owners = snapshot.dense.window_nodes
    documents = [snapshot.documents[row] for row in snapshot.nodes.document]
    external = VectorStoreSearch(
        nearest, "Fake", [str(row) for row in range(len(owners))], owners, documents
    )
    monkeypatch.setattr(dense, "_FEW_WINDOWS", 0)
    for few, many in ((16, 1000), (0, 1000), (0, 1)):
        monkeypatch.setattr(tree_traversal, "_FEW_NODES", few)
        monkeypatch.setattr(tree_traversal, "_MANY_NODES", many)
        for index in (snapshot, replace(snapshot, dense=external)):
            found = strategy.rank(query, index)[0]
            assert [(one.row, one.best_span) for one in found] == expected


def test_a_token_budget_holds_windows_of_chunks_and_complete_summaries(open_index, story):
    rag = open_index(embedder=HashingEmbedder(max_tokens=16), chunk_size=24, group_size=2)
    rag.add(story)
    question, strategy = "Where did Anna meet Bert?", TreeTraversalStrategy(3)
    complete = rag.retrieve(question, k=50, strategy=strategy)
    packed = rag.retrieve(question, token_budget=70, strategy=strategy)
    texts = {node.node_id: node.text for node in complete.nodes}
    assert {node.node_id for node in packed.nodes} <= set(texts)
    assert len({node.node_id for node in packed.nodes}) == len(packed.nodes)
    for node in packed.nodes[:-1]:  # the last one may be cut
        assert node.level == 0 or node.text == texts[node.node_id]
    chunks = [node for node in packed.nodes if node.level == 0]
    assert any(node.level for node in packed.nodes)
    assert any(len(node.text) < len(texts[node.node_id]) for node in chunks)
    expanded = rag.retrieve(question, k=4, expand="leaves", strategy=strategy)
    assert {node.level for node in expanded.nodes} == {0}
    everything = rag.stats().chunks + rag.stats().summaries
    filled = rag.retrieve(question, k=everything, fill=True, strategy=strategy)
    assert len(filled.nodes) == everything


async def test_the_asynchronous_result_is_the_same(open_index, story):
    rag = open_index()
    rag.add(story)
    strategy = TreeTraversalStrategy(threshold=0.0)
    sync = rag.retrieve("Where is the map?", strategy=strategy)
    assert (await rag.aretrieve("Where is the map?", strategy=strategy)).nodes == sync.nodes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"per_level": 0}, "per_level=0"),
        ({"per_level": 2.5}, r"per_level=2\.5"),
        ({"max_depth": 0}, "max_depth=0"),
        ({"threshold": 1.5}, r"threshold=1\.5 must be a cosine"),
        ({"threshold": float("nan")}, "threshold=nan"),
        ({"threshold": "high"}, "threshold='high'"),
        ({"per_level": None}, "set at least one of them"),
        ({"relevance_calibration": 3}, "relevance_calibration"),
    ],
)
def test_bad_settings_are_rejected(options, message):
    with pytest.raises(InvalidInputError, match=message):
        TreeTraversalStrategy(**options)


def test_names_are_linked_by_the_edits():
    models = Models(extractor=NameExtractor())
    with E2GraphRAG.open(":memory:", embedder=EMBEDDER, models=models) as rag:
        rag.add(SourceDocument("a", "Anna Berg met Bert."))
        rag.edit_entities(alias={"Cleo": "Bert"})
        trace = rag.retrieve("Who met Cleo?", strategy=TreeTraversalStrategy()).trace
    assert [one.entity for one in trace.links] == ["bert"]
