r"""What each constant of the hybrid does at half and at double its default, on dev halves.

From the repository's root, after `make bench-quality` has made the indexes:

    python benchmarks/constants.py --data ../shared/data --out benchmarks/results/constants.json

Writes a Markdown table beside the JSON. Every 4th question of hotpotqa, every 2nd of lihuaworld,
every 6th of qmsum and every 16th of the novels is asked.
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
CONSTANTS = {
    "constant": (0.5, 2),
    "gate": (1, 4),
    "rarity": (0.5, 2),
    "sharpness": (1, 4),
    "share": (0.25, 0.75),
    "sources": (4, 16),
    "damping": (0.25, 0.75),
    "steps": (5, 20),
    "dense": (0.5, 2),
    "words": (0.5, 2),
    "entities": (0.5, 2),
    "bridges": (0.5, 2),
}
"""Two of them end at 1: they are tried at a quarter and at three quarters."""


def measured(corpus: Corpus) -> dict[str, float]:
    """Return the headline measure of a set for each setting."""
    names = ["hybrid", *(f"hybrid:{n}={v}" for n, tried in CONSTANTS.items() for v in tried)]
    with corpus.index() as rag:
        settings = {name: system(name) for name in names}
        return headlines(rag, corpus, settings, EVERY[corpus.name])


def table(sets: dict[str, dict[str, float]]) -> str:
    lines = [f"| setting | {' | '.join(sets)} |", f"|---|{'---|' * len(sets)}"]
    for name in next(iter(sets.values())):
        shown = "default" if name == "hybrid" else name.partition(":")[2].replace("=", " = ")
        cells = " | ".join(f"{of[name]:.3f}" for of in sets.values())
        lines.append(f"| {shown} | {cells} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    sets = {one.name: measured(one) for one in corpora(options.data, list(EVERY))}
    result: dict[str, Any] = {**this_run(), "sets": sets}
    options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    options.out.with_suffix(".md").write_text(table(sets), encoding="utf-8")
    print(table(sets))


if __name__ == "__main__":
    main()
