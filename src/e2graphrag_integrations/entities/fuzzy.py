"""Fuzzy matching of one name against a very large number of names."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray, concatenated_ranges, exclusive_sums
from e2graphrag_integrations.entities.name_codes import SPACE, CodePoints, NameCodes, code_points

_MIN_SIMILARITY = 88.0
"""Minimum similarity of a misspelling, from 0 to 100; about one letter in nine may differ."""

_MAX_MATCHES = 5
"""Maximum number of matches returned. The caller drops matches with different numerals."""

_MIN_LENGTH = 5
"""Minimum length of names that are compared, in characters. Shorter names match too easily."""

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


def _letter_sets(codes: CodePoints, starts: IntArray) -> NDArray[np.uint64]:
    """Return the set of letters of each name as a 64-bit mask. Several letters share one bit."""
    bits = np.uint64(1) << np.arange(64, dtype=np.uint64)
    sets: NDArray[np.uint64] = np.bitwise_or.reduceat(bits[codes % 64], starts)
    return sets
