"""The relevance of result nodes: a number in [0, 1] that is comparable across questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from e2graphrag_integrations.embedders.calibration import clipped_cosine
from e2graphrag_integrations.retrieval.hydrate import NodeReader, clipped
from e2graphrag_integrations.retrieval.result import RetrievedNode
from e2graphrag_integrations.retrieval.strategy import Candidate, Query
from e2graphrag_integrations.retrieval.trace import RelevanceKind, Trace


def add_relevance(
    nodes: Sequence[RetrievedNode], query: Query, trace: Trace, reader: NodeReader
) -> tuple[list[RetrievedNode], Trace]:
    """Return result nodes with the relevance that hydration could not set, clipped to [0, 1].

    The trace gets the meaning of the relevance (`Trace.relevance_kind`).

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
    trace = replace(trace, relevance_kind=_kind(query, candidates))
    missing = [place for place, one in enumerate(candidates) if one.relevance is None]
    if not missing:
        return list(nodes), trace
    if query.vector is not None:
        rows = np.asarray([candidates[place].row for place in missing])
        cosines = reader.snapshot.dense.best_cosines(query.vector, rows).tolist()
        values = [query.calibration(cosine) for cosine in cosines]
    else:
        names = {one.entity for one in trace.links} | set(trace.unlinked)
        values = [len(nodes[place].entities) / max(1, len(names)) for place in missing]
    completed = list(nodes)
    for place, value in zip(missing, values, strict=True):
        completed[place] = replace(nodes[place], relevance=clipped(value))
    return completed, trace


def _kind(query: Query, candidates: Sequence[Candidate]) -> RelevanceKind:
    if query.vector is not None:
        return "cosine" if query.calibration is clipped_cosine else "calibrated"
    return "names" if any(one.relevance is None for one in candidates) else "words"


def falling_relevance(nodes: Sequence[RetrievedNode]) -> list[float]:
    """Return the relevance of each node, raised to that of the nodes ranked below it.

    The result never increases, so sorting by it keeps the ranking, and a cutoff removes its end.
    """
    relevance = [node.relevance for node in reversed(nodes)]
    return [*accumulate(relevance, max)][::-1]
