"""What the pronouns of a question mean: names and dates of earlier turns that fit them.

A candidate is a name in a turn. Its value is the product of four factors:

* fit: how well it fits the pronoun. The label of its mention tells whether it is a person, a place
  or a thing, corrected by its words ("Tarn Observatory" is not a person), by its context ("Mrs",
  "in"), and by the question that it answers ("Who ...?"). A common first name of the other gender
  makes a person unlikely;
* place: a name in the position of a subject, or the first of an answer without a verb, is more
  likely than one after a preposition, and one in a later sentence a little more likely;
* whether the index knows it;
* recency: each turn counts more than the one before it, the last answer most.

The candidate with the highest value is the antecedent. A pronoun in the plural means names that a
turn joins with "and", a name in the plural, or else the last two names of a kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from e2graphrag_integrations.retrieval.first_names import gender_of, is_first_name, is_title
from e2graphrag_integrations.retrieval.history import Antecedent, Turn
from e2graphrag_integrations.retrieval.pronouns import Gender, Kind, Pronoun
from e2graphrag_integrations.text.sentences import sentence_starts
from e2graphrag_integrations.text.words import has_unspaced
from e2graphrag_integrations.types import Mention

_LEAST = 0.25
"""Least value of an antecedent."""

_TURN = 0.85
"""Factor of the value of a candidate for each turn after its own."""

_AFTER_PREPOSITION = 0.7
_LATER_IN_SENTENCE = 0.9
"""Factors of the value of a candidate that is not in the position of a subject."""

_EARLIER_SENTENCES = 0.1
"""Share of its value that a candidate loses if all other sentences of the turn follow."""

_UNKNOWN = 0.7
"""Factor of the value of a candidate that the index does not know."""

_OTHER_GENDER = 0.2
"""Factor of the value of a person whose first name suggests the other gender."""

_SINGLE_FOR_PLURAL = 0.6
"""Factor of the value of a single name for a pronoun in the plural."""

_FITS: Mapping[str, Mapping[Kind, float]] = {
    "PERSON": {"person": 1.0, "thing": 0.1, "place": 0.0},
    "LOC": {"person": 0.0, "thing": 0.6, "place": 1.0},
    "ORG": {"person": 0.0, "thing": 1.0, "place": 0.6},
    "": {"person": 0.6, "thing": 0.7, "place": 0.4},
}
"""How well names with a label fit the kinds of pronouns. The labels of short texts are often wrong,
so few fits are 0."""

_LABELS = {"GPE": "LOC", "FAC": "LOC", "PER": "PERSON", "NORP": "ORG"}
"""Labels of other pipelines."""

_THING_WORDS = frozenset(
    "academy agency airport airline association bank battle book brewery bridge building bureau"
    " castle cathedral center centre church cinema circus clinic club college committee company"
    " corporation council court department factory federation festival foundation gallery garden"
    " gardens group hall hospital hotel house inc institute laboratory league library lighthouse"
    " limited ltd mill mine ministry monastery monument museum observatory office opera orchestra"
    " organization palace park party plant port prison prize project railway restaurant school"
    " ship shipyard society stadium station store studio studios temple theater theatre tower"
    " treaty tunnel union university war works zoo award act law program programme service system"
    " river lake mount mountain mountains island islands valley forest bay street road avenue"
    " square county district province kingdom republic empire agreement conference expedition"
    " novel film series band ensemble choir team cup championship software engine".split()
)
"""Last words of names that are not those of persons."""

_FIRST_THING_WORDS = frozenset("university battle treaty lake mount bank museum".split())
"""First words of names that are not those of persons."""

_OF_PERSONS = frozenset({"PERSON", "PER", "NAME"})
"""Labels of names that may be a part of the name of a person."""

_PREPOSITION = re.compile(
    r"(?:\b(?:in|at|on|of|from|near|with|to|for|by|after|before|during|against|between|into"
    r"|through|under|over|like|as|than|via|across|around|outside|inside|within) (?:the |a |an )?"
    r"(?:[\w-]+ )?|[在由于於被和与與对對给給把从從向为為跟同])$",
    re.IGNORECASE,
)
"""What stands before a name that is not a subject."""

_AT_PLACE = re.compile(
    r"(?:\b(?:in|at|near|from|to|outside|visited|reached) (?:the )?|[在到去往])$", re.IGNORECASE
)
_ARTICLE = re.compile(r"\bthe $", re.IGNORECASE)
_BEFORE = re.compile(r"([^\W\d_]+)\.? $")
"""The word before a name, such as a title."""

_JOINED = re.compile(
    r"^(?:\s*,\s*|,?\s+(?:and|&|or|with)\s+(?:(?:the|his|her|their|its)\s+(?:\w+\s+)?)?"
    r"|\s*[、和与與及跟]\s*)$",
    re.IGNORECASE,
)
"""What stands between two names that a turn joins."""

_ASKS: tuple[tuple[re.Pattern[str], Kind], ...] = (
    (re.compile(r"\b(?:who|whom|whose)\b|[谁誰]|哪位|什么人|什麼人", re.IGNORECASE), "person"),
    (
        re.compile(
            r"\bwhere\b|\b(?:which|what) (?:city|town|village|country|place|state)\b"
            r"|哪里|哪裡|哪儿|哪兒|何处|何處|什么地方|什麼地方|哪个?(?:国|國|城|省|县|縣)",
            re.IGNORECASE,
        ),
        "place",
    ),
)
"""Questions, and the kind of the name that answers them."""

_DATE = re.compile(
    r"\b(?:1\d{3}|20\d{2})s?\b|\b\d{1,2}(?:st|nd|rd|th) century\b"
    r"|[0-9一二三四五六七八九〇零]{4}年|[0-9一二三四五六七八九十]{1,3}世[纪紀]",
    re.IGNORECASE,
)
Read = tuple[Turn, Sequence[Mention]]
"""A turn and the first mention of each entity in it."""

Meant = tuple[Antecedent, Mention | None]
"""What a pronoun means, with the mention if it is a name rather than a date."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A name in a turn, with the factors that do not depend on the pronoun."""

    mention: Mention
    turns_back: int
    value: float
    start: int
    end: int
    fits: Mapping[Kind, float]
    gender: Gender
    is_plural: bool

    def value_for(self, pronoun: Pronoun) -> float:
        """Return how likely the pronoun means the name."""
        if pronoun.noun:
            name = self.mention.entity.lower()
            is_part = pronoun.noun in name.split() or (
                has_unspaced(name) and name.endswith(pronoun.noun)
            )
            return self.value if is_part else 0.0
        value = self.value * self.fits.get(pronoun.kind, 0.0)
        if pronoun.kind == "person" and {self.gender, pronoun.gender} == {"female", "male"}:
            value *= _OTHER_GENDER
        return value


def antecedents_of(
    pronouns: Sequence[Pronoun], turns: Sequence[Read], is_known: Callable[[str], bool]
) -> Iterator[Meant]:
    """Yield what each pronoun means, with the mention if it is a name rather than a date.

    A pronoun without a likely candidate is left out. Each name is meant by at most one pronoun.

    Args:
        pronouns: The pronouns of the question.
        turns: The turns, the latest first.
        is_known: Whether the index knows a name.
    """
    candidates = [one for back in range(len(turns)) for one in _candidates(turns, back, is_known)]
    taken: set[str] = set()
    for pronoun in pronouns:
        if pronoun.kind == "time":
            yield from _dates(pronoun, turns)
            continue
        free = [one for one in candidates if one.mention.entity not in taken]
        for candidate, value in _chosen(pronoun, free, turns):
            taken.add(candidate.mention.entity)
            role = turns[candidate.turns_back - 1][0].role
            name, back = candidate.mention.entity, candidate.turns_back
            yield Antecedent(pronoun.words, name, back, role, round(value, 4)), candidate.mention


def _chosen(
    pronoun: Pronoun, candidates: Sequence[_Candidate], turns: Sequence[Read]
) -> list[tuple[_Candidate, float]]:
    if pronoun.plural:
        return _group(candidates, turns)
    found = [(one, one.value_for(pronoun)) for one in candidates]
    best = max(found, key=lambda item: item[1], default=None)
    return [best] if best is not None and best[1] >= _LEAST else []


def _group(
    candidates: Sequence[_Candidate], turns: Sequence[Read]
) -> list[tuple[_Candidate, float]]:
    """Return the names that a pronoun in the plural means."""
    for back, (turn, _) in enumerate(turns, 1):
        own = sorted((one for one in candidates if one.turns_back == back), key=lambda c: c.start)
        groups = [run for run in _runs(own, turn.text) if len(run) > 1 or run[0].is_plural]
        best = max(groups, key=lambda run: (len(run) > 1, run[0].value), default=None)
        if best is not None and best[0].value >= _LEAST:
            return [(one, one.value) for one in best]
    latest = sorted(candidates, key=lambda one: (one.turns_back, -one.value))[:2]
    found = [(one, one.value * _SINGLE_FOR_PLURAL) for one in latest]
    return [one for one in found if one[1] >= _LEAST]


def _runs(names: Sequence[_Candidate], text: str) -> list[list[_Candidate]]:
    """Return the names of a turn in runs that it joins with "and"."""
    runs: list[list[_Candidate]] = []
    for one in names:
        if runs and _JOINED.match(text[runs[-1][-1].end : one.start]):
            runs[-1].append(one)
        else:
            runs.append([one])
    return runs


def _dates(pronoun: Pronoun, turns: Sequence[Read]) -> Iterator[Meant]:
    """Yield the last date of the latest turn that has one."""
    for back, (turn, _) in enumerate(turns, 1):
        dates = _DATE.findall(turn.text)
        if dates:
            yield Antecedent(pronoun.words, dates[-1], back, turn.role, 1.0), None
            return


def _candidates(
    turns: Sequence[Read], number: int, is_known: Callable[[str], bool]
) -> Iterator[_Candidate]:
    """Yield the names of a turn, in their order."""
    turn, mentions = turns[number]
    names = [one for one in mentions if one.named]
    text, starts = turn.text, sentence_starts(turn.text)
    previous: _Candidate | None = None
    for one in names:
        full = _full_name(one, names)
        start = _last_as_subject(one, text, starts)
        sentence = max((place for place in starts if place <= start), default=0)
        before = text[sentence:start]
        is_first = not any(sentence <= other.start < start for other in names)
        later = sum(place > start for place in starts) / len(starts)
        value = _TURN**number * (1 - _EARLIER_SENTENCES * later)
        value *= 1.0 if is_first else _LATER_IN_SENTENCE
        value *= _AFTER_PREPOSITION if _PREPOSITION.search(before) else 1.0
        if previous is not None and _JOINED.match(text[previous.end : start]):
            value = previous.value * _LATER_IN_SENTENCE
        elif not is_known(full.entity):
            value *= _UNKNOWN
        asked = _asked_for(turns, number) if one is names[0] else None
        previous = _Candidate(
            full,
            number + 1,
            value,
            start,
            start + one.end - one.start,
            _fits(full, before, asked),
            _gender(full, before),
            is_plural=_is_plural(full, before),
        )
        yield previous


def _last_as_subject(name: Mention, text: str, starts: Sequence[int]) -> int:
    """Return where a name begins a sentence last, or else where it stands first."""
    surface = text[name.start : name.end]
    begins = [one for one in starts if text.startswith(surface, one) and one > name.start]
    return begins[-1] if begins else name.start


def _full_name(name: Mention, names: Sequence[Mention]) -> Mention:
    """Return the longer name of a person, of which a name is the surname or the first name."""
    words = set(name.entity.lower().split())
    for other in names:
        longer = other.entity.lower().split()
        if words < set(longer) and not _is_thing(longer) and name.label in _OF_PERSONS:
            return other
    return name


def _asked_for(turns: Sequence[Read], number: int) -> Kind | None:
    """Return the kind of name that the question before an answer asks for, if its words tell."""
    if turns[number][0].role == "user" or number + 1 == len(turns):
        return None
    question = turns[number + 1][0].text
    return next((kind for pattern, kind in _ASKS if pattern.search(question)), None)


def _fits(name: Mention, before: str, asked: Kind | None) -> Mapping[Kind, float]:
    """Return how well a name fits the kinds of pronouns."""
    words = name.entity.lower().split()
    fits = _FITS[_LABELS.get(name.label, name.label if name.label in _FITS else "")]
    title = _BEFORE.search(before)
    if _is_thing(words):
        return _FITS["ORG"] | {"place": 0.8}
    if is_first_name(words[0]) or (title and is_title(title[1].lower())):
        return _FITS["PERSON"]
    if asked == "person":
        return _FITS["PERSON"]
    if _ARTICLE.search(before):
        fits = fits | {"person": min(fits["person"], 0.3)}
    if asked == "place" or (_AT_PLACE.search(before) and fits is not _FITS["PERSON"]):
        fits = fits | {"place": max(fits["place"], 0.8)}
    return fits


def _gender(name: Mention, before: str) -> Gender:
    """Return the gender that the words of a name or the word before it suggest, or ""."""
    title = _BEFORE.search(before)
    return (title and gender_of(title[1].lower())) or gender_of(name.entity.lower().split()[0])


def _is_plural(name: Mention, before: str) -> bool:
    """Return whether a name is that of a group, such as "the Beatles" or a company."""
    is_person = name.label == "PERSON" and not _is_thing(name.entity.lower().split())
    return name.label == "ORG" or (
        name.entity.endswith("s") and bool(_ARTICLE.search(before)) and not is_person
    )


def _is_thing(words: Sequence[str]) -> bool:
    """Return whether the lowercase words of a name are those of a thing, not of a person."""
    return words[-1] in _THING_WORDS or words[0] in _FIRST_THING_WORDS
