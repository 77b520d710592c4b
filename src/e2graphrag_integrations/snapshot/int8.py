"""Snapshots whose vectors have one byte per component; see `search/int8.py`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.search.dense import DenseIndex, NodeSearch
from e2graphrag_integrations.search.int8 import Int8Vectors, RescoredSearch
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.store.store import Store


def quantized(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot with vectors of one byte per component."""
    _, dense = snapshot.stored_parts()
    vectors = Int8Vectors.of(dense.vectors)
    return replace(snapshot, dense=DenseIndex(vectors, dense.window_nodes, dense.lists))


def rescored_search(snapshot: Snapshot, store: Store) -> NodeSearch:
    """Return the search of a snapshot that reads the vectors of the best windows from the index."""
    _, own = snapshot.stored_parts()
    ids, window_nodes = snapshot.nodes.ids, own.window_nodes

    def read(windows: IntArray) -> FloatArray:
        nodes = window_nodes[windows]
        numbers = windows - np.searchsorted(window_nodes, nodes)
        places = [(ids[node], int(n)) for node, n in zip(nodes.tolist(), numbers, strict=True)]
        stored = store.window_vectors(places)
        vectors = own.vectors[windows]
        for row, place in enumerate(places):
            encoded = stored.get(place, b"")
            # A document that has changed is left out of the answer later.
            if len(encoded) == vectors[row].nbytes:
                vectors[row] = np.frombuffer(encoded, dtype="<f4")
        return vectors

    return RescoredSearch(own, read)
