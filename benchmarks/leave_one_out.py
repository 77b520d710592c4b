r"""Choose settings of the hybrid on all dev sets but one, and report them on the set left out.

From the repository's root, after `make bench-quality` has built the indexes:

    python benchmarks/leave_one_out.py --data ../shared/data --every 2 \
        --grid coverage_factor=0,1,2,4 --grid gate=1,2 --out benchmarks/results/leave_one_out.json

Every combination of the grid is a setting; `--systems` adds others (`hybrid:rrf_k=2+gate=1`).
The settings are compared by the main measure minus that of the best baseline, averaged over the
protocols of a set and then over the sets. A set that is left out is left out in all its protocols,
together with its questions about entire documents. Writes the JSON file and a Markdown table with
the same name.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from quality_bench.corpora import LABELS, corpora
from quality_bench.evaluate import HEADLINE, Scores, estimate, evaluate_all
from quality_bench.report import left_out_table
from runs import this_run

FLAT = ("dense", "bm25", "rrf", "rrf60")

OBJECTIVES: Mapping[str, Callable[[Iterable[float]], float]] = {
    "mean": statistics.mean,
    "min": min,
}
"""How the differences on several sets are combined: `min` looks at the worst set only."""

Differences = Mapping[str, Mapping[str, Sequence[float]]]
"""For each set and setting, the mean difference to the best baseline in each protocol."""


def settings_of(grids: Sequence[str], systems: Sequence[str]) -> list[str]:
    """Return the settings to compare: the default, the grid's combinations, and the systems.

    >>> settings_of(["gate=1,2", "rrf_k=2"], ["no-gate"])
    ['hybrid', 'hybrid:gate=1+rrf_k=2', 'hybrid:gate=2+rrf_k=2', 'no-gate']
    """
    axes = []
    for grid in grids:
        name, _, values = grid.partition("=")
        axes.append([f"{name}={value}" for value in values.split(",")])
    combined = [f"hybrid:{'+'.join(values)}" for values in product(*axes)] if axes else []
    return list(dict.fromkeys(["hybrid", *combined, *systems]))


def differences(scores: Sequence[Scores], settings: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the differences to the best baseline, by set and setting."""
    found: dict[str, dict[str, list[float]]] = {}
    for one in scores:
        measure = HEADLINE[one.kind][0]
        best = one.mean(one.best_baseline(measure), measure)
        rows = found.setdefault(one.name, {})
        for name in settings:
            rows.setdefault(name, []).append(one.mean(name, measure) - best)
    return found


def choose(of_sets: Differences, names: Iterable[str], objective: str) -> str:
    """Return the setting with the best differences on the named sets; the first wins ties."""
    rows = [of_sets[name] for name in names]
    combine = OBJECTIVES[objective]
    return max(
        rows[0],
        key=lambda setting: round(combine(statistics.mean(row[setting]) for row in rows), 6),
    )


def leave_one_out(
    scores: Sequence[Scores], settings: Sequence[str], objective: str
) -> dict[str, Any]:
    """Return the setting chosen without each set, and its measures on that set."""
    of_sets = differences(scores, settings)
    chosen = {
        left: choose(of_sets, [name for name in of_sets if name != left], objective)
        for left in of_sets
    }
    rows: dict[str, Any] = {}
    for one in scores:
        measure = HEADLINE[one.kind][0]
        means = {name: one.mean(name, measure) for name in settings}
        best = max(means, key=lambda name: means[name])
        rows[one.label] = {
            "measure": measure,
            "questions": len(one.rows[best]),
            "control": one.control,
            "chosen": chosen[one.name],
            "mean": round(means[chosen[one.name]], 4),
            "default": round(means["hybrid"], 4),
            "best setting": best,
            "best": round(means[best], 4),
            "against best baseline": one.against_best(one.rows[chosen[one.name]], measure),
        }
    return {"chosen on all sets": choose(of_sets, of_sets, objective), "left out": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", default=",".join(LABELS))
    parser.add_argument("--grid", action="append", default=[], help="NAME=VALUE,VALUE; repeatable")
    parser.add_argument("--systems", default="", help="further settings, separated by commas")
    parser.add_argument("--baselines", default=",".join(FLAT))
    parser.add_argument("--objective", choices=tuple(OBJECTIVES), default="mean")
    parser.add_argument("--every", type=int, default=1, help="use every n-th question")
    parser.add_argument("--workers", type=int, default=2, help="number of processes")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    labels = options.sets.split(",")
    settings = settings_of(options.grid, [name for name in options.systems.split(",") if name])
    baselines = options.baselines.split(",")
    print(estimate(corpora(options.data, labels), options.workers), flush=True)
    scores: list[Scores] = []
    for done in evaluate_all(
        options.data,
        labels,
        [*baselines, *settings],
        "dev",
        every=options.every,
        workers=options.workers,
    ):
        scores += done
        print(*(one.label for one in done), flush=True)
    order = [name for label in labels for name in (label, f"{label} coverage")]
    scores.sort(key=lambda one: order.index(one.label))
    means = {
        one.label: {
            name: round(one.mean(name, HEADLINE[one.kind][0]), 4)
            for name in [*baselines, *settings]
        }
        for one in scores
    }
    found = leave_one_out(scores, settings, options.objective)
    result = {**this_run(), "objective": options.objective, **found, "means": means}
    options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    options.out.with_suffix(".md").write_text(left_out_table(result), encoding="utf-8")
    print(left_out_table(result))


if __name__ == "__main__":
    main()
