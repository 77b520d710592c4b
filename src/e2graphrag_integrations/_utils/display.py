"""Texts for people: as lines of a terminal, and as HTML for notebooks.

Characters that could control a terminal or disguise a text are escaped.

Jupyter shows the result of `_repr_html_` instead of that of `repr`. All text passes through
`escaped`, and none becomes part of a tag, so a hostile document cannot add markup. The text keeps
the color of the notebook, and its size is limited.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

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


MAX_ITEMS = 20
"""Maximum number of items shown of a list."""

_MAX_TEXT = 1_500
"""Maximum number of characters shown of a text."""

_MAX_ITEM = 200
"""Maximum number of characters shown of a text in a table."""

_LEAD = 100
"""Number of characters shown before a marked part that is far from the start of its text."""

_CELL = "text-align:left;vertical-align:top;padding:2px 12px 2px 0"
_MARK = "background:rgba(255,190,0,.35);color:inherit"
_MUTED = "opacity:.75;font-size:90%"
_RULED = "border-top:1px solid rgba(128,128,128,.4);margin-top:6px;padding-top:6px"


class HtmlFields:
    """A dataclass that notebooks show as a table of its fields."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return block(heading(type(self).__name__), fields_table(self))


def escaped(text: object, limit: int = _MAX_TEXT) -> str:
    """Return a text as HTML, cut to a number of characters with a note.

    Control characters, and marks that reorder the characters of a line, become visible escapes.

    >>> escaped("<b>", 2)
    '&lt;b … (1 character more)'
    """
    full = str(text)
    shown = html.escape(printable_lines(full[:limit]))
    cut = len(full) - limit
    return f"{shown} … ({_characters(cut)} more)" if cut > 0 else shown


def block(*parts: str) -> str:
    """Return parts of HTML below each other."""
    return f"<div>{''.join(parts)}</div>"


def ruled(*parts: str) -> str:
    """Return parts of HTML below a thin line."""
    return f'<div style="{_RULED}">{"".join(parts)}</div>'


def heading(text: object) -> str:
    """Return a line of important text."""
    return f"<div><b>{escaped(text)}</b></div>"


def muted(text: object) -> str:
    """Return a line of less important text."""
    return f'<div style="{_MUTED}">{escaped(text)}</div>'


def preformatted(text: str) -> str:
    """Return a text that keeps its lines."""
    return f'<pre style="white-space:pre-wrap">{escaped(text, 10 * _MAX_TEXT)}</pre>'


def passage(text: str, marked: tuple[int, int] = (0, 0)) -> str:
    """Return a text with a marked part. Of a long text, only that part and some text around it.

    Args:
        text: The text.
        marked: Start and end of the marked part, which may be empty.
    """
    first, last = marked
    start = max(0, first - _LEAD) if last > _MAX_TEXT else 0
    end = min(len(text), start + _MAX_TEXT)
    last = min(last, end)
    before, inside, after = text[start:first], text[first:last], text[max(first, last) : end]
    mark = f'<mark style="{_MARK}">{escaped(inside)}</mark>' if inside else ""
    left = f"({_characters(start)} before) … " if start else ""
    right = f" … ({_characters(len(text) - end)} more)" if end < len(text) else ""
    return f"<div>{left}{escaped(before)}{mark}{escaped(after)}{right}</div>"


def table(head: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    """Return a table of values below their names. Only the first rows are shown."""
    names = "".join(f'<th style="{_CELL}">{escaped(name)}</th>' for name in head)
    return _table([f"<tr>{names}</tr>", *map(_row, rows[:MAX_ITEMS])]) + more_items(len(rows))


def fields_table(shown: Any) -> str:
    """Return the fields of a dataclass as a table, without those that are empty."""
    values = ((field.name, getattr(shown, field.name)) for field in fields(shown))
    return values_table({name: value for name, value in values if not _is_empty(value)})


def values_table(values: Mapping[str, object]) -> str:
    """Return a table with the name and the value of one thing in each row."""
    return _table(_row((name.replace("_", " "), value)) for name, value in values.items())


def more_items(total: int) -> str:
    """Return a note about the items that are not shown, or nothing if all of them are."""
    return muted(f"… and {total - MAX_ITEMS:,} more") if total > MAX_ITEMS else ""


def _table(rows: Iterable[str]) -> str:
    return f"<table>{''.join(rows)}</table>"


def _row(values: Iterable[object]) -> str:
    cells = "".join(f'<td style="{_CELL}">{_value(value)}</td>' for value in values)
    return f"<tr>{cells}</tr>"


def _is_empty(value: object) -> bool:
    return value is None or (isinstance(value, Mapping | Sequence) and not value)


def _value(value: Any) -> str:
    """Return a value in a table as HTML."""
    if is_dataclass(value):
        return fields_table(value)
    if isinstance(value, Mapping):
        pairs = value.items()
        return _items(pairs, len(value), lambda pair: f"{_value(pair[0])}: {_value(pair[1])}")
    if isinstance(value, Sequence) and not isinstance(value, str):
        if value and all(map(is_dataclass, value)):
            names = [field.name for field in fields(value[0])]
            rows = [[getattr(one, name) for name in names] for one in value]
            return table([name.replace("_", " ") for name in names], rows)
        return _items(value, len(value), _value)
    return escaped(_number(value), _MAX_ITEM)


def _items(items: Iterable[Any], total: int, show: Callable[[Any], str]) -> str:
    shown = [show(item) for _, item in zip(range(MAX_ITEMS), items, strict=False)]
    separator = "<br>" if any(map(_is_long, shown)) else ", "
    return separator.join(shown) + more_items(total)


def _is_long(shown: str) -> bool:
    return len(shown) > _MAX_ITEM // 4


def _number(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.4g}" if isinstance(value, float) else value


def _characters(count: int) -> str:
    return f"{count:,} character{'s' if count > 1 else ''}"
