"""Files to documents: text, Markdown, PDF, HTML and DOCX.

PDF, HTML and DOCX are read by kept libraries, in the extra `files`.
"""

from __future__ import annotations

import codecs
import io
import re
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from e2graphrag_integrations.errors import (
    DuplicateDocumentError,
    InvalidInputError,
    MissingDependencyError,
    UnreadableFileError,
)
from e2graphrag_integrations.types import Segment, SourceDocument

STDIN = "-"
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    # Before UTF-16, whose mark begins UTF-32's.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_BLOCKS = frozenset(
    "address article aside blockquote br dd div dl dt figcaption footer form h1 h2 h3 h4 h5 h6 "
    "header hr li main nav ol p pre section table td th tr ul".split()
)
_WIDE_BLOCKS = frozenset({"p", "li", "div"})
_UNREAD_TAGS = frozenset({"script", "style", "noscript", "template", "title"})
_CONTENT_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,  # with NotImplementedError and RecursionError
    SyntaxError,  # lxml's for XML
    TypeError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
"""What parsers raise from their depths for broken content, besides errors of their own."""


def read_documents(
    paths: Iterable[str | Path], stdin: BinaryIO | None = None
) -> list[SourceDocument]:
    """Read files and folders, folders with all their sub-folders, in sorted order.

    A document's id is its POSIX path relative to the folder given, or its file name; `-` reads
    standard input as text, with the id `stdin`. In folders, files of unknown kinds and hidden ones
    are passed over; a file given by name is read as text if its kind is unknown.

    Raises:
        InvalidInputError: If a path does not exist or is none, a folder holds no readable file, or
            standard input is asked for and not given.
        UnreadableFileError: If a file is not what its name says.
        DuplicateDocumentError: If two files would have the same id.
        MissingDependencyError: If a format needs the extra `files`.
    """
    documents: list[SourceDocument] = []
    origins: dict[str, str] = {}
    for document_id, path, origin in _sources(paths):
        if document_id in origins:
            raise DuplicateDocumentError(
                f"{origin} and {origins[document_id]} would both be document {document_id!r}: "
                "give a folder above both"
            )
        origins[document_id] = origin
        if path is None:
            documents.append(_read_text(document_id, _read_stdin(stdin), origin))
        else:
            documents.append(read_file(path, document_id))
    return documents


def source_files(paths: Iterable[str | Path]) -> list[Path]:
    """Return the files that `read_documents` would read.

    Raises:
        InvalidInputError: If a path does not exist or is none, or a folder holds no readable file.
    """
    return [path for _, path, _ in _sources(paths) if path is not None]


def path_exists(path: str | Path) -> bool:
    """Tell whether there is something at a path.

    Raises:
        InvalidInputError: If nothing could ever be there: it is empty, too long or holds NUL.
    """
    if str(path) == "":
        raise InvalidInputError("an empty path names no file: write . for the current folder")
    try:
        Path(path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be used: {error.strerror}") from error
    except ValueError as error:
        raise InvalidInputError(f"{str(path)!r} is no path: {error}") from error
    return True


def _sources(paths: Iterable[str | Path]) -> Iterator[tuple[str, Path | None, str]]:
    for given in paths:
        path = Path(given)
        if str(given) == STDIN:
            yield "stdin", None, "standard input"
        elif not path_exists(given):
            raise InvalidInputError(f"{path} does not exist")
        elif path.is_dir():
            yield from _in_folder(path)
        else:
            yield path.name, path, str(path)


def _read_stdin(stdin: BinaryIO | None) -> bytes:
    if stdin is None:
        raise InvalidInputError("there is no standard input to read: it is closed")
    try:
        return stdin.read()
    except OSError as error:
        raise UnreadableFileError(f"standard input cannot be read: {error.strerror}") from error


def _in_folder(folder: Path) -> Iterator[tuple[str, Path, str]]:
    found = False
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in relative.parts)
        if path.is_file() and not hidden and path.suffix.lower() in _FORMATS:
            found = True
            yield relative.as_posix(), path, str(path)
    if not found:
        raise InvalidInputError(
            f"folder {folder} holds no file to read: there are {', '.join(sorted(_FORMATS))}"
        )


def read_file(path: str | Path, document_id: str | None = None) -> SourceDocument:
    """Read one file by what its suffix says; the id is its name unless given.

    Raises:
        UnreadableFileError: If it cannot be read, or is not what its name says.
        MissingDependencyError: If its format needs the extra `files`.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UnreadableFileError(f"{path} cannot be read: {error.strerror}") from error
    reader = _FORMATS.get(path.suffix.lower(), _read_text)
    try:
        return reader(document_id or path.name, data, str(path))
    except ImportError as error:
        if isinstance(error, MissingDependencyError):
            raise
        raise MissingDependencyError(
            f"{path} needs the package {error.name}: pip install 'e2graphrag-integrations[files]'"
        ) from error


def _decode(data: bytes, origin: str) -> str:
    encoding = next((name for bom, name in _BOMS if data.startswith(bom)), "utf-8")
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        place = error.start + len(data) - len(error.object)  # UTF-8's mark is not counted
        raise UnreadableFileError(
            f"{origin} is not {encoding.upper().removesuffix('-SIG')} text: byte {place} is "
            f"0x{data[place]:02x}; save it as UTF-8, for example with "
            "`iconv -f latin1 -t utf-8`"
        ) from error


def _read_text(document_id: str, data: bytes, origin: str) -> SourceDocument:
    return SourceDocument(document_id, _decode(data, origin))


def _read_markdown(document_id: str, data: bytes, origin: str) -> SourceDocument:
    text = _decode(data, origin)
    first = text.lstrip().partition("\n")[0]
    title = first[2:].strip() if first.startswith("# ") else None
    return SourceDocument(document_id, text, title or None)


def _read_pdf(document_id: str, data: bytes, origin: str) -> SourceDocument:
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, PyPdfError

    try:
        reader = PdfReader(io.BytesIO(data))
        pages = [page.extract_text() for page in reader.pages]
        title = reader.metadata.title if reader.metadata else None
    except (PyPdfError, DependencyError, *_CONTENT_ERRORS) as error:
        raise UnreadableFileError(f"{origin} is no readable PDF: {_reason(error)}") from error
    text, segments = "", []
    for number, page in enumerate(pages, 1):
        piece = _storable(page) + "\n\n"
        segments.append(Segment(len(text), len(text) + len(piece), {"page": number}))
        text += piece
    return SourceDocument(document_id, text, _storable(title or "") or None, {}, segments)


def _read_html(document_id: str, data: bytes, origin: str) -> SourceDocument:
    from bs4 import BeautifulSoup
    from bs4.builder import ParserRejectedMarkup

    try:
        with warnings.catch_warnings():
            # Of XHTML and of pages as short as a file name; both are read all the same.
            warnings.simplefilter("ignore", UserWarning)
            soup = BeautifulSoup(data, "html.parser")  # finds the encoding in the markup
        title = soup.title.get_text(" ", strip=True) if soup.title else ""
        raw = "".join(_html_pieces(soup))
    except (ParserRejectedMarkup, *_CONTENT_ERRORS) as error:
        raise UnreadableFileError(f"{origin} is no readable HTML: {_reason(error)}") from error
    text = "\n".join(" ".join(line.split()) for line in raw.splitlines())
    text = re.sub("\n{3,}", "\n\n", text).strip()
    return SourceDocument(document_id, _storable(text), _storable(title) or None)


def _html_pieces(soup: Any) -> Iterator[str]:
    """Yield a page's text with line breaks around its blocks, in one pass however deep it is."""
    from bs4.element import CData, NavigableString, Tag

    waiting: list[Any] = [soup]
    while waiting:
        item = waiting.pop()
        if not isinstance(item, Tag):
            if type(item) in (str, NavigableString, CData):  # and no comment or declaration
                yield item
        elif item.name in _BLOCKS:
            yield "\n\n" if item.name in _WIDE_BLOCKS else "\n"
            waiting += ["\n", *reversed(item.contents)]
        elif item.name not in _UNREAD_TAGS:
            waiting += reversed(item.contents)


def _read_docx(document_id: str, data: bytes, origin: str) -> SourceDocument:
    from docx import Document
    from docx.opc.exceptions import OpcError
    from docx.oxml.exceptions import XmlchemyError
    from docx.table import Table

    try:
        document = Document(io.BytesIO(data))
        blocks = []
        for item in document.iter_inner_content():
            if isinstance(item, Table):
                rows = ("\t".join(cell.text for cell in row.cells) for row in item.rows)
                blocks.append("\n".join(rows))
            else:
                blocks.append(item.text)
        title = document.core_properties.title
    except (OpcError, XmlchemyError, *_CONTENT_ERRORS) as error:
        raise UnreadableFileError(f"{origin} is no readable DOCX: {_reason(error)}") from error
    return SourceDocument(document_id, "\n\n".join(blocks), title or None)


def _reason(error: Exception) -> str:
    """Return an error in one line; Beautiful Soup's says last what was wrong."""
    return str(error).strip().rpartition("\n")[2].strip() or type(error).__name__


def _storable(text: str) -> str:
    """Replace lone surrogates, which PDF fonts can produce."""
    return text.encode("utf-8", "replace").decode()


_Reader = Callable[[str, bytes, str], SourceDocument]
_FORMATS: Mapping[str, _Reader] = {
    ".txt": _read_text,
    ".text": _read_text,
    ".md": _read_markdown,
    ".markdown": _read_markdown,
    ".pdf": _read_pdf,
    ".html": _read_html,
    ".htm": _read_html,
    ".docx": _read_docx,
}
