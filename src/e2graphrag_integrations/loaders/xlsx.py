"""Read the sheets of XLSX files as a stream of XML elements, with lxml.

openpyxl reads styles, charts and properties as well, and refuses the whole file for a detail of
them that it does not know, such as the fonts of other programs. This reader takes the values only;
openpyxl decides which formats are dates, and converts their numbers.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from e2graphrag_integrations.errors import FileLimitError, UnreadableFileError
from e2graphrag_integrations.loaders.archives import Archive, attribute, local_name
from e2graphrag_integrations.loaders.limits import Budget
from e2graphrag_integrations.loaders.parsing import replace_surrogates
from e2graphrag_integrations.loaders.tables import format_row
from e2graphrag_integrations.types import Segment, SourceDocument

_FORMAT = "XLSX file"
_ROWS_PER_CHECK = 100
_DIGITS = 15
"""Number of digits that a spreadsheet computes with; further ones are due to binary fractions."""

_MAX_COLUMNS = 16_384
"""Number of columns of a sheet."""

_MAX_AFFIX = 10
"""Maximum length of a currency or unit in a number format."""

_MAX_SCALE = 4
"""Maximum number of commas that scale a number, for trillions; more of them are no scale."""

_NUMBER_SECTIONS = 3
"""Number of sections of a number format that are for numbers; a fourth is for texts."""

_REFERENCE = re.compile(r"\$?([A-Za-z]{1,3})\$?\d+")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_WHOLE = re.compile(r"[+-]?\d{1,15}")

_AFFIX = re.compile(
    r'"([^"]*)"|\\(.)|\[\$([^\]-]*+)[^\]]*+\]|\[[^\]]*+\]|[_*].|([0#?])|(.)', re.DOTALL
)
"""A part of a number format: a literal text, letter or currency, a color or condition, a space, a
digit, or any other character."""

_SCALE = re.compile(r"(?<=[0#?]),+(?![0#?,])")
"""Commas that each divide a number by 1,000; those before a further digit group the digits."""

_SCALING = frozenset("0#?,.")
"""The characters of a number format that say where such commas are."""

_CONDITION = re.compile(r"\[(<=|>=|<>|<|>|=)(-?\d{1,15}(?:\.\d{1,15})?)\]")
_RELATIONS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "<>": operator.ne,
}

_PADDED = re.compile(r"0{2,20}")
_YES = frozenset({"1", "true"})


def read_xlsx(document_id: str, data: bytes, budget: Budget) -> SourceDocument:
    """Return the sheets of an XLSX file; each row becomes one line, with ` | ` between the cells.

    Formulas are read as their last results, or as they are if they have none. Dates are in ISO
    format. Currencies and units stand beside their numbers, which are scaled as in the sheet:
    2500000 that the sheet shows as 2.5M is `2.5 M`. Empty rows, hidden sheets, charts and comments
    are left out.

    Args:
        document_id: The document's id.
        data: Content of the file.
        budget: Limits of the file.

    Returns:
        The document. Each sheet begins with its name, and is a segment with the metadata `sheet`,
        its name.

    Raises:
        UnreadableFileError: If `data` is not a readable XLSX file.
        FileLimitError: If the file exceeds a limit.
        ImportError: If openpyxl or lxml is not installed.
    """
    import openpyxl  # noqa: F401 - report a missing package before reading

    archive = Archive(data, _FORMAT, budget)
    main_part = archive.main_part()
    book = _read_book(archive, main_part)
    parts: list[str] = []
    segments: list[Segment] = []
    start = 0
    for sheet in book.sheets:
        rows = list(_rows(archive, sheet.part, book, budget))
        if not rows:
            continue
        name = replace_surrogates(sheet.name)
        text = "\n".join([name, "", *rows]) + "\n\n"
        segments.append(Segment(start, start + len(text), {"sheet": name}))
        parts.append(text)
        start += len(text)
    if not parts:
        raise archive.refuse("it has no text")
    title = replace_surrogates(archive.title())
    return SourceDocument(document_id, "".join(parts), title or None, {}, segments)


class _Sheet(NamedTuple):
    name: str
    part: str


@dataclass(frozen=True)
class _Book:
    """What the cells of a file refer to.

    Attributes:
        sheets: The visible sheets, in order.
        strings: The texts that cells share.
        formats: The sections of the number format of each style of cells.
        is_from_1904: Whether days are counted from 1904, as old Macs did, rather than 1900.
    """

    sheets: Sequence[_Sheet]
    strings: Sequence[str]
    formats: Sequence[Sequence[_Section]]
    is_from_1904: bool


def _read_book(archive: Archive, main_part: str) -> _Book:
    relations = archive.relations(main_part)
    of_kind = {one.kind: one.target for one in relations.values() if one.target in archive.names}
    sheets: list[_Sheet] = []
    is_from_1904 = False
    for event, element in archive.events(main_part):
        name = local_name(element)
        if event == "start" and name == "workbookPr":
            is_from_1904 = attribute(element, "date1904") in _YES
        elif event == "start" and name == "sheet":
            ids = (v for k, v in element.attrib.items() if k.startswith("{") and k.endswith("}id"))
            relation = relations.get(next(ids, ""))
            is_shown = attribute(element, "state") in {None, "visible"}
            if relation is not None and relation.kind == "worksheet" and is_shown:
                sheets.append(_Sheet(attribute(element, "name") or "", relation.target))
    return _Book(
        sheets,
        list(_strings(archive, of_kind.get("sharedStrings"))),
        _formats(archive, of_kind.get("styles")),
        is_from_1904,
    )


def _strings(archive: Archive, part: str | None) -> Iterator[str]:
    texts: list[str] = []
    # Phonetic guides repeat a text in other letters.
    for event, name, element in archive.events_outside({"rPh"}, part) if part else ():
        if event == "end" and name == "t":
            texts.append(element.text or "")
        elif event == "end" and name == "si":
            yield "".join(texts)
            texts = []


class _NumberFormat(NamedTuple):
    """How a cell shows a number.

    Attributes:
        is_date, is_duration, is_percent: What the number is.
        digits: The minimum number of digits, for codes such as 00042.
        scale: How often the number is divided by 1,000.
        before, after: The currency or unit; a unit begins with the space before it.
        has_sign: Whether a minus sign is shown, rather than a word such as "Loss".
    """

    is_date: bool = False
    is_duration: bool = False
    is_percent: bool = False
    digits: int = 0
    scale: int = 0
    before: str = ""
    after: str = ""
    has_sign: bool = True


_PLAIN = _NumberFormat()


class _Section(NamedTuple):
    """A section of a number format, and the numbers for which it is."""

    relation: str
    limit: float
    shown: _NumberFormat


_EVERY_NUMBER = (">=", -math.inf)
_USUAL_CONDITIONS = {
    0: (),
    1: (_EVERY_NUMBER,),
    2: ((">=", 0.0), _EVERY_NUMBER),
    3: ((">", 0.0), ("<", 0.0), _EVERY_NUMBER),
}
"""Which numbers the sections are for, by their count, if a format does not say it."""


def _formats(archive: Archive, part: str | None) -> list[list[_Section]]:
    """Return the number format of each style of cells; none if the styles cannot be read."""
    from openpyxl.styles.numbers import BUILTIN_FORMATS

    codes: dict[str, str] = {str(number): code for number, code in BUILTIN_FORMATS.items()}
    known: dict[str, list[_Section]] = {}
    found: list[list[_Section]] = []
    in_cells = False
    try:
        for event, element in archive.events(part) if part else ():
            name = local_name(element)
            if name == "cellXfs":
                in_cells = event == "start"
            elif event == "start" and name == "numFmt":
                number = attribute(element, "numFmtId") or ""
                codes[number] = attribute(element, "formatCode") or ""
            elif event == "start" and name == "xf" and in_cells:
                code = codes.get(attribute(element, "numFmtId") or "", "General")
                if code not in known:
                    known[code] = _sections(code)
                found.append(known[code])
    except FileLimitError:
        raise
    except UnreadableFileError:
        return []
    return found


def _sections(code: str) -> list[_Section]:
    """Return the sections of a number format that are for numbers."""
    parts: list[list[re.Match[str]]] = [[]]
    for match in _AFFIX.finditer(code[:1000]):
        if match[0] == ";":
            parts.append([])
        else:
            parts[-1].append(match)
    # A section with this sign is for texts.
    parts = [part for part in parts if all(match[0] != "@" for match in part)][:_NUMBER_SECTIONS]
    given = [_condition(part) for part in parts]
    sections = [
        _Section(*(own or usual), _number_format(part))
        for part, own, usual in zip(parts, given, _USUAL_CONDITIONS[len(parts)], strict=True)
    ]
    if given[:2] == [None, None]:
        is_signed = any(character in match[0] for match in parts[1] for character in "-(")
        sections[1] = _of_negatives(sections[1], sections[0], is_signed=is_signed)
    return sections


def _condition(part: Iterable[re.Match[str]]) -> tuple[str, float] | None:
    """Return which numbers a section says that it is for; None if it does not say it."""
    found = next(filter(None, (_CONDITION.fullmatch(match[0]) for match in part)), None)
    return (found[1], float(found[2])) if found else None


def _of_negatives(negative: _Section, positive: _Section, *, is_signed: bool) -> _Section:
    """Return the section for negative numbers, without their sign if only words say it."""
    shown, other = negative.shown, positive.shown
    has_own_words = (shown.before, shown.after) not in {("", ""), (other.before, other.after)}
    return negative._replace(shown=shown._replace(has_sign=is_signed or not has_own_words))


def _number_format(part: Sequence[re.Match[str]]) -> _NumberFormat:
    """Return how a section of a number format, given in its parts, shows a number."""
    from openpyxl.styles.numbers import is_date_format, is_timedelta_format

    code = "".join(match[0] for match in part)
    if is_timedelta_format(code):
        return _NumberFormat(is_date=True, is_duration=True)
    if is_date_format(code):
        return _NumberFormat(is_date=True)
    literals: tuple[list[str], list[str]] = ([], [])
    bare = ""  # what is neither a literal nor in brackets
    has_digits = False
    for text, letter, currency, digit, other in (match.groups("") for match in part):
        bare += digit or other
        has_digits = has_digits or bool(digit)
        is_symbol = other.isspace() or unicodedata.category(other or " ") == "Sc"
        literals[has_digits].append(text or letter or currency or (other if is_symbol else ""))
    before, after = "".join(literals[0]).strip(), "".join(literals[1]).rstrip()
    if not after.lstrip().startswith("%"):
        after = f" {after.lstrip()}"
    scale = sum(map(len, _SCALE.findall("".join(one for one in bare if one in _SCALING))))
    # A number stays whole if the word for its scale, such as "million", is too long to be shown.
    is_shown = all(len(one.strip()) <= _MAX_AFFIX for one in (before, after) if _is_name(one))
    padded = _PADDED.fullmatch(code)
    return _NumberFormat(
        is_percent="%" in bare,
        digits=len(padded[0]) if padded else 0,
        scale=scale if is_shown and scale <= _MAX_SCALE else 0,
        before=before if has_digits and _is_unit(before) else "",
        after=after if has_digits and _is_unit(after) else "",
    )


def _is_unit(text: str) -> bool:
    """Return whether a text is a currency or a unit rather than a bracket or a hyphen."""
    return _is_name(text) and len(text.strip()) <= _MAX_AFFIX


def _is_name(text: str) -> bool:
    return any(
        unicodedata.category(c)[0] == "L" or unicodedata.category(c) == "Sc" or c in "%‰"
        for c in text
    )


@dataclass
class _Cell:
    """An open cell."""

    kind: str = "n"
    style: str = ""
    texts: dict[str, str] = field(default_factory=dict)
    """Its value `v`, its formula `f` and its own text `t`."""


def _rows(archive: Archive, part: str, book: _Book, budget: Budget) -> Iterator[str]:
    if part not in archive.names:
        return
    row: list[str] = []
    cell = _Cell()
    number = 0
    for event, name, element in archive.events_outside({"rPh"}, part):
        if event == "start" and name == "c":
            cell = _Cell(element.get("t", "n"), element.get("s", ""))
            for _ in range(_column(element.get("r")) - len(row)):
                budget.add_cell()
                row.append("")
        elif event == "end" and name == "c":
            budget.add_cell()
            row.append(_cell_text(cell, book))
            budget.add_unpacked(len(row[-1]))  # many cells can refer to one long string
        elif event == "end" and name in {"v", "f", "t"}:
            cell.texts[name] = cell.texts.get(name, "") + (element.text or "")
        elif event == "end" and name == "row":
            number += 1
            if number % _ROWS_PER_CHECK == 0:
                budget.check_time()
            line = _line(row)
            row = []
            if line:
                yield line


def _line(row: list[str]) -> str:
    while row and not row[-1]:
        row.pop()
    return replace_surrogates(format_row(row))


def _column(reference: str | None) -> int:
    """Return the number of a cell's column from 0; 0 if it is not said or impossible."""
    match = _REFERENCE.fullmatch(reference or "")
    number = 0
    for letter in match[1].upper() if match else "":
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1 if 0 < number <= _MAX_COLUMNS else 0


def _cell_text(cell: _Cell, book: _Book) -> str:
    """Return the value of a cell about as a spreadsheet would show it."""
    value = cell.texts.get("v", "")
    match cell.kind:
        case "inlineStr":
            text = cell.texts.get("t", "")
        case "s":
            text = _at(book.strings, value, "")
        case "b":
            text = str(value.strip() in _YES)
        case "d":
            text = value.replace("T00:00:00", "").replace("T", " ")
        case "n" if _NUMBER.fullmatch(value.strip()):
            sections = _at(book.formats, cell.style, ())
            text = _number_text(value.strip(), sections, is_from_1904=book.is_from_1904)
        case "n" if not value and cell.texts.get("f"):  # written by a program, and never computed
            text = f"={cell.texts['f']}"
        case _:
            text = value
    return text


T = TypeVar("T")


def _at(items: Sequence[T], index: str, default: T) -> T:
    """Return the element at an index in a file, or the default if there is none."""
    number = int(index) if _WHOLE.fullmatch(index.strip()) else -1
    return items[number] if 0 <= number < len(items) else default


def _number_text(value: str, sections: Sequence[_Section], *, is_from_1904: bool) -> str:
    number = float(value)
    fitting = (one.shown for one in sections if _RELATIONS[one.relation](number, one.limit))
    style = next(fitting, _PLAIN)
    if style.is_date:
        date = _date_text(number, is_duration=style.is_duration, is_from_1904=is_from_1904)
        if date:
            return date
    if style.is_percent:
        return f"{number * 100:.{_DIGITS - 3}g}%"
    if not style.has_sign:
        number, value = abs(number), value.removeprefix("-")
    if style.scale or not _WHOLE.fullmatch(value):
        text = f"{number / 1000**style.scale:.{_DIGITS}g}"
    else:
        text = value if number < 0 else value.zfill(style.digits)
    space = "" if unicodedata.category(style.before[-1:] or " ") == "Sc" else " "
    return f"{style.before}{space}{text}{style.after}".strip()


def _date_text(number: float, *, is_duration: bool, is_from_1904: bool) -> str:
    """Return a date, a time or a duration in words of digits; empty if the number is none."""
    from openpyxl.utils.datetime import MAC_EPOCH, WINDOWS_EPOCH, from_excel

    if not math.isfinite(number) or (number < 0 and not is_duration):
        return ""
    try:
        value: Any = from_excel(number, MAC_EPOCH if is_from_1904 else WINDOWS_EPOCH, is_duration)
    except (OverflowError, ValueError):
        return ""
    if isinstance(value, dt.timedelta):
        seconds = round(value.total_seconds())
        sign, seconds = ("-", -seconds) if seconds < 0 else ("", seconds)
        return f"{sign}{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    is_time = isinstance(value, dt.time)
    text = str(value.isoformat("seconds") if is_time else value.isoformat(" ", "seconds"))
    return text.removesuffix(" 00:00:00")
