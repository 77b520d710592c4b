"""What must hold for any text: spans, trees, hops, determinism, and the whole way round."""

from __future__ import annotations

import networkx as nx
from hypothesis import given, settings
from hypothesis import strategies as st

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, PaperStrategy, SourceDocument
from e2graphrag_integrations.entities.normalize import normal_form
from fakes import CountingLLM, NameExtractor

NAMES = [a + b for a in ("An", "Be", "Cl", "Do", "Em") for b in ("na", "rt", "eo")]
sentences = st.lists(
    st.sampled_from([*NAMES, "met", "ran", "😀", "量子"]), min_size=1, max_size=7
).map(lambda words: " ".join(words) + ". ")
stories = st.lists(sentences, max_size=30).map("".join)
wild = st.text(max_size=400)
questions = st.lists(st.sampled_from([*NAMES, "who"]), min_size=1, max_size=5).map(" ".join)


def index(**options):
    defaults = {
        "embedder": HashingEmbedder(16),
        "extractor": NameExtractor(),
        "chunk_size": 9,
        "chunk_overlap": 3,
        "group_size": 3,
    }
    return E2GraphRAG.open(":memory:", **(defaults | options))


@settings(max_examples=60, deadline=None)
@given(text=st.one_of(stories, wild))
def test_any_text_gives_exact_spans_and_a_sound_tree(text):
    try:
        document = SourceDocument("d", text)
    except ValueError:
        text.encode("utf-8", "strict" if text.isascii() else "surrogatepass")
        return
    with index() as rag:
        report = rag.add(document)
        stored = [s.node for s in rag._store.all_nodes()]
        assert rag.verify().problems == ()
        assert rag.document("d") == document
    chunks = [node for node in stored if node.level == 0]
    assert len(chunks) == report.chunks
    assert all(text[n.start : n.end] == n.text and n.text.strip() == n.text for n in chunks)
    starts = [node.start for node in chunks]
    assert starts == sorted(set(starts))
    by_id = {node.id: node for node in stored}
    assert len(by_id) == len(stored)
    roots = set()
    for chunk in chunks:  # every chunk is under exactly one root
        node = chunk
        while node.parent_id is not None:
            parent = by_id[node.parent_id]
            assert parent.level == node.level + 1
            assert parent.start <= node.start
            assert node.end <= parent.end
            node = parent
        roots.add(node.id)
    if chunks:
        assert 1 <= len(roots) <= 3
        assert roots == {node.id for node in stored if node.parent_id is None}


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(stories, min_size=1, max_size=3), reach=st.integers(1, 5))
def test_the_graph_is_the_sum_over_sentences_and_its_hops_are_networkx_s(texts, reach):
    with index() as rag:
        rag.add([SourceDocument(str(n), text) for n, text in enumerate(texts)])
        graph = rag.graph
        chunks = [s.node.text for s in rag._store.all_nodes() if s.node.level == 0]
    expected = nx.Graph()
    for sentence in (s for found in NameExtractor().extract(chunks) for s in found):
        distinct = sorted({normal_form(mention.entity) for mention in sentence})
        expected.add_nodes_from(distinct)
        for a in distinct:
            for b in distinct:
                if a < b:
                    before = expected.get_edge_data(a, b, {"weight": 0})["weight"]
                    expected.add_edge(a, b, weight=before + 1 / len(distinct))
    assert set(graph.names) == set(expected.nodes)
    found = graph.to_networkx()
    assert set(map(frozenset, found.edges)) == set(map(frozenset, expected.edges))
    for a, b, data in expected.edges(data=True):
        assert abs(found.edges[a, b]["weight"] - data["weight"]) < 1e-9
    lengths = dict(nx.all_pairs_shortest_path_length(expected, cutoff=reach))
    hops = graph.hops(range(len(graph.names)), reach)
    within = {
        (a, b): distance
        for a, reached in lengths.items()
        for b, distance in reached.items()
        if graph.index[a] < graph.index[b]
    }
    assert {(graph.names[a], graph.names[b]): d for (a, b), d in hops.items()} == within


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(stories, min_size=1, max_size=3), question=questions, k=st.integers(1, 8))
def test_retrieval_is_deterministic_and_true_to_its_trace(texts, question, k):
    documents = [SourceDocument(str(n), text) for n, text in enumerate(texts)]
    with index(summarizer=CountingLLM()) as rag, index(summarizer=CountingLLM()) as other:
        rag.add(documents)
        for document in reversed(documents):
            other.add(document)
        hybrid = rag.retrieve(question, k=k)
        assert other.retrieve(question, k=k).nodes == hybrid.nodes
        result = rag.retrieve(question, k=k, strategy=PaperStrategy())
        assert other.retrieve(question, k=k, strategy=PaperStrategy()).nodes == result.nodes
        nodes = rag.stats().chunks + rag.stats().summaries
    assert len(hybrid.nodes) == min(k, nodes)
    assert len(result.nodes) <= k
    scores = [node.score for node in result.nodes]
    assert scores == sorted(scores, reverse=True)
    trace = result.trace
    if result.route == "local":
        assert len(trace.links) >= 2
        assert trace.chosen_h is not None
        assert all(node.level == 0 and len(node.entities) >= 2 for node in result.nodes)
        pair = {(p.a, p.b) for p in trace.pairs if p.hops and p.hops <= trace.chosen_h}
        assert all(
            any(a in node.entities and b in node.entities for a, b in pair) for node in result.nodes
        )
    elif not trace.links:
        assert len(result.nodes) == min(k, nodes)
    counts = [step.chunks for step in trace.hop_steps]
    assert counts == sorted(counts, reverse=True)


@settings(max_examples=30, deadline=None)
@given(texts=st.lists(stories, min_size=2, max_size=4), question=questions, data=st.data())
def test_where_shows_nothing_else_and_equals_an_index_of_that_alone(texts, question, data):
    """Filtering by document is as good as having only those documents, but for shared entities."""
    documents = [SourceDocument(str(n), text) for n, text in enumerate(texts)]
    kept = data.draw(st.sets(st.sampled_from([d.id for d in documents])))
    with index() as rag:
        rag.add(documents)
        result = rag.retrieve(
            question,
            k=50,
            mode="global",
            strategy=PaperStrategy(),
            where={"document_id": {"$in": sorted(kept)}},
        )
        hybrid = rag.retrieve(question, k=50, where={"document_id": {"$in": sorted(kept)}})
    assert {node.document_id for node in result.nodes} <= kept
    with index() as alone:
        alone.add([d for d in documents if d.id in kept])
        expected = alone.retrieve(question, k=50, mode="global", strategy=PaperStrategy())
        hybrid_alone = alone.retrieve(question, k=50)
    assert result.nodes == expected.nodes
    # How rare a word is, the hybrid counts over all documents: the same nodes, in another order.
    assert {n.node_id for n in hybrid.nodes} == {n.node_id for n in hybrid_alone.nodes}
