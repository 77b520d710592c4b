"""Names of the index in a question, in any spelling.

An extractor reads a question by its capitals and by its context. A question in lower case or in
capitals has no capitals that show names, Chinese has none at all, and a short question has little
context. So the names of the index, which the extractor found in longer texts, are looked up in the
question: all its parts, by their letters, whatever separates them (`name_keys.py`).

Many names are common words: "Time", "It", "The First Man". A part of the question is a name only if
its capitals say so, or if the texts use its words almost only as that name (`Evidence`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np

from e2graphrag_integrations._utils.arrays import IntArray, exclusive_sums
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.entities.matching.alias_index import aliases_of, parts_of
from e2graphrag_integrations.entities.matching.aliases import Aliases, own_form, plural_endings
from e2graphrag_integrations.entities.matching.name_keys import (
    KeyedCodes,
    Keys,
    is_mark,
    key_letter,
    key_letters,
)
from e2graphrag_integrations.entities.normalize import fold_letters
from e2graphrag_integrations.text.letters import has_han, simplified
from e2graphrag_integrations.text.words import is_capitalized_function_word, is_common_word
from e2graphrag_integrations.types import Mention

KNOWN = "KNOWN"
"""Label of the mentions that are found because the index knows the name."""

_SHORTEST_HAN = 3
"""Minimum length of names in Chinese characters. Shorter ones are parts of too many words."""

_MOST_WORDS = 20
"""Maximum number of words in a name, or of characters of a script without spaces."""

_MOST_ALIAS_WORDS = 3
"""Maximum number of words in a surname, a first name or initials."""

_REACH = 1_000
"""Number of characters of the question that are searched."""

_MIN_MISSPELLED = 6
"""Minimum length of a word that may be misspelled. Shorter ones resemble too many others."""

_MIN_CORRECTED = 9
"""Minimum number of letters of a name in which a typo is corrected."""

_MOST_BESIDE = 4
"""Maximum number of words of a name before and after a misspelled word."""

_MOST_SHARING = 4
"""Maximum number of entities with an alias that the evidence for it is collected from."""

_BREAK = re.compile(r"[?!()\[\]{}\"“”„«»‹›|\n。？！；：，、《》（）]")
"""Characters that end a name in a question."""


_OPENING, _CLOSING = frozenset("\"“„«‘'"), frozenset("\"”“»’'")
"""Characters before and after a title in quotation marks."""

_WORD = re.compile(r"\w+")


class Evidence(Protocol):
    """How the texts of an index use words."""

    def is_name(self, form: str, rows: IntArray, /) -> bool:
        """Return whether the texts use the words of a form almost only as names of some entities.

        Args:
            form: Folded words.
            rows: The entities that they may mean.
        """

    def is_word(self, word: str, /) -> bool:
        """Return whether a folded word occurs in the texts."""


class _Word(NamedTuple):
    """A word of the question, or a character of a script without spaces.

    Attributes:
        start, end: Its span in the question.
        form: The folded word.
        letters: Its letters for keys.
        begins: Whether no name may begin before this word and end after it.
        is_han: Whether it is a Chinese character.
    """

    start: int
    end: int
    form: str
    letters: str
    begins: bool
    is_han: bool


class _Part(NamedTuple):
    """A part of the question.

    Attributes:
        first, end: The words, half-open.
        letters: Their letters, without the ending of a plural.
        cut: Length of that ending.
    """

    first: int
    end: int
    letters: str
    cut: int = 0


class _Parts:
    """All parts of a question that may be a name, with the hashes of their letters.

    Args:
        words: The words of the question.
    """

    def __init__(self, words: Sequence[_Word]) -> None:
        self._letters = "".join(word.letters for word in words)
        lengths = np.array([len(word.letters) for word in words], dtype=np.int64)
        bounds = exclusive_sums(lengths)
        sentences = np.cumsum([word.begins for word in words], dtype=np.int64)
        least = np.array([_SHORTEST_HAN if word.is_han else 1 for word in words], dtype=np.int64)
        first, size = np.indices((len(words), _MOST_WORDS)).reshape(2, -1)
        size += 1
        fits = first + size <= len(words)
        first, size = first[fits], size[fits]
        kept = (sentences[first] == sentences[first + size - 1]) & (size >= least[first])
        first, end = first[kept], (first + size)[kept]
        self._first, self._end, self._cut = first, end, np.zeros_like(first)
        for number, word in enumerate(words):
            own = np.flatnonzero(end == number + 1)
            for cut in plural_endings(word.letters):
                if cut:
                    self._first = np.concatenate([self._first, first[own]])
                    self._end = np.concatenate([self._end, end[own]])
                    self._cut = np.concatenate([self._cut, np.full(len(own), cut)])
        self._starts, self._stops = bounds[self._first], bounds[self._end] - self._cut

    def of(self, place: int) -> _Part:
        """Return a part."""
        start, stop = int(self._starts[place]), int(self._stops[place])
        first, end, cut = (int(one[place]) for one in (self._first, self._end, self._cut))
        return _Part(first, end, self._letters[start:stop], cut)

    @lazy
    def hashes(self) -> Keys:
        """The hash of each part."""
        codes = np.array([*map(ord, self._letters)], dtype=np.uint32)
        return KeyedCodes(codes).hashes(self._starts, self._stops)

    @lazy
    def short(self) -> IntArray:
        """The places of the parts that may be an alias."""
        places: IntArray = np.flatnonzero(self._end - self._first <= _MOST_ALIAS_WORDS)
        return places


def known_names(
    question: str, aliases: Aliases, evidence: Callable[[], Evidence]
) -> tuple[Mention, ...]:
    """Return the names of the index in a question, in order.

    A name is found in any case, with any separators, in the plural or the possessive, and with one
    typo in a word that the index does not know. A surname, a first name or initials are found if
    they mean one entity only. Of overlapping names, the longest counts.

    Args:
        question: The question.
        aliases: The names of the index.
        evidence: Returns how the texts use words; called only if a part may be a name.
    """
    words = _words(question[:_REACH])
    found = [*_spelled(question, words, aliases, evidence)]
    found += _misspelled(words, aliases, evidence)
    taken: set[int] = set()
    kept: list[Mention] = []
    for part in sorted(found, key=lambda one: (one.first - one.end, one.first)):
        places = range(part.first, part.end)
        if taken.isdisjoint(places):
            taken.update(places)
            start, end = words[part.first].start, words[part.end - 1].end
            kept.append(Mention(question[start:end], start, end, KNOWN))
    return tuple(sorted(kept, key=lambda mention: mention.start))


def with_known_names(
    question: str, mentions: Iterable[Mention], known: Sequence[Mention]
) -> tuple[Mention, ...]:
    """Return the mentions, and the known names that overlap with no longer name among them.

    Nouns, and shorter names, that overlap with a known name are dropped. So are longer ones whose
    other words are common, if the capitals of the question tell nothing: of "Who Met Weena?",
    extractors take everything for a name.
    """
    kept = list(mentions)
    found = []
    has_casing = not has_no_casing(question)
    for name in known:
        over = [one for one in kept if one.start < name.end and name.start < one.end]
        names = [one for one in over if one.named]
        if any(one.start == name.start and one.end == name.end for one in names):
            continue
        if all(
            (name.start <= one.start and one.end <= name.end)
            or (not has_casing and _adds_common_words(question, one, name))
            for one in names
        ):
            kept = [one for one in kept if one not in over]
            found.append(name)
    return (*kept, *found)


def _adds_common_words(question: str, longer: Mention, name: Mention) -> bool:
    """Return whether a mention has only common words beside a name."""
    beside = question[longer.start : name.start], question[name.end : longer.end]
    return all(is_common_word(word.lower()) for part in beside for word in _WORD.findall(part))


def has_no_casing(question: str) -> bool:
    """Return whether the capitals of a question do not tell names from other words.

    >>> has_no_casing("who is weena?"), has_no_casing("Who Is Weena?"), has_no_casing("Who is it?")
    (True, True, False)
    """
    words = _cased_words(question)
    if not any(word[0].islower() for word in words):
        return bool(words)
    return all(word.islower() for word in words)


def with_capitals(question: str, known: Iterable[Mention]) -> str:
    """Return a question in one case as extractors expect it: only names have capitals.

    Other questions, and a single word in capitals, are returned as they are.

    >>> with_capitals("WHO MET WEENA?", [Mention("WEENA", 8, 13, KNOWN)])
    'who met Weena?'
    """
    words = _cased_words(question)
    is_lower = all(word.islower() for word in words)
    if not is_lower and not (len(words) > 1 and all(word.isupper() for word in words)):
        return question
    letters = [one.lower() if len(one.lower()) == 1 else one for one in question]
    for name in known:
        for word in _WORD.finditer(question, name.start, name.end):
            upper = letters[word.start()].upper()
            letters[word.start()] = upper if len(upper) == 1 else letters[word.start()]
    return "".join(letters)


def _cased_words(question: str) -> list[str]:
    return [word for word in _WORD.findall(question) if word.lower() != word.upper()]


def as_written(question: str, mentions: Iterable[Mention]) -> tuple[Mention, ...]:
    """Return mentions in a question that was read with other capitals, with its own capitals."""
    return tuple(
        one._replace(entity=question[one.start : one.end])
        if one.entity.lower() == question[one.start : one.end].lower() and one.named
        else one
        for one in mentions
    )


def _words(question: str) -> list[_Word]:
    characters = [_folded(character) for character in question]
    text = "".join(folded for folded, _ in characters)  # keeps the offsets
    simple = simplified(text)
    words: list[_Word] = []
    at, end_of_last = 0, 0
    while at < len(text):
        if not characters[at][1]:
            at += 1
            continue
        end = at + 1
        is_han = has_han(text[at])
        while not is_han and end < len(text) and (characters[end][1] or is_mark(text[end])):
            if has_han(text[end]):
                break
            end += 1
        begins = not words or _BREAK.search(question, end_of_last, at) is not None
        letters = simple[at] if is_han else "".join(letter for _, letter in characters[at:end])
        words.append(_Word(at, end, text[at:end], letters, begins, is_han))
        at = end_of_last = end
    return words


@lru_cache(4096)
def _folded(character: str) -> tuple[str, str]:
    """Return a folded character, or a space if it is not one, and its letter for keys."""
    folded = fold_letters(character)
    folded = folded if len(folded) == 1 else " "
    return folded, key_letter(folded)


def _spelled(
    question: str, words: Sequence[_Word], aliases: Aliases, evidence: Callable[[], Evidence]
) -> Iterator[_Part]:
    """Yield the parts of the question with the letters of a name."""
    parts = _Parts(words)
    index = aliases.index
    has_casing = not has_no_casing(question)
    rules = (
        (index.names, own_form),
        (index.aliases, aliases_of),
        (index.parts, parts_of),
    )
    for keys, form in rules:
        is_own = keys is index.names
        places = np.arange(len(parts.hashes)) if is_own else parts.short
        for hit, candidates in keys.find(parts.hashes[places]):
            part = parts.of(int(places[hit]))
            if not is_own and len(candidates) > _MOST_SHARING:
                continue
            rows = aliases.having(form, candidates, part.letters)
            if not len(rows) or (not is_own and len(rows) > 1):
                continue
            own = words[part.first : part.end]
            if _has_comma(question, own) and not any("," in aliases.names[row] for row in rows):
                continue
            if has_casing and len(own) == 1 and _is_common(question, own[0]):
                continue
            is_marked = is_own and not part.cut and _is_marked(question, own, has_casing=has_casing)
            is_marked |= has_casing and keys is index.aliases and _is_abbreviation(question, own)
            if own[0].is_han or is_marked or _is_evident(part, own, rows, evidence()):
                yield part


def _is_common(question: str, word: _Word) -> bool:
    """Return whether the question has a common word in lower case."""
    return question[word.start].islower() and is_common_word(word.form)


def _is_abbreviation(question: str, words: Sequence[_Word]) -> bool:
    """Return whether capitals show that one function word is meant as initials, such as WHO."""
    written = question[words[0].start : words[-1].end]
    return len(words) == 1 and is_capitalized_function_word(written)


def _has_comma(question: str, words: Sequence[_Word]) -> bool:
    return any("," in question[one.end : other.start] for one, other in pairwise(words))


def _is_evident(part: _Part, words: Sequence[_Word], rows: IntArray, evidence: Evidence) -> bool:
    """Return whether a part is a name, both as written and without the ending of a plural."""
    form = " ".join(word.form for word in words)
    forms = [form, *([form[: -part.cut]] if part.cut else [])]
    return all(evidence.is_name(one, rows) for one in forms)


def _is_marked(question: str, words: Sequence[_Word], *, has_casing: bool) -> bool:
    """Return whether quotation marks show that words are a name, or capitals that several are."""
    first, last = words[0], words[-1]
    before, after = question[: first.start][-1:], question[last.end :][:1]
    if before in _OPENING and after in _CLOSING:
        return True
    capitals = question[first.start].isupper() and question[last.start].isupper()
    return has_casing and first is not last and capitals


def _misspelled(
    words: Sequence[_Word], aliases: Aliases, evidence: Callable[[], Evidence]
) -> Iterator[_Part]:
    """Yield the parts of the question that a typo turns into a name."""
    for place, word in enumerate(words):
        is_long = len(word.form) >= _MIN_MISSPELLED and word.form.isalpha()
        if not is_long or evidence().is_word(word.form):
            continue
        for other in aliases.words.one_typo_from(word.form):
            corrected = [*words]
            corrected[place] = word._replace(form=other, letters=key_letters(other))
            first = max(0, place - _MOST_BESIDE)
            parts = _Parts(corrected[first : place + _MOST_BESIDE + 1])
            for hit, candidates in aliases.index.names.find(parts.hashes):
                part = parts.of(hit)
                part = part._replace(first=first + part.first, end=first + part.end)
                if not part.first <= place < part.end or len(part.letters) < _MIN_CORRECTED:
                    continue
                own = corrected[part.first : part.end]
                rows = aliases.having(own_form, candidates, part.letters)
                if len(rows) and _is_evident(part, own, rows, evidence()):
                    yield part
