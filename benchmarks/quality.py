r"""Measure which passages and spans each system retrieves, on public data sets, without an LLM.

From the repository's root:

    python benchmarks/quality.py --data ../shared/data --sets hotpotqa-text,lihuaworld --split dev
    make bench-quality      # the report split of all English sets, with tables and goals
    make bench-quality SETS=zh      # that of the Chinese sets, with the multilingual embedder
    make bench-second-embedder      # the same configuration with another embedding model

The `dev` split, for choosing constants, has the even positions; `report` has the odd ones: of the
questions in sets of passages and pages, of the documents in sets of long documents. A set of
passages has three protocols: `hotpotqa` with the title in the title field, `hotpotqa-text` in the
first line of the text, and `hotpotqa-none` without titles. Every system reads the title in front of
the text, and counts a budget as 1.3 tokens per word.

Indexes and vectors are cached in benchmarks/.cache; a text is embedded once for all sets, protocols
and systems. Sets run in two processes, each with one thread.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from quality_bench.corpora import GROUPS, corpora, labels_of
from quality_bench.embedders import DEFAULT, EMBEDDERS
from quality_bench.evaluate import Scores, evaluate_all, pooled
from quality_bench.report import GOALS, goal_table, goals, no_loss, overview, regressions, table
from quality_bench.systems import ABLATIONS, BASELINES
from runs import parser_of, this_run

POOLED = {"wild": ("wild_mathematics", "wild_philosophy")}
"""Sets with few questions that are also compared together."""


def main() -> None:
    parser = parser_of(__doc__, "data")
    parser.add_argument(
        "--sets", default="en", help=f"labels of sets, or the groups {', '.join(GROUPS)}"
    )
    parser.add_argument("--systems", default=",".join([*BASELINES, "hybrid"]))
    parser.add_argument(
        "--ablations", action="store_true", help="also run the hybrid without each of its parts"
    )
    parser.add_argument(
        "--embedder", choices=tuple(EMBEDDERS), help="default: that of each set's language"
    )
    parser.add_argument("--split", choices=("dev", "report"), default="dev")
    parser.add_argument("--every", type=int, default=1, help="use every n-th question")
    parser.add_argument("--case", choices=("lower", "upper"), default="", help="of the questions")
    parser.add_argument("--workers", type=int, default=2, help="number of processes")
    options = parser.parse_args()
    labels = labels_of(options.sets.split(","))
    systems = options.systems.split(",") + (list(ABLATIONS) if options.ablations else [])
    began = time.perf_counter()
    model = options.embedder
    scores: dict[str, Scores] = {}
    for done in evaluate_all(
        options.data,
        labels,
        systems,
        options.split,
        model=model,
        every=options.every,
        workers=options.workers,
        case=options.case,
    ):
        scores |= {one.label: one for one in done}
        print(table({one.label: one.summary() for one in done}), flush=True)
    sets = summaries(scores, labels)
    measured = corpora(options.data, labels, model)
    minutes = round((time.perf_counter() - began) / 60, 1)
    result = {
        **this_run(),
        "numpy": np.__version__,
        "embedder": ", ".join(dict.fromkeys(EMBEDDERS[one.model][0] for one in measured)),
        "split": options.split,
        "every": options.every,
        "minutes": minutes,
        "sets": sets,
        "goals": goals(sets, GOALS if model in (None, DEFAULT) else no_loss(sets)),
    }
    print(overview(sets), goal_table(result["goals"]), f"{minutes} minutes", sep="\n")
    if options.out:
        save(result, options.out)


def summaries(scores: Mapping[str, Scores], labels: list[str]) -> dict[str, Any]:
    """Return the summary of each set, in the order of the labels, and of sets pooled."""
    found = {
        label: scores[label].summary()
        for name in labels
        for label in (name, f"{name} coverage")
        if label in scores
    }
    for name, parts in POOLED.items():
        if all(part in scores for part in parts):
            found[name] = pooled(name, [scores[part] for part in parts]).summary()
    return found


def save(result: dict[str, Any], out: Path) -> None:
    """Write the result and its tables, unless a goal that was met is missed now."""
    if out.exists():
        before = json.loads(out.read_text(encoding="utf-8")).get("goals", {})
        if failures := list(regressions(before, result["goals"])):
            raise SystemExit("goals that were met before:\n" + "\n".join(failures))
    out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    parts = overview(result["sets"]), goal_table(result["goals"]), table(result["sets"])
    out.with_suffix(".md").write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
