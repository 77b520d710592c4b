"""Answers of the whole query path, recorded once and compared after a refactoring.

Parts of three sets of ../shared/data are indexed with the default models: hotpotqa (short
passages), lihuaworld (chats) and qmsum (long transcripts with a summary tree). Each question is
asked with three strategies (the paper's, the hybrid, the hybrid with path chunks) in four ways (ten
nodes; a token budget; `mode="local"` filled up to ten; filtered, with summaries expanded to
leaves). The record holds node ids, spans, routes and scores, and a hash of the exported index.

    recorded_answers.py --data ../shared/data --out benchmarks/results/recorded_answers.json
    recorded_answers.py --data ../shared/data --check benchmarks/results/recorded_answers.json
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from e2graphrag_integrations import (
    E2GraphRAG,
    HybridStrategy,
    PaperStrategy,
    RetrievalResult,
    SourceDocument,
)

SETS = {"hotpotqa": (240, 12), "lihuaworld": (80, 12), "qmsum": (3, 12)}
"""Documents and questions taken from each set, in the order of its files."""

STRATEGIES = {
    "paper": PaperStrategy(),
    "hybrid": HybridStrategy(),
    "hybrid_paths": HybridStrategy(use_path_chunks=True),
}
WAYS: dict[str, dict[str, Any]] = {
    "nodes": {"k": 10},
    "budget": {"token_budget": 1500},
    "local": {"k": 10, "mode": "local", "fill": True},
    "filtered": {"k": 10, "where": {"half": "even"}, "expand": "leaves"},
}
TOLERANCE = 1e-6


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def documents(folder: Path, wanted: int, questions: list[dict[str, Any]]) -> list[SourceDocument]:
    """Return the gold documents of the questions, then others in the order of the file."""
    gold = {id_ for one in questions for id_ in one.get("gold_ids", ())}
    rows = lines(folder / "corpus.jsonl")
    rows.sort(key=lambda row: row["id"] not in gold)
    return [
        SourceDocument(
            row["id"],
            row["text"],
            title=row.get("title"),
            metadata={"half": "odd" if number % 2 else "even"},
        )
        for number, row in enumerate(rows[:wanted])
    ]


def shown(result: RetrievalResult) -> dict[str, Any]:
    return {
        "route": result.route,
        "nodes": [
            [
                node.node_id,
                node.level,
                node.document_id,
                node.start,
                node.end,
                [list(span) for span in node.spans],
                node.route,
                node.score,
            ]
            for node in result.nodes
        ],
    }


def record(data: Path) -> Iterator[tuple[str, Any]]:
    """Yield every answer under the names of its set, question, strategy and way."""
    for name, (wanted, asked) in SETS.items():
        folder = data / name
        questions = [one for one in lines(folder / "questions.jsonl") if one.get("gold_ids")][
            :asked
        ]
        with E2GraphRAG.open(":memory:") as rag:
            rag.add(documents(folder, wanted, questions))
            exported = hashlib.sha256("\n".join(rag.export()).encode()).hexdigest()
            yield f"{name}/export", exported
            for one in questions:
                for strategy_name, strategy in STRATEGIES.items():
                    for way, options in WAYS.items():
                        key = f"{name}/{one['id']}/{strategy_name}/{way}"
                        answer = rag.retrieve(one["question"], strategy=strategy, **options)
                        yield key, shown(answer)


def differences(before: Any, now: Any) -> str:
    """Return what differs between two answers, empty where nothing does."""
    if isinstance(before, str) or before is None or now is None:
        return "" if before == now else f"{before} became {now}"
    if before["route"] != now["route"]:
        return f"route {before['route']} became {now['route']}"
    old, new = before["nodes"], now["nodes"]
    if [node[:-1] for node in old] != [node[:-1] for node in new]:
        return "other nodes, or another order"
    far = max((abs(a[-1] - b[-1]) for a, b in zip(old, new, strict=True)), default=0.0)
    return "" if far <= TOLERANCE else f"scores differ by up to {far:.2e}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--out", type=Path)
    chosen.add_argument("--check", type=Path)
    args = parser.parse_args()
    now = dict(record(args.data))
    if args.out:
        rows = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in now.items()]
        args.out.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
        print(f"{len(now)} entries recorded in {args.out}")
        return 0
    before = json.loads(args.check.read_text(encoding="utf-8"))
    wrong = 0
    for key in sorted({*before, *now}):
        difference = differences(before.get(key), now.get(key))
        if difference:
            wrong += 1
            print(f"{key}: {difference}")
    print(f"{len(before)} entries compared, {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
