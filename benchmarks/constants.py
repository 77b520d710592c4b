r"""Measure `HybridStrategy` with half and double of each default, on the dev halves.

From the repository's root, after `make bench-quality` has built the indexes:

    python benchmarks/constants.py --data ../shared/data --out benchmarks/results/constants.json

Writes the JSON file and a Markdown table with the same name. Asks every 4th question of hotpotqa,
every 2nd of lihuaworld, every 6th of qmsum and every 16th of the novels.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from quality_bench.corpora import Corpus, corpora
from quality_bench.measures import headlines
from quality_bench.systems import system
from runs import this_run

EVERY = {"hotpotqa": 4, "lihuaworld": 2, "qmsum": 6, "graphrag_bench_novel": 16}
SETTINGS = {
    "rrf_k": (0.5, 2),
    "gate": (1, 4),
    "coverage_factor": (1, 4),
    "idf_power": (0.5, 2),
    "relevance_power": (1, 4),
    "neighbor_decay": (0.25, 0.75),
    "title_link_sources": (4, 16),
    "damping": (0.25, 0.75),
    "n_iter": (5, 20),
    "dense_weight": (0.5, 2),
    "bm25_weight": (0.5, 2),
    "entity_weight": (0.5, 2),
    "title_link_weight": (0.5, 2),
    "diversity": (0.15, 0.6),
    "diversity_pool": (10, 40),
}
"""Half and double of each default. Two settings cannot exceed 1: for them, 0.25 and 0.75."""


def measure(corpus: Corpus) -> dict[str, float]:
    """Return the headline measure of a set for each setting."""
    names = ["hybrid", *(f"hybrid:{n}={v}" for n, values in SETTINGS.items() for v in values)]
    with corpus.index() as rag:
        strategies = {name: system(name) for name in names}
        return headlines(rag, corpus, strategies, EVERY[corpus.name])


def table(sets: dict[str, dict[str, float]]) -> str:
    lines = [f"| setting | {' | '.join(sets)} |", f"|---|{'---|' * len(sets)}"]
    for name in next(iter(sets.values())):
        setting = "default" if name == "hybrid" else name.partition(":")[2].replace("=", " = ")
        cells = " | ".join(f"{measures[name]:.3f}" for measures in sets.values())
        lines.append(f"| {setting} | {cells} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    sets = {corpus.name: measure(corpus) for corpus in corpora(options.data, list(EVERY))}
    result: dict[str, Any] = {**this_run(), "sets": sets}
    options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    options.out.with_suffix(".md").write_text(table(sets), encoding="utf-8")
    print(table(sets))


if __name__ == "__main__":
    main()
