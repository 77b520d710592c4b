r"""Which passages each way of retrieving finds: recall of the gold passages, on public questions.

From the repository's root:

    python benchmarks/quality.py --data ../shared/data --sets hotpotqa --split dev

Questions at even positions are `dev`, where constants may be chosen; the others are `report`. The
index of a set is kept in benchmarks/.cache, so that its vectors are made once. The title stands
before the text for every system.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from e2graphrag_integrations import E2GraphRAG, HybridStrategy, PaperStrategy, SourceDocument
from e2graphrag_integrations.retrieval.result import RetrievalResult

CACHE = Path(__file__).parent / ".cache"
CUTS = (2, 5, 10)
LISTS = {"dense": "dense", "bm25": "words", "rrf": "words and vectors", "ppr": "entities"}
"""Baselines are lists that the hybrid fuses, as its trace has them."""


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def index_of(folder: Path) -> E2GraphRAG:
    """Open the index of a set, made at first."""
    CACHE.mkdir(exist_ok=True)
    rag = E2GraphRAG.open(CACHE / f"{folder.name}.e2g")
    documents = [
        SourceDocument(str(one["id"]), one["text"], title=one["title"])
        for one in lines(folder / "corpus.jsonl")
    ]
    for at in range(0, len(documents), 500):
        rag.add(documents[at : at + 500])
        print(f"{folder.name}: {min(at + 500, len(documents))} of {len(documents)}", flush=True)
    return rag


def passages(node_ids: Iterable[str], document_of: dict[str, str]) -> list[str]:
    return list(dict.fromkeys(document_of[id_] for id_ in node_ids))


def ranked(rag: E2GraphRAG, question: str, document_of: dict[str, str]) -> dict[str, list[str]]:
    """Return the passages that each system finds, best first."""
    hybrid = rag.retrieve(question, k=2 * max(CUTS), strategy=HybridStrategy())
    paper = rag.retrieve(question, k=2 * max(CUTS), strategy=PaperStrategy())

    def found(result: RetrievalResult) -> list[str]:
        return passages((node.node_id for node in result.nodes), document_of)

    lists = {
        name: passages((one.node_id for one in hybrid.trace.lists.get(own, ())), document_of)
        for name, own in LISTS.items()
    }
    return lists | {"paper": found(paper), "hybrid": found(hybrid)}


def scores(found: Sequence[str], gold: set[str]) -> dict[str, float]:
    first = next((rank for rank, one in enumerate(found, 1) if one in gold), 0)
    recall = {f"R@{cut}": len(gold & set(found[:cut])) / len(gold) for cut in CUTS}
    return recall | {"all@5": float(gold <= set(found[:5])), "MRR": 1 / first if first else 0.0}


def measured(folder: Path, split: str) -> dict[str, Any]:
    rag = index_of(folder)
    everything = lines(folder / "questions.jsonl")
    asked = [one for one in everything[0 if split == "dev" else 1 :: 2] if one["gold_ids"]]
    document_of = {s.node.id: s.node.document_id for s in rag.store.all_nodes()}
    rows: dict[str, list[dict[str, float]]] = {}
    began = time.perf_counter()
    for one in asked:
        for system, found in ranked(rag, one["question"], document_of).items():
            gold = {str(id_) for id_ in one["gold_ids"]}
            rows.setdefault(system, []).append(scores(found, gold))
    rag.close()
    table = {
        system: {name: round(statistics.mean(r[name] for r in of), 4) for name in of[0]}
        for system, of in rows.items()
    }
    seconds = round(time.perf_counter() - began, 1)
    return {"questions": len(asked), "passages": len(document_of), "seconds": seconds} | table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", default="hotpotqa")
    parser.add_argument("--split", choices=("dev", "report"), default="dev")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    result: dict[str, Any] = {"command": " ".join(["python", *sys.argv]), "split": options.split}
    for name in options.sets.split(","):
        result[name] = measured(options.data / name, options.split)
    print(json.dumps(result, indent=2))
    if options.out:
        options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
