"""The arrays of a snapshot agree with the store."""

from __future__ import annotations

import numpy as np

from e2graphrag_integrations import SourceDocument
from fakes import CountingLLM, numbered


def test_each_node_has_the_range_of_chunks_under_it(open_index):
    rag = open_index(summarizer=CountingLLM(), chunk_size=4, chunk_overlap=0)
    rag.add([numbered(12, "a"), numbered(3, "b"), numbered(1, "c")])
    nodes = rag._session.snapshot().nodes
    ranges = {
        (int(d), int(level), int(p)): (int(first), int(end))
        for d, level, p, first, end in zip(
            nodes.document,
            nodes.level,
            nodes.position,
            nodes.first_leaf,
            nodes.end_leaf,
            strict=True,
        )
    }
    # Document a has chunks 0 to 11 under summaries of 5, 5 and 2. Document b has chunks 12 to 14
    # under one summary. Document c has chunk 15.
    assert ranges[0, 1, 0] == (0, 5)
    assert ranges[0, 1, 1] == (5, 10)
    assert ranges[0, 1, 2] == (10, 12)
    assert ranges[1, 1, 0] == (12, 15)
    assert ranges[2, 0, 0] == (15, 16)
    assert len(ranges) == 12 + 3 + 3 + 1 + 1


def test_words_are_counted_per_chunk(open_index):
    rag = open_index(chunk_size=4, chunk_overlap=0)
    rag.add(numbered(3))
    snapshot = rag._session.snapshot()
    assert snapshot.chunk_words.tolist() == [3, 3, 3]  # "Item 0 ends."
    assert snapshot.chunk_word_offsets.tolist() == [0, 3, 6, 9]


def test_each_node_has_unit_vectors(open_index, story):
    rag = open_index()
    rag.add(story)
    snapshot = rag._session.snapshot()
    assert set(snapshot.dense.window_nodes.tolist()) == set(range(len(snapshot.nodes.ids)))
    assert np.allclose(np.linalg.norm(snapshot.dense.vectors, axis=1), 1, atol=1e-5)


def test_white_space_between_segments_belongs_to_the_segments(open_index):
    text = "  Anna sat.\n\nBert sat.  "
    pages = [(2, 11, {"page": 1}), (13, 22, {"page": 2})]
    rag = open_index(chunk_size=100)
    rag.add(SourceDocument("d", text, segments=pages))
    [node] = rag.retrieve("x", where={"page": {"$exists": True}}).nodes
    assert node.segments == ((2, 13, {"page": 1}), (13, 22, {"page": 2}))
    assert rag.retrieve("x", where={"page": {"$exists": False}}).nodes == ()


def test_text_outside_all_segments_has_the_documents_metadata(open_index):
    text = "Anna sat down. Bert sat down."
    rag = open_index(chunk_size=4, chunk_overlap=0, summarizer=CountingLLM())
    rag.add(SourceDocument("d", text, metadata={"page": 0}, segments=[(0, 14, {"page": 1})]))

    def chunks(page):
        return [n.position for n in rag.retrieve("x", where={"page": page}).nodes if not n.level]

    assert chunks(1) == [0]
    assert chunks(0) == [1]


def test_empty_segments_are_ignored(open_index):
    rag = open_index(chunk_size=100)
    rag.add(SourceDocument("d", "Anna sat.", segments=[(4, 4, {"page": 1})]))
    assert len(rag.retrieve("x", where={"document_id": "d"}).nodes) == 1
    assert rag.retrieve("x", where={"page": 1}).nodes == ()
