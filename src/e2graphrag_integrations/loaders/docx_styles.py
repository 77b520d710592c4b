"""What a DOCX file keeps outside of its text: styles, the numbers of paragraphs, and notes.

A word processor counts numbered headings and list items itself, so their numbers are not in the
text. Without them, a clause of a contract could not be found by its number.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from e2graphrag_integrations.errors import FileLimitError, UnreadableFileError
from e2graphrag_integrations.loaders.archives import Archive, attribute, local_name
from e2graphrag_integrations.loaders.office.docx_runs import NO, DocxRuns
from e2graphrag_integrations.loaders.tables import list_number
from e2graphrag_integrations.text.headings import MAX_LEVEL

TITLE_LEVEL = 0
"""Level of a paragraph with the style Title."""

_MAX_LABEL = 40
"""Maximum length of the template of a number, such as `Article %1.%2`."""

_PLACE = re.compile(r"%([1-9])")
_OF_STYLE = frozenset("name basedOn ilvl numId outlineLvl vertAlign vanish".split())
_OUTLINE_LEVELS = frozenset("012345678")
"""The levels of headings; 9 stands for body text."""


class Number(NamedTuple):
    """The list of a numbered paragraph, and the level in it from 0; None if it is not said."""

    list_id: str | None
    level: int | None


NO_NUMBER = Number(None, None)


@dataclass(frozen=True)
class Styles:
    """The styles of paragraphs, by id, which depends on the language.

    Attributes:
        levels: The level of each style that is a heading.
        numbers: The list of each style with numbers.
        raised: The styles of superscripts.
        hidden: The styles of text that is not shown.
    """

    levels: Mapping[str, int] = field(default_factory=dict)
    numbers: Mapping[str, Number] = field(default_factory=dict)
    raised: Collection[str] = ()
    hidden: Collection[str] = ()


def read_styles(archive: Archive, main_part: str) -> Styles:
    """Return the styles of a file; none if they cannot be read."""
    part = posixpath.join(posixpath.dirname(main_part), "styles.xml")
    known = {"title": TITLE_LEVEL, **{f"heading {n}": n for n in range(1, MAX_LEVEL + 1)}}
    found: dict[str, dict[str, str]] = {}
    style = ""
    try:
        for event, element in archive.events(part) if part in archive.names else ():
            name = local_name(element)
            if name == "style":
                style = (attribute(element, "styleId") or "") if event == "start" else ""
                found.setdefault(style, {})
            elif event == "start" and style and name in _OF_STYLE:
                found[style][name] = attribute(element, "val") or ""
    except FileLimitError:
        raise
    except UnreadableFileError:
        return Styles()
    based_on = {style: own["basedOn"] for style, own in found.items() if "basedOn" in own}
    names = {style: own.get("name", "").lower() for style, own in found.items()}
    outline = {
        style: int(own["outlineLvl"]) + 1
        for style, own in found.items()
        if own.get("outlineLvl", "") in _OUTLINE_LEVELS
    }
    levels = outline | {style: known[name] for style, name in names.items() if name in known}
    numbers = {
        style: Number(
            # A style can change only the level in the list of the style that it is based on.
            own.get("numId", found.get(own.get("basedOn", ""), {}).get("numId")),
            _int(own.get("ilvl", "")),
        )
        for style, own in found.items()
        if "numId" in own or "ilvl" in own
    }
    scripts = {style: own["vertAlign"] for style, own in found.items() if "vertAlign" in own}
    vanish = {style: own["vanish"] for style, own in found.items() if "vanish" in own}
    return Styles(
        _inherited(levels, based_on),
        _inherited(numbers, based_on),
        {one for one, script in _inherited(scripts, based_on).items() if script == "superscript"},
        {one for one, value in _inherited(vanish, based_on).items() if value not in NO},
    )


V = TypeVar("V")


def _inherited(own: Mapping[str, V], based_on: Mapping[str, str]) -> dict[str, V]:
    """Return the values of all styles, including those that are based on one with a value."""
    derived: dict[str, list[str]] = {}
    for style, base in based_on.items():
        derived.setdefault(base, []).append(style)
    inherited = dict(own)
    pending = list(own)
    while pending:
        base = pending.pop()
        for style in derived.get(base, ()):
            if style not in inherited:
                inherited[style] = inherited[base]
                pending.append(style)
    return inherited


@dataclass
class _Level:
    """A level of a list: its template, such as `%1.%2`, the kind of its numbers, and the first."""

    label: str = ""
    kind: str = "decimal"
    first: int = 1
    is_legal: bool = False
    """Whether the numbers of the levels above are in digits."""


class Numbering:
    """Counts the numbered paragraphs of a file.

    Args:
        archive: The file.
        main_part: The part with the text; the lists are defined in another one.
    """

    def __init__(self, archive: Archive, main_part: str) -> None:
        self._levels: defaultdict[str, defaultdict[int, _Level]] = defaultdict(
            lambda: defaultdict(_Level)
        )
        self._kinds: dict[str, str] = {}  # what defines the levels of a list
        self._own_levels: defaultdict[str, defaultdict[int, _Level]] = defaultdict(
            lambda: defaultdict(_Level)
        )
        self._restarts: dict[tuple[str, int], int] = {}
        self._counts: defaultdict[str, dict[int, int]] = defaultdict(dict)
        part = posixpath.join(posixpath.dirname(main_part), "numbering.xml")
        try:
            self._read(archive, part)
        except FileLimitError:
            raise
        except UnreadableFileError:
            self._kinds.clear()
            self._own_levels.clear()

    def _read(self, archive: Archive, part: str) -> None:
        kind = list_id = ""
        number = 0
        level: _Level | None = None
        found: dict[str, dict[str, str]] = {"styleLink": {}, "numStyleLink": {}}
        found["abstractNumId"] = self._kinds
        for event, element in archive.events(part) if part in archive.names else ():
            name, value = local_name(element), attribute(element, "val") or ""
            if event == "end":
                continue
            if name in {"abstractNum", "num"}:
                kind, list_id = (
                    attribute(element, one) or "" for one in ("abstractNumId", "numId")
                )
                level = None
            elif name in {"lvl", "lvlOverride"}:
                number = _int(attribute(element, "ilvl") or "")
                if name == "lvl":
                    levels = self._levels[kind] if kind else self._own_levels[list_id]
                    level = levels[number]
            elif name in found:
                found[name][kind or list_id] = value
            elif name == "startOverride":
                self._restarts[list_id, number] = _int(value)
            elif level is not None:
                self._define(level, name, value)
        # A list can take its levels from a style, which another one defines.
        styled = {style: one for one, style in found["styleLink"].items()}
        for one, own in self._kinds.items():
            self._kinds[one] = styled.get(found["numStyleLink"].get(own, ""), own)

    @staticmethod
    def _define(level: _Level, name: str, value: str) -> None:
        if name == "lvlText":
            level.label = value
        elif name == "numFmt":
            level.kind = value
        elif name == "start":
            level.first = _int(value)
        elif name == "isLgl":
            level.is_legal = value not in {"0", "false"}

    def label(self, own: Number, of_style: Number | None) -> str:
        """Count a paragraph, and return its number, such as `2.1`; empty if it has none.

        Args:
            own: What the paragraph itself says.
            of_style: What its style says.
        """
        style = of_style or NO_NUMBER
        list_id = style.list_id if own.list_id is None else own.list_id
        depth = (style.level if own.level is None else own.level) or 0
        kind = self._kinds.get(list_id or "", "")
        level = self._level(list_id or "", depth)
        if level is None:
            return ""
        counts = self._counts[kind]
        restart = self._restarts.pop((list_id or "", depth), None)
        if restart is not None:
            counts[depth] = restart
        else:
            counts[depth] = counts.get(depth, level.first - 1) + 1
        for deeper in [one for one in counts if one > depth]:
            del counts[deeper]
        if level.kind in {"bullet", "none"} or len(level.label) > _MAX_LABEL:
            return ""

        def shown(match: re.Match[str]) -> str:
            above = int(match[1]) - 1
            other = self._level(list_id or "", above)
            if other is None:
                return "0"
            is_legal = level.is_legal and above != depth
            count = counts.get(above, other.first)
            return list_number(count, "decimal" if is_legal else other.kind)

        return _PLACE.sub(shown, level.label).strip()

    def _level(self, list_id: str, depth: int) -> _Level | None:
        """Return a level of a list, which can be its own or that of what defines the list."""
        none: dict[int, _Level] = {}
        own = self._own_levels.get(list_id, none)
        shared = self._levels.get(self._kinds.get(list_id, ""), none)
        return own.get(depth) or shared.get(depth)


def _int(text: str) -> int:
    return int(text) if re.fullmatch(r"\d{1,6}", text) else 0


def read_notes(
    archive: Archive, main_part: str, skipped: Collection[str], styles: Styles
) -> dict[tuple[str, str], str]:
    """Return the footnotes and endnotes of a file by their kind and id.

    Args:
        archive: The file.
        main_part: The part with the text.
        skipped: Names of elements that are not part of the text.
        styles: The styles of the file.
    """
    notes: dict[tuple[str, str], str] = {}
    for relation in archive.related(main_part):
        if relation.kind not in {"footnotes", "endnotes"}:
            continue
        key, runs = ("", ""), DocxRuns()
        for event, own, element in archive.events_outside(skipped, relation.target):
            if own in {"footnote", "endnote"} and event == "start":
                key = (own, attribute(element, "id") or "")
                runs = DocxRuns(styles.raised, styles.hidden)
            elif own in {"footnote", "endnote"}:
                notes[key] = " ".join("".join(runs.texts).split())
            elif own == "p":
                runs.start_run()
                runs.add(" ")
            else:
                (runs.start if event == "start" else runs.end)(own, element)
    return notes
