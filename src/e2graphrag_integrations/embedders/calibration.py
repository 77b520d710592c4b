"""Mappings from the cosine of a node to its relevance, fitted for each embedding model.

`calibrations.json` contains the mappings that `benchmarks/calibrate.py` has fitted. They are chosen
by the embedder's fingerprint, or by its vectors for three fixed texts, which are the same in every
framework's class that loads the model.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from e2graphrag_integrations._utils.validation import short_repr, wrap_errors
from e2graphrag_integrations.embedders.fingerprints import same_embedder
from e2graphrag_integrations.errors import InvalidInputError

Calibration = Callable[[float], float]
"""Maps the cosine between a question and a node to the node's relevance. It must never decrease."""

CALIBRATIONS = Path(__file__).with_name("calibrations.json")


@dataclass(frozen=True, slots=True)
class RelevanceCalibration:
    """Maps a cosine to a probability by a logistic function (Platt 1999).

    The relevance is `1 / (1 + exp(-(slope * cosine + intercept)))`.

    Args:
        slope: Positive, so that a higher cosine never gives a lower relevance.
        intercept: Log-odds of a node whose cosine is 0.

    Raises:
        InvalidInputError: If a number is not finite, or the slope is not positive.
    """

    slope: float
    intercept: float

    def __post_init__(self) -> None:
        for name in ("slope", "intercept"):
            value = getattr(self, name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not math.isfinite(value) or (name == "slope" and value <= 0):
                kind = "positive number" if name == "slope" else "number"
                raise InvalidInputError(f"{name}={short_repr(value)} must be a finite {kind}")

    def __call__(self, cosine: float) -> float:
        """Return the relevance of a node with this cosine."""
        # The same logistic function in a form that cannot overflow.
        return 0.5 + 0.5 * math.tanh((self.slope * cosine + self.intercept) / 2)


def clipped_cosine(cosine: float) -> float:
    """Return the cosine, or 0 if it is negative: the relevance of a model without a calibration."""
    return min(1.0, max(0.0, cosine))


def log_odds(relevance: float) -> float:
    """Return the log-odds of a relevance from 0.01 to 0.99; a lower or higher one counts as these.

    >>> log_odds(0.5), round(log_odds(0.9), 2), log_odds(0.0) == log_odds(0.01)
    (0.0, 2.2, True)
    """
    bounded = min(0.99, max(0.01, relevance))
    return math.log(bounded / (1 - bounded))


def calibration_of(fingerprint: str | None) -> Calibration:
    """Return the calibration of the embedder with a fingerprint; `clipped_cosine` if none is known.

    Args:
        fingerprint: As `embedder_fingerprint` returns it; None for an empty index.
    """
    if fingerprint is None:
        return clipped_cosine
    for known in json.loads(CALIBRATIONS.read_text(encoding="utf-8")):
        if any(same_embedder(fingerprint, one) for one in known["fingerprints"]):
            return RelevanceCalibration(known["slope"], known["intercept"])
    return clipped_cosine


def checked(calibration: Calibration) -> Calibration:
    """Return a calibration whose errors and invalid values are typed errors.

    One of this module is returned unchanged.
    """
    if calibration is clipped_cosine or isinstance(calibration, RelevanceCalibration):
        return calibration

    def relevance(cosine: float) -> float:
        with wrap_errors(InvalidInputError, f"relevance_calibration failed for {cosine}"):
            value = float(calibration(cosine))
        if math.isnan(value):
            raise InvalidInputError(f"relevance_calibration returned {value} for {cosine}")
        return value

    return relevance


def check_calibration(calibration: object) -> None:
    """Check a `relevance_calibration`.

    Raises:
        InvalidInputError: If it is neither None nor a function.
    """
    if calibration is not None and not callable(calibration):
        raise InvalidInputError(
            f"relevance_calibration={short_repr(calibration)} must be a function of the cosine, "
            "such as RelevanceCalibration(slope, intercept)"
        )
