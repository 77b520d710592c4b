"""Summaries of the answers' scores, and Markdown tables of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import md_tables
from quality_bench.evaluate import measure_means
from quality_bench.measures import interval

Rows = Mapping[str, Sequence[Mapping[str, float]]]
"""For each system, the measures of each question."""

OURS = "hybrid"
MINUS = "hybrid minus"

TITLES = {
    "hybrid": "hybrid",
    "dense": "dense",
    "bm25": "BM25",
    "rrf": "RRF",
    "paper": "paper",
    "full": "full text",
    "none": "no context",
    "gold": "evidence",
}
"""Columns of the tables."""

ANSWERS = ("EM", "F1", "ROUGE-L")
CONTEXTS = ("in context", "words in context")
"""Measures of the answers, and of the contexts."""


def summary(rows: Rows) -> dict[str, Any]:
    """Return the means of each system, and the hybrid's paired differences to the others."""
    result: dict[str, Any] = {
        "questions": len(next(iter(rows.values()))),
        "systems": {name: measure_means(scores) for name, scores in rows.items()},
    }
    if OURS in rows:
        result[MINUS] = {
            name: {
                measure: difference(rows[OURS], scores, measure)
                for measure in result["systems"][name]
            }
            for name, scores in rows.items()
            if name != OURS
        }
    return result


def pooled(sets: Sequence[Rows]) -> Rows:
    """Return the measures on the questions of all sets."""
    return {name: [row for rows in sets for row in rows[name]] for name in sets[0]}


def difference(
    ours: Sequence[Mapping[str, float]], theirs: Sequence[Mapping[str, float]], measure: str
) -> dict[str, float]:
    """Return the mean paired difference over the questions that have the measure."""
    pairs = [(a[measure], b[measure]) for a, b in zip(ours, theirs, strict=True) if measure in a]
    return interval([a for a, _ in pairs], [b for _, b in pairs])


def score_table(
    sets: Mapping[str, Mapping[str, Any]], measures: Sequence[str] = (*ANSWERS, *CONTEXTS)
) -> str:
    """Return the means: one line per set and measure, one column per system."""
    names = list(dict.fromkeys(name for one in sets.values() for name in one["systems"]))
    head = ("set", "questions", "measure", *(TITLES.get(name, name) for name in names))
    rows = []
    for label, one in sets.items():
        systems = one["systems"]
        for measure in measures:
            if measure in next(iter(systems.values())):
                cells = (f"{systems[name][measure]:.3f}" for name in names)
                rows.append((label, one["questions"], measure, *cells))
    return md_tables.table(head, rows)


def difference_table(
    sets: Mapping[str, Mapping[str, Any]], measures: Sequence[str] = (*ANSWERS, *CONTEXTS)
) -> str:
    """Return the hybrid's differences to each system, with their intervals."""
    names = list(dict.fromkeys(name for one in sets.values() for name in one.get(MINUS, ())))
    if not names:
        return ""
    head = ("set", "measure", *(f"hybrid - {TITLES.get(name, name)}" for name in names))
    rows = []
    for label, one in sets.items():
        versus = one[MINUS]
        for measure in measures:
            if measure in next(iter(versus.values())):
                cells = (md_tables.difference(versus[name][measure]) for name in names)
                rows.append((label, measure, *cells))
    return md_tables.table(head, rows)
