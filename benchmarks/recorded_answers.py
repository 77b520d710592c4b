"""Record query results, and compare them after a refactoring.

Indexes parts of three data sets with the default models: hotpotqa (short passages), lihuaworld
(chats) and qmsum (long transcripts with a summary tree). Runs each question with three strategies
(paper, hybrid, hybrid with path chunks) and four sets of options (ten nodes; a token budget;
`mode="local"` filled up to ten nodes; a filter, with summaries expanded to leaves). Records node
ids, spans, routes and scores, and a hash of each exported index.

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
"""Number of documents and questions of each set, in the order of its files."""

STRATEGIES = {
    "paper": PaperStrategy(),
    "hybrid": HybridStrategy(),
    "hybrid_paths": HybridStrategy(use_path_chunks=True),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "nodes": {"k": 10},
    "budget": {"token_budget": 1500},
    "local": {"k": 10, "mode": "local", "fill": True},
    "filtered": {"k": 10, "where": {"half": "even"}, "expand": "leaves"},
}
TOLERANCE = 1e-6
"""Maximum difference of two equal scores."""


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def documents(folder: Path, count: int, questions: list[dict[str, Any]]) -> list[SourceDocument]:
    """Return the gold documents of the questions, then others in the order of the file."""
    gold = {id_ for one in questions for id_ in one.get("gold_ids", ())}
    rows = read_jsonl(folder / "corpus.jsonl")
    rows.sort(key=lambda row: row["id"] not in gold)
    return [
        SourceDocument(
            row["id"],
            row["text"],
            title=row.get("title"),
            metadata={"half": "odd" if number % 2 else "even"},
        )
        for number, row in enumerate(rows[:count])
    ]


def to_json(result: RetrievalResult) -> dict[str, Any]:
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
                node.found_by,
                node.score,
            ]
            for node in result.nodes
        ],
    }


def record(data: Path) -> Iterator[tuple[str, Any]]:
    """Yield the key and value of every entry; keys are set/question/strategy/options."""
    for name, (document_count, question_count) in SETS.items():
        folder = data / name
        questions = [one for one in read_jsonl(folder / "questions.jsonl") if one.get("gold_ids")][
            :question_count
        ]
        with E2GraphRAG.open(":memory:") as rag:
            rag.add(documents(folder, document_count, questions))
            exported = hashlib.sha256("\n".join(rag.export()).encode()).hexdigest()
            yield f"{name}/export", exported
            for one in questions:
                for strategy_name, strategy in STRATEGIES.items():
                    for option_name, options in OPTIONS.items():
                        key = f"{name}/{one['id']}/{strategy_name}/{option_name}"
                        answer = rag.retrieve(one["question"], strategy=strategy, **options)
                        yield key, to_json(answer)


def difference(before: Any, after: Any) -> str:
    """Describe the difference between two entries; empty if they are equal."""
    if isinstance(before, str) or before is None or after is None:
        return "" if before == after else f"{before} became {after}"
    if before["route"] != after["route"]:
        return f"route {before['route']} became {after['route']}"
    old, new = before["nodes"], after["nodes"]
    if [node[:-1] for node in old] != [node[:-1] for node in new]:
        return "different nodes or a different order"
    largest = max((abs(a[-1] - b[-1]) for a, b in zip(old, new, strict=True)), default=0.0)
    return "" if largest <= TOLERANCE else f"scores differ by up to {largest:.2e}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--out", type=Path, help="record to this file")
    action.add_argument("--check", type=Path, help="compare with this file")
    args = parser.parse_args()
    after = dict(record(args.data))
    if args.out:
        rows = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in after.items()]
        args.out.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
        print(f"{len(after)} entries recorded in {args.out}")
        return 0
    before = json.loads(args.check.read_text(encoding="utf-8"))
    different = 0
    for key in sorted({*before, *after}):
        message = difference(before.get(key), after.get(key))
        if message:
            different += 1
            print(f"{key}: {message}")
    print(f"{len(before)} entries compared, {different} differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
