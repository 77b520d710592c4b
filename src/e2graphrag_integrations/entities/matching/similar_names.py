"""Fuzzy matching of one name against a very large number of names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray, concatenated_ranges, exclusive_sums
from e2graphrag_integrations.entities.matching.name_keys import (
    SPACE,
    CodePoints,
    KeyedCodes,
    Keys,
    NameCodes,
    code_points,
)

_MIN_SIMILARITY = 88.0
"""Minimum similarity of a misspelling, from 0 to 100; about one letter in nine may differ."""

_MAX_MATCHES = 5
"""Maximum number of matches returned. The caller drops matches with different numerals."""

_MIN_LENGTH = 5
"""Minimum length of names that are compared, in characters. Shorter names match too easily."""

_BLOCK = 100_000
"""Number of words that are hashed at a time."""

_Names = tuple[IntArray, IntArray, NDArray[np.uint64]]
"""The rows of names, their lengths and their letter sets."""


class FuzzyNames:
    """Finds similar names, regardless of word order.

    A cheap filter precedes the exact comparison. It keeps a name if one of its words begins with
    the first letter of the query, and if the letters that occur in only one of the two names are
    few enough to permit the required similarity. The filter of a first letter is prepared when a
    query begins with it.

    Args:
        names: Names with single spaces between words.
    """

    def __init__(self, names: NameCodes) -> None:
        self._names = names
        self._by_first_letter: dict[str, _Names] = {}

    def most_similar(self, form: str) -> list[tuple[str, float]]:
        """Return up to five similar names, best first, each with its similarity between 0 and 1."""
        from rapidfuzz import fuzz, process

        if len(form) < _MIN_LENGTH:
            return []
        rows, lengths, letters = self._with_first_letter(form[0])
        # The similarity is 1 - d / (sum of lengths), where d is the number of inserted or deleted
        # letters. d is at least the number of letters that occur in only one of the names.
        [own] = _letter_sets(code_points(form), np.zeros(1, dtype=np.int64))
        near = rows[
            np.maximum(np.bitwise_count(letters ^ own), np.abs(lengths - len(form))) * 100
            <= (100 - _MIN_SIMILARITY) * (lengths + len(form))
        ]
        found = process.extract(
            form,
            [self._names.names[row] for row in near.tolist()],
            scorer=fuzz.token_sort_ratio,
            score_cutoff=_MIN_SIMILARITY,
            limit=_MAX_MATCHES,
        )
        return [(name, score / 100) for name, score, _ in found]

    def _with_first_letter(self, letter: str) -> _Names:
        """Return the names in which a letter begins a word, in ascending order."""
        if letter not in self._by_first_letter:
            self._by_first_letter[letter] = self._prepare(ord(letter))
        return self._by_first_letter[letter]

    def _prepare(self, letter: int) -> _Names:
        names = self._names
        at = np.flatnonzero(names.codes == letter)
        owners = names.owners(at[names.codes[at - 1] == SPACE])
        rows = owners[np.diff(owners, prepend=-1) > 0]
        lengths = names.ends[rows] - names.starts[rows]
        rows, lengths = rows[lengths >= _MIN_LENGTH], lengths[lengths >= _MIN_LENGTH]
        codes = names.codes[concatenated_ranges(names.starts[rows], lengths)]
        return rows, lengths, _letter_sets(codes, exclusive_sums(lengths)[:-1])


class NameWords:
    """The distinct words of names, among which a misspelled word is looked up.

    Args:
        names: Names with single spaces between words.

    Attributes:
        starts, lengths: The place of each word in the code points, ordered by the first letter.
        letters: The set of letters of each word.
    """

    def __init__(self, names: NameCodes) -> None:
        spaces = np.flatnonzero(names.codes == SPACE)
        starts, ends = spaces[:-1] + 1, spaces[1:]
        long = ends - starts >= _MIN_LENGTH
        starts, ends = starts[long], ends[long]
        hashes = np.concatenate(
            [np.empty(0, dtype=np.uint64), *_hashed_words(names.codes, starts, ends)]
        )
        _, rows = np.unique(hashes, return_index=True)
        rows = rows[np.argsort(names.codes[starts[rows]], kind="stable")]
        self._set(names, starts[rows], (ends - starts)[rows])
        letters = names.codes[concatenated_ranges(self.starts, self.lengths)]
        self.letters = _letter_sets(letters, exclusive_sums(self.lengths)[:-1])

    @classmethod
    def of(
        cls, names: NameCodes, starts: IntArray, lengths: IntArray, letters: NDArray[np.uint64]
    ) -> Self:
        """Return the words of names that have these attributes."""
        words = cls.__new__(cls)
        words._set(names, starts, lengths)  # noqa: SLF001 - an instance of this class
        words.letters = letters
        return words

    def _set(self, names: NameCodes, starts: IntArray, lengths: IntArray) -> None:
        self._codes, self.starts, self.lengths = names.codes, starts, lengths
        self._first = names.codes[starts]  # ascending

    def one_typo_from(self, word: str) -> list[str]:
        """Return the words with the same first letter that one typo turns into a word, sorted."""
        from rapidfuzz.distance import OSA

        if len(word) < _MIN_LENGTH:
            return []
        [own] = _letter_sets(code_points(word), np.zeros(1, dtype=np.int64))
        first, end = (
            int(np.searchsorted(self._first, ord(word[0]), side)) for side in ("left", "right")
        )
        near = np.flatnonzero(
            (np.abs(self.lengths[first:end] - len(word)) <= 1)
            & (np.bitwise_count(self.letters[first:end] ^ own) <= 2)  # noqa: PLR2004 - one replaced
        )
        words = (self._word(first + place) for place in near.tolist())
        return sorted(one for one in words if OSA.distance(one, word, score_cutoff=1) == 1)

    def _word(self, place: int) -> str:
        start = int(self.starts[place])
        return "".join(map(chr, self._codes[start : start + int(self.lengths[place])].tolist()))


def typos(form: str, name: str) -> int:
    """Return the number of typos between two names, regardless of word order.

    A typo is a wrong, a missing or an additional letter, or two letters in the wrong order.
    """
    from rapidfuzz.distance import OSA

    first, second = (" ".join(sorted(one.split(" "))) for one in (form, name))
    return int(OSA.distance(first, second))


def _hashed_words(codes: CodePoints, starts: IntArray, ends: IntArray) -> Iterator[Keys]:
    """Yield the hashes of words, in blocks that limit the memory they need."""
    for first in range(0, len(starts), _BLOCK):
        own = slice(first, first + _BLOCK)
        origin, stop = int(starts[own][0]), int(ends[own][-1])
        keyed = KeyedCodes(codes[origin:stop])
        yield keyed.hashes(starts[own] - origin, ends[own] - origin)


def _letter_sets(codes: CodePoints, starts: IntArray) -> NDArray[np.uint64]:
    """Return the set of letters of each name as a 64-bit mask. Several letters share one bit."""
    bits = np.uint64(1) << np.arange(64, dtype=np.uint64)
    if not len(starts):
        return np.empty(0, dtype=np.uint64)
    sets: NDArray[np.uint64] = np.bitwise_or.reduceat(bits[codes % 64], starts)
    return sets
