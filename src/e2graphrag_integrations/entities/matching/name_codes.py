"""The characters of very many names in one array, for searches in all of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray, exclusive_sums
from e2graphrag_integrations._utils.strings import StringArray

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
