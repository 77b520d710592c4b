r"""Which passages and spans each way of retrieving finds, on public questions; no language model.

From the repository's root:

    python benchmarks/quality.py --data ../shared/data --sets hotpotqa,lihuaworld --split dev
    make bench-quality      # the report split of all sets, with tables, plots and goals

Even positions are `dev`, where constants may be chosen; odd ones are `report`: of questions for
passage sets, of documents for long ones. The index of a set is kept in benchmarks/.cache, vectors
by the hash of their texts. The title stands before the text for every system; budgets are words
times 1.3 for every system.
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
from quality_bench.report import goals, lost, plot, table
from quality_bench.systems import ABLATIONS, BASELINES, system
from runs import this_run

HEADLINE = {False: ("R@5", "all@5"), True: ("R@2000", "R@4000")}
BROAD = {"qmsum": "general", "graphrag_bench_novel": "Contextual Summarize"}
"""Questions about the whole: what the tree is for."""


def measured(corpus: Corpus, systems: Sequence[str], split: str, every: int = 1) -> dict[str, Any]:
    rag = corpus.index()
    asked = corpus.questions(split)[::every]
    began = time.perf_counter()
    results: dict[str, Any] = {}
    if corpus.long:
        lengths = {one.id: len(one.text) for one in corpus.documents()}
        local = [one for one in asked if one.spans]
        rows = {name: [spans(rag, one, system(name), lengths) for one in local] for name in systems}
        results[corpus.name] = summed(rows, HEADLINE[True]) | {"questions": len(local)}
        broad = [one for one in asked if one.kind == BROAD[corpus.name]]
        rows = {name: [coverage(rag, one, system(name)) for one in broad] for name in systems}
        results[f"{corpus.name} coverage"] = summed(rows, ()) | {"questions": len(broad)}
    else:
        document_of = {s.node.id: s.node.document_id for s in rag.store.all_nodes()}
        rows = {
            name: [passages(rag, one, system(name), document_of) for one in asked]
            for name in systems
        }
        results[corpus.name] = summed(rows, HEADLINE[False]) | {"questions": len(asked)}
    results[corpus.name]["milliseconds"] = latencies(rag, sample(asked), system("hybrid"))
    results[corpus.name]["nodes"] = rag.stats().chunks + rag.stats().summaries
    results[corpus.name]["seconds"] = round(time.perf_counter() - began, 1)
    rag.close()
    return results


def sample(asked: Sequence[Question], count: int = 200) -> Sequence[Question]:
    return asked[:: max(1, len(asked) // count)]


def summed(rows: dict[str, list[dict[str, float]]], headline: Sequence[str]) -> dict[str, Any]:
    """Return means, and the hybrid's paired differences to the best baseline."""
    means = {
        name: {m: round(statistics.mean(row[m] for row in of), 4) for m in of[0]}
        for name, of in rows.items()
        if of
    }
    result: dict[str, Any] = {"systems": means}
    inside = [name for name in BASELINES if name in means]
    if headline and inside and "hybrid" in means:
        result["against best baseline"] = {}
        for measure in headline:
            best = max(inside, key=lambda name: means[name][measure])
            versus = interval(
                [row[measure] for row in rows["hybrid"]], [row[measure] for row in rows[best]]
            )
            result["against best baseline"][measure] = {"baseline": best} | versus
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", default="hotpotqa,lihuaworld,qmsum,graphrag_bench_novel")
    parser.add_argument("--systems", default="dense,bm25,rrf,paper,hybrid")
    parser.add_argument("--ablations", action="store_true", help="the hybrid without each part")
    parser.add_argument("--split", choices=("dev", "report"), default="dev")
    parser.add_argument("--every", type=int, default=1, help="ask every n-th question only")
    parser.add_argument("--out", type=Path, help="JSON; a .md and plots are written beside it")
    options = parser.parse_args()
    systems = options.systems.split(",") + (list(ABLATIONS) if options.ablations else [])
    sets: dict[str, Any] = {}
    for corpus in corpora(options.data, options.sets.split(",")):
        sets |= measured(corpus, systems, options.split, options.every)
        print(table({corpus.name: sets[corpus.name]}), flush=True)
    reached = goals(sets)
    result = {
        **this_run(),
        "numpy": np.__version__,
        "split": options.split,
        "sets": sets,
        "goals": reached,
    }
    print(json.dumps(reached, indent=2))
    failures: list[str] = []
    if options.out:
        if options.out.exists():
            before = json.loads(options.out.read_text(encoding="utf-8")).get("goals", {})
            failures = list(lost(before, reached))
        if not failures:
            options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
            options.out.with_suffix(".md").write_text(table(sets), encoding="utf-8")
            plot(sets, options.out)
    if failures:
        raise SystemExit("no longer reached:\n" + "\n".join(failures))


if __name__ == "__main__":
    main()
