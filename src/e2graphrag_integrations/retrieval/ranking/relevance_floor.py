"""The relevance floor (`min_relevance`): less relevant nodes are left out before any cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from e2graphrag_integrations.embedders.calibration import Calibration, clipped_cosine
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.retrieval.strategy import Candidate, Query
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
        f"min_relevance={query.min_relevance} needs a calibrated relevance, which is not known for "
        "the embedder of this index: leave min_relevance out, or set the scale with "
        "strategy=HybridStrategy(relevance_calibration=RelevanceCalibration(slope, intercept)); "
        "relevance_calibration=clipped_cosine compares plain cosines"
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
