"""Read plain text, Markdown, JSON, notebooks and subtitles, whose encoding `decode` finds."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from unicodedata import category

from e2graphrag_integrations.loaders.encodings import decode
from e2graphrag_integrations.loaders.limits import Budget
from e2graphrag_integrations.loaders.parsing import replace_surrogates, translate_errors, unreadable
from e2graphrag_integrations.text.headings import front_matter
from e2graphrag_integrations.types import Segment, SourceDocument

_NOTEBOOK = "notebook"

_HEAD = 10_000
"""The part of a Markdown text that can contain its title."""

_GIVEN_TITLE = re.compile(
    r"""(?im)^title[ \t]*[:=][ \t]*"""
    r"""(?:"((?:[^"\\\n]|\\.)*)"|'([^'\n]*)'|([^"'>|\s][^\n]*))[ \t\r]*$"""
)
_BEFORE_TITLE = re.compile(
    r"(?:\s|<!--.*?-->|</?(?:p|a|img|div|picture|source|br|center)\b[^<>]*>"
    r"|\[?!\[[^\[\]\n]*\]\([^()\n]*\)(?:\]\([^()\n]*\))?)*",
    re.DOTALL,
)
"""Comments, images and badges above the first heading."""

_ESCAPES = re.compile(r"\\[\\/]|(?:\\u[0-9A-Fa-f]{4})+|(?:\\[nrt])+")
_ESCAPED = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Categories of characters that stay escaped: control characters and lone surrogates."""

_COLORS = re.compile(r"\x1b\[[0-9;]*m")
"""Colors of a terminal, which would become parts of words."""

_PAUSE = 4.0
"""Number of seconds without speech after which a paragraph of subtitles begins."""

_AT_ONCE = 0.5
"""Maximum number of seconds between a line and its repetition, unless the next line is below it."""

_PARAGRAPH, _MAX_PARAGRAPH = 400, 2000
"""Number of characters after which a paragraph of subtitles ends with the sentence, and at once."""

_NOTES = ("NOTE", "STYLE", "REGION")
"""First words of blocks that are not shown."""

_TIME = r"((?:\d{1,3}:)?\d{1,2}:\d{2}[.,]\d{1,3})"
_CUE_TIMES = re.compile(rf"\s*{_TIME}\s*-->\s*{_TIME}")
_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s+([^<>]{1,100})>")
_TAG = re.compile(r"</?[A-Za-z\d][^<>]*>|\{\\[^{}]*\}")


def read_text(document_id: str, data: bytes, budget: Budget) -> SourceDocument:
    """Return plain text as a document.

    Raises:
        UnreadableFileError: If the content is not text.
    """
    return SourceDocument(document_id, _decode(data, budget))


def read_markdown(document_id: str, data: bytes, budget: Budget) -> SourceDocument:
    """Return Markdown as a document; the text is kept as it is.

    The title is that of the front matter, or else a level-1 heading on the first line. The first
    line comes after the front matter, comments and images.

    Raises:
        UnreadableFileError: If the content is not text.
    """
    text = _decode(data, budget)
    return SourceDocument(document_id, text, _markdown_title(text) or None)


def _markdown_title(text: str) -> str:
    head = text[:_HEAD]
    front = front_matter(head)
    given = _GIVEN_TITLE.search(front)
    if given is not None:
        return (given[1] or given[2] or given[3] or "").strip()
    rest = _BEFORE_TITLE.sub("", head[len(front) :], count=1)
    first, second = [*rest.lstrip().splitlines(), "", ""][:2]
    is_underlined = bool(second.strip()) and not second.strip().strip("=")
    return first[2:].strip() if first.startswith("# ") else first.strip() if is_underlined else ""


def read_json(document_id: str, data: bytes, budget: Budget) -> SourceDocument:
    r"""Return JSON or lines of it as a document, in which letters and slashes are not escaped.

    Many programs write `Zo\u00eb` for Zoë, which no question for her would find. PHP writes
    `01\/02\/2024`, which no reader of dates knows. Line breaks in values become spaces, so that a
    record remains a line.

    Raises:
        UnreadableFileError: If the content is not text.
    """
    return SourceDocument(document_id, _ESCAPES.sub(_unescaped, _decode(data, budget)))


def _unescaped(match: re.Match[str]) -> str:
    if match[0] == r"\\":
        return match[0]
    if match[0] == r"\/":
        return "/"
    if match[0][1] != "u":
        return " "
    letters: str = json.loads(f'"{match[0]}"')
    return "".join(
        letter if letter > "\x9f" and category(letter) not in _ESCAPED else json.dumps(letter)[1:-1]
        for letter in letters
    )


def read_notebook(document_id: str, data: bytes, budget: Budget) -> SourceDocument:
    """Return the texts and the code of a Jupyter notebook as a document, without outputs.

    Raises:
        UnreadableFileError: If the content is not a notebook, or has no text.
    """
    with translate_errors(_NOTEBOOK, budget.origin, ValueError, RecursionError):
        book = json.loads(_decode(data, budget))
    cells = book.get("cells") if isinstance(book, dict) else None
    if not isinstance(cells, list):
        raise unreadable(budget.origin, _NOTEBOOK, "it has no cells")
    texts = [_cell_text(cell) for cell in cells if isinstance(cell, dict)]
    text = replace_surrogates("\n\n".join(filter(None, texts)))
    if not text:
        raise unreadable(budget.origin, _NOTEBOOK, "it has no text")
    return SourceDocument(document_id, text + "\n", _markdown_title(text) or None)


def _cell_text(cell: Mapping[str, Any]) -> str:
    """Return the text of a cell; code is fenced, since its comments look like headings."""
    source = cell.get("source")
    lines = source if isinstance(source, list) else [source]
    text = "".join(line for line in lines if isinstance(line, str)).strip("\n")
    is_code = text and cell.get("cell_type") == "code"
    return f"```\n{text}\n```" if is_code else text


def read_subtitles(document_id: str, data: bytes, budget: Budget) -> SourceDocument:
    """Return subtitles, or the transcript of a meeting, as paragraphs without times and numbers.

    A paragraph ends where another person speaks, after a pause, or after some sentences. A speaker
    has the rest of a subtitle, but not the next one. A line that is shown again while the next one
    appears is read once; a later one is an answer.

    Returns:
        The document. Each paragraph is a segment with the metadata `time`, when it begins.

    Raises:
        UnreadableFileError: If the content is not text.
    """
    text = _decode(data, budget)
    paragraphs: list[tuple[str, str]] = []  # times and texts
    speaker = last_line = ""
    end = 0.0
    for cue in _cues(text):
        is_new = not paragraphs or cue.start - end > _PAUSE or _is_full(paragraphs[-1][1])
        gap = cue.start - end
        may_repeat = gap <= (_PAUSE if len(cue.lines) > 1 else _AT_ONCE)
        end = cue.end
        for name, line in _voices(cue):
            shown = " ".join(html.unescape(_TAG.sub("", line)).split())
            if not shown:
                continue
            is_repeated = may_repeat and shown == last_line and name == speaker
            may_repeat = False
            if is_repeated:
                continue
            prefix = f"{name}: " if name and (name != speaker or is_new) else ""
            if is_new or name != speaker:
                paragraphs.append((cue.time, prefix + shown))
            else:
                paragraphs[-1] = paragraphs[-1][0], f"{paragraphs[-1][1]} {shown}"
            is_new, speaker, last_line = False, name, shown
    if not paragraphs:
        return SourceDocument(document_id, text)
    segments, start = [], 0
    for time, paragraph in paragraphs:
        segments.append(Segment(start, start + len(paragraph) + 2, {"time": time}))
        start = segments[-1].end
    joined = "".join(f"{paragraph}\n\n" for _, paragraph in paragraphs)
    return SourceDocument(document_id, joined, None, {}, segments)


class _Cue(NamedTuple):
    """A text that is shown from one second to another, and its first time in words of digits."""

    start: float
    end: float
    time: str
    lines: list[str]


def _cues(text: str) -> Iterator[_Cue]:
    cue: _Cue | None = None
    is_after_blank = may_be_name = is_note = False
    for line in text.splitlines():
        times = _CUE_TIMES.match(line)
        if times is not None:
            if cue is not None:
                # The number or the name of a subtitle stands above its times.
                yield cue._replace(lines=cue.lines[:-1]) if may_be_name else cue
            first, last = (_seconds(one) for one in times.groups())
            time = f"{int(first) // 3600:02}:{int(first) // 60 % 60:02}:{int(first) % 60:02}"
            cue = _Cue(first, last, time, [])
            is_after_blank = may_be_name = is_note = False
        elif not line.strip():
            is_after_blank, may_be_name, is_note = True, False, False
        elif cue is not None:
            is_note = is_note or (is_after_blank and line.startswith(_NOTES))
            may_be_name = is_after_blank and not is_note
            is_after_blank = False
            if not is_note:
                cue.lines.append(line)
    if cue is not None:
        yield cue


def _voices(cue: _Cue) -> Iterator[tuple[str, str]]:
    """Yield the parts of the lines of a subtitle, and who says them; empty if it does not tell."""
    name = ""
    for line in cue.lines:
        first, *rest = _VOICE.split(line)
        yield name, first
        for voice, said in zip(rest[::2], rest[1::2], strict=True):
            name = " ".join(voice.split())
            yield name, said


def _seconds(time: str) -> float:
    seconds = 0.0
    for part in time.replace(",", ".").split(":"):
        seconds = seconds * 60 + float(part)
    return seconds


def _is_full(paragraph: str) -> bool:
    is_end = paragraph[-1] in ".!?…。！？" or len(paragraph) > _MAX_PARAGRAPH
    return len(paragraph) > _PARAGRAPH and is_end


def _decode(data: bytes, budget: Budget) -> str:
    decoded = decode(data, budget)
    budget.guess = decoded.guess
    return _COLORS.sub("", decoded.text)
