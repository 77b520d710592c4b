"""Filling a token budget with a mixture of summaries and windows: a knapsack over the tree.

The value of a window is its score. A summary of `c` characters over `L` characters of text carries
`(c / L) ** 0.5` of the value of each window below it. Texts are selected by value per character, as
in the greedy algorithm for the knapsack problem. The value of a window shrinks when a summary above
it is selected. A summary therefore wins if the value is spread over many windows below it; if a few
windows have most of the value, these windows win.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.retrieval.hydrate import NodeReader
from e2graphrag_integrations.retrieval.reasons import Reason
from e2graphrag_integrations.retrieval.strategy import Candidate, Query
from e2graphrag_integrations.search.fusion import Floats
from e2graphrag_integrations.snapshot.snapshot import NodeTable, Snapshot

_WINDOWS = 200
"""Number of windows, best first, whose value a summary can carry."""

_FIDELITY_POWER = 0.5
"""Exponent of a summary's share of the length: 1 makes it as good as an average part of the text of
the same length, and 0 as good as the complete text."""

_CHARS_PER_TOKEN = 8
"""Number of characters to select for each token of the budget. Few texts have longer tokens."""

_FLAT_WINDOWS = 50
"""Number of windows, best first, on which the flatness of a ranking is measured."""

_FLAT_SHARE = 0.6
"""A ranking is flat if its effective number of windows is this share of the windows measured."""


def is_flat(scores: Floats) -> bool:
    """Return whether the best windows have similar scores, so that no window stands out.

    The effective number of windows is the exponential of the entropy of their shares of the scores.

    Args:
        scores: Positive scores, best first, shape (windows,).
    """
    top = scores[:_FLAT_WINDOWS]
    if len(top) < 2:  # noqa: PLR2004 - a single window always stands out
        return False
    shares = top / top.sum()
    entropy = -float((shares * np.log(np.maximum(shares, 1e-12))).sum())
    return bool(np.exp(entropy) >= _FLAT_SHARE * len(top))


def mix_summaries(
    candidates: Sequence[Candidate], query: Query, reader: NodeReader
) -> Sequence[Candidate]:
    """Add summaries to ranked windows and reorder them by value per character.

    No summary is selected together with a summary above or below it, or together with all windows
    of a chunk below it.

    Args:
        candidates: Windows of chunks, best first.
        query: The question, with its token budget and filter.
        reader: The snapshot.
    """
    top, rest = list(candidates[:_WINDOWS]), candidates[_WINDOWS:]
    snapshot = reader.snapshot
    summaries = _summaries_above(top, query, snapshot)
    if not len(summaries):
        return candidates
    knapsack = _Knapsack(top, summaries, snapshot)
    selected = knapsack.select((query.token_budget or 0) * _CHARS_PER_TOKEN)
    scale = top[0].score / selected[0].score if selected[0].score else 1.0
    mixed = [replace(one, score=one.score * scale) for one in selected]
    chosen = {(one.row, one.best_span) for one in mixed}
    later = [one for one in top if (one.row, one.best_span) not in chosen]
    lowest = mixed[-1].score
    return [*mixed, *(replace(one, score=min(one.score, lowest)) for one in [*later, *rest])]


def _summaries_above(windows: Sequence[Candidate], query: Query, snapshot: Snapshot) -> IntArray:
    """Return the allowed summaries above the windows, ascending."""
    parents = snapshot.nodes.parents
    rows: IntArray = np.unique([one.row for one in windows])
    found: list[IntArray] = [np.empty(0, dtype=np.int64)]
    while len(rows):
        rows = np.unique(parents[rows])
        rows = rows[rows >= 0]
        found.append(rows)
    above: IntArray = np.unique(np.concatenate(found))
    return above if query.allowed is None else above[query.allowed[above]]


def _lengths(rows: IntArray, snapshot: Snapshot) -> Floats:
    """Return the number of characters in the texts of nodes: their last window ends there."""
    last = np.searchsorted(snapshot.dense.window_nodes, rows, side="right") - 1
    lengths: Floats = np.maximum(1.0, snapshot.window_spans[last, 1])
    return lengths


class _Knapsack:
    """Selects windows of chunks and summaries above them one by one, by value per character."""

    def __init__(
        self, windows: Sequence[Candidate], summaries: IntArray, snapshot: Snapshot
    ) -> None:
        nodes = snapshot.nodes
        self.windows = windows
        self.summaries = summaries
        spans = [one.best_span or (0, 1) for one in windows]
        self.sizes = np.asarray([max(1, end - start) for start, end in spans], dtype=float)
        self.values = np.asarray([max(0.0, one.score) for one in windows])
        self.summary_sizes = _lengths(summaries, snapshot)
        covered = np.maximum(1, nodes.end[summaries] - nodes.start[summaries])
        self.fidelity = np.minimum(1.0, self.summary_sizes / covered) ** _FIDELITY_POWER
        self.below = _is_below(nodes.first_leaf[[one.row for one in windows]], summaries, nodes)
        first = nodes.first_leaf[summaries]
        overlaps = _is_below(first, summaries, nodes)
        self.conflicts = overlaps | overlaps.T
        # The windows of each chunk that are not selected yet.
        rows, self.chunk = np.unique([one.row for one in windows], return_inverse=True)
        counts = np.searchsorted(snapshot.dense.window_nodes, [rows, rows + 1])
        self.missing = counts[1] - counts[0]
        self.is_free = np.ones(len(windows), dtype=np.bool_)
        self.is_covered = np.zeros(len(windows), dtype=np.bool_)
        self.is_possible = np.ones(len(summaries), dtype=np.bool_)

    def select(self, characters: int) -> list[Candidate]:
        """Return the selected texts in order, with their value per character as score."""
        selected: list[Candidate] = []
        used = 0.0
        while used < characters and self.is_free.any():
            of_windows = np.where(self.is_free, self.values / self.sizes, -1.0)
            gains = self.fidelity * (self.below @ self.values)
            of_summaries = np.where(self.is_possible, gains / self.summary_sizes, -1.0)
            window, summary = int(of_windows.argmax()), int(of_summaries.argmax())
            if of_summaries[summary] > of_windows[window]:
                selected.append(self._summary(summary, float(of_summaries[summary])))
                used += self.summary_sizes[summary]
                self._take_summary(summary)
            else:
                selected.append(replace(self.windows[window], score=float(of_windows[window])))
                used += self.sizes[window]
                self._take_window(window)
        return selected

    def _take_summary(self, summary: int) -> None:
        below = self.below[summary]
        self.values[below] *= 1 - self.fidelity[summary]
        self.is_possible &= ~self.conflicts[summary]
        self.is_covered |= below
        self.is_free &= ~(below & (self.missing[self.chunk] == 1))

    def _take_window(self, window: int) -> None:
        chunk = self.chunk[window]
        self.values[window] = 0.0
        self.is_free[window] = False
        self.missing[chunk] -= 1
        if self.missing[chunk] == 0:
            self.is_possible &= ~self.below[:, window]
        elif self.missing[chunk] == 1:
            self.is_free &= ~(self.is_covered & (self.chunk == chunk))

    def _summary(self, summary: int, score: float) -> Candidate:
        count = int(self.below[summary].sum())
        reason = Reason("over_windows", count=count, total=len(self.windows))
        row = int(self.summaries[summary])
        return Candidate(row, score, "tree", (reason,), is_window=True)


def _is_below(leaves: IntArray, summaries: IntArray, nodes: NodeTable) -> NDArray[np.bool_]:
    """Return whether each leaf number is below each summary, shape (summaries, leaves)."""
    first, end = nodes.first_leaf[summaries][:, None], nodes.end_leaf[summaries][:, None]
    inside: NDArray[np.bool_] = (first <= leaves) & (leaves < end)
    return inside
