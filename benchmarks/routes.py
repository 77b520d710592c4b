"""Compare the route of labelled questions with their labels, over novels and meetings.

    python benchmarks/routes.py --data ../shared/data --out benchmarks/results/routes.json

Each novel is one document of an index, and the meetings are the documents of another. The route
does not depend on vectors, so they are hashed. No model is called.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from e2graphrag_integrations import E2GraphRAG, SourceDocument
from goals import Goal, finish
from runs import parser_of, this_run

QUESTIONS = Path(__file__).with_name("route_questions.json")

_TITLES = {
    "the_time_machine": "The Time Machine",
    "pride_and_prejudice": "Pride and Prejudice",
    "moby_dick": "Moby-Dick; or, The Whale",
    "war_and_peace": "War and Peace",
}
_SPLITS = ("tuning", "seen", "held out")
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
    options = parser_of(__doc__, "data").parse_args()
    labelled = json.loads(QUESTIONS.read_text(encoding="utf-8"))
    right: dict[str, list[bool]] = {split: [] for split in _SPLITS}
    wrong: dict[str, list[str]] = {split: [] for split in _SPLITS}
    for name in labelled["held out"]:
        with (
            tempfile.TemporaryDirectory() as folder,
            E2GraphRAG.open(Path(folder) / "index.e2g", embedder="hashing") as rag,
        ):
            rag.add(documents_of(name, options.data))
            for split in _SPLITS:
                for expected, questions in labelled[split].get(name, {}).items():
                    for question in questions:
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
    }
    finish(result, goals, options.out)


if __name__ == "__main__":
    main()
