r"""Measure which passages and spans each system retrieves, on public data sets, without an LLM.

From the repository's root:

    python benchmarks/quality.py --data ../shared/data --sets hotpotqa,lihuaworld --split dev
    make bench-quality      # the report split of all sets, with tables, plots and goals

The `dev` split, for choosing constants, has the even positions; `report` has the odd ones: of the
questions in passage sets, of the documents in sets of long documents. Indexes are cached in
benchmarks/.cache. Every system reads the title in front of the text, and counts a budget as 1.3
tokens per word.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from quality_bench.corpora import Corpus, Question, corpora
from quality_bench.measures import coverage, interval, latencies, passages, spans
from quality_bench.report import goals, plot, regressions, table
from quality_bench.systems import ABLATIONS, BASELINES, system
from runs import this_run

HEADLINE = {False: ("R@5", "all@5"), True: ("R@2000", "R@4000")}
BROAD = {"qmsum": "general", "graphrag_bench_novel": "Contextual Summarize"}
"""Type of the questions about an entire document, which the summary tree is meant for."""


def measure(corpus: Corpus, systems: Sequence[str], split: str, every: int = 1) -> dict[str, Any]:
    rag = corpus.index()
    questions = corpus.questions(split)[::every]
    began = time.perf_counter()
    results: dict[str, Any] = {}
    if corpus.long:
        lengths = {one.id: len(one.text) for one in corpus.documents()}
        local = [one for one in questions if one.spans]
        rows = {name: [spans(rag, one, system(name), lengths) for one in local] for name in systems}
        results[corpus.name] = summarize(rows, HEADLINE[True]) | {"questions": len(local)}
        broad = [one for one in questions if one.kind == BROAD[corpus.name]]
        rows = {name: [coverage(rag, one, system(name)) for one in broad] for name in systems}
        results[f"{corpus.name} coverage"] = summarize(rows, ()) | {"questions": len(broad)}
    else:
        document_of = {s.node.id: s.node.document_id for s in rag.store.all_nodes()}
        rows = {
            name: [passages(rag, one, system(name), document_of) for one in questions]
            for name in systems
        }
        results[corpus.name] = summarize(rows, HEADLINE[False]) | {"questions": len(questions)}
    results[corpus.name]["milliseconds"] = latencies(rag, sample(questions), system("hybrid"))
    results[corpus.name]["nodes"] = rag.stats().chunks + rag.stats().summaries
    results[corpus.name]["seconds"] = round(time.perf_counter() - began, 1)
    rag.close()
    return results


def sample(questions: Sequence[Question], count: int = 200) -> Sequence[Question]:
    return questions[:: max(1, len(questions) // count)]


def summarize(rows: dict[str, list[dict[str, float]]], headline: Sequence[str]) -> dict[str, Any]:
    """Return the means, and the paired differences of the hybrid to the best baseline."""
    means = {
        name: {m: round(statistics.mean(row[m] for row in scores), 4) for m in scores[0]}
        for name, scores in rows.items()
        if scores
    }
    result: dict[str, Any] = {"systems": means}
    baselines = [name for name in BASELINES if name in means]
    if headline and baselines and "hybrid" in means:
        result["against best baseline"] = {}
        for measure in headline:
            best = max(baselines, key=lambda name: means[name][measure])
            difference = interval(
                [row[measure] for row in rows["hybrid"]], [row[measure] for row in rows[best]]
            )
            result["against best baseline"][measure] = {"baseline": best} | difference
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", default="hotpotqa,lihuaworld,qmsum,graphrag_bench_novel")
    parser.add_argument("--systems", default="dense,bm25,rrf,paper,hybrid")
    parser.add_argument(
        "--ablations", action="store_true", help="also run the hybrid without each of its parts"
    )
    parser.add_argument("--split", choices=("dev", "report"), default="dev")
    parser.add_argument("--every", type=int, default=1, help="use every n-th question")
    parser.add_argument(
        "--out", type=Path, help="JSON file; the tables (.md) and plots (.svg) are named after it"
    )
    options = parser.parse_args()
    systems = options.systems.split(",") + (list(ABLATIONS) if options.ablations else [])
    sets: dict[str, Any] = {}
    for corpus in corpora(options.data, options.sets.split(",")):
        sets |= measure(corpus, systems, options.split, options.every)
        print(table({corpus.name: sets[corpus.name]}), flush=True)
    result = {
        **this_run(),
        "numpy": np.__version__,
        "split": options.split,
        "sets": sets,
        "goals": goals(sets),
    }
    print(json.dumps(result["goals"], indent=2))
    if options.out:
        save(result, options.out)


def save(result: dict[str, Any], out: Path) -> None:
    """Write the result, its tables and plots, unless a goal that was met is missed now."""
    if out.exists():
        before = json.loads(out.read_text(encoding="utf-8")).get("goals", {})
        if failures := list(regressions(before, result["goals"])):
            raise SystemExit("goals that were met before:\n" + "\n".join(failures))
    out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    out.with_suffix(".md").write_text(table(result["sets"]), encoding="utf-8")
    plot(result["sets"], out)


if __name__ == "__main__":
    main()
