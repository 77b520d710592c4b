"""Read the data of the charts of PPTX files as tables."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

from e2graphrag_integrations.loaders.archives import Archive, attribute
from e2graphrag_integrations.loaders.limits import Budget
from e2graphrag_integrations.loaders.office.number_formats import (
    NUMBER,
    NumberSection,
    number_sections,
    number_text,
)
from e2graphrag_integrations.loaders.office.runs import unescape
from e2graphrag_integrations.loaders.tables import format_row

_ROLES = frozenset({"tx", "cat", "val", "xVal", "yVal", "bubbleSize"})
"""Elements of a series that contain its name, its categories and its values."""

_CATEGORIES = frozenset({"cat", "xVal"})
_SKIPPED = frozenset({"dLbls", "errBars", "extLst", "trendline"})
"""Elements that have labels of values, or values of their own that are not those of the data."""

_NUMERIC = frozenset({"numCache", "numLit"})
_INDEX = re.compile(r"\d{1,7}")
_MAX_LEVELS = 8
"""Maximum number of levels of categories, such as years and quarters."""


@dataclass
class _Table:
    """Series with the same categories; the values are at the indices of their categories."""

    categories: dict[int, str] = field(default_factory=dict)
    series: list[_Column] = field(default_factory=list)

    def fits(self, categories: dict[int, str]) -> bool:
        """Return whether other categories have the same names, as far as both are known."""
        return all(self.categories.get(at, name) == name for at, name in categories.items())


@dataclass
class _Column:
    """The name of a series and its values."""

    names: list[str] = field(default_factory=list)
    values: dict[int, str] = field(default_factory=dict)


def read_chart(archive: Archive, part: str, budget: Budget) -> str:
    """Return the title of a chart and its data as tables, one for the series of some categories.

    Numbers are shown as their formats say. The levels of a category stand in one cell.

    Args:
        archive: The file with the chart.
        part: The name of its part.
        budget: Limits of the file.

    Raises:
        UnreadableFileError: If the part is not readable.
        FileLimitError: If the file exceeds a limit.
        ImportError: If openpyxl is not installed.
    """
    chart = _Chart(budget)
    for event, name, element in archive.events_outside(_SKIPPED, part):
        (chart.start if event == "start" else chart.end)(name, element)
    return chart.text()


class _Chart:
    """Builds the text of a chart from its elements."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._title: list[str] = []
        self._tables: list[_Table] = []
        self._columns: list[_Column] | None = None  # of the open series
        self._levels: list[dict[int, str]] = []  # of its categories, the innermost first
        self._role = ""
        self._index = 0
        self._is_numeric = self._is_from_1904 = False
        self._format = self._own_format = ""
        self._sections: tuple[str, list[NumberSection]] = ("", [])  # of the last format

    def start(self, name: str, element: Any) -> None:
        """Begin an element."""
        if name == "ser":
            self._columns, self._levels, self._role = [_Column()], [], ""
        elif name == "date1904":
            self._is_from_1904 = attribute(element, "val") not in {"0", "false"}
        elif name in _ROLES:
            self._role, self._is_numeric = name, False
            if name == "bubbleSize" and self._columns is not None:
                self._columns.append(_Column())
        elif name in {"numCache", "strCache", "numLit", "strLit", "multiLvlStrCache"}:
            self._is_numeric, self._format = name in _NUMERIC, ""
        elif name == "pt":
            index = attribute(element, "idx") or ""
            self._index = int(index) if _INDEX.fullmatch(index) else 0
            self._own_format = attribute(element, "formatCode") or ""
        elif name == "lvl":
            self._levels.append({})

    def end(self, name: str, element: Any) -> None:
        """End an element."""
        if name == "ser":
            self._end_series()
        elif name == "formatCode":
            self._format = element.text or ""
        elif self._columns is None and (name == "t" or (name == "v" and self._role == "tx")):
            self._title.append(unescape(element.text or ""))
        elif self._columns is None and name == "title":
            self._title.append(" ")  # those of the axes follow
        elif self._columns is not None and name == "v":
            self._add(self._columns[-1], element.text or "")

    def _add(self, column: _Column, value: str) -> None:
        """Add a value, a category or a name of the open series."""
        if self._is_numeric and NUMBER.fullmatch(value.strip()):
            code = self._own_format or self._format
            if code != self._sections[0]:
                self._sections = (code, number_sections(code))
            value = number_text(value.strip(), self._sections[1], is_from_1904=self._is_from_1904)
        else:
            value = unescape(value)
        if self._role == "tx":
            column.names.append(value)
        elif self._role in _CATEGORIES:
            if not self._levels:
                self._levels.append({})
            self._levels[-1][self._index] = value
        else:
            column.values[self._index] = value

    def _end_series(self) -> None:
        categories = _joined(self._levels[:_MAX_LEVELS], self._budget)
        if not self._tables or not self._tables[-1].fits(categories):
            self._tables.append(_Table())
        for at, name in categories.items():
            self._tables[-1].categories.setdefault(at, name)
        self._tables[-1].series += self._columns or []
        self._columns = None

    def text(self) -> str:
        """Return the title and the tables."""
        lines = [" ".join("".join(self._title).split())]
        for table in self._tables:
            places = dict.fromkeys(table.categories)
            for column in table.series:
                places |= dict.fromkeys(column.values)
            for _ in range((len(places) + 1) * len(table.series)):
                self._budget.add_cell()
            lines.append(format_row(["", *(" ".join(one.names) for one in table.series)]))
            lines += [
                format_row(
                    [
                        table.categories.get(at, ""),
                        *(one.values.get(at, "") for one in table.series),
                    ]
                )
                for at in places
            ]
        return "\n".join(filter(None, lines))


def _joined(levels: list[dict[int, str]], budget: Budget) -> dict[int, str]:
    """Return the names of categories with those of the levels above, such as `2024 Q1`.

    A name of an outer level is for all categories up to the next one.

    Args:
        levels: The names of each level, the innermost first.
        budget: Limits of the file, since an outer name can be repeated often.
    """
    if not levels[1:]:
        return levels[0] if levels else {}
    places = sorted({at for level in levels for at in level})
    starts = [sorted(level) for level in levels]
    joined: dict[int, str] = {}
    for at in places:
        names = [levels[0].get(at, "")]
        for level, own in zip(levels[1:], starts[1:], strict=True):
            before = bisect_right(own, at)
            names.append(level[own[before - 1]] if before else "")
        joined[at] = " ".join(filter(None, reversed(names)))
        budget.add_unpacked(len(joined[at]))
    return joined
