"""The search of a snapshot whose vectors are not exact; see `search/dense.py`."""

from __future__ import annotations

import numpy as np

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.search.dense import NodeSearch
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.store.store import Store


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

    return own if own.kind.rescored is None else own.kind.rescored(own, read)
