"""A generated world of people, for questions of one to four hops that no model has seen.

Each passage describes one person, in sentences that vary. A question follows relations from one
person to another ("What is the job of the employer of Orla Tamsin's mother?"); its gold passages
are those of everyone on the way. The idea is that of PhantomWiki (Gong et al. 2025), which is not
in a package registry.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_PEOPLE = 2_000
_QUESTIONS = 100
"""Questions of each number of hops."""

_MOST_HOPS = 4
_SEED = 20_250

_ONSETS = "b br d dr f g gr h j k kl l m n p pr r s sk st t tr v w z".split()
_VOWELS = "a e i o u ai ea io ou".split()
_CODAS = ["", "l", "m", "n", "nd", "r", "rk", "s", "th", "x"]

_RELATIONS = {
    "mother": (
        "{0}'s mother is {1}.",
        "{1} is the mother of {0}.",
        "{0} was raised by a mother, {1}.",
    ),
    "father": ("{0}'s father is {1}.", "{1} is the father of {0}.", "The father's name is {1}."),
    "best friend": (
        "{0}'s best friend is {1}.",
        "The best friend of {0} is {1}.",
        "{0} calls {1} a best friend.",
    ),
    "employer": ("{0} works for {1}.", "{1} is the employer of {0}.", "The employer is {1}."),
    "teacher": ("{0} was taught by {1}.", "{1} was the teacher of {0}.", "The teacher was {1}."),
}
_ATTRIBUTES = {
    "job": (
        "What is the job of {}?",
        ("{0} is a {1} by profession.", "{0} earns a living as a {1}.", "By trade, {0} is a {1}."),
        (
            "baker botanist brewer carpenter cartographer chemist clerk diver editor farmer glazier"
            " jeweler judge luthier mason midwife miner nurse optician painter pilot plumber potter"
            " printer sailor surgeon tailor translator typist weaver"
        ),
    ),
    "pastime": (
        "What is the favorite pastime of {}?",
        (
            "{0} likes {1} best.",
            "In the evening, {0} enjoys {1}.",
            "{0}'s favorite pastime is {1}.",
        ),
        (
            "archery astronomy badminton birdwatching bowling calligraphy canoeing checkers cricket"
            " croquet embroidery falconry fencing fishing gardening hiking judo juggling knitting"
            " origami photography pottery quilting rowing sailing skating surfing tennis whittling"
        ),
    ),
    "birthplace": (
        "Where was {} born?",
        ("{0} was born in {1}.", "The birthplace of {0} is {1}.", "{0} comes from {1}."),
        "",
    ),
}


@dataclass(frozen=True)
class _Person:
    name: str
    relations: dict[str, str]
    attributes: dict[str, str]


def write_world(folder: Path) -> None:
    """Write corpus.jsonl and questions.jsonl of the world, in the layout of the other sets."""
    draw = random.Random(_SEED)  # noqa: S311 - no secret
    names = _names(draw, _PEOPLE)
    people = {name: _person(name, names, draw) for name in names}
    folder.mkdir(parents=True, exist_ok=True)
    corpus = [
        {"id": number, "title": name, "text": _text(people[name], draw)}
        for number, name in enumerate(names)
    ]
    numbers = {name: number for number, name in enumerate(names)}
    questions = [
        _question(hops, people, numbers, draw)
        for _ in range(_QUESTIONS)
        for hops in range(1, _MOST_HOPS + 1)
        for _ in range(2)  # one of each half
    ]
    for file, rows in (("corpus", corpus), ("questions", questions)):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{file}.jsonl").write_text(lines, encoding="utf-8")


def _names(draw: random.Random, count: int) -> list[str]:
    """Return names of two words; many people share a first or a last name, as real ones do."""
    first = [_word(draw) for _ in range(count // 6)]
    last = [_word(draw) + draw.choice(["", "son", "ley", "mar"]) for _ in range(count // 3)]
    found: dict[str, None] = {}
    while len(found) < count:
        found[f"{draw.choice(first)} {draw.choice(last)}"] = None
    return list(found)


def _word(draw: random.Random) -> str:
    syllables = (draw.choice(_ONSETS) + draw.choice(_VOWELS) for _ in range(2))
    return ("".join(syllables) + draw.choice(_CODAS)).capitalize()


def _person(name: str, names: Sequence[str], draw: random.Random) -> _Person:
    others = draw.sample(names, len(_RELATIONS) + 1)
    relations = dict(zip(_RELATIONS, (one for one in others if one != name), strict=False))
    attributes = {
        key: draw.choice(values.split()) if values else _word(draw)
        for key, (_, _, values) in _ATTRIBUTES.items()
    }
    return _Person(name, relations, attributes)


def _text(person: _Person, draw: random.Random) -> str:
    """Return the facts about a person in random order, as sentences."""
    facts = [(_RELATIONS[key], value) for key, value in person.relations.items()]
    facts += [(_ATTRIBUTES[key][1], value) for key, value in person.attributes.items()]
    draw.shuffle(facts)
    sentences = [draw.choice(forms).format(person.name, value) for forms, value in facts]
    return " ".join(sentences)


def _question(
    hops: int, people: dict[str, _Person], numbers: dict[str, int], draw: random.Random
) -> dict[str, object]:
    """Return a question whose answer is in the passage of the last of `hops` people."""
    name = draw.choice(list(people))
    asked, on_the_way = name, [name]
    for _ in range(hops - 1):
        relation = draw.choice(list(people[name].relations))
        name = people[name].relations[relation]
        asked = f"{asked}'s {relation}" if draw.random() < 1 / 2 else f"the {relation} of {asked}"
        on_the_way.append(name)
    attribute = draw.choice(list(_ATTRIBUTES))
    return {
        "question": _ATTRIBUTES[attribute][0].format(asked),
        "answer": people[name].attributes[attribute],
        "gold_ids": [numbers[one] for one in dict.fromkeys(on_the_way)],
        "type": f"{hops} hops",
    }
