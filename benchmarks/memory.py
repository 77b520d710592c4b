r"""Find the session of a conversation that answers a later question.

    python benchmarks/memory.py --out benchmarks/results/memory.json

Generated dialogs of one person with an assistant: each session is a document with its date in the
metadata, and consists of small talk and of a few facts about friends. The same things happen in
several sessions, with other people. Questions about one fact use other words than the fact; those
about two facts need two sessions. The notes of meetings name people who share first names and
surnames, and a question is about one of them. Compares
all-MiniLM-L6-v2, BM25, their fusion and the hybrid.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from dataclasses import dataclass

from e2graphrag_integrations import E2GraphRAG, SourceDocument
from goals import Goal, finish
from quality_bench.systems import system
from runs import parser_of, this_run

_SEED = 20_261
_SESSIONS = 300
_SYSTEMS = ("dense", "bm25", "rrf", "hybrid")
_CUTOFFS = (1, 5, 10)

_FIRST = "Greta Malik Odile Tomas Ruth Iwan Salma Bruno Edda Yusuf Petra Colm".split()
_LAST = "Lindqvist Haddad Moreau Novak Brand Kowalski Farouk".split()
_PLACES = "Lisbon Bergen Graz Turin Leeds Gdansk Ghent Split Cork Porto Vilnius Basel".split()
_THINGS = "bike tent camera sofa kayak piano oven drone printer telescope".split()
_JOBS = "nurse welder translator beekeeper surveyor luthier pilot baker".split()
_PETS = "parrot rabbit terrier tortoise ferret cat".split()

_SMALL_TALK = (
    ("What should I cook tonight?", "A lentil soup is quick: onions, carrots and lentils."),
    ("How do I fix a slow laptop?", "Close what you do not need, and look at the disk space."),
    ("I slept badly again.", "Less light in the evening may help, and a fixed hour."),
    ("Can you shorten my mail?", "Of course: paste it here, and say who reads it."),
    ("It rains all week here.", "Then it is a good week for a museum."),
    ("Which stretch helps a stiff neck?", "Turn the head slowly to each side, five times."),
)
_MEETINGS = 120
_TOPICS = "budget roof harbor tender payroll website safety grant archive canteen parking".split()
_ABOUT_PEOPLE = ("Which meetings did {} attend?", "What did {} say?", "When was {} present?")
_ANSWERS = ("Noted.", "That sounds good.", "I will remember that.", "Thanks for telling me.")

Fact = tuple[str, str]
"""What is said, and a question that it answers."""


@dataclass(frozen=True)
class Asked:
    """A question, its kind, and the texts that answer it."""

    text: str
    kind: str
    gold: frozenset[str]


def facts(chance: random.Random, friend: str) -> Iterator[Fact]:
    """Yield facts about a friend, in random order."""
    thing, place, other = (chance.choice(one) for one in (_THINGS, _PLACES, _PLACES))
    job, pet, price = chance.choice(_JOBS), chance.choice(_PETS), chance.randint(40, 900)
    first = friend.split(maxsplit=1)[0]
    yield from chance.sample(
        [
            (
                f"I bought a used {thing} from {friend} for {price} euros.",
                f"How much did I pay {first} for the {thing}?",
            ),
            (
                f"{friend} moved to {place} and works there as a {job}.",
                f"Which city does {friend} live in?",
            ),
            (f"{friend} got a {pet} last weekend.", f"What kind of animal has {friend}?"),
            (
                f"We met {friend} on the train to {other}, by chance.",
                f"Where were we going when we ran into {friend}?",
            ),
        ],
        4,
    )


def dialogs() -> tuple[list[SourceDocument], list[Asked]]:
    """Return the sessions and the questions."""
    chance = random.Random(_SEED)  # noqa: S311 - reproducible text, not a secret
    friends = [f"{first} {last}" for first in _FIRST for last in _LAST]
    told = [(friend, *fact) for friend in friends for fact in facts(chance, friend)]
    chance.shuffle(told)
    sessions: list[list[str]] = [[] for _ in range(_SESSIONS)]
    asked, bought, lives = [], {}, {}
    for number, (friend, said, question) in enumerate(told):
        day = number % _SESSIONS
        sessions[day].append(f"User: {said}\nAssistant: {chance.choice(_ANSWERS)}")
        asked.append(Asked(question, "one session", frozenset([_date(day)])))
        if "used" in said:
            bought[friend] = day, said
        if "moved" in said:
            lives[friend] = day
    for friend, (day, said) in bought.items():
        what = said[said.index("used") :].replace(f" from {friend}", "").rstrip(".")
        text = f"Where does the person live now who sold me a {what}?"
        gold = frozenset([_date(day), _date(lives[friend])])
        asked.append(Asked(text, "two sessions", gold))
    for turns in sessions:
        turns += [f"User: {a}\nAssistant: {b}" for a, b in chance.sample(_SMALL_TALK, 3)]
        chance.shuffle(turns)
    documents = [
        SourceDocument(_date(day), "\n\n".join(turns), metadata={"date": _date(day)})
        for day, turns in enumerate(sessions)
    ]
    return documents, asked


def meetings() -> tuple[list[SourceDocument], list[Asked]]:
    """Return notes of meetings, and questions about the people who were there."""
    chance = random.Random(_SEED)  # noqa: S311 - reproducible text, not a secret
    people = chance.sample([f"{first} {last}" for first in _FIRST for last in _LAST], 40)
    notes, attended = [], {person: set[str]() for person in people}
    for number in range(_MEETINGS):
        some, topics = chance.sample(people, 3), chance.sample(_TOPICS, 2)
        text = (
            f"Meeting of the {topics[0]} group. Present were {some[0]}, {some[1]} and {some[2]}. "
            f"{some[0].split()[0]} reported on the {topics[1]}. {some[1]} asked for figures."
        )
        notes.append(SourceDocument(f"meeting-{number:03}", text))
        for person in some:
            attended[person].add(notes[-1].id)
    return notes, [
        Asked(question.format(person), "meetings of a person", frozenset(gold))
        for person, gold in attended.items()
        for question in _ABOUT_PEOPLE
        if gold
    ]


def _date(day: int) -> str:
    return (dt.date(2025, 1, 1) + dt.timedelta(days=day)).isoformat()


def main() -> None:
    options = parser_of(__doc__, data=False).parse_args()
    scores: dict[str, dict[str, dict[str, float]]] = {}
    for documents, asked in (dialogs(), meetings()):
        with E2GraphRAG.open(":memory:") as rag:
            rag.add(documents)
            for kind in dict.fromkeys(one.kind for one in asked):
                own = [one for one in asked if one.kind == kind]
                scores[f"{kind}, {len(own)} questions"] = {
                    name: recall(rag, own, name) for name in _SYSTEMS
                }
    goals = [
        Goal(f"{kind}, R@10 minus the best other", round(row["hybrid"]["R@10"] - best, 3), min=0)
        for kind, row in scores.items()
        for best in [max(row[name]["R@10"] for name in _SYSTEMS[:-1])]
    ]
    result = {"sessions": _SESSIONS, "meetings": _MEETINGS, "evidence": scores}
    finish({**this_run(), **result}, goals, options.out)


def recall(rag: E2GraphRAG, asked: list[Asked], name: str) -> dict[str, float]:
    """Return the share of the texts with evidence among the first hits, for each cutoff.

    A cutoff below their number asks for as many as it has places for.
    """
    strategy, shares = system(name), dict.fromkeys(_CUTOFFS, 0.0)
    for one in asked:
        nodes = rag.retrieve(one.text, k=max(_CUTOFFS), strategy=strategy).nodes
        found = [node.document_id for node in nodes]
        for k in _CUTOFFS:
            most = min(k, len(one.gold))
            shares[k] += len(one.gold & set(found[:k])) / most / len(asked)
    return {f"R@{k}": round(share, 3) for k, share in shares.items()}


if __name__ == "__main__":
    main()
