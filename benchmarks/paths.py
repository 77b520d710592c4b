r"""Measure the paths between the names of questions: how often they lead through gold passages.

From the repository's root, after `make bench-quality` has built the indexes:

    python benchmarks/paths.py --data ../shared/data --out benchmarks/results/paths.json

Asks dev questions of hotpotqa with at least two names in the index, with the cost of
`graph/chains.py` and with others. A hop counts as gold if a gold passage proves it.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from e2graphrag_integrations import E2GraphRAG, RetrievalResult
from e2graphrag_integrations.graph import chains
from quality_bench.corpora import Question, corpora
from runs import percentiles, this_run, write_result

Cost = Callable[[Any, Any, Any], Any]

COSTS: Mapping[str, Cost] = {
    "ln(1 + sqrt(df df) / weight)": chains._cost,  # noqa: SLF001 - the default
    "sqrt(df df) / weight": lambda df, other, weight: np.sqrt(df.astype(float) * other) / weight,
    "1 / weight": lambda _df, _other, weight: 1 / weight,
}


def measure(rag: E2GraphRAG, questions: Sequence[Question], cost: Cost) -> dict[str, Any]:
    """Return the figures of one cost function."""
    hops, recalls, seconds, counts = [], [], [], []
    with mock.patch.object(chains, "_cost", cost):
        for question in questions:
            result = rag.retrieve(question.text, k=5, paths=True)
            if names_in_graph(rag, result) < 2:  # noqa: PLR2004 - a path has two ends
                continue
            found = [hop for path in result.paths or () for hop in path.hops]
            hops += [hop.document_id in question.gold for hop in found]
            gold = question.gold & {hop.document_id for hop in found}
            recalls.append(len(gold) / len(question.gold))
            seconds.append(result.trace.timings["paths"])
            counts.append(len(result.paths or ()))
    return {
        "questions": len(recalls),
        "paths per question": round(statistics.mean(counts), 2),
        "hops in gold passages": round(statistics.mean(hops), 3),
        "recall of gold passages": round(statistics.mean(recalls), 3),
        "milliseconds": percentiles(seconds),
    }


def names_in_graph(rag: E2GraphRAG, result: RetrievalResult) -> int:
    return sum(link.entity in rag.graph.index for link in result.trace.links)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--every", type=int, default=3, help="use every n-th dev question")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    [corpus] = corpora(options.data, ["hotpotqa-text"])
    with corpus.index() as rag:
        questions = corpus.questions("dev")[:: options.every]
        costs = {name: measure(rag, questions, cost) for name, cost in COSTS.items()}
        edges = rag.graph.edges.nnz // 2
    write_result(this_run() | {"edges": edges, "costs": costs}, options.out)


if __name__ == "__main__":
    main()
