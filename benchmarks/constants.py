r"""What each constant of the hybrid does at half and at double its default, on dev halves.

From the repository's root, after `make bench-quality` has made the indexes:

    python benchmarks/constants.py --data ../shared/data --out benchmarks/results/constants.json

Writes a Markdown table beside the JSON. Every 4th question of hotpotqa, every 2nd of lihuaworld,
every 6th of qmsum and every 16th of the novels is asked.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from quality_bench.corpora import Corpus, corpora
from quality_bench.measures import passages, spans
from quality_bench.systems import system

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
    rag = corpus.index()
    asked = corpus.questions("dev")[:: EVERY[corpus.name]]
    lengths = {one.id: len(one.text) for one in corpus.documents()}
    document_of = {s.node.id: s.node.document_id for s in rag.store.all_nodes()}
    settings = ["hybrid", *(f"hybrid:{n}={v}" for n, tried in CONSTANTS.items() for v in tried)]
    means = {}
    for name in settings:
        strategy = system(name)
        if corpus.long:
            local = [one for one in asked if one.spans]
            rows = [spans(rag, one, strategy, lengths, (2000,))["R@2000"] for one in local]
        else:
            rows = [passages(rag, one, strategy, document_of)["R@5"] for one in asked]
        means[name] = round(statistics.mean(rows), 4)
    rag.close()
    return means


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
    result: dict[str, Any] = {"command": " ".join(["python", *sys.argv]), "sets": sets}
    options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    options.out.with_suffix(".md").write_text(table(sets), encoding="utf-8")
    print(table(sets))


if __name__ == "__main__":
    main()
