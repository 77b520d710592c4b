"""Means with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 10_000

_SEED = 0

_MAX_DRAWN = 2_000_000
"""Maximum number of values to draw at once, so that memory stays bounded."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over questions with its 95% bootstrap interval.

    Attributes:
        mean: The mean.
        low, high: The 2.5% and 97.5% quantiles of the means of 10,000 resamples of the questions.
            The seed is fixed, so equal values have equal intervals.
        questions: Number of questions.
    """

    mean: float
    low: float
    high: float
    questions: int


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of values with its 95% bootstrap interval.

    For the difference of two systems, pass the differences of each question: the interval is then
    paired.

    >>> estimate([1.0, 1.0, 1.0])
    Estimate(mean=1.0, low=1.0, high=1.0, questions=3)
    """
    array = np.asarray(values, dtype=np.float64)
    size = len(array)
    random = np.random.default_rng(_SEED)
    rows = max(1, _MAX_DRAWN // size)
    means = np.concatenate(
        [
            array[random.integers(0, size, (min(rows, RESAMPLES - first), size))].mean(axis=1)
            for first in range(0, RESAMPLES, rows)
        ]
    )
    low, high = np.quantile(means, [0.025, 0.975])
    return Estimate(float(array.mean()), float(low), float(high), size)
