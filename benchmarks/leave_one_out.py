r"""Choose settings of the hybrid on all dev sets but one, and report them on the set left out.

From the repository's root, after `make bench-quality` has built the indexes:

    python benchmarks/leave_one_out.py --data ../shared/data --every 2 \
        --grid coverage_factor=0,1,2,4 --grid gate=1,2 --out benchmarks/results/leave_one_out.json

Every combination of the grid is a setting; `--systems` adds others (`hybrid:rrf_k=2+gate=1`).
The settings are compared by the main measure minus that of the best baseline, averaged over the
protocols of a set and then over the sets. A set that is left out is left out in all its protocols,
together with its questions about entire documents.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import md_tables
from quality_bench.corpora import LABELS
from quality_bench.evaluate import HEADLINE, Scores, evaluate_all
from runs import parser_of, this_run, write_result

FLAT = ("dense", "bm25", "rrf", "rrf60")

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


def choose(of_sets: Differences, names: Iterable[str]) -> str:
    """Return the setting with the best mean difference on the named sets; the first wins ties."""
    rows = [of_sets[name] for name in names]
    return max(
        rows[0],
        key=lambda setting: round(
            statistics.mean(statistics.mean(row[setting]) for row in rows), 6
        ),
    )


def leave_one_out(scores: Sequence[Scores], settings: Sequence[str]) -> dict[str, Any]:
    """Return the setting chosen without each set, and its measures on that set."""
    of_sets = differences(scores, settings)
    chosen = {left: choose(of_sets, [name for name in of_sets if name != left]) for left in of_sets}
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
    return {"chosen on all sets": choose(of_sets, of_sets), "left out": rows}


def left_out_table(result: Mapping[str, Any]) -> str:
    """Return the sets that were left out as a Markdown table."""
    head = ("left out", "measure", "questions", "chosen without it", "it", "default",
            "best for the set", "minus the best baseline")  # fmt: skip
    rows = []
    for label, row in result["left out"].items():
        versus = row["against best baseline"]
        cells = (
            label + (" (control)" if row["control"] else ""),
            row["measure"],
            row["questions"],
            _short(row["chosen"]),
            f"{row['mean']:.3f}",
            f"{row['default']:.3f}",
            f"{row['best']:.3f} ({_short(row['best setting'])})",
            f"{md_tables.difference(versus)} ({versus['baseline']})",
        )
        rows.append(cells)
    return md_tables.table(head, rows)


def _short(setting: str) -> str:
    return "default" if setting == "hybrid" else setting.removeprefix("hybrid:").replace("+", ", ")


def main() -> None:
    parser = parser_of(__doc__, "data", "out")
    parser.add_argument("--sets", default=",".join(LABELS))
    parser.add_argument("--grid", action="append", default=[], help="NAME=VALUE,VALUE; repeatable")
    parser.add_argument("--systems", default="", help="further settings, separated by commas")
    parser.add_argument("--every", type=int, default=1, help="use every n-th question")
    parser.add_argument("--workers", type=int, default=2, help="number of processes")
    options = parser.parse_args()
    labels = options.sets.split(",")
    settings = settings_of(options.grid, [name for name in options.systems.split(",") if name])
    scores: list[Scores] = []
    for done in evaluate_all(
        options.data,
        labels,
        [*FLAT, *settings],
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
            name: round(one.mean(name, HEADLINE[one.kind][0]), 4) for name in [*FLAT, *settings]
        }
        for one in scores
    }
    result = this_run() | leave_one_out(scores, settings) | {"means": means}
    write_result(result, options.out)
    print(left_out_table(result))


if __name__ == "__main__":
    main()
