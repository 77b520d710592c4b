r"""Compare the route of labelled questions with their labels, over novels and meetings.

    python benchmarks/routes.py --data ../shared/data --out benchmarks/results/routes.json

Each novel is one document of an index, and the meetings are the documents of another. The route
does not depend on vectors, so they are hashed. No model is called.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from e2graphrag_integrations import E2GraphRAG, SourceDocument
from goals import Goal, exit_if_missed
from route_questions import HELD_OUT, SEEN, TUNING
from runs import this_run, write_result

_TITLES = {
    "the_time_machine": "The Time Machine",
    "pride_and_prejudice": "Pride and Prejudice",
    "moby_dick": "Moby-Dick; or, The Whale",
    "war_and_peace": "War and Peace",
}
_SPLITS = {"tuning": TUNING, "seen": SEEN, "held out": HELD_OUT}
_MIN_SHARE = 0.95


def documents_of(name: str, data: Path) -> list[SourceDocument]:
    """Return a novel as one document, or the meetings."""
    if name in _TITLES:
        text = (data / "novels" / f"{name}.txt").read_text(encoding="utf-8")
        return [SourceDocument(name, text, title=_TITLES[name])]
    lines = (data / name / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [SourceDocument(row["id"], row["text"], title=row["title"] or None) for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    right: dict[str, list[bool]] = {split: [] for split in _SPLITS}
    wrong: dict[str, list[str]] = {split: [] for split in _SPLITS}
    for name in HELD_OUT:
        with (
            tempfile.TemporaryDirectory() as folder,
            E2GraphRAG.open(Path(folder) / "index.e2g", embedder="hashing") as rag,
        ):
            rag.add(documents_of(name, options.data))
            for split, texts in _SPLITS.items():
                for expected, questions in texts.get(name, {}).items():
                    for question in questions.strip().splitlines():
                        trace = rag.retrieve(question, k=1).trace
                        right[split].append(trace.route == expected)
                        if trace.route != expected:
                            wrong[split].append(f"{name}, {expected}: {question} ({trace.reason})")
    shares = {split: sum(values) / len(values) for split, values in right.items()}
    goals = [
        Goal("share of held-out questions with their route", shares["held out"], min=_MIN_SHARE)
    ]
    result = {
        **this_run(),
        "questions": {split: len(values) for split, values in right.items()},
        "share with their route": {split: round(share, 4) for split, share in shares.items()},
        "other route": wrong,
        "goals": [goal.to_dict() for goal in goals],
    }
    write_result(result, options.out)
    exit_if_missed(goals)


if __name__ == "__main__":
    main()
