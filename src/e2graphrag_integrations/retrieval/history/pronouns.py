"""Pronouns of questions, and what kind of thing each one can mean, in English and Chinese."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from e2graphrag_integrations.retrieval.history.references import expletives_in, first_name, readable
from e2graphrag_integrations.types import Mention

Kind = Literal["person", "thing", "place", "time"]

Gender = Literal["female", "male", ""]

_PERSON_NOUNS = "man|woman|person|guy|lady|gentleman|boy|girl"
_PLACE_NOUNS = "city|town|village|country|place|region|area|island|district|state|province|location"
_THING_NOUNS = (
    "company|firm|organi[sz]ation|group|band|team|book|novel|film|movie|song|album|play|show|game"
    "|product|building|institution|event|battle|war|treaty|law|project|ship"
)
_TIME_NOUNS = "time|year|day|month|week|decade|century|period|era|moment|days|years"


@dataclass(frozen=True, slots=True)
class Pronoun:
    """A word or phrase of a question that stands for something named before.

    Attributes:
        words: The words.
        kind: What it can stand for.
        gender: The gender of the person, or "" if the words do not tell.
        plural: Whether it stands for several things, or for a group.
        noun: A word that the name must contain: "the theatre" means the Vik Theatre. Such a name
            fits whatever its kind.
    """

    words: str
    kind: Kind
    gender: Gender = ""
    plural: bool = False
    noun: str = ""


@dataclass(frozen=True, slots=True)
class _Rule:
    """The pronouns of one kind in one language, found in a lowercase question."""

    pattern: re.Pattern[str]
    kind: Kind
    gender: Gender = ""
    plural: bool = False


def _after_demonstrative(nouns: str) -> str:
    # "the city" stands for a city named before, but "the city of Vik" does not.
    return (
        rf"\b(?:this|that|the)(?: same)? (?:{nouns})\b(?! (?:of|in|that|which|who|where|called)\b)"
    )


_RULES = (
    _Rule(re.compile(r"\b(?:he|him|his|himself)\b"), "person", "male"),
    _Rule(re.compile(r"\b(?:she|her|hers|herself)\b"), "person", "female"),
    _Rule(re.compile(_after_demonstrative(_PERSON_NOUNS)), "person"),
    _Rule(re.compile(rf"\b(?:it|its|itself)\b|{_after_demonstrative(_THING_NOUNS)}"), "thing"),
    _Rule(re.compile(rf"\bthere\b|{_after_demonstrative(_PLACE_NOUNS)}"), "place"),
    _Rule(
        re.compile(
            rf"\bthen\b|\b(?:that|this|those|the same) (?:{_TIME_NOUNS})\b|\bat the time(?! of\b)"
        ),
        "time",
    ),
    _Rule(
        re.compile(r"\b(?:they|them|their|theirs|themselves)\b|\bboth(?=\W*$)|\bthe two(?=\W*$)"),
        "thing",
        plural=True,
    ),
    _Rule(re.compile("(?<![其吉])他(?![们們人国國乡鄉])"), "person", "male"),
    _Rule(re.compile("她(?![们們])"), "person", "female"),
    _Rule(
        re.compile("[此这這那该該](?:个|個|位)?(?:人(?![们們类類])|男[人子]|女[人子])"), "person"
    ),
    _Rule(
        re.compile(
            "它(?![们們])|[该該][公書书片剧劇机機组組项項]|[这這那](?:家|部|本|首|项|項|座|款|种|種)"
        ),
        "thing",
    ),
    _Rule(
        re.compile(
            "[那这這](?:里|裡|儿|兒|边|邊|个地方|個地方|座城|个城|個城|个国|個國)|当地|當地|[该該][国國城市省县縣镇鎮村]"
        ),
        "place",
    ),
    _Rule(
        re.compile(
            "(?:那|那个|那個|当|當)[时時](?!代)|那(?:一)?[年天]|[同当當]年|那段[时時]间|那段時間"
            "|[那这這]个?(?:时候|時候|时期|時期|年代)"
        ),
        "time",
    ),
    _Rule(re.compile("[他她它][们們]|[两兩二]者|[双雙]方|[两兩]人"), "thing", plural=True),
)


_NOUN = re.compile(
    r"\b(?:this|that|the)(?: same)? (?P<noun>[a-z-]{3,})\b"
    r"|[这這那该該][个個座家所间間部本条條位]?(?P<han>[\u4e00-\u9fff]{2})"
)
"""A demonstrative or an article and a noun, which may be a part of a name."""

_REACH = 500
"""Number of characters of a question in which pronouns are looked for."""

_NEW_CLAUSE = re.compile(
    r"[,;.，；。]|\b(?:and|or|but|if|because|since|when|while|after|before|that)\b"
)
"""What ends a clause. "If I borrow money, is it taxed?" has the meaning of "it" in itself."""


def pronouns_of(question: str, mentions: Sequence[Mention]) -> Iterator[Pronoun]:
    """Yield the pronouns of a question that refer back, in their order, each meaning once.

    All stand before any name, and one for a thing does not follow a clause with a noun. Phrases
    such as "the theatre" come last.

    Args:
        question: The question.
        mentions: Its names and nouns.

    >>> [one.kind for one in pronouns_of("Did she live there then?", ())]
    ['person', 'place', 'time']
    """
    text, end = readable(question)[:_REACH], first_name(question, mentions)
    nouns = [one.end for one in mentions if one.end < _REACH]
    expletives = expletives_in(text)
    found = sorted(
        (match.start(), number, match.group())
        for number, rule in enumerate(_RULES)
        for match in rule.pattern.finditer(text)
        if match.start() < end
        and not any(first <= match.start() < last for first, last in expletives)
    )
    seen = set()
    for start, number, words in found:
        rule = _RULES[number]
        key = rule.kind, rule.gender, rule.plural
        follows = any(noun <= start and _NEW_CLAUSE.search(text, noun, start) for noun in nouns)
        if key not in seen and not (rule.kind == "thing" and follows):
            seen.add(key)
            yield Pronoun(words, *key)
    for match in _NOUN.finditer(text, 0, end):
        yield Pronoun(match.group(), "thing", noun=match["noun"] or match["han"])
