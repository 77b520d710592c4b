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

Nouns of the user's turns and of short answers are candidates too ("tiramisu"), but a name is more
likely. The candidate with the highest value is the antecedent. A pronoun in the plural means names
that a turn joins with "and", a name or noun in the plural, or else the last two candidates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from e2graphrag_integrations.retrieval.history.first_names import gender_of, is_first_name, is_title
from e2graphrag_integrations.retrieval.history.pronouns import Gender, Kind, Pronoun
from e2graphrag_integrations.retrieval.history.turns import Antecedent, Turn
from e2graphrag_integrations.text.sentences import sentence_starts
from e2graphrag_integrations.text.words import count_words, has_unspaced
from e2graphrag_integrations.types import NOUN, Mention

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

_WRONG_NUMBER = 0.5
"""Factor of the value of a noun in the plural, or of names joined with "and", for "it"."""

_NEARBY = 60
"""Number of characters before a name that are read, so that the time stays linear."""

_SHORT = 5
"""Maximum number of words of an answer of which nouns are candidates."""

_SINGLE_FOR_PLURAL = 0.6
"""Factor of the value of a single name for a pronoun in the plural."""

_FITS: Mapping[str, Mapping[Kind, float]] = {
    "PERSON": {"person": 1.0, "thing": 0.1, "place": 0.0},
    "LOC": {"person": 0.0, "thing": 0.6, "place": 1.0},
    "ORG": {"person": 0.0, "thing": 1.0, "place": 0.6},
    "": {"person": 0.6, "thing": 0.7, "place": 0.4},
    NOUN: {"thing": 0.6},
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

_HAN_THING = re.compile(
    "(?:大[学學]|[学學](?:校|院|堂)|[书書]院|[医醫剧劇戏戲画畫法研究]院|[图圖][书書][馆館]|[馆館]|公司|集[团團]|工[厂廠]|[协協學学][会會]"
    "|委[员員][会會]|[银銀]行|[报報][纸紙社]|出版社|寺|塔|[桥橋]|[宫宮]|公[园園]|[车車]站|[机機][场場]|中心|[组組][织織]|[乐樂][队隊]"
    "|[战戰][争爭役])$"
)
"""Ends of Chinese names that are not those of persons."""

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

_AND = re.compile(r"\b(?:and|or|with)\b|[&、和与與及跟]", re.IGNORECASE)

_PHRASE = re.compile(r"^ (?:(?:of|for) (?:the |a |an )?)?$", re.IGNORECASE)
"""What stands between two nouns of one phrase."""

_ASKED_NOUN = re.compile(
    r"\b(?:which|what|how many|how much|this|that|these|those|the same)(?: [\w-]+)? $",
    re.IGNORECASE,
)
"""What stands before a noun that a question asks for, or that refers back itself."""

_PLURAL = re.compile(r"(?<![su'’])s$|\b(?:children|men|women|people)$", re.IGNORECASE)
"""End of a noun in the plural."""

_ASKS_WHAT = re.compile(r"\b(?:what|which)\b|什么|什麼|哪", re.IGNORECASE)

_VAGUE_NOUNS = frozenset(
    "answer bit detail example fact hello help hi idea info information kind lot name no number"
    " ok okay one people person please question reason sorry sort stuff sure thank thanks thing"
    " time type way word year yes".split()
)
"""Words that name no topic."""

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

Known = Callable[[str], Literal["name", "noun", ""]]
"""Tells whether the index has a name, as a name or only as a noun."""

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
    is_one: bool = True

    def value_for(self, pronoun: Pronoun) -> float:
        """Return how likely the pronoun means the name."""
        if pronoun.noun:
            return self.value if self._is_named_by(pronoun.noun) else 0.0
        value = self.value * self.fits.get(pronoun.kind, 0.0)
        if pronoun.kind == "thing" and not self.is_one:
            value *= _WRONG_NUMBER
        if pronoun.kind == "person" and {self.gender, pronoun.gender} == {"female", "male"}:
            value *= _OTHER_GENDER
        return value

    def _is_named_by(self, noun: str) -> bool:
        """Return whether a noun is the main word of the name, as in "Vik Theatre"."""
        name = self.mention.entity.lower()
        if not self.mention.named or name == noun:
            return False
        is_last = name.endswith(noun if has_unspaced(noun) else f" {noun}")
        return is_last or name.startswith(f"{noun} of ")


def antecedents_of(
    pronouns: Sequence[Pronoun], turns: Sequence[Read], known: Known
) -> Iterator[Meant]:
    """Yield what each pronoun means, with the mention if it is a name rather than a date.

    A pronoun without a likely candidate is left out. Each name is meant by at most one pronoun.

    Args:
        pronouns: The pronouns of the question.
        turns: The turns, the latest first.
        known: What the index knows of a name.
    """
    candidates = [one for back in range(len(turns)) for one in _candidates(turns, back, known)]
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
    # An address has commas only.
    return [
        part
        for run in runs
        for part in ([run] if _AND.search(text, run[0].end, run[-1].start) else [[n] for n in run])
    ]


def _dates(pronoun: Pronoun, turns: Sequence[Read]) -> Iterator[Meant]:
    """Yield the last date of the latest turn that has one."""
    for back, (turn, _) in enumerate(turns, 1):
        dates = _DATE.findall(turn.text)
        if dates:
            yield Antecedent(pronoun.words, dates[-1], back, turn.role, 1.0), None
            return


def _candidates(turns: Sequence[Read], number: int, known: Known) -> Iterator[_Candidate]:
    """Yield the names and nouns of a turn, in their order."""
    turn, mentions = turns[number]
    names = [one for one in mentions if one.named and one.entity.lower() not in _VAGUE_NOUNS]
    nouns: list[Mention] = []
    is_question = turn.role == "user"
    if is_question or _is_short_answer(turns, number):
        nouns = _phrases([one for one in mentions if not one.named], turn.text)
        nouns = [one for one in nouns if is_question or not _ARTICLE.search(turn.text[: one.start])]
    text, starts = turn.text, sentence_starts(turn.text)
    question, kind = _answered(turns, number)
    new = [one for one in names if one.entity not in question]
    previous: _Candidate | None = None
    for one in sorted([*names, *nouns], key=lambda one: one.start):
        full = _full_name(one, names) if one.named else one
        in_index = known(full.entity) if one.named else "noun"
        start = _last_as_subject(one, text, starts)
        sentence = max((place for place in starts if place <= start), default=0)
        before = text[max(sentence, start - _NEARBY) : start]
        is_first = not any(sentence <= other.start < start for other in (*names, *nouns))
        later = sum(place > start for place in starts) / len(starts)
        value = _TURN**number * (1 - _EARLIER_SENTENCES * later)
        value *= 1.0 if is_first else _LATER_IN_SENTENCE
        value *= _AFTER_PREPOSITION if _PREPOSITION.search(before) else 1.0
        joined = previous is not None and bool(_JOINED.match(text[previous.end : start]))
        if joined and previous is not None:
            value = previous.value * _LATER_IN_SENTENCE
        elif one.named and not in_index:
            value *= _UNKNOWN
        end = start + one.end - one.start
        asked = kind if one in new[:1] else None
        previous = _Candidate(
            full,
            number + 1,
            value,
            start,
            end,
            _FITS[NOUN] if in_index == "noun" else _fits(full, before, asked),
            _gender(full, before),
            is_plural=_is_plural(full, text[start:end], before),
            is_one=not (joined or _is_joined(text[end:]) or _is_plural_noun(full, text[start:end])),
        )
        yield previous


def _is_short_answer(turns: Sequence[Read], number: int) -> bool:
    """Return whether a turn answers what something is, in a few words."""
    is_asked = number + 1 < len(turns) and bool(_ASKS_WHAT.search(turns[number + 1][0].text))
    return is_asked and count_words(turns[number][0].text) <= _SHORT


def _phrases(nouns: Sequence[Mention], text: str) -> list[Mention]:
    """Return the phrases of the nouns of a turn, such as "library card", without vague ones."""
    phrases: list[Mention] = []
    for one in nouns:
        last = phrases[-1] if phrases else None
        if last is not None and _PHRASE.match(text[last.end : one.start]):
            phrases[-1] = Mention(text[last.start : one.end], last.start, one.end)
        elif one.entity not in _VAGUE_NOUNS and not _ASKED_NOUN.search(text[: one.start]):
            phrases.append(Mention(text[one.start : one.end], one.start, one.end))
    return phrases


def _is_joined(after: str) -> bool:
    """Return whether a name is joined with a later one."""
    return re.match(r"\s*(?:(?:and|or|&)\s|[和与與及、])", after, re.IGNORECASE) is not None


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


def _answered(turns: Sequence[Read], number: int) -> tuple[str, Kind | None]:
    """Return the question that a turn answers, and the kind of name that it asks for if it tells.

    Both are empty if the turn is a question itself.
    """
    if turns[number][0].role == "user" or number + 1 == len(turns):
        return "", None
    question = turns[number + 1][0].text
    return question, next((kind for pattern, kind in _ASKS if pattern.search(question)), None)


def _fits(name: Mention, before: str, asked: Kind | None) -> Mapping[Kind, float]:
    """Return how well a name fits the kinds of pronouns."""
    words = name.entity.lower().split()
    fits = _FITS[_LABELS.get(name.label, name.label if name.label in _FITS else "")]
    title = _BEFORE.search(before)
    if _is_thing(words):
        return {**_FITS["ORG"], "place": 0.8}
    if is_first_name(words[0]) or (title and is_title(title[1].lower())):
        return _FITS["PERSON"]
    if asked == "person":
        return _FITS["PERSON"]
    if _ARTICLE.search(before):
        fits = {**fits, "person": min(fits["person"], 0.3)}
    if asked == "place" or (_AT_PLACE.search(before) and name.label not in {"PERSON", "PER"}):
        fits = {**fits, "place": max(fits["place"], 0.8)}
    return fits


def _gender(name: Mention, before: str) -> Gender:
    """Return the gender that the words of a name or the word before it suggest, or ""."""
    title = _BEFORE.search(before)
    return (title and gender_of(title[1].lower())) or gender_of(name.entity.lower().split()[0])


def _is_plural(name: Mention, surface: str, before: str) -> bool:
    """Return whether a mention is a group, such as "the Beatles", a company, or "pancakes"."""
    if not name.named:
        return _is_plural_noun(name, surface)
    is_person = name.label == "PERSON" and not _is_thing(name.entity.lower().split())
    has_article = bool(_ARTICLE.search(before))
    return name.label == "ORG" or (name.entity.endswith("s") and has_article and not is_person)


def _is_plural_noun(name: Mention, surface: str) -> bool:
    return not name.named and _PLURAL.search(surface) is not None


def _is_thing(words: Sequence[str]) -> bool:
    """Return whether the lowercase words of a name are those of a thing, not of a person."""
    is_thing = words[-1] in _THING_WORDS or words[0] in _FIRST_THING_WORDS
    return is_thing or _HAN_THING.search(words[-1]) is not None
