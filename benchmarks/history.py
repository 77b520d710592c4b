r"""Measure how retrieval uses the history of a conversation.

From the repository's root:

    python benchmarks/history.py --data ../shared/data --out benchmarks/results/history.json

With `--split dev`, it measures the half on which the constants were chosen.

Asks the questions of mtrag_un that have a history, with the default strategy, in the protocol
`text`. The baselines put earlier turns in front of the question. `history_labels.json` states which
questions are complete. Conversations are split by the first byte of the SHA-256 of their id: even
for "dev", on which the constants were chosen, odd for "report".

For hotpotqa, whose questions are complete, the history is that of another conversation: three other
questions and their answers, drawn with a fixed seed.
"""

from __future__ import annotations

import hashlib
import json
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2graphrag_integrations import E2GraphRAG
from e2graphrag_integrations.retrieval.strategy import MAX_QUESTION
from goals import Goal, finish
from quality_bench.corpora import Corpus, corpora
from quality_bench.measures import interval
from runs import parser_of, this_run

LABELS = Path(__file__).with_name("history_labels.json")

GROUPS = ("follow_up", "complete", "unrelated")

HOTPOTQA = "hotpotqa, random history"

OURS, ALONE = "history", "the question alone"

RANDOM_TURNS = 3
"""Number of random questions, each with its answer, in front of a question of hotpotqa."""

_RANKED = 20
"""Passages to ask for, so that five different documents are among them."""

Turns = Sequence[Mapping[str, str]]


@dataclass(frozen=True)
class Asked:
    """A question with its history and its gold passages."""

    text: str
    history: Turns
    gold: frozenset[str]


def _users(turns: Turns) -> list[str]:
    return [turn["content"] for turn in turns if turn["role"] == "user"]


BASELINES: Mapping[str, Callable[[Turns], list[str]]] = {
    ALONE: lambda _: [],
    "all turns": lambda turns: [turn["content"] for turn in turns],
    "all turns of the user": _users,
    "last two turns of the user": lambda turns: _users(turns)[-1:],
    "last three turns of the user": lambda turns: _users(turns)[-2:],
    "last exchange": lambda turns: [turn["content"] for turn in turns[-2:]],
}
"""The earlier turns that each baseline puts in front of the question; the question is a turn."""


def recall(rag: E2GraphRAG, asked: Asked, system: str) -> float:
    """Return the fraction of the gold passages among the first five documents."""
    if system == OURS:
        result = rag.retrieve(asked.text, k=_RANKED, history=list(asked.history))
    else:
        text = "\n".join([*BASELINES[system](asked.history), asked.text])
        result = rag.retrieve(text[-MAX_QUESTION:], k=_RANKED)
    ranked = list(dict.fromkeys(node.document_id for node in result.nodes))[:5]
    return len(asked.gold.intersection(ranked)) / len(asked.gold)


def conversations(data: Path, split: str) -> dict[str, list[Asked]]:
    """Return the questions of mtrag_un in one half, by group."""
    labels = json.loads(LABELS.read_text(encoding="utf-8"))
    group = {id_: name for name in GROUPS for id_ in labels[name]}
    found: dict[str, list[Asked]] = {name: [] for name in GROUPS}
    with (data / "mtrag_un" / "questions.jsonl").open(encoding="utf-8") as file:
        for row in map(json.loads, file):
            first = hashlib.sha256(row["conversation"].encode()).digest()[0]
            if row["history"] and first % 2 == (split == "report"):
                asked = Asked(row["question"], row["history"], frozenset(row["gold_ids"]))
                found[group[row["id"]]].append(asked)
    return found


def random_histories(corpus: Corpus, split: str) -> list[Asked]:
    """Return the questions of a set, each with a history of other questions and answers."""
    questions, draw = corpus.questions(split), random.Random(0)  # noqa: S311 - no secret
    found = []
    for number, question in enumerate(questions):
        others = draw.sample([n for n in range(len(questions)) if n != number], RANDOM_TURNS)
        turns = [
            {"role": role, "content": content}
            for other in others
            for role, content in (
                ("user", questions[other].text),
                ("assistant", questions[other].answer),
            )
        ]
        found.append(Asked(question.text, turns, question.gold))
    return found


def compare(rag: E2GraphRAG, asked: Sequence[Asked], systems: Sequence[str]) -> dict[str, Any]:
    """Return the recall of each system, and the differences to it with intervals."""
    rows = {system: [recall(rag, one, system) for one in asked] for system in systems}
    found = {}
    for system, values in rows.items():
        found[system] = {"R@5": round(statistics.mean(values), 4)}
        if system != OURS:
            found[system]["history minus this"] = interval(rows[OURS], values)
    return {"questions": len(asked), "systems": found}


def goals_of(groups: Mapping[str, Any]) -> list[Goal]:
    """Return what the history should gain on follow-up questions, and at most lose on others."""
    follow_ups = groups["follow_up"]["systems"]
    best = max(BASELINES, key=lambda name: follow_ups[name]["R@5"])
    gain = follow_ups[best]["history minus this"]["difference"]
    lowest = {
        name: groups[name]["systems"][ALONE]["history minus this"]["low"]
        for name in ("complete", HOTPOTQA)
    }
    return [
        Goal(f"follow-up questions: gain over the best baseline, {best}", gain, min=0.05),
        *(
            Goal(f"{name}: lower end of the interval of the gain over {ALONE}", low, min=-0.02)
            for name, low in lowest.items()
        ),
    ]


def main() -> None:
    parser = parser_of(__doc__, "data")
    parser.add_argument("--split", choices=("dev", "report"), default="report")
    options = parser.parse_args()
    groups: dict[str, Any] = {}
    corpus = Corpus("mtrag_un", options.data / "mtrag_un", "passages", "text")
    with corpus.index() as rag:
        for name, asked in conversations(options.data, options.split).items():
            groups[name] = compare(rag, asked, [*BASELINES, OURS])
    [hotpotqa] = corpora(options.data, ["hotpotqa-text"])
    with hotpotqa.index() as rag:
        asked = random_histories(hotpotqa, options.split)
        groups[HOTPOTQA] = compare(rag, asked, [ALONE, OURS])
    result = this_run() | {"split": options.split, "groups": groups}
    finish(result, goals_of(groups), options.out)


if __name__ == "__main__":
    main()
