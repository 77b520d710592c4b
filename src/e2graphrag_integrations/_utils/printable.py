"""Escape characters that could control a terminal or disguise a text."""

from __future__ import annotations

import re

_UNSAFE = (
    "\x00-\x08\x0b-\x1f"  # C0 except tab and newline; ESC starts commands to the terminal
    "\x7f-\x9f"  # DEL and C1, whose U+009B works like ESC [
    "\u202a-\u202e\u2066-\u2069"  # marks that reorder the characters of a line
    "\u2028\u2029"  # separators that some programs treat as a newline
    "\ud800-\udfff"  # lone surrogates, as in file names that are not valid UTF-8
)
_UNSAFE_IN_LINES = re.compile(f"[{_UNSAFE}]")
_UNSAFE_IN_LINE = re.compile(f"[\t\n{_UNSAFE}]")
_SHORT_ESCAPES = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
_LATIN_1_END = 0x100


def printable(text: object) -> str:
    r"""Return a text as a single line that a terminal shows as it is.

    Control characters, line separators, lone surrogates, and marks that reorder the characters of
    a line become escapes. Use it for texts, ids, file names and messages from elsewhere that are
    shown to a person.

    >>> print(printable("a\x1b[31m\nb"))
    a\x1b[31m\nb
    """
    return _UNSAFE_IN_LINE.sub(_escape, str(text))


def printable_lines(text: object) -> str:
    """Return a text like `printable`, but keep line breaks and tabs."""
    return _UNSAFE_IN_LINES.sub(_escape, str(text).replace("\r\n", "\n"))


def printable_json(text: str) -> str:
    r"""Return JSON without unsafe characters, which parses to the same value.

    `json.dumps(..., ensure_ascii=False)` escapes only the characters below U+0020.

    >>> print(printable_json('"\x9b"'))
    "\u009b"
    """
    return _UNSAFE_IN_LINES.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _escape(match: re.Match[str]) -> str:
    number = ord(match[0])
    width = r"\x{:02x}" if number < _LATIN_1_END else r"\u{:04x}"
    return _SHORT_ESCAPES.get(match[0], width.format(number))
