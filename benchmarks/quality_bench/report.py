"""Markdown tables and plots of the results, and the check of their goals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from quality_bench.systems import ABLATIONS

GOALS: Mapping[str, tuple[tuple[str, float], ...]] = {
    "hotpotqa": (("R@5", 0.87), ("all@5", 0.75)),
    "qmsum": (("R@2000", 0.62), ("R@4000", 0.78)),
}
"""Minimum measures of the hybrid. The other sets are compared with their best baseline."""

MARGINS: Mapping[str, tuple[str, str, float]] = {
    "lihuaworld": ("R@5", "low", -0.02),
    "graphrag_bench_novel": ("R@2000", "difference", 0.05),
}
"""Measure, figure of its difference to the best baseline ("low" is the lower end), minimum."""


def goals(results: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the goals by name, each with its minimum, the measured value and whether it is met."""
    rows: dict[str, dict[str, Any]] = {}
    for name, result in results.items():
        for measure, minimum in GOALS.get(name, ()):
            rows[f"{name} {measure}"] = _goal(minimum, result["systems"]["hybrid"][measure])
        if name in MARGINS:
            measure, figure, minimum = MARGINS[name]
            value = result["against best baseline"][measure][figure]
            rows[f"{name} {measure} {figure} over the best baseline"] = _goal(minimum, value)
    return rows


def _goal(minimum: float, value: float) -> dict[str, Any]:
    return {"min": minimum, "value": value, "met": value >= minimum}


def regressions(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Yield a message for each goal that was met before and is missed now."""
    for name, row in before.items():
        if row["met"] and name in after and not after[name]["met"]:
            yield f"{name}: {after[name]['value']} is below {row['min']}; it was {row['value']}"


def table(results: Mapping[str, Any]) -> str:
    """Return a Markdown table for each set."""
    blocks = []
    for name, result in results.items():
        systems = result["systems"]
        measures = list(next(iter(systems.values())))
        lines = [
            f"### {name}: {result['questions']} questions",
            "",
            f"| system | {' | '.join(measures)} |",
            f"|---|{'---|' * len(measures)}",
        ]
        best = {m: max(row[m] for row in systems.values()) for m in measures}
        for system, row in systems.items():
            cells = [
                f"**{row[m]:.3f}**" if row[m] == best[m] else f"{row[m]:.3f}" for m in measures
            ]
            lines.append(f"| {system} | {' | '.join(cells)} |")
        for measure, versus in result.get("against best baseline", {}).items():
            low, high = versus["low"], versus["high"]
            difference = f"{versus['difference']:+.3f} [{low:+.3f}, {high:+.3f}]"
            lines += ["", f"hybrid - {versus['baseline']}, {measure}: {difference}"]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def plot(results: Mapping[str, Any], out: Path) -> None:
    """Plot recall over k or over the budget: one SVG per set, named after `out`."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    for name, result in results.items():
        systems = result["systems"]
        measures = [m for m in next(iter(systems.values())) if m.startswith(("R@", "C@"))]
        ticks = [int(m.partition("@")[2]) for m in measures]
        figure, axes = plt.subplots(figsize=(5, 3.2))
        for system, row in systems.items():
            if system in ABLATIONS:
                continue
            width = 2.5 if system == "hybrid" else 1.2
            axes.plot(ticks, [row[m] for m in measures], marker="o", linewidth=width, label=system)
        axes.set_xscale("log")
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.minorticks_off()
        axes.set_xlabel("tokens of context" if ticks[0] > 100 else "passages")  # noqa: PLR2004 - budgets
        axes.set_ylabel("recall" if measures[0].startswith("R@") else "coverage")
        axes.set_title(name)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
        figure.tight_layout()
        path = out.with_name(f"{out.stem}_{name.replace(' ', '_')}.svg")
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)
