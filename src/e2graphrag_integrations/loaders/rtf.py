"""Read the text of RTF files with striprtf."""

from __future__ import annotations

import re
from typing import Any

from e2graphrag_integrations._utils.failures import CodedText
from e2graphrag_integrations.errors import FileLimitError
from e2graphrag_integrations.loaders.limits import Budget
from e2graphrag_integrations.loaders.parsing import replace_surrogates, translate_errors, unreadable
from e2graphrag_integrations.loaders.tables import format_row
from e2graphrag_integrations.types import SourceDocument

_FORMAT = "RTF file"

_MAX_BYTES = 2**25
"""Maximum size without pictures: striprtf reads 1.5 million bytes a second, in one step."""

_MAX_FONT = 4000
"""Maximum length of the entry of a font; striprtf searches them in quadratic time."""

_PICTURE = re.compile(rb"[0-9A-Fa-f\s]{1000,}")
"""The content of a picture, in hexadecimal digits."""

_RAW_LETTER = re.compile(rb"[\x80-\xff]")
_LINK = re.compile(r"(?i)HYPERLIN(K)")
_TITLE = re.compile(r"\{\\title\s([^{}]{1,400})\}")
_CODE_PAGE = re.compile(r"\\ansicpg\d{1,6}")
_NOTE = re.compile(r"(?<!\\)\{\s*+(?:\\\*\s*+)?\\footnote(?![A-Za-z\d]) ?")
"""The start of a footnote or an endnote, which striprtf would leave out."""

_BRACE = re.compile(r"\\[\\{}]|[{}]")
_NOTE_START, _NOTE_END = "\ufdd0", "\ufdd1"
"""Stand around a note until its lines are joined. Unicode keeps these two out of all texts."""

_SCRIPT = re.compile(r"(?<!\\)\\(?:super|(sub))(?![A-Za-z\d]) ?")
_RAISED, _LOWERED = "\ufdd2", "\ufdd3"
"""Stand before raised and lowered text."""

_MARKED_SCRIPT = re.compile(
    f"(?<=\\d){_RAISED}(?P<half>\\d{{1,3}}[/⁄]){_LOWERED}"
    f"|(?<=\\d)(?:(?P<up>{_RAISED})|{_LOWERED})(?=[-−–]?\\d)|(?P<other>[{_RAISED}{_LOWERED}])"
)
_LIST_NUMBER = re.compile(
    r"\\pntext(?=(?:\s?\\[a-z]{1,32}+-?\d{0,10}+){0,12}+[^\\{}]{0,20}?(?:\d|[A-Za-z]{1,8}[.)]))"
)
"""The start of the number of a list item in old files; that of a bullet does not match."""

_HIDING = re.compile(r"\\(?:v|deleted)(?![A-Za-z])")
_HIDING_OR_BRACE = re.compile(
    r"\\[\\{}]|(?P<brace>[{}])|\\(?P<word>v|deleted|plain)(?P<value>-?\d{1,10})?(?![A-Za-z\d])"
)
_HIDDEN_TEXT = re.compile(
    r"\\'[0-9A-Fa-f]{2}|\\[^A-Za-z*]|\\u-?\d{1,10} ?|[^\\{}]+"
    r"|\\(?:tab|line|[el][mn]?(?:dash|space)|bullet|[lr](?:dbl)?quote)(?![A-Za-z]) ?"
    r"|(\\\*|\\[A-Za-z]{1,32}-?\d{0,10} ?)"
)
"""Text, or a control word in group 1 that is none."""

_MARKED_NOTE = re.compile(f"{_NOTE_START}([^{_NOTE_START}{_NOTE_END}]*){_NOTE_END}")
_BLANK_LINES = re.compile(r"\n{3,}")


def read_rtf(document_id: str, data: bytes, budget: Budget) -> SourceDocument:
    """Return the text of an RTF file as a document that has the file's title.

    Each row of a table becomes one line, with ` | ` between the cells. Footnotes and endnotes stand
    in parentheses where their marks are. Between a digit and a raised number stands `^`. Hidden and
    deleted text, text boxes, headers and footers are left out.

    Raises:
        UnreadableFileError: If `data` is not a readable RTF file, or has no text.
        FileLimitError: If the file exceeds a limit.
        ImportError: If striprtf is not installed.
    """
    from striprtf import striprtf

    library: Any = striprtf  # it has no types

    if not data.lstrip().startswith(b"{\\rtf"):
        raise unreadable(budget.origin, _FORMAT, "it does not begin with {\\rtf")
    data = _PICTURE.sub(b" ", data)
    if len(data) > _MAX_BYTES:
        raise FileLimitError(
            CodedText(
                "large_rtf",
                "{file} contains more than {most:,} bytes without its pictures: split the file, or "
                "save it as .docx",
                file=budget.origin,
                most=_MAX_BYTES,
            )
        )
    # Letters beyond ASCII are in the encoding of their font, like escaped ones.
    source = _RAW_LETTER.sub(lambda match: b"\\'%02x" % match[0][0], data).decode("ascii")
    # striprtf searches links in exponential time; `\'4b` is the K at the end of the word.
    source = _LINK.sub(lambda match: match[0][:-1] + f"\\'{ord(match[1]):x}", source)
    source = _mark_notes(_without_hidden(source, budget))
    source = _LIST_NUMBER.sub(r"\\listtext", source)  # striprtf reads only this one
    source = source.replace(";", ";\n")  # an entry of the font table ends with its line
    with translate_errors(_FORMAT, budget.origin):
        fonts = library.font_table_group(source).split(";")
    if max(map(len, fonts)) > _MAX_FONT:
        raise unreadable(budget.origin, _FORMAT, "its font table is damaged")
    with translate_errors(_FORMAT, budget.origin):
        text = _clean(library.rtf_to_text(_SCRIPT.sub(_marked_script, source), errors="replace"))
        title = _TITLE.search(source)
        pages = _CODE_PAGE.findall(source[:1000])
        name = title and library.rtf_to_text(
            f"{{\\rtf1{''.join(pages[:1])} {title[1]}}}", errors="replace"
        )
    budget.add_unpacked(len(text))
    budget.check_time()
    if not text.strip():
        raise unreadable(budget.origin, _FORMAT, "it has no text")
    return SourceDocument(document_id, text, " ".join(_joined(name or "").split()) or None)


def _without_hidden(source: str, budget: Budget) -> str:
    """Return the source without text that is hidden or marked as deleted.

    Other control words stay, as they can apply to what follows.
    """
    if not _HIDING.search(source):
        return source
    pieces: list[str] = []
    start = 0
    outer: list[frozenset[str]] = []
    reasons: frozenset[str] = frozenset()
    for token in _HIDING_OR_BRACE.finditer(source):
        word, now = token["word"], reasons
        if token["brace"] == "{":
            outer.append(reasons)
        elif token["brace"]:
            now = outer.pop() if outer else frozenset()
        elif word:
            now = reasons - {word} if token["value"] == "0" else reasons | {word}
            now = frozenset() if word == "plain" else now
        if now != reasons:
            budget.check_time()
            text = source[start : token.start()]
            pieces.append(_HIDDEN_TEXT.sub(r"\1", text) if reasons else text)
            start, reasons = token.start(), now
    text = source[start:]
    return "".join([*pieces, _HIDDEN_TEXT.sub(r"\1", text) if reasons else text])


def _marked_script(match: re.Match[str]) -> str:
    return match[0] + (_LOWERED if match[1] else _RAISED)


def _mark_notes(source: str) -> str:
    """Return the source in which notes are text, between the marks for them."""
    pieces: list[str] = []
    start = 0
    for note in _NOTE.finditer(source):
        if note.start() < start:  # in another note
            continue
        end = _group_end(source, note.end())
        pieces += [source[start : note.start()], "{", _NOTE_START, source[note.end() : end]]
        if end is not None:  # else all that follows may be the note, so its lines are not joined
            pieces.append(_NOTE_END)
        start = len(source) if end is None else end
    return "".join([*pieces, source[start:]])


def _group_end(source: str, start: int) -> int | None:
    """Return the place after the group that is open at a place; None if it has no end."""
    depth = 1
    for brace in _BRACE.finditer(source, start):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if not depth:
            return brace.end()
    return None


def _clean(text: str) -> str:
    text = _MARKED_SCRIPT.sub(_script, _MARKED_NOTE.sub(_note, _joined(text)))
    lines = (
        format_row(line.split("|")[:-1]) if line.endswith("|") else line.rstrip()
        for line in text.replace(_NOTE_START, "").replace(_NOTE_END, "").split("\n")
    )
    return _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip() + "\n"


def _script(match: re.Match[str]) -> str:
    """Return what keeps a raised or lowered number from becoming a part of the one before."""
    if match["half"]:
        return f" {match['half']}"
    return "" if match["other"] else "^" if match["up"] else "_"


def _note(match: re.Match[str]) -> str:
    text = " ".join(match[1].split())
    return f" ({text})" if text else ""


def _joined(text: str) -> str:
    """Return a text in which pairs of surrogates, which RTF escapes one by one, are letters."""
    return replace_surrogates(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
