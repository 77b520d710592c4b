"""The relevance of result nodes: a number in [0, 1] that is comparable across questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from e2graphrag_integrations.retrieval.hydrate import NodeReader
from e2graphrag_integrations.retrieval.result import RetrievedNode
from e2graphrag_integrations.retrieval.strategy import Query
from e2graphrag_integrations.retrieval.trace import Trace


def add_relevance(
    nodes: Sequence[RetrievedNode], query: Query, trace: Trace, reader: NodeReader
) -> list[RetrievedNode]:
    """Return result nodes with their relevance, clipped to [0, 1].

    If the strategy does not give a node's relevance, it is the calibrated cosine between the
    question and the node's best window. A question without a vector is not embedded for this
    purpose: the relevance is then the fraction of the question's names that the node mentions.

    Args:
        nodes: Nodes that `reader` has read.
        query: The question; its vector may be None.
        trace: The names in the question that are in the index, and those that are not.
        reader: The candidates of the nodes, and the snapshot.
    """
    candidates = [reader.candidates[node.node_id] for node in nodes]
    values = [candidate.relevance for candidate in candidates]
    missing = [place for place, value in enumerate(values) if value is None]
    if missing and query.vector is not None:
        rows = np.asarray([candidates[place].row for place in missing])
        cosines = reader.snapshot.dense.best_cosines(query.vector, rows).tolist()
        for place, cosine in zip(missing, cosines, strict=True):
            values[place] = query.calibration(cosine)
    elif missing:
        names = {one.entity for one in trace.links} | set(trace.unlinked)
        for place in missing:
            values[place] = len(nodes[place].entities) / max(1, len(names))
    return [
        replace(node, relevance=min(1.0, max(0.0, float(value or 0.0))))
        for node, value in zip(nodes, values, strict=True)
    ]


def falling_relevance(nodes: Sequence[RetrievedNode]) -> list[float]:
    """Return the relevance of each node, raised to that of the nodes ranked below it.

    The result never increases, so sorting by it keeps the ranking, and a cutoff removes its end.
    """
    relevance = [node.relevance for node in reversed(nodes)]
    return [*accumulate(relevance, max)][::-1]
