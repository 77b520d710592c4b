"""The aliases of very many names, found through an array that is quick to compute.

A dictionary of all aliases takes seconds for 400,000 names. Instead, the hashes of all names and
aliases are computed at once (`name_keys.py`), and the rules are applied to the few names with the
right hash.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray, exclusive_sums
from e2graphrag_integrations.entities.matching.name_keys import (
    SPACE,
    CodePoints,
    KeyedCodes,
    Keys,
    NameCodes,
    NameKeys,
    after_initial,
    plain_table,
)
from e2graphrag_integrations.entities.normalize import ARTICLES, HONORIFICS
from e2graphrag_integrations.text.letters import has_han

_JOINERS = frozenset({"of", "the", "and", "for", "in", "on", "at", "de", "la", "von", "van", "&"})
_LONGEST_JOINER = max(map(len, _JOINERS))
_MAX_PERSON_WORDS = 4
"""Maximum number of words in a name whose last word is treated as a surname, which is an alias."""

_FIRST_IDEOGRAPH = 0x2E80
"""All Chinese characters have higher code points."""

_BEFORE_NAMES = _JOINERS | HONORIFICS | ARTICLES

_BLOCK = 50_000
"""Number of names that are hashed at a time."""

_LONGEST_CHINESE = 4
"""Maximum length of a name of a person in Chinese characters; see `chinese.names`."""

_Hashed = tuple[Keys, IntArray]
"""The hash of each alias, and the row of its name."""


def aliases_of(name: str) -> Iterator[str]:
    """Yield the aliases of a name.

    These are its last word, its initials, and the part before a colon.

    >>> list(aliases_of("elizabeth bennet"))
    ['bennet', 'eb']
    """
    if ":" in name and (head := name.partition(":")[0].strip()):
        yield head
    if has_han(name):
        from e2graphrag_integrations.entities.chinese.names import chinese_aliases

        yield from chinese_aliases(name)
    words = name.replace(".", "").split(" ")
    if len(words) == 1:
        return
    if _has_surname(words):
        yield words[-1]
    # Scripts without capitals have no initials.
    initials = [word[0] for word in words if _is_cased(word[:1]) and word not in _JOINERS]
    if len(initials) > 1:
        yield "".join(initials)


def parts_of(name: str) -> Iterator[str]:
    """Yield the parts of a name that mean it if no other name has them.

    These are the first word of the name of a person, and its initial with the last word.

    >>> list(parts_of("ludwig van beethoven")), list(parts_of("apollo 11"))
    (['ludwig', 'l beethoven'], [])
    """
    words = name.replace(".", "").split(" ")
    is_name = _has_surname(words) and len(words[0]) > 1 and words[0] not in _BEFORE_NAMES
    if is_name and _is_alphabetic(words[0]) and _is_cased(words[0][0]):
        yield words[0]
        yield f"{words[0][0]} {words[-1]}"


def _has_surname(words: Sequence[str]) -> bool:
    is_short = 1 < len(words) <= _MAX_PERSON_WORDS
    return is_short and _is_alphabetic(words[-1]) and words[-1] not in _JOINERS


def _is_alphabetic(word: str) -> bool:
    """Return whether a word consists of letters and their combining marks."""
    is_letter = (c.isalpha() or unicodedata.category(c).startswith("M") for c in word)
    return word[:1].isalpha() and all(is_letter)


def _is_cased(letter: str) -> bool:
    return letter.upper() != letter


class AliasIndex:
    """Finds the names that may have a spelling, an alias, a part or a word, by their letters.

    Args:
        names: Names with single spaces between words.

    Attributes:
        names: The rows of the names by their own letters.
        aliases: The rows of the names by their aliases.
        parts: The rows of the names by their first word, and by its initial and the last word.
        words: The rows of the names by each of their words.
    """

    def __init__(self, names: NameCodes) -> None:
        table = plain_table(names.codes)
        kinds = [_Blocks() for _ in range(4)]
        for first, block in _blocks(names):
            words = _Words(block, table)
            found = words.own(), words.aliases(), words.parts(), words.all()
            for kind, some in zip(kinds, found, strict=True):
                kind.add(first, some)
        self.names, self.aliases, self.parts, self.words = (kind.keys for kind in kinds)

    @classmethod
    def of(cls, names: NameKeys, aliases: NameKeys, parts: NameKeys, words: NameKeys) -> Self:
        """Return the index of keys that were computed before."""
        index = cls.__new__(cls)
        index.names, index.aliases, index.parts, index.words = names, aliases, parts, words
        return index


class _Blocks:
    """The hashes of blocks of names."""

    def __init__(self) -> None:
        self._hashes: list[Keys] = [np.empty(0, dtype=np.uint64)]
        self._rows: list[IntArray] = [np.empty(0, dtype=np.int64)]

    def add(self, first: int, found: Iterable[_Hashed]) -> None:
        for hashes, rows in found:
            self._hashes.append(hashes)
            self._rows.append(rows + first)

    @property
    def keys(self) -> NameKeys:
        return NameKeys(np.concatenate(self._hashes), np.concatenate(self._rows))


def _blocks(names: NameCodes) -> Iterator[tuple[int, NameCodes]]:
    """Yield parts of the names, without their strings, and the first row of each.

    Blocks limit the memory that hashes need.
    """
    for first in range(0, len(names.starts), _BLOCK):
        part = slice(first, first + _BLOCK)
        starts, ends = names.starts[part], names.ends[part]
        origin = int(starts[0]) - 1
        codes = names.codes[origin : int(ends[-1]) + 1]
        yield first, NameCodes((), codes, starts - origin, ends - origin)


class _Words:
    """The words of names without dots, and the hashes of the aliases among them.

    Each method returns at least the aliases of `aliases_of`.
    """

    def __init__(self, names: NameCodes, table: Callable[[CodePoints], CodePoints]) -> None:
        dots = np.flatnonzero(names.codes == ord("."))
        self._codes = np.delete(names.codes, dots) if len(dots) else names.codes
        starts = names.starts - np.searchsorted(dots, names.starts)
        ends = names.ends - np.searchsorted(dots, names.ends)
        self._names = NameCodes(names.names, self._codes, starts, ends)
        spaces = np.flatnonzero(self._codes == SPACE)
        # A space precedes and follows each name, so words lie between consecutive spaces.
        self._starts, self._ends = spaces[:-1] + 1, spaces[1:]
        self._first_words = np.searchsorted(spaces, starts - 1)
        self._counts = np.diff(self._first_words, append=len(self._starts))
        self._table = table
        self._keyed = KeyedCodes(table(self._codes))

    def own(self) -> Iterator[_Hashed]:
        """Yield the names."""
        yield self._hashed(self._names.starts, self._names.ends, np.arange(len(self._counts)))

    def all(self) -> Iterator[_Hashed]:
        """Yield the words of the names."""
        rows = np.repeat(np.arange(len(self._counts)), self._counts)
        yield self._hashed(self._starts, self._ends, rows)

    def parts(self) -> Iterator[_Hashed]:
        """Yield the first words of names that may be those of people, and short forms of names."""
        rows = self._short_names()
        first = self._first_words[rows]
        yield self._hashed(self._starts[first], self._ends[first], rows)
        last = first + self._counts[rows] - 1
        surnames, rows = self._hashed(self._starts[last], self._ends[last], rows)
        letters = self._table(self._codes[self._starts[self._first_words[rows]]])
        yield after_initial(letters, surnames), rows

    def aliases(self) -> Iterator[_Hashed]:
        """Yield the aliases of several kinds."""
        rows = self._short_names()
        last = self._first_words[rows] + self._counts[rows] - 1
        yield self._hashed(self._starts[last], self._ends[last], rows)
        yield self._initials()
        yield self._beginnings()
        yield self._parts_of_chinese_names()

    def _short_names(self) -> IntArray:
        return np.flatnonzero((self._counts > 1) & (self._counts <= _MAX_PERSON_WORDS))

    def _hashed(self, starts: IntArray, ends: IntArray, rows: IntArray) -> _Hashed:
        """Return the hashes of the ranges that have a letter or digit."""
        has_letters = self._keyed.lengths(starts, ends) > 0
        starts, ends = starts[has_letters], ends[has_letters]
        return self._keyed.hashes(starts, ends), rows[has_letters]

    def _initials(self) -> _Hashed:
        rows = np.flatnonzero(self._counts > 1)
        letters = self._codes[self._starts]
        has_initial = _cased(letters) & ~self._are_joiners()
        sums = exclusive_sums(has_initial)
        first = self._first_words[rows]
        starts, ends = sums[first], sums[first + self._counts[rows]]
        is_long = ends - starts > 1
        keyed = KeyedCodes(self._table(letters[has_initial]))
        return keyed.hashes(starts[is_long], ends[is_long]), rows[is_long]

    def _beginnings(self) -> _Hashed:
        """Return the parts before colons."""
        colons = np.flatnonzero(self._codes == ord(":"))
        rows = self._names.owners(colons)
        return self._hashed(self._names.starts[rows], colons, rows)

    def _parts_of_chinese_names(self) -> _Hashed:
        """Return the first and the last two characters of short names, and ends after a dot."""
        starts, ends = self._names.starts, self._names.ends
        lengths = ends - starts
        short = np.flatnonzero((lengths > 1) & (lengths <= _LONGEST_CHINESE))
        short = short[self._codes[starts[short]] >= _FIRST_IDEOGRAPH]
        dots = np.flatnonzero(self._codes == ord("·"))
        dotted = self._names.owners(dots)
        first, end = starts[short], ends[short]
        return self._hashed(
            np.concatenate([first, first, end - 2, dots + 1]),
            np.concatenate([first + 1, first + 2, end, ends[dotted]]),
            np.concatenate([short, short, short, dotted]),
        )

    def _are_joiners(self) -> NDArray[np.bool_]:
        lengths = self._ends - self._starts
        short = np.flatnonzero((lengths > 0) & (lengths <= _LONGEST_JOINER))
        packed = np.zeros(len(short), dtype=np.int64)
        for offset in range(_LONGEST_JOINER):
            inside = lengths[short] > offset
            letters = self._codes[np.where(inside, self._starts[short] + offset, 0)]
            packed |= np.where(inside, letters.astype(np.int64), 0) << (21 * offset)
        joiners = [sum(ord(c) << (21 * i) for i, c in enumerate(joiner)) for joiner in _JOINERS]
        are_joiners = np.zeros(len(lengths), dtype=np.bool_)
        are_joiners[short[np.isin(packed, joiners)]] = True
        return are_joiners


def _cased(letters: CodePoints) -> NDArray[np.bool_]:
    """Return which letters have capitals."""
    present = np.zeros(int(letters.max(initial=0)) + 1, dtype=np.bool_)
    present[letters] = True
    cased = [code for code in np.flatnonzero(present).tolist() if _is_cased(chr(code))]
    present[:] = False
    present[cased] = True
    mask: NDArray[np.bool_] = present[letters]
    return mask
