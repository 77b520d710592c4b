r"""What a cap on the edges of each entity saves, and what it costs the paper's strategy.

From the repository's root, after `make bench-quality` has made the indexes:

    python benchmarks/edge_cap.py --data ../shared/data --out benchmarks/results/edge_cap.json

Dev halves, as many questions as `constants.py` asks. The hybrid's lists do not read edges; with
`path_chunks` one of them does.
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
from runs import this_run

CAPS = (1_000_000, 1000, 300, 100, 30, 10)
STRATEGIES = {"paper": PaperStrategy(), "hybrid, paths": HybridStrategy(use_path_chunks=True)}


def measured(corpus: Corpus) -> dict[str, Any]:
    rag = corpus.index()
    reader = rag._session  # noqa: SLF001 - to put another graph in its place
    whole = reader.snapshot()
    found = {}
    for cap in CAPS:
        graph = replace(whole.graph, edges=cap_degrees(whole.graph.edges, cap))
        reader._snapshot = replace(whole, graph=graph)  # noqa: SLF001
        found[str(cap)] = {
            "edges": graph.edges.nnz // 2,
            **headlines(rag, corpus, STRATEGIES, EVERY[corpus.name]),
        }
        print(corpus.name, cap, found[str(cap)], flush=True)
    rag.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    sets = {one.name: measured(one) for one in corpora(options.data, list(EVERY))}
    result = {**this_run(), "sets": sets}
    options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
