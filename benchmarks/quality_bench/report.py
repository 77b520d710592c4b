"""Markdown tables of the results, and the check of their goals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import md_tables
from md_tables import difference, marked

Results = Mapping[str, Any]
"""For each set, the summary of its scores."""

PROTOCOLS = {
    "text": "title in the first line of the text",
    "field": "title in the title field",
    "none": "no title",
}


@dataclass(frozen=True)
class Reach:
    """What a figure of the hybrid should reach.

    Attributes:
        label: The set and its protocol.
        measure: The measure.
        figure: The `mean`, or a figure of the difference to the best baseline: the `difference`
            itself, or `low`, the lower end of its interval. `gain` is the difference to the best
            system in `over`.
        reach: The goal.
        stretch: The goal beyond.
        stretch_figure: The figure that the goal beyond is about, if it is another one.
        over: The systems of a `gain`.
    """

    label: str
    measure: str
    figure: Literal["mean", "difference", "low", "gain"]
    reach: float
    stretch: float | None = None
    stretch_figure: Literal["mean", "difference", "low"] | None = None
    over: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        figure = f" minus {' or '.join(self.over)}" if self.over else _FIGURES[self.figure]
        return f"{self.label} {self.measure}{figure}"

    def is_measured(self, results: Results) -> bool:
        """Return whether the results contain the systems that the goal compares."""
        result = results.get(self.label, {})
        figures = {self.figure, self.stretch_figure}
        return {"hybrid", *self.over} <= result.get("systems", {}).keys() and (
            "against best baseline" in result or figures.isdisjoint({"difference", "low"})
        )

    def value(self, results: Results, figure: str) -> float:
        result = results[self.label]
        mean = float(result["systems"]["hybrid"][self.measure])
        if figure == "mean":
            return mean
        if figure == "gain":
            others = (float(result["systems"][name][self.measure]) for name in self.over)
            return round(mean - max(others), 4)
        return float(result["against best baseline"][self.measure][figure])


_LEAST = -0.01
"""Lower limit of the interval of a difference that is no loss."""

GOALS = (
    Reach("hotpotqa-text", "R@5", "mean", 0.945, 0.965),
    Reach("hotpotqa-text", "all@5", "mean", 0.89, 0.93),
    Reach("hotpotqa", "R@5", "mean", 0.95, 0.97),
    Reach("hotpotqa", "all@5", "mean", 0.90, 0.94),
    Reach("hotpotqa-none", "R@5", "mean", 0.87, 0.90),
    Reach("hotpotqa-none", "all@5", "mean", 0.75, 0.80),
    Reach("multihop_rag_facts-text", "R@5", "low", _LEAST, 0.03, "difference"),
    Reach("lihuaworld", "R@5", "low", _LEAST, 0.02, "difference"),
    Reach("qmsum", "R@2000", "low", _LEAST, 0.02, "difference"),
    Reach("qmsum", "R@4000", "low", _LEAST, 0.02, "difference"),
    Reach("graphrag_bench_novel", "R@2000", "low", _LEAST, 0.02, "difference"),
    Reach("graphrag_bench_novel", "R@4000", "low", _LEAST, 0.02, "difference"),
    Reach("wild", "G@4000", "difference", 0.0),
    Reach("qmsum coverage", "C@2000", "mean", 0.45, 0.50),
    Reach("zh_cmrc2018", "R@2", "mean", 0.985),
    Reach("zh_cmrc2018", "R@2", "gain", 0.0, over=("bm25",)),
    Reach("zh_cmrc2018", "R@5", "gain", 0.0, over=("bm25",)),
    Reach("zh_cmrc2018", "R@10", "gain", 0.0, over=("bm25",)),
    Reach("zh_rgb", "R@10", "gain", 0.05, over=("bm25", "dense")),
)

_FIGURES = {
    "mean": "",
    "difference": " minus the best baseline",
    "low": " minus the best baseline, lower end of the interval",
}


def no_loss(results: Results) -> tuple[Reach, ...]:
    """Return the goals of another embedder: no loss against the best baseline on any set."""
    return tuple(
        Reach(label, measure, "low", _LEAST)
        for label, result in results.items()
        for measure in list(result.get("against best baseline", ()))[:1]
    )


def goals(results: Results, reaches: Sequence[Reach] = GOALS) -> dict[str, dict[str, Any]]:
    """Return goals by name, each with its minimum, the measured value and whether it is met."""
    rows: dict[str, dict[str, Any]] = {}
    for goal in reaches:
        if not goal.is_measured(results):
            continue
        value = goal.value(results, goal.figure)
        row = {"min": goal.reach, "value": value, "met": value >= goal.reach}
        if goal.stretch is not None:
            beyond = goal.value(results, goal.stretch_figure or goal.figure)
            row |= {"stretch": goal.stretch, "stretch met": beyond >= goal.stretch}
        rows[goal.name] = row
    return rows


def goal_table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the goals as a Markdown table."""
    lines = []
    for name, row in rows.items():
        met = "met" if row["met"] else "**missed**"
        stretch = f"{row['stretch']:g}" if "stretch" in row else ""
        beyond = ("met" if row["stretch met"] else "missed") if "stretch" in row else ""
        lines.append((name, f"{row['value']:.3f}", f"{row['min']:g}", met, stretch, beyond))
    return md_tables.table(("goal", "measured", "reach", "", "stretch", ""), lines)


def regressions(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Yield a message for each goal that was met before and is missed now."""
    for name, row in before.items():
        if row["met"] and name in after and not after[name]["met"]:
            yield f"{name}: {after[name]['value']} is below {row['min']}; it was {row['value']}"


OVERVIEW = (
    ("dense", ("dense",)),
    ("BM25", ("bm25",)),
    ("RRF", ("rrf", "rrf60")),
    ("paper", ("paper",)),
    ("PageRank", ("pagerank",)),
    ("LinearRAG", ("linearrag", "linearrag-musique")),
    ("hybrid", ("hybrid",)),
)
"""Columns of the overview. Of several settings of a system, the better one counts."""


IN_BRIEF = tuple(column for column in OVERVIEW if column[0] in {"RRF", "LinearRAG", "hybrid"})
"""Columns of the table in the README."""

Columns = Sequence[tuple[str, Sequence[str]]]


def overview(results: Results, of_columns: Columns = OVERVIEW) -> str:
    """Return one line per set: its main measures for each system, and the difference.

    Args:
        results: The results.
        of_columns: Each column's title and its systems, of which the better one counts.
    """
    head = [
        "set",
        "titles",
        "measures",
        *(title for title, _ in of_columns),
        "hybrid - best baseline",
    ]
    lines = []
    for label, result in results.items():
        if "against best baseline" not in result:
            continue
        versus = result["against best baseline"]
        name, _, protocol = label.partition("-")
        titles = (protocol or "field") if result["kind"] == "passages" else ""
        cells = [name + (" (control)" if result["control"] else ""), titles, " / ".join(versus)]
        systems = result["systems"]
        rows = [[systems[name] for name in names if name in systems] for _, names in of_columns]
        columns = [[max(row[m] for row in some) for m in versus] if some else [] for some in rows]
        best = [max(values) for values in zip(*filter(None, columns), strict=True)]
        cells += [" / ".join(map(marked, values, best)) for values in columns]
        lines.append([*cells, difference(versus[next(iter(versus))])])
    return md_tables.table(head, lines)


def _heading(label: str, result: Mapping[str, Any]) -> str:
    name, _, protocol = label.partition("-")
    parts = [name]
    if result["kind"] == "passages":
        parts.append(PROTOCOLS[protocol or "field"])
    if result["control"]:
        parts.append("control")
    answers = f", {result['answers']} with a short answer" if "answers" in result else ""
    return f"### {', '.join(parts)}: {result['questions']} questions{answers}"


def table(results: Results) -> str:
    """Return a Markdown table for each set."""
    blocks = []
    for label, result in results.items():
        systems = result["systems"]
        if not systems:
            continue
        measures = list(dict.fromkeys(m for row in systems.values() for m in row))
        best = {m: max(row[m] for row in systems.values() if m in row) for m in measures}
        rows = [
            [system, *(marked(row[m], best[m]) if m in row else "" for m in measures)]
            for system, row in systems.items()
        ]
        blocks += [_heading(label, result), md_tables.table(["system", *measures], rows).rstrip()]
        for measure, versus in result.get("against best baseline", {}).items():
            blocks.append(f"hybrid - {versus['baseline']}, {measure}: {difference(versus)}")
    return "\n\n".join(blocks) + "\n"
