"""Read the chapters of EPUB files with the reader for HTML."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote

from e2graphrag_integrations.loaders.archives import Archive, local_name
from e2graphrag_integrations.loaders.html import read_page
from e2graphrag_integrations.loaders.limits import Budget
from e2graphrag_integrations.loaders.main_content import Content
from e2graphrag_integrations.types import HEADINGS, Segment, SourceDocument

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_PAGES = frozenset(
    {
        "application/xhtml+xml",
        "text/html",
        "application/x-dtbook+xml",
        "text/x-oeb1-document",
        "text/xml",
        "application/xml",
    }
)
"""Media types of the pages of a book. The last three are older names, which converters keep."""


def read_epub(document_id: str, data: bytes, budget: Budget) -> SourceDocument:
    """Return the chapters of a book in reading order, as a document that has the book's title.

    Returns:
        The document. Each segment has the metadata `chapter`, the number of the file in the book
        from 1, and `headings` below its headings.

    Raises:
        UnreadableFileError: If `data` is not a readable EPUB file, is encrypted, or has no text.
        FileLimitError: If the file exceeds a limit.
        ImportError: If lxml is not installed.
    """
    import lxml.etree  # noqa: F401 - report a missing package before reading

    archive = Archive(data, "EPUB file", budget)
    book = _book(archive)
    if any(name in book.pages for name in _encrypted(archive)):
        raise archive.refuse("it is encrypted")
    texts: list[str] = []
    segments: list[Segment] = []
    start = number = 0
    for name in book.pages:
        # Headers and asides of a book, such as notes, are part of its text.
        page = read_page(document_id, b"".join(archive.pieces(name)), budget, [Content.ALL])
        if not page.text.strip():
            continue
        number += 1
        text = page.text + "\n\n"
        segments += _segments(page, start, start + len(text), number)
        texts.append(text)
        start += len(text)
    if not texts:
        raise archive.refuse("it has no text")
    return SourceDocument(document_id, "".join(texts), book.title or None, {}, segments)


def _segments(page: SourceDocument, start: int, end: int, number: int) -> Iterator[Segment]:
    """Yield the sections of a chapter at its place in the book."""
    # From the first heading on, sections follow each other without gaps.
    sections = list(map(Segment._make, page.segments))
    starts = [start + one.start for one in sections]
    if start not in starts:
        yield Segment(start, min([*starts, end]), {"chapter": number})
    for one, first, last in zip(sections, starts, [*starts[1:], end], strict=False):
        yield Segment(first, last, {"chapter": number, HEADINGS: one.metadata[HEADINGS]})


class _Book(NamedTuple):
    """The title of a book, and its pages in reading order."""

    title: str
    pages: list[str]


def _book(archive: Archive) -> _Book:
    package = ""
    for event, element in archive.events(_CONTAINER):
        if event == "start" and local_name(element) == "rootfile" and not package:
            package = str(element.get("full-path", ""))
    folder, title = posixpath.dirname(package), ""
    files: dict[str, str] = {}
    spine: list[str] = []
    for event, element in archive.events(package):
        kind = local_name(element)
        if event == "end" and kind == "title" and not title:
            title = " ".join((element.text or "").split())
        elif event == "start" and kind == "item" and _media_type(element) in _PAGES:
            path = posixpath.join(folder, unquote(str(element.get("href", ""))))
            files[str(element.get("id", ""))] = posixpath.normpath(path)
            if "nav" in str(element.get("properties", "")).split():
                files.pop(str(element.get("id", "")))  # the table of contents
        elif event == "start" and kind == "itemref":
            spine.append(str(element.get("idref", "")))
    return _Book(title, [files[one] for one in spine if files.get(one) in archive.names])


def _media_type(element: Any) -> str:
    """Return the media type of a file of a book, without parameters such as its encoding."""
    return str(element.get("media-type", "")).partition(";")[0].strip().lower()


def _encrypted(archive: Archive) -> Iterator[str]:
    """Yield the parts that are encrypted; fonts often are, which does not matter."""
    for event, element in archive.events(_ENCRYPTION) if _ENCRYPTION in archive.names else ():
        if event == "start" and local_name(element) == "CipherReference":
            yield unquote(str(element.get("URI", "")))
