"""Names found by their letters and digits, whatever separates them.

The key of a name is a number computed from its letters and digits without case, marks, spaces,
hyphens and punctuation: "Green Porcelain", "green-porcelain" and "GREENPORCELAIN" have one key. The
characters of all names are in one array. Their keys are computed at once and sorted, so that all
parts of a question are looked up in some microseconds each.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray, exclusive_sums
from e2graphrag_integrations._utils.strings import StringArray
from e2graphrag_integrations.entities.normalize import without_marks

SPACE = ord(" ")
_LINE_END = ord("\n")
_LAST_ASCII = 0x7F
_MASK, _CONTINUATION = 0xC0, 0x80
"""The bits that mark a byte within a character in UTF-8."""

CodePoints = NDArray[np.unsignedinteger[Any]]
"""Code points: one byte each if all of them are ASCII, otherwise four."""


@dataclass(frozen=True, eq=False)
class NameCodes:
    """The code points of names, with a space before and after each name.

    Attributes:
        names: The names.
        codes: The code points of all names.
        starts, ends: The range of each name in `codes`, half-open.
    """

    names: Sequence[str]
    codes: CodePoints
    starts: IntArray
    ends: IntArray

    @classmethod
    def of(cls, names: Sequence[str]) -> Self:
        """Return the code points of names."""
        if not isinstance(names, StringArray):
            return cls._of_list(names)
        separators = names.bounds + np.arange(len(names.bounds))
        encoded = np.empty(len(names.data) + len(separators), dtype=np.uint8)
        is_separator = np.zeros(len(encoded), dtype=np.bool_)
        is_separator[separators] = True
        encoded[is_separator] = SPACE
        encoded[~is_separator] = names.data
        codes: CodePoints = encoded
        if encoded.max() > _LAST_ASCII:
            codes = code_points(encoded.tobytes().decode())
            separators = (np.cumsum((encoded & _MASK) != _CONTINUATION) - 1)[separators]
        return cls(names, codes, separators[:-1] + 1, separators[1:])

    @classmethod
    def _of_list(cls, names: Sequence[str]) -> Self:
        """Return the code points of names, which may contain lone surrogates."""
        codes = code_points("\n".join(["", *names, ""]))
        bounds = np.flatnonzero(codes == _LINE_END)
        if len(bounds) != len(names) + 1:  # a name contains a line end
            bounds = exclusive_sums([len(name) + 1 for name in names])
        codes[bounds] = SPACE
        return cls(names, codes, bounds[:-1] + 1, bounds[1:])

    def owners(self, positions: IntArray) -> IntArray:
        """Return the rows of the names that contain positions in `codes`."""
        owners: IntArray = np.searchsorted(self.starts, positions, side="right") - 1
        return owners


def code_points(text: str) -> CodePoints:
    """Return the code points of a text, in a new array."""
    if text.isascii():
        return np.frombuffer(bytearray(text, "ascii"), dtype=np.uint8)
    return np.frombuffer(bytearray(text, "utf-32-le", "surrogatepass"), dtype="<u4")


Keys = NDArray[np.uint64]

_BASE = 0x9E3779B97F4A7C15
"""An odd factor, which therefore has an inverse modulo 2 ** 64."""

_INVERSE = pow(_BASE, -1, 1 << 64)
_MIXER = np.uint64(0xBF58476D1CE4E5B9)
_KEY_BITS = 64
_FEW = 2_000
"""Number of letters in most questions."""

_MARKS = range(0x300, 0x370)


def is_mark(character: str) -> bool:
    """Return whether a character is a combining accent."""
    return ord(character) in _MARKS


@lru_cache(4096)
def key_letter(character: str) -> str:
    """Return the letter of a key for a character of a folded text, or "" if keys leave it out."""
    if is_mark(character):
        return ""
    if not character.isalnum() and not unicodedata.category(character).startswith("M"):
        return ""
    plain = without_marks(character)
    return plain if len(plain) == 1 else character


def key_letters(form: str) -> str:
    """Return the letters and digits of a folded text that its key is computed from.

    >>> key_letters("o'hara-brontë jr.")
    'oharabrontejr'
    """
    return "".join(map(key_letter, form))


class KeyedCodes:
    """The keys of ranges of code points.

    Args:
        codes: Code points of a folded text, 0 for those that keys leave out.
    """

    def __init__(self, codes: CodePoints) -> None:
        is_kept = codes > 0
        self.places = exclusive_sums(is_kept)
        size = int(self.places[-1]) + 1
        self._inverses = _powers(_INVERSE, size)
        weighted = codes.astype(np.uint64) * _powers(_BASE, size)[self.places[:-1]]
        self._sums = np.zeros(len(codes) + 1, dtype=np.uint64)
        np.cumsum(weighted, out=self._sums[1:])

    def hashes(self, starts: IntArray, ends: IntArray) -> Keys:
        """Return the hash of each range: equal for equal letters."""
        sums = self._sums[ends] - self._sums[starts]
        hashes: Keys = sums * self._inverses[self.places[starts]]
        return hashes

    def lengths(self, starts: IntArray, ends: IntArray) -> IntArray:
        """Return the number of letters in each range."""
        return self.places[ends] - self.places[starts]


def after_initial(initials: CodePoints, hashes: Keys) -> Keys:
    """Return the hashes of ranges with one more letter in front."""
    return initials.astype(np.uint64) + hashes * np.uint64(_BASE)


def plain_table(codes: CodePoints) -> Callable[[CodePoints], CodePoints]:
    """Return a function that replaces code points by those of keys; 0 for none."""
    present = np.zeros(int(codes.max(initial=0)) + 1, dtype=np.bool_)
    present[codes] = True
    table = np.zeros(len(present), dtype=codes.dtype)
    for code in np.flatnonzero(present).tolist():
        table[code] = ord(key_letter(chr(code)) or "\0")
    return lambda some: table[some]


class NameKeys:
    """The rows of names by hash, in one sorted array.

    Args:
        hashes: A hash for each name or alias.
        rows: The row of each.

    Attributes:
        packed: The leading bits of each mixed hash, then its row; ascending.
        bits: Number of bits of a row.
    """

    def __init__(self, hashes: Keys, rows: IntArray) -> None:
        self.bits = max(1, int(rows.max(initial=0)).bit_length())
        packed = (self._keys(hashes) << self._bits) | rows.astype(np.uint64)
        self.packed: Keys = np.sort(packed)

    @classmethod
    def restored(cls, packed: Keys, bits: int) -> Self:
        """Return the keys with these attributes."""
        keys = cls.__new__(cls)
        keys.packed = packed
        keys.bits = bits
        return keys

    @property
    def _bits(self) -> np.uint64:
        return np.uint64(self.bits)

    @property
    def _mask(self) -> int:
        return (1 << self.bits) - 1

    def fits(self, names: int) -> bool:
        """Return whether the rows are those of a number of names."""
        packed = self.packed
        return (
            packed.dtype == np.uint64
            and packed.ndim == 1
            and 0 < self.bits < _KEY_BITS
            and int((packed & np.uint64(self._mask)).max(initial=0)) < max(1, names)
        )

    def find(self, hashes: Keys) -> Iterator[tuple[int, list[int]]]:
        """Yield the place of each hash that names may have, and their distinct rows, ascending."""
        if not len(self.packed):
            return
        keys = self._keys(hashes)
        starts = np.searchsorted(self.packed, keys << self._bits)
        inside = np.minimum(starts, len(self.packed) - 1)
        hits = np.flatnonzero((starts == inside) & (self.packed[inside] >> self._bits == keys))
        if not len(hits):
            return
        last = (keys[hits] << self._bits) | np.uint64(self._mask)
        ends = np.searchsorted(self.packed, last, side="right")
        for hit, start, end in zip(
            hits.tolist(), starts[hits].tolist(), ends.tolist(), strict=True
        ):
            rows = (self.packed[start:end] & np.uint64(self._mask)).tolist()
            yield hit, sorted({int(row) for row in rows})

    def _keys(self, hashes: Keys) -> Keys:
        mixed = hashes * _MIXER
        mixed ^= mixed >> np.uint64(32)
        return (mixed * _MIXER) >> self._bits


def hash_of(letters: str) -> Keys:
    """Return the hash of the letters of a key, in an array of one."""
    codes = np.array([ord(one) for one in letters], dtype=np.uint32)
    return KeyedCodes(codes).hashes(np.zeros(1, dtype=np.int64), np.array([len(codes)]))


def _powers(base: int, count: int) -> Keys:
    return _few_powers(base)[:count] if count <= _FEW else _computed_powers(base, count)


@lru_cache(2)
def _few_powers(base: int) -> Keys:
    return _computed_powers(base, _FEW)


def _computed_powers(base: int, count: int) -> Keys:
    powers = np.full(count, base, dtype=np.uint64)
    powers[0] = 1
    np.cumprod(powers, out=powers)
    return powers
