"""Read the text of PDF files with pypdf."""

from __future__ import annotations

import contextlib
import io
import math
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from e2graphrag_integrations._utils.failures import CodedText
from e2graphrag_integrations.errors import FileLimitError, UnreadableFileError
from e2graphrag_integrations.loaders.limits import Budget
from e2graphrag_integrations.loaders.parsing import (
    LOCKED,
    replace_surrogates,
    translate_errors,
    unreadable,
)
from e2graphrag_integrations.loaders.running_heads import without_running_heads
from e2graphrag_integrations.loaders.sections import FileHeadings
from e2graphrag_integrations.loaders.tables import CELL_SEPARATOR
from e2graphrag_integrations.types import Segment, SourceDocument

if TYPE_CHECKING:
    from pypdf import PdfReader

_SHOWN_PAGES = 5
"""Number of pages that a warning lists."""

_STREAM_BYTES = 2**24
"""Maximum unpacked size of one stream, such as the content of a page: pypdf parses a stream in one
step, which takes up to 10 seconds at this size."""

_STREAM_LIMITS = (
    "array_based_stream_maximum_output_length",
    "brotli_maximum_output_length",
    "lzw_maximum_output_length",
    "run_length_maximum_output_length",
    "zlib_maximum_output_length",
)
"""pypdf's names for the limits of a stream, by compression."""

_CHARACTER_WIDTH = 0.5
"""Mean width of a character in ems, to estimate where a text ends."""

_CELL_GAP = 1.0
"""Minimum gap between the cells of a row, in ems and beyond 10% of the text before it. A space
between words is 0.3 em wide."""

_JUMP = 2.0
"""Minimum way back to a text on the left that is not part of the same word, in ems. Accents are
drawn closer to their letters."""

_MAX_HEADING = 400
"""Maximum length of a line that can be a heading."""

_NO_TITLE = re.compile(
    r"(?i)(untitled|unnamed|no title|unbenannt|ohne titel|sans titre|sin título|无标题|未命名|無題)"
    r"[\s\-_.()\d]*$|(document|dokument|presentation|slide|folie|book|文档)\W*\d*$|"
    r"microsoft (word|powerpoint|excel)\b|powerpoint[- ]pr[äe]sentation$"
)
"""Titles that programs write into files without one."""

_FILE_NAME = re.compile(
    r"(?i)(file:|[a-z]:\\|/|\\\\).*|"
    r".*\.(docx?|dotx?|rtf|odt|pages|pptx?|odp|xlsx?|ods|pdf|txt|md|tex|dvi|ps|eps|indd|qxd|p65|"
    r"html?|aspx?|php|fm|cdr|ai|png|jpe?g|tiff?)"
)

_HIDDEN_FLAGS = 2 | 32
"""Flags of an annotation that is not shown."""

_NUMBER = re.compile(r"^\s*\d+(?:\.\d+)*\.?\s+")
"""The number of a heading."""


def read_pdf(document_id: str, data: bytes, budget: Budget) -> SourceDocument:
    """Return the text of a PDF file as a document with segments for pages and sections.

    A section begins at the line that contains the title of a bookmark, or at the start of the page
    if there is no such line on the page to which the bookmark leads. The cells of a table row that
    the file draws as separate texts are separated by ` | `. The values of a form, and text that is
    added as annotations, stand below the text of their page. Running heads and page numbers are
    left out, and a title that is only a file name is ignored. A warning names pages that are
    images.

    Returns:
        The document. Each segment has the metadata `page`, a number from 1, and below a bookmark
        `headings`.

    Raises:
        UnreadableFileError: If `data` is not a readable PDF file, or no page has text.
        FileLimitError: If the file exceeds a limit.
        ImportError: If pypdf is not installed.
    """
    import pypdf

    limits: dict[str, Any] = {
        "page_tree_maximum_entries": budget.limits.pages,
        "outline_maximum_entries": budget.limits.headings,
        **dict.fromkeys(_STREAM_LIMITS, _STREAM_BYTES),
    }
    with pypdf.apply_configuration(**limits):
        return _read(document_id, data, budget)


def _read(document_id: str, data: bytes, budget: Budget) -> SourceDocument:
    from pypdf import PdfReader

    with _translate_errors(budget):
        reader = PdfReader(io.BytesIO(data))
        # Many encrypted files only forbid to print or to edit, and need no password.
        is_locked = reader.is_encrypted and not reader.decrypt("")
    if is_locked:
        raise unreadable(budget.origin, "PDF", LOCKED)
    with _translate_errors(budget):
        count = len(reader.pages)
        named = reader.metadata.title if reader.metadata else None
        title = named if isinstance(named, str) else None  # a file may contain a number there
    pages: list[str] = []
    for number in range(count):
        page = _PageText()
        with _translate_errors(budget):
            reader.pages[number].extract_text(
                visitor_operand_before=lambda *_: budget.check_time(), visitor_text=page.add
            )
        budget.check_time()  # pypdf ignores errors inside an embedded form
        pages.append(replace_surrogates("".join(page.pieces)))
        budget.add_unpacked(len(pages[-1]))
    forms = [_form_values(reader, number, budget) for number in range(count)]
    if not any(map(str.strip, (*pages, *forms))):
        raise UnreadableFileError(
            CodedText(
                "scanned_pdf",
                "{file} has no text: its pages are probably images; run a program for text "
                "recognition on it first, such as `ocrmypdf`",
                file=budget.origin,
            )
        )
    _warn_of_images(reader, pages, budget)
    text = [
        "\n".join(filter(None, [page.rstrip("\n") if form else page, form])) + "\n\n"
        for page, form in zip(without_running_heads(pages), forms, strict=True)
    ]
    ends = list(accumulate(map(len, text)))
    segments = [
        Segment(end - len(page), end, {"page": number})
        for number, (page, end) in enumerate(zip(text, ends, strict=True), 1)
    ]
    return SourceDocument(
        document_id,
        "".join(text),
        _title(title, document_id),
        {},
        _headings(reader, text, segments, budget).segments(segments),
    )


def _form_values(reader: PdfReader, number: int, budget: Budget) -> str:
    """Return what is filled in the form on a page, in lines with the names of the fields.

    Forms without fields are filled in by adding texts. Extracted text contains neither. A form that
    cannot be read is left out.
    """
    lines: list[str] = []
    try:
        with _translate_errors(budget):
            for reference in _entry(reader.pages[number], "/Annots") or ():
                budget.check_time()
                annotation = reference.get_object()
                lines += [_field_value(annotation), _added_text(annotation)]
    except FileLimitError:
        raise
    except UnreadableFileError:
        return ""
    text = replace_surrogates("\n".join(filter(None, lines)))
    budget.add_unpacked(len(text))
    return text


def _field_value(field: Any) -> str:
    """Return the name and the value of a field of a form; empty if it has no value."""
    parent = _entry(field, "/Parent") or {}
    value = _entry(field, "/V") or _entry(parent, "/V")
    if _entry(field, "/Subtype") != "/Widget" or not value or value == "/Off":
        return ""
    names = (_entry(one, key) for key in ("/TU", "/T") for one in (field, parent))
    values = value if isinstance(value, list) else [value]
    shown = (", ".join(str(one).lstrip("/") for one in values), str(next(filter(None, names), "")))
    return ": ".join(filter(None, (" ".join(text.split()) for text in reversed(shown))))


def _added_text(annotation: Any) -> str:
    """Return the text that an annotation adds to the page; empty if it adds none."""
    flags, text = _entry(annotation, "/F"), _entry(annotation, "/Contents")
    is_hidden = isinstance(flags, int) and bool(flags & _HIDDEN_FLAGS)
    is_text = _entry(annotation, "/Subtype") == "/FreeText" and isinstance(text, str)
    return " ".join(text.split()) if is_text and not is_hidden else ""


def _entry(item: Any, key: str) -> Any:
    """Return an entry of a dictionary of PDF, to which it may only refer; None if it is missing."""
    return item[key] if key in item else None  # noqa: SIM401 - `get` does not follow references


def _warn_of_images(reader: PdfReader, pages: Sequence[str], budget: Budget) -> None:
    """Note which pages are images among pages with text, as their text is missing."""
    empty = [number for number, page in enumerate(pages) if not page.strip()]
    scanned = [number + 1 for number in empty if _has_image(reader, number, budget)]
    if scanned:
        numbers = ", ".join(map(str, scanned[:_SHOWN_PAGES]))
        budget.warn(
            "scanned_pages",
            "{file}: {count} of {total} pages are images without text ({numbers}); to read them, "
            "run a program for text recognition on the file first, such as `ocrmypdf --skip-text`",
            count=len(scanned),
            total=len(pages),
            numbers=numbers + (", …" if len(scanned) > _SHOWN_PAGES else ""),
        )


def _has_image(reader: PdfReader, number: int, budget: Budget) -> bool:
    with contextlib.suppress(UnreadableFileError), _translate_errors(budget):
        objects = _entry(_entry(reader.pages[number], "/Resources") or {}, "/XObject") or {}
        return any(_entry(objects[name], "/Subtype") == "/Image" for name in objects)
    return False


def _title(given: str | None, document_id: str) -> str | None:
    """Return the title in the file, unless a program has made it up or it is a file name."""
    title = " ".join(replace_surrogates(given or "").split())
    name = PurePosixPath(document_id).name.casefold()
    is_name = title.casefold() in {name, name.rpartition(".")[0]} or _FILE_NAME.fullmatch(title)
    return None if is_name or _NO_TITLE.match(title) else title or None


def _headings(
    reader: PdfReader, texts: Sequence[str], pages: Sequence[Segment], budget: Budget
) -> FileHeadings:
    headings = FileHeadings(budget)
    lines: dict[int, _PageLines] = {}
    for level, title, page in _bookmarks(reader, budget):
        if page not in lines:
            lines[page] = _PageLines(texts[page])
        headings.add(pages[page].start + lines[page].find(title), level, title)
    return headings


def _bookmarks(reader: PdfReader, budget: Budget) -> list[tuple[int, str, int]]:
    """Return the level, the title and the page of each bookmark that leads to a page.

    A file whose bookmarks cannot be read has none.

    Raises:
        FileLimitError: If the file exceeds a limit.
    """
    found = []
    try:
        with _translate_errors(budget):
            pending: list[tuple[int, Iterator[Any]]] = [(1, iter(reader.outline))]
            while pending:
                level, items = pending[-1]
                item = next(items, None)
                if item is None:
                    pending.pop()
                elif isinstance(item, list):
                    pending.append((level + 1, iter(item)))
                else:
                    budget.check_time()
                    page = reader.get_destination_page_number(item)
                    if page is not None and 0 <= page < len(reader.pages):
                        found.append((level, replace_surrogates(item.title or ""), page))
    except FileLimitError:
        raise
    except UnreadableFileError:
        return []
    return found


class _PageLines:
    """Finds bookmarks in the lines of a page."""

    def __init__(self, text: str) -> None:
        self._starts: dict[str, list[int]] = {}
        self._previous = 0
        start, before = 0, (0, "")
        for line in text.splitlines(keepends=True):
            name = _normalized(line)
            if name:
                self._starts.setdefault(name, []).append(start)
                self._starts.setdefault(f"{before[1]} {name}", []).append(before[0])
                before = start, name
            start += len(line)

    def find(self, title: str) -> int:
        """Return the start of the next line that is a title, or of the last line that was.

        The title can continue on a second line, and a number can stand before it.
        """
        starts = self._starts.get(_normalized(title), [])
        at = bisect_left(starts, self._previous)
        if at < len(starts):
            self._previous = starts[at]
        return self._previous


def _normalized(line: str) -> str:
    if len(line) > _MAX_HEADING:
        return ""
    return " ".join(_NUMBER.sub("", line, count=1).split()).casefold()


@contextlib.contextmanager
def _translate_errors(budget: Budget) -> Iterator[None]:
    """Translate pypdf's errors; for broken content, it raises exceptions of many types."""
    from pypdf.errors import LimitReachedError

    with translate_errors("PDF", budget.origin):
        try:
            yield
        except LimitReachedError as error:
            text = "{file} exceeds a limit for PDF files: {reason}"
            raise FileLimitError(
                CodedText("large_pdf", text, file=budget.origin, reason=str(error))
            ) from error


class _PageText:
    """Collects the texts of a page, and separates the cells of table rows."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._start = -math.inf  # left end of the last text on the line
        self._end = math.inf  # its estimated right end

    def add(
        self, text: str, outer: Sequence[float], inner: Sequence[float], _font: Any, size: float
    ) -> None:
        """Add a text that pypdf found; it starts with a space if there is a gap before it."""
        if not text:
            return
        left = inner[4] * outer[0] + inner[5] * outer[2] + outer[4]
        em = abs(size) * math.hypot(
            inner[0] * outer[0] + inner[1] * outer[2], inner[0] * outer[1] + inner[1] * outer[3]
        )
        word = text.lstrip(" ")
        if word != text and left - self._end > _CELL_GAP * em and word.strip():
            text = CELL_SEPARATOR + word
        elif self._is_before(word, left, em):
            text = CELL_SEPARATOR + text
        self.pieces.append(text)
        if text.endswith("\n"):
            self._start, self._end = -math.inf, math.inf
        elif word:
            self._start = left
            last_line = word.rpartition("\n")[2]
            self._end = left + 1.1 * len(last_line) * _CHARACTER_WIDTH * em

    def _is_before(self, text: str, left: float, em: float) -> bool:
        """Return whether a text is on the left of the last one on its line, as some files draw."""
        last = self.pieces[-1] if self.pieces else ""
        is_word = bool(text.strip()) and not text[0].isspace() and not last[-1:].isspace()
        is_jump = left < self._start - _JUMP * em
        return is_word and is_jump and not any(map(_is_right_to_left, (text, last)))


def _is_right_to_left(text: str) -> bool:
    return any(unicodedata.bidirectional(letter) in {"R", "AL"} for letter in text)
