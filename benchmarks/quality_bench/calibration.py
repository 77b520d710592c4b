"""Fitting relevance to gold labels, and measuring how reliable it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from e2graphrag_integrations import HybridStrategy, RelevanceCalibration
from md_tables import table
from quality_bench.corpora import Corpus

_BINS = 10
"""Bins of a reliability curve, each with as many hits."""

_START = (5.0, -3.0)
"""Slope and intercept from which the fit starts."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Hits:
    """The chunks that the hybrid returned for the questions of a set.

    Attributes:
        cosines: Cosine between the question and the chunk's best window, shape (n,).
        gold: Whether the chunk is evidence: it is in a gold document, and overlaps a gold span if
            the set has spans. Shape (n,).
    """

    cosines: Floats
    gold: NDArray[np.bool_]


def hits(corpus: Corpus, split: str, k: int, every: int = 1) -> Hits:
    """Return the first `k` hits of every n-th question, without summaries."""
    cosines: list[float] = []
    gold: list[bool] = []
    strategy = HybridStrategy(relevance_calibration=float)
    with corpus.index() as rag:
        for question in corpus.questions(split)[::every]:
            if corpus.kind == "spans" and not question.spans:
                continue
            found = rag.retrieve(question.text, k=k, where=question.where, strategy=strategy)
            for node in found.nodes:
                if node.level:
                    continue
                overlaps = any(s < node.end and e > node.start for s, e in question.spans)
                in_gold = node.document_id in question.gold
                gold.append(in_gold and (overlaps or corpus.kind != "spans"))
                cosines.append(node.relevance)
    return Hits(np.asarray(cosines), np.asarray(gold))


def fit(sets: Sequence[Hits]) -> RelevanceCalibration:
    """Return the logistic function with the highest likelihood; all sets weigh the same."""

    def loss(parameters: Sequence[float]) -> float:
        total = 0.0
        for one in sets:
            logits = parameters[0] * one.cosines + parameters[1]
            total += float(np.mean(np.logaddexp(0, logits) - one.gold * logits))
        return total

    slope, intercept = minimize(loss, _START).x
    return RelevanceCalibration(round(float(slope), 3), round(float(intercept), 3))


def relevance(one: Hits, calibration: Callable[[float], float]) -> Floats:
    return np.array([calibration(cosine) for cosine in one.cosines.tolist()])


def curve(values: Floats, gold: NDArray[np.bool_]) -> list[tuple[float, float]]:
    """Return the mean value and the share of evidence of each bin."""
    bins = np.array_split(np.argsort(values, kind="stable"), _BINS)
    return [(float(values[b].mean()), float(gold[b].mean())) for b in bins if len(b)]


def calibration_error(values: Floats, gold: NDArray[np.bool_]) -> float:
    """Return the expected calibration error: the mean distance of the curve to the diagonal."""
    return float(np.mean([abs(value - share) for value, share in curve(values, gold)]))


def reliability(one: Hits, calibrations: Mapping[str, Callable[[float], float]]) -> dict[str, Any]:
    """Return the expected calibration error and the Brier score of each calibration on a set."""
    row: dict[str, Any] = {"hits": len(one.gold), "evidence": round(float(one.gold.mean()), 4)}
    for name, calibration in calibrations.items():
        values = relevance(one, calibration)
        row[name] = {
            "error": round(calibration_error(values, one.gold), 4),
            "brier": round(float(np.mean((values - one.gold) ** 2)), 4),
        }
    return row


def cutoffs(
    sets: Mapping[str, Hits], calibration: RelevanceCalibration, levels: Sequence[float]
) -> list[dict[str, float]]:
    """Return what each cutoff keeps, as means over the sets, and the cosine that it stands for."""
    rows = []
    for level in levels:
        kept = [(one.gold, relevance(one, calibration) >= level) for one in sets.values()]
        shares = {
            "hits kept": [keep.mean() for _, keep in kept],
            "evidence kept": [gold[keep].sum() / gold.sum() for gold, keep in kept],
            "evidence among kept": [gold[keep].mean() for gold, keep in kept if keep.any()],
        }
        logit = math.log(level / (1 - level))
        cosine = (logit - calibration.intercept) / calibration.slope
        means = {name: round(float(np.mean(values)), 4) for name, values in shares.items()}
        rows.append({"cutoff": level, "cosine": round(cosine, 3)} | means)
    return rows


def calibration_table(result: Mapping[str, Any]) -> str:
    """Return the reliability on each set, and what each cutoff keeps, as Markdown tables."""
    errors = ("cosine", "calibrated", "left out")
    head = ("set", "hits", "evidence", "error: cosine", "error: calibrated")
    sets = [
        (label, row["hits"], f"{row['evidence']:.3f}", *(f"{row[e]['error']:.3f}" for e in errors))
        for label, row in result["sets"].items()
    ]
    shares = ("hits kept", "evidence kept", "evidence among kept")
    kept = [
        (f"{row['cutoff']:g}", f"{row['cosine']:.2f}", *(f"{100 * row[s]:.0f}%" for s in shares))
        for row in result["cutoffs"]
    ]
    reliabilities = table((*head, "error: without this set"), sets)
    return f"{reliabilities}\n{table(('cutoff', 'as a cosine', *shares), kept)}"
