"""Join the runs of a paragraph in an office file.

Runs differ in their look, which can tell numbers apart: 10 with the exponent 6 is not 106.
"""

from __future__ import annotations

import re

_MINUS = frozenset("-−–")

_ESCAPE = re.compile(r"_x00([0-9A-Fa-f]{2})_")
"""A character that XML cannot contain, or the `_` before what only looks so. Larger codes, such as
`_x2024_`, are rather parts of a name."""


class Runs:
    """The texts of the runs of a paragraph.

    Attributes:
        texts: The texts so far.
        last: The last character; empty if there is none.
        is_raised: Whether the open run is a superscript.
        is_hidden: Whether the open run is not shown.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.last = ""
        self.is_raised = self.is_hidden = False
        self._ends_raised = False
        self._has_break = False

    def start_run(self) -> None:
        """Begin a run, which is neither raised nor hidden yet."""
        self.is_raised = self.is_hidden = False

    def add(self, text: str) -> None:
        """Add a text of the open run, unless it is hidden."""
        if not text or self.is_hidden:
            return
        is_number = text[0].isdecimal() or text[0] in _MINUS
        # Without a sign between them, 10 with the exponent 6 is another number, 106.
        if self.is_raised and not self._ends_raised and is_number and self.last.isdecimal():
            self.texts.append("^")
        elif self._has_break and self.last.strip() and not text[0].isspace():
            self.texts.append("\n")
        self.texts.append(text)
        self.last, self._ends_raised, self._has_break = text[-1], self.is_raised, False

    def take(self) -> str:
        """Return the text, and begin another one."""
        text = "".join(self.texts)
        if text:
            self.texts, self.last, self._ends_raised = [], "", False
            self.start_run()
        return text

    def add_break(self) -> None:
        """Begin a page or a column, which is a new line if there is text on both sides."""
        self._has_break = self._has_break or not self.is_hidden


def unescape(text: str) -> str:
    r"""Return a text of a sheet or a slide with the characters that are escaped in it.

    >>> unescape("Deich 9_x000D_, file_x005F_x0041_, _x0001_")
    'Deich 9\r, file_x0041_, _x0001_'
    """

    def character(match: re.Match[str]) -> str:
        found = chr(int(match[1], 16))
        return found if found.isprintable() or found.isspace() else match[0]

    return _ESCAPE.sub(character, text)
