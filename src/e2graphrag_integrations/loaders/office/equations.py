"""Read the equations of Word and PowerPoint as plain text, such as `1/2` and `10^6`.

Elements say which number is above which; without signs between them, one half would be 12.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from e2graphrag_integrations.loaders.archives import attribute
from e2graphrag_integrations.loaders.office.runs import Runs

_PARTS = frozenset("f sSup sSub sSubSup sPre rad nary d func limLow limUpp m eqArr".split())
_OPERANDS = frozenset("num den sup sub lim deg fName e mr".split())
"""Parts of an equation that have a structure, and what they consist of."""

_SIGNS = {
    "den": "/",
    "sup": "^",
    "sub": "_",
    "lim": "_",
    "limUpp lim": "^",
    "rad e": "√",
    "func e": " ",
    "nary e": " ",
    "mr e": " ",
    "eqArr e": "; ",
    "mr": "; ",
}
"""What stands before an operand, by its name, or by the names of its part and itself."""

_LISTS = frozenset({"d", "m", "mr", "eqArr"})
"""Parts that have signs only between their operands."""

_WRAPPED = frozenset("num den sup sub lim".split())
_WITH_BASE = frozenset({"sSup", "sSub", "sSubSup", "rad"})
"""Operands, and parts with an operand `e`, that need brackets around more than a word."""

_CHARACTERS = {"begChr": "opening", "endChr": "closing", "sepChr": "sign", "chr": "sign"}
"""Elements that say the brackets and the sign of a part."""

_FIRST, _FURTHER = re.compile(r"[-−–]?[\w.,]*"), re.compile(r"[\w.,]*")
"""The first text of a word or a number, and further ones."""


@dataclass
class _Part:
    """An open part or operand of an equation.

    Attributes:
        name: Its name.
        start: Index of the text that is left free for its sign and bracket.
        sign: What stands before an operand, between those in brackets, or that of a sum.
        is_wrapped: Whether it is put in brackets if it is more than a word.
        size: Number of the texts, parts or operands in it.
        is_word: Whether they are one word or number.
        is_bracket: Whether the last of them has brackets.
    """

    name: str
    start: int
    sign: str = ""
    is_wrapped: bool = False
    opening: str = "("
    closing: str = ")"
    size: int = 0
    is_word: bool = True
    is_bracket: bool = False

    def count(self, *, is_word: bool = False, is_bracket: bool = False) -> None:
        """Count a text, part or operand."""
        self.size += 1
        self.is_word, self.is_bracket = self.is_word and is_word, is_bracket


class RunsWithEquations(Runs):
    """The texts of the runs and the equations of a paragraph."""

    def __init__(self) -> None:
        super().__init__()
        self._open: list[_Part] = []
        self._continues: Callable[[str], bool] = _never

    def add(self, text: str) -> None:
        """Add a text of the open run, unless it is hidden."""
        if not text or self.is_hidden:
            return
        if self._continues(text[0]):
            super().add(" ")
        self._continues = _never
        if self._open:
            pattern = _FURTHER if self._open[-1].size else _FIRST
            self._open[-1].count(is_word=pattern.fullmatch(text) is not None)
        super().add(text)

    def start(self, name: str, element: Any) -> None:
        """Begin an element if it belongs to an equation."""
        if "/math}" not in element.tag:
            return
        above = self._open[-1] if self._open else _Part("", 0)
        if name in _CHARACTERS and above.name in {"d", "nary"}:
            setattr(above, _CHARACTERS[name], attribute(element, "val") or "")
        elif name in _PARTS:
            if self._continues("0") or (name == "f" and self.last.isalnum()):
                super().add(" ")
            sign = {"d": "|", "nary": "∫"}.get(name, "")
            self._begin(_Part(name, len(self.texts), sign))
        elif name in _OPERANDS:
            own = above.sign if (above.name, name) == ("d", "e") else _sign(above.name, name)
            sign = "" if above.name in _LISTS and not above.size else own
            is_wrapped = name in _WRAPPED or (name == "e" and above.name in _WITH_BASE)
            self._begin(_Part(name, len(self.texts), sign, is_wrapped))
            self.last = sign or self.last

    def _begin(self, part: _Part) -> None:
        self._open.append(part)
        self._continues = _never
        self.texts.append("")

    def end(self, name: str, element: Any) -> None:
        """End an element if it belongs to an equation."""
        if "/math}" not in element.tag or not self._open:
            return
        if name == "naryPr":
            self.add(self._open[-1].sign)
        if name != self._open[-1].name:
            return
        part = self._open.pop()
        is_compound = not part.is_word and not (part.is_bracket and part.size == 1)
        if name == "d" or (part.is_wrapped and is_compound):
            self.texts[part.start] = part.opening if name == "d" else f"{part.sign}("
            self.texts.append(part.closing)
            self.last = part.closing or self.last
        elif name in _OPERANDS and part.size:
            self.texts[part.start] = part.sign
        self._continues = _CONTINUE.get(name, _never)
        if self._open:
            self._open[-1].count(is_bracket=name == "d")


def _sign(part: str, operand: str) -> str:
    return _SIGNS.get(f"{part} {operand}", _SIGNS.get(operand, ""))


def _never(_letter: str) -> bool:
    return False


_CONTINUE: dict[str, Callable[[str], bool]] = {
    "f": str.isalnum,
    **dict.fromkeys(("sSup", "sSub", "sSubSup"), str.isdecimal),
}
"""Which letters after a part would seem to belong to its last operand."""
