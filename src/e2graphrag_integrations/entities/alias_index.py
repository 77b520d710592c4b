"""The aliases of very many names, found through an array that is quick to compute.

A dictionary of all aliases takes seconds for 400,000 names. Instead, each alias has a signature: a
number that few different aliases share. The signatures of all names are computed at once, and the
rules are applied to the few names with the right signature.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray, exclusive_sums
from e2graphrag_integrations.entities.chinese_names import LONGEST_PERSON, chinese_aliases
from e2graphrag_integrations.entities.name_codes import SPACE, CodePoints, NameCodes, code_points

_JOINERS = frozenset({"of", "the", "and", "for", "in", "on", "at", "de", "la", "von", "van", "&"})
_LONGEST_JOINER = max(map(len, _JOINERS))
_MAX_PERSON_WORDS = 4
"""Maximum number of words in a name whose last word is treated as a surname, which is an alias."""

_FIRST_IDEOGRAPH = 0x2E80
"""All Chinese characters have higher code points."""

_MULTIPLIER = np.uint32(2654435761)  # Knuth's constant for multiplicative hashing

_Aliases = tuple[CodePoints, IntArray, IntArray, IntArray]
"""Code points, the range of each alias in them, and the row of its name."""


def aliases_of(name: str) -> Iterator[str]:
    """Yield the aliases of a name: its last word, its initials, and the part before a colon."""
    if ":" in name and (head := name.partition(":")[0].strip()):
        yield head
    yield from chinese_aliases(name)
    words = name.replace(".", "").split(" ")
    if len(words) == 1:
        return
    if len(words) <= _MAX_PERSON_WORDS and _is_alphabetic(words[-1]) and words[-1] not in _JOINERS:
        yield words[-1]
    # Scripts without capitals have no initials.
    initials = [word[0] for word in words if _is_cased(word[:1]) and word not in _JOINERS]
    if len(initials) > 1:
        yield "".join(initials)


def _is_alphabetic(word: str) -> bool:
    """Return whether a word consists of letters and their combining marks."""
    is_letter = (c.isalpha() or unicodedata.category(c).startswith("M") for c in word)
    return word[:1].isalpha() and all(is_letter)


def _is_cased(letter: str) -> bool:
    return letter.upper() != letter


class AliasIndex:
    """Finds the names that may have an alias.

    Args:
        names: Names with single spaces between words.
    """

    def __init__(self, names: NameCodes) -> None:
        words = _Words(names)
        parts = [
            words.last_words(),
            words.initials(),
            words.beginnings(),
            words.parts_of_chinese_names(),
        ]
        self._signatures = np.concatenate([_signatures(codes, *at) for codes, *at, _ in parts])
        self._rows = np.concatenate([rows for *_, rows in parts])

    def candidates(self, alias: str) -> IntArray:
        """Return the rows of the names that may have an alias without dots, ascending.

        All names that have it are among them.
        """
        if not alias:
            return np.empty(0, dtype=np.int64)
        ends = np.array([len(alias)])
        [signature] = _signatures(code_points(alias), np.zeros_like(ends), ends)
        # Comparing all of them takes half a millisecond per million, and needs no sorting before.
        rows: IntArray = np.unique(self._rows[self._signatures == signature])
        return rows


class _Words:
    """The words of names without dots, and the ranges of the aliases among them.

    Each method returns at least the aliases of `aliases_of`.
    """

    def __init__(self, names: NameCodes) -> None:
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

    def last_words(self) -> _Aliases:
        rows = np.flatnonzero((self._counts > 1) & (self._counts <= _MAX_PERSON_WORDS))
        last = self._first_words[rows] + self._counts[rows] - 1
        return self._codes, self._starts[last], self._ends[last], rows

    def initials(self) -> _Aliases:
        rows = np.flatnonzero(self._counts > 1)
        letters = self._codes[self._starts]
        has_initial = _cased(letters) & ~self._are_joiners()
        sums = exclusive_sums(has_initial)
        first = self._first_words[rows]
        starts, ends = sums[first], sums[first + self._counts[rows]]
        is_long = ends - starts > 1
        return letters[has_initial], starts[is_long], ends[is_long], rows[is_long]

    def beginnings(self) -> _Aliases:
        """Return the parts before colons."""
        colons = np.flatnonzero(self._codes == ord(":"))
        rows = self._names.owners(colons)
        ends = colons - (self._codes[colons - 1] == SPACE)
        return self._codes, np.minimum(self._names.starts[rows], ends), ends, rows

    def parts_of_chinese_names(self) -> _Aliases:
        """Return the first and the last two characters of short names, and ends after a dot."""
        starts, ends = self._names.starts, self._names.ends
        lengths = ends - starts
        short = np.flatnonzero((lengths > 1) & (lengths <= LONGEST_PERSON))
        short = short[self._codes[starts[short]] >= _FIRST_IDEOGRAPH]
        dots = np.flatnonzero(self._codes == ord("·"))
        dotted = self._names.owners(dots)
        first, end = starts[short], ends[short]
        return (
            self._codes,
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


def _signatures(codes: CodePoints, starts: IntArray, ends: IntArray) -> NDArray[np.uint32]:
    """Return a number for each range of characters: equal for equal strings, else mostly different.

    It depends on the length, the first two, the last two and the middle character.
    """
    lengths = ends - starts
    more = lengths > 1
    signatures = lengths.astype(np.uint32)
    last = np.maximum(ends - 1, starts)
    for at in (starts, starts + more, starts + lengths // 2, last - more, last):
        signatures = (signatures ^ codes[at]) * _MULTIPLIER
    return signatures ^ (signatures >> np.uint32(16))
