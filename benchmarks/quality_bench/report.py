"""The results as a Markdown table, as plots, and against what was reached before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from quality_bench.systems import ABLATIONS

GOALS: Mapping[str, tuple[tuple[str, float], ...]] = {
    "hotpotqa": (("R@5", 0.87), ("all@5", 0.75)),
    "qmsum": (("R@2000", 0.62), ("R@4000", 0.78)),
}
"""Least values of the hybrid; the other sets are held against their best baseline."""

MARGINS: Mapping[str, tuple[str, str, float]] = {
    "lihuaworld": ("R@5", "low", -0.02),
    "graphrag_bench_novel": ("R@2000", "difference", 0.05),
}
"""Measure, which figure of its difference to the best baseline, and the least value of that."""


def goals(results: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return each goal with what was measured and whether it is reached."""
    rows: dict[str, dict[str, Any]] = {}
    for name, of in results.items():
        for measure, least in GOALS.get(name, ()):
            value = of["systems"]["hybrid"][measure]
            rows[f"{name} {measure}"] = {"goal": least, "is": value, "held": value >= least}
        if name in MARGINS:
            measure, figure, least = MARGINS[name]
            value = of["against best baseline"][measure][figure]
            rows[f"{name} {measure} {figure} over the best baseline"] = {
                "goal": least,
                "is": value,
                "held": value >= least,
            }
    return rows


def lost(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yield the goals that held before and do not any more."""
    for name, row in before.items():
        if row["held"] and name in now and not now[name]["held"]:
            yield f"{name}: {now[name]['is']} is below {row['goal']}; it was {row['is']}"


def table(results: Mapping[str, Any]) -> str:
    """Return a Markdown table for each set."""
    blocks = []
    for name, of in results.items():
        measures = list(next(iter(of["systems"].values())))
        lines = [
            f"### {name}: {of['questions']} questions",
            "",
            f"| system | {' | '.join(measures)} |",
            f"|---|{'---|' * len(measures)}",
        ]
        best = {m: max(row[m] for row in of["systems"].values()) for m in measures}
        for system, row in of["systems"].items():
            cells = [
                f"**{row[m]:.3f}**" if row[m] == best[m] else f"{row[m]:.3f}" for m in measures
            ]
            lines.append(f"| {system} | {' | '.join(cells)} |")
        for measure, versus in of.get("against best baseline", {}).items():
            low, high = versus["low"], versus["high"]
            difference = f"{versus['difference']:+.3f} [{low:+.3f}, {high:+.3f}]"
            lines += ["", f"hybrid - {versus['baseline']}, {measure}: {difference}"]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def plot(results: Mapping[str, Any], beside: Path) -> None:
    """Draw one figure a set: recall of each system over k or over the budget."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    for name, of in results.items():
        measures = [m for m in next(iter(of["systems"].values())) if m.startswith(("R@", "C@"))]
        ticks = [int(m.partition("@")[2]) for m in measures]
        figure, axes = plt.subplots(figsize=(5, 3.2))
        for system, row in of["systems"].items():
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
        path = beside.with_name(f"{beside.stem}_{name.replace(' ', '_')}.svg")
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)
