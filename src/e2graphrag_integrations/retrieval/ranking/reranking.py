"""Reranking: a model reads the best candidates and reorders them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from e2graphrag_integrations.graph.titles import with_title
from e2graphrag_integrations.protocols import Reranker
from e2graphrag_integrations.retrieval.hydrate import NodeReader
from e2graphrag_integrations.retrieval.reasons import Reason
from e2graphrag_integrations.retrieval.strategy import Candidate, Query
from e2graphrag_integrations.retrieval.trace import Listing, Trace
from e2graphrag_integrations.search.rerankers import rerank_scores


def rerank(
    query: Query,
    candidates: Sequence[Candidate],
    trace: Trace,
    reader: NodeReader,
    reranker: Reranker,
    *,
    top_n: int,
) -> tuple[Sequence[Candidate], Sequence[Candidate], Trace]:
    """Reorder the best candidates by the scores of a reranker.

    The previous scores are reassigned in descending order, so that they remain consistent with the
    ranks. Tied candidates keep their previous order. Complete nodes are then cut to `query.k`.

    Args:
        query: The question.
        candidates: Candidates, best first.
        trace: The trace to extend with the list `reranked` and the number of candidates cut.
        reader: The titles and texts.
        reranker: Scores each candidate's title and text.
        top_n: Number of candidates that the reranker reads; the others follow them.

    Returns:
        The candidates, the complete nodes that were cut, and the trace.

    Raises:
        RerankError: If the reranker fails or does not return one number per text.
    """
    if not candidates:
        return candidates, (), trace
    head, tail = candidates[:top_n], candidates[top_n:]
    scores = rerank_scores(reranker, query.question_in_context, _texts(head, reader))
    order = sorted(range(len(head)), key=lambda i: (-scores[i], i))
    former_scores = sorted((one.score for one in head), reverse=True)
    reranked = [
        replace(
            head[i],
            score=score,
            reasons=(*head[i].reasons, Reason("reranked", score=float(scores[i]), rank=i + 1)),
        )
        for i, score in zip(order, former_scores, strict=True)
    ]
    rows, ids = [head[i].row for i in order], reader.snapshot.nodes.ids
    listing = Listing(ids, "score", np.asarray(rows), np.asarray([scores[i] for i in order]))
    trace = replace(trace, lists={**trace.lists, "reranked": listing.ranked()})
    result = [*reranked, *tail]
    if any(one.is_window for one in head):
        return result, (), trace
    kept, spare = result[: query.k], result[query.k :]
    return kept, spare, trace.with_cut("k", len(spare))


def _texts(candidates: Sequence[Candidate], reader: NodeReader) -> list[str]:
    """Return the text of each candidate or its window, with the document's title prepended."""
    snapshot = reader.snapshot
    nodes = reader.read([one.row for one in candidates])
    texts = []
    for one, node in zip(candidates, nodes, strict=True):
        span = one.best_span if one.is_window else None
        text = node.text if span is None else node.text[span.start : span.end]
        title = snapshot.titles[int(snapshot.nodes.document[one.row])]
        texts.append(with_title(title, text))
    return texts
