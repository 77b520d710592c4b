"""Spellings: which of very many names are written almost like another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray, exclusive_sums
from e2graphrag_integrations._utils.lazy import lazy

_SIMILAR = 88.0
"""Least similarity, of 100, of a misspelling: one letter of nine may differ."""

_COMPARED = 5
"""Names most like another that are looked at: some of them differ in a number."""

_SHORTEST = 5
"""Characters of the shortest name that is compared: of shorter ones all are alike."""

_SPACE = ord(" ")


class FuzzyNames:
    """Finds names that are written almost alike, whatever the order of their words.

    Two names are compared letter by letter if one has a word that begins as the other does, and
    the letters that only one of them has are few enough for them to be similar at all.

    Args:
        names: Their words are parted by single spaces.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = [name for name in names if len(name) >= _SHORTEST]

    def like(self, form: str) -> list[tuple[str, float]]:
        """Return up to five names most like a form, best first, with how similar each is, to 1."""
        from rapidfuzz import fuzz, process

        if len(form) < _SHORTEST or not self._names:
            return []
        of_letter, all_lengths, all_letters = self._table
        rows = of_letter.get(ord(form[0]), np.empty(0, dtype=np.int64))
        lengths, letters = all_lengths[rows], all_letters[rows]
        # Similarity is 1 - d / (both lengths), d letters put in or taken out: at least those that
        # one has and the other has not.
        [own] = _letter_sets(*_codes([form]))
        near = rows[
            np.maximum(np.bitwise_count(letters ^ own), np.abs(lengths - len(form))) * 100
            <= (100 - _SIMILAR) * (lengths + len(form))
        ]
        found = process.extract(
            form,
            [self._names[row] for row in near.tolist()],
            scorer=fuzz.token_sort_ratio,
            score_cutoff=_SIMILAR,
            limit=_COMPARED,
        )
        return [(name, score / 100) for name, score, _ in found]

    @lazy
    def _table(self) -> tuple[dict[int, IntArray], IntArray, NDArray[np.uint64]]:
        """Return names by the first letters of their words; the length and letters of each."""
        codes, bounds = _codes(self._names)
        return _by_first_letter(codes, bounds), np.diff(bounds), _letter_sets(codes, bounds)


def _codes(names: Sequence[str]) -> tuple[NDArray[np.uint32], IntArray]:
    """Return the code points of all names in a row, and where each begins and the last ends."""
    data = "".join(names).encode("utf-32-le", "surrogatepass")
    return np.frombuffer(data, dtype="<u4"), exclusive_sums([len(name) for name in names])


def _letter_sets(codes: NDArray[np.uint32], bounds: IntArray) -> NDArray[np.uint64]:
    """Return the letters of each name as bits of one number; several letters share a bit."""
    bits = np.uint64(1) << np.arange(64, dtype=np.uint64)
    sets: NDArray[np.uint64] = np.bitwise_or.reduceat(bits[codes % 64], bounds[:-1])
    return sets


def _by_first_letter(codes: NDArray[np.uint32], bounds: IntArray) -> dict[int, IntArray]:
    """Return the names, ascending, that have a word with each first letter."""
    first = np.ones(len(codes), dtype=np.bool_)
    first[1:] = codes[:-1] == _SPACE
    first[bounds[:-1]] = True
    at = np.flatnonzero(first)
    owners = np.searchsorted(bounds, at, side="right") - 1
    order = np.argsort(codes[at], kind="stable")
    letters, starts = np.unique(codes[at][order], return_index=True)
    rows = np.split(owners[order], starts[1:])
    return {letter: np.unique(each) for letter, each in zip(letters.tolist(), rows, strict=True)}
