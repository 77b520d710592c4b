"""Fuzzy matching of one name against a very large number of names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray, exclusive_sums
from e2graphrag_integrations._utils.lazy import lazy

_MIN_SIMILARITY = 88.0
"""Minimum similarity of a misspelling, from 0 to 100; about one letter in nine may differ."""

_MAX_MATCHES = 5
"""Maximum number of matches returned. The caller drops matches with different numerals."""

_MIN_LENGTH = 5
"""Minimum length of names that are compared, in characters. Shorter names match too easily."""

_SPACE = ord(" ")


class FuzzyNames:
    """Finds similar names, regardless of word order.

    A cheap filter precedes the exact comparison. It keeps a name if one of its words begins with
    the first letter of the query, and if the letters that occur in only one of the two names are
    few enough to permit the required similarity.

    Args:
        names: Names with single spaces between words.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = [name for name in names if len(name) >= _MIN_LENGTH]

    def most_similar(self, form: str) -> list[tuple[str, float]]:
        """Return up to five similar names, best first, each with its similarity between 0 and 1."""
        from rapidfuzz import fuzz, process

        if len(form) < _MIN_LENGTH or not self._names:
            return []
        of_letter, all_lengths, all_letters = self._table
        rows = of_letter.get(ord(form[0]), np.empty(0, dtype=np.int64))
        lengths, letters = all_lengths[rows], all_letters[rows]
        # The similarity is 1 - d / (sum of lengths), where d is the number of inserted or deleted
        # letters. d is at least the number of letters that occur in only one of the names.
        [own] = _letter_sets(*_codes([form]))
        near = rows[
            np.maximum(np.bitwise_count(letters ^ own), np.abs(lengths - len(form))) * 100
            <= (100 - _MIN_SIMILARITY) * (lengths + len(form))
        ]
        found = process.extract(
            form,
            [self._names[row] for row in near.tolist()],
            scorer=fuzz.token_sort_ratio,
            score_cutoff=_MIN_SIMILARITY,
            limit=_MAX_MATCHES,
        )
        return [(name, score / 100) for name, score, _ in found]

    @lazy
    def _table(self) -> tuple[dict[int, IntArray], IntArray, NDArray[np.uint64]]:
        """Return the names' rows by the first letters of words, their lengths and letter sets."""
        codes, bounds = _codes(self._names)
        return _by_first_letter(codes, bounds), np.diff(bounds), _letter_sets(codes, bounds)


def _codes(names: Sequence[str]) -> tuple[NDArray[np.uint32], IntArray]:
    """Return the concatenated code points of all names, and the offset of each name."""
    data = "".join(names).encode("utf-32-le", "surrogatepass")
    return np.frombuffer(data, dtype="<u4"), exclusive_sums([len(name) for name in names])


def _letter_sets(codes: NDArray[np.uint32], bounds: IntArray) -> NDArray[np.uint64]:
    """Return the set of letters of each name as a 64-bit mask. Several letters share one bit."""
    bits = np.uint64(1) << np.arange(64, dtype=np.uint64)
    sets: NDArray[np.uint64] = np.bitwise_or.reduceat(bits[codes % 64], bounds[:-1])
    return sets


def _by_first_letter(codes: NDArray[np.uint32], bounds: IntArray) -> dict[int, IntArray]:
    """Return, for each letter, the ascending rows of the names in which it begins a word."""
    first = np.ones(len(codes), dtype=np.bool_)
    first[1:] = codes[:-1] == _SPACE
    first[bounds[:-1]] = True
    at = np.flatnonzero(first)
    owners = np.searchsorted(bounds, at, side="right") - 1
    order = np.argsort(codes[at], kind="stable")
    letters, starts = np.unique(codes[at][order], return_index=True)
    rows = np.split(owners[order], starts[1:])
    return {letter: np.unique(each) for letter, each in zip(letters.tolist(), rows, strict=True)}
