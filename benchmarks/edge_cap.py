r"""Measure how a cap on the edges per entity affects the graph's size and the retrieval quality.

From the repository's root, after `make bench-quality` has built the indexes:

    python benchmarks/edge_cap.py --data ../shared/data --out benchmarks/results/edge_cap.json

Asks the same questions of the dev halves as `constants.py`. Of the hybrid's lists only the path
chunks read edges.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from constants import EVERY
from e2graphrag_integrations import HybridStrategy, PaperStrategy
from e2graphrag_integrations.graph.builder import cap_degrees
from quality_bench.corpora import Corpus, corpora
from quality_bench.measures import headlines
from runs import answer_from, this_run

CAPS = (1_000_000, 1000, 300, 100, 30, 10)
STRATEGIES = {
    "paper": PaperStrategy(),
    "hybrid with path chunks": HybridStrategy(use_path_chunks=True),
}


def measure(corpus: Corpus) -> dict[str, Any]:
    """Return the number of edges and the headline measures for each cap."""
    results = {}
    with corpus.index() as rag:
        snapshot = rag._session.snapshot()  # noqa: SLF001 - to replace its graph
        for cap in CAPS:
            graph = replace(snapshot.graph, edges=cap_degrees(snapshot.graph.edges, cap))
            answer_from(rag, replace(snapshot, graph=graph))
            results[str(cap)] = {
                "edges": graph.edges.nnz // 2,
                **headlines(rag, corpus, STRATEGIES, EVERY[corpus.name]),
            }
            print(corpus.name, cap, results[str(cap)], flush=True)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    sets = {corpus.name: measure(corpus) for corpus in corpora(options.data, list(EVERY))}
    result = {**this_run(), "sets": sets}
    options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
