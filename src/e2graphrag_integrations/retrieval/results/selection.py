"""Which nodes a result may contain: the relevance floor, expansion of summaries, and filling up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from e2graphrag_integrations._utils.failures import CodedText
from e2graphrag_integrations.embedders.calibration import Calibration, clipped_cosine
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.retrieval.reasons import Reason
from e2graphrag_integrations.retrieval.strategy import Candidate, Expand, Query
from e2graphrag_integrations.snapshot.snapshot import Snapshot


def check_floor(query: Query, own: Calibration | None, snapshot: Snapshot) -> None:
    """Check that a floor has a meaning: a cosine without a calibration says little.

    Args:
        query: The query with its calibration.
        own: The calibration of the strategy, which may be any function; None for that of the
            embedder.
        snapshot: The index; an empty one has no embedder yet.

    Raises:
        InvalidInputError: If there is a floor, but no calibration of the embedder is known.
    """
    has_no_scale = own is None and query.calibration is clipped_cosine
    if query.min_relevance is None or not has_no_scale or not len(snapshot.dense.window_nodes):
        return
    raise InvalidInputError(
        CodedText(
            "no_calibration",
            "min_relevance={value} needs a calibrated relevance, which is not known for the "
            "embedder of this index: leave min_relevance out, or set the scale with "
            "strategy=HybridStrategy(relevance_calibration=RelevanceCalibration(slope, "
            "intercept)); relevance_calibration=clipped_cosine compares plain cosines",
            value=query.min_relevance,
        )
    )


def above_floor(
    candidates: Sequence[Candidate], query: Query, snapshot: Snapshot
) -> tuple[Sequence[Candidate], int]:
    """Return the candidates whose node is relevant enough, and the number of the other nodes."""
    if query.min_relevance is None or not candidates:
        return candidates, 0
    rated = _rated(candidates, query, snapshot)
    kept = [one for one in rated if (one.relevance or 0.0) >= query.min_relevance]
    return kept, len({one.row for one in rated} - {one.row for one in kept})


def _rated(
    candidates: Sequence[Candidate], query: Query, snapshot: Snapshot
) -> Sequence[Candidate]:
    """Return the candidates with the relevance that their strategy does not know."""
    missing = [place for place, one in enumerate(candidates) if one.relevance is None]
    if not missing:
        return candidates
    rated = list(candidates)
    rows = np.asarray([rated[place].row for place in missing])
    cosines = snapshot.dense.best_cosines(query.unit_vector, rows).tolist()
    for place, cosine in zip(missing, cosines, strict=True):
        rated[place] = replace(rated[place], relevance=query.calibration(cosine))
    return rated


def expand(candidates: Iterable[Candidate], query: Query, snapshot: Snapshot) -> list[Candidate]:
    """Replace each summary with its children or leaves as `query.expand` says; drop duplicates.

    A summary may pass a filter on pages or types of entities because of some nodes below it, so
    these must pass, too. A filter that no node of their level passes chooses summaries.
    """
    added: set[int] = set()
    expanded: list[Candidate] = []
    levels, allowed = snapshot.nodes.level, query.allowed
    filtered = set[int]() if allowed is None else {*np.unique(levels[allowed]).tolist()}
    for candidate in candidates:
        for row in _rows_below(candidate.row, snapshot, query.expand):
            is_excluded = allowed is not None and not allowed[row] and levels[row] in filtered
            if row in added or is_excluded:
                continue
            added.add(row)
            if row == candidate.row:
                expanded.append(candidate)
            else:
                reason = Reason("under_summary", node=snapshot.nodes.ids[candidate.row])
                reasons = (reason, *candidate.reasons)
                below = replace(candidate, row=row, reasons=reasons, best_span=None, relevance=None)
                expanded.append(below)
    return expanded


def fill_to_k(
    candidates: Sequence[Candidate], query: Query, snapshot: Snapshot
) -> Sequence[Candidate]:
    """Append the nodes nearest to the question by cosine until there are `query.k` candidates.

    No appended candidate scores higher than the candidates before it, and none is below
    `query.min_relevance`.
    """
    filled = list(candidates)
    added = {candidate.row for candidate in candidates}
    # A summary may expand to nothing new, so with expansion, the search covers every node.
    limit = query.k + len(filled) if query.expand == "none" else len(snapshot.nodes.ids)
    for row, cosine in snapshot.dense.search(query.unit_vector, limit, query.allowed):
        score = min(1 / (len(filled) + 1), filled[-1].score if filled else 1.0)
        reasons = (Reason("filled", cosine=cosine),)
        relevance = query.calibration(cosine)
        neighbor = Candidate(row, score, "dense", reasons, relevance=relevance)
        relevant, _ = above_floor(expand([neighbor], query, snapshot), query, snapshot)
        for candidate in relevant:
            if candidate.row not in added and len(filled) < query.k:
                added.add(candidate.row)
                filled.append(candidate)
        if len(filled) >= query.k:
            break
    return filled


def children(row: int, snapshot: Snapshot) -> range:
    """Return the rows of a summary's children, which are adjacent in the snapshot."""
    nodes = snapshot.nodes
    first, end = np.searchsorted(nodes.document, [nodes.document[row], nodes.document[row] + 1])
    below = nodes.level[row] - 1
    level = first + np.searchsorted(nodes.level[first:end], [below, below + 1])
    leaves = nodes.first_leaf[level[0] : level[1]]
    inside = np.searchsorted(leaves, [nodes.first_leaf[row], nodes.end_leaf[row]])
    return range(int(level[0] + inside[0]), int(level[0] + inside[1]))


def _rows_below(row: int, snapshot: Snapshot, how: Expand) -> Iterator[int]:
    nodes = snapshot.nodes
    if how == "none" or nodes.level[row] == 0:
        yield row
    elif how == "leaves":
        yield from snapshot.chunk_nodes[nodes.first_leaf[row] : nodes.end_leaf[row]].tolist()
    else:
        yield from children(row, snapshot)
