"""Questions about how a text ends ("How did everything turn out?"): its last part comes first.

No word of such a question is in the last part, so no ranking finds it. The text is the document
that has most of the score of the best candidates.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.retrieval.question.request_kinds import names_ending, request_kind
from e2graphrag_integrations.retrieval.question.routing import without_titles
from e2graphrag_integrations.retrieval.reasons import Reason
from e2graphrag_integrations.retrieval.strategy import Candidate, Query
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.types import Span

ENDING = "ending"
"""`found_by` of a candidate from the last part of a text."""

_MIN_CHUNKS = 3
"""Minimum number of chunks of a text that has a last part."""

_LAST_SHARE, _MAX_LAST = 0.05, 3
"""Share of the chunks of a text that are its last part, and the maximum number of them."""

_BEST = 200
"""Number of candidates that decide which text is meant."""


def asks_for_ending(query: Query, snapshot: Snapshot) -> bool:
    """Return whether a question asks how a text ends, which it may call by its title."""
    if query.mode == "local" or not names_ending(query.question):
        return False
    return request_kind(without_titles(query.question, snapshot)) == "ending"


def endings_first(
    candidates: Sequence[Candidate], query: Query, snapshot: Snapshot
) -> list[Candidate]:
    """Return the candidates after the last chunks of the text that the best ones belong to.

    The last chunk, or its last window, is the first candidate. Chunks that a filter excludes are
    left out.

    Args:
        candidates: Nodes or windows, best first.
        query: The question.
        snapshot: The search index.
    """
    chunks = _last_chunks(candidates, query, snapshot)
    if not len(chunks):
        return list(candidates)
    best = candidates[0]
    reason = Reason("ending", count=len(chunks))
    added = [
        Candidate(row, best.score, ENDING, (reason,), span, best.is_window)
        for row in chunks[::-1].tolist()
        for span in (_windows(row, snapshot) if best.is_window else [None])
    ]
    known = {(one.row, one.best_span) if best.is_window else one.row for one in added}
    rest = (
        one
        for one in candidates
        if ((one.row, one.best_span) if best.is_window else one.row) not in known
    )
    return [*added, *rest]


def starts_with_ending(candidates: Sequence[Candidate]) -> bool:
    """Return whether the first candidate is there because it is the last part of a text."""
    return any(one.found_by == ENDING for one in candidates[:1])


def _last_chunks(candidates: Sequence[Candidate], query: Query, snapshot: Snapshot) -> IntArray:
    """Return the rows of the last allowed chunks of the text that is meant, ascending."""
    nodes, top = snapshot.nodes, candidates[:_BEST]
    if not top:
        return np.empty(0, dtype=np.int64)
    documents = nodes.document[[one.row for one in top]]
    shares = np.bincount(documents, [one.score for one in top])
    chunks = snapshot.chunk_nodes
    own = chunks[nodes.document[chunks] == int(shares.argmax())]
    own = own[np.argsort(nodes.position[own], kind="stable")]
    if len(own) < _MIN_CHUNKS:
        return np.empty(0, dtype=np.int64)
    last: IntArray = own[-min(_MAX_LAST, max(1, round(_LAST_SHARE * len(own)))) :]
    return last if query.allowed is None else last[query.allowed[last]]


def _windows(row: int, snapshot: Snapshot) -> list[Span | None]:
    """Return the spans of the windows of a node, the last one first."""
    windows = np.flatnonzero(snapshot.dense.window_nodes == row)[::-1]
    return [Span(*map(int, snapshot.window_spans[one])) for one in windows] or [None]
