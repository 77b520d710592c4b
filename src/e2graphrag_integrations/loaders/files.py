"""Find the files in the given paths, and read each file with the reader for its suffix."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from e2graphrag_integrations.errors import (
    DuplicateDocumentError,
    InvalidInputError,
    MissingDependencyError,
    UnreadableFileError,
)
from e2graphrag_integrations.loaders.docx import read_docx
from e2graphrag_integrations.loaders.html import read_html
from e2graphrag_integrations.loaders.pdf import read_pdf
from e2graphrag_integrations.loaders.text import read_markdown, read_text
from e2graphrag_integrations.types import SourceDocument

STDIN = "-"
"""The path that means standard input."""

READERS: Mapping[str, Callable[[str, bytes, str], SourceDocument]] = {
    ".txt": read_text,
    ".text": read_text,
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".pdf": read_pdf,
    ".html": read_html,
    ".htm": read_html,
    ".docx": read_docx,
}
"""Maps a lowercase file suffix to its reader. A reader takes the document id, the content of the
file, and a name for error messages."""


def read_documents(
    paths: Iterable[str | Path], stdin: BinaryIO | None = None
) -> list[SourceDocument]:
    """Read files and folders; folders are read recursively, in sorted order.

    The id of a document is its POSIX path relative to the given folder, or its file name if the
    file is given directly. `-` reads standard input as text, with the id `stdin`. In folders,
    hidden files and files with an unknown suffix are skipped. A file that is given directly is read
    as text if its suffix is unknown.

    Args:
        paths: Files and folders to read.
        stdin: Binary stream that `-` reads. None means that standard input is not available.

    Raises:
        InvalidInputError: If a path is invalid or does not exist, if a folder contains no readable
            file, or if `-` is given but `stdin` is None.
        UnreadableFileError: If the content of a file does not match its suffix.
        DuplicateDocumentError: If two files would have the same id.
        MissingDependencyError: If a format needs the `files` extra and it is not installed.
    """
    documents: list[SourceDocument] = []
    origins: dict[str, str] = {}
    for document_id, path in _sources(paths):
        origin = "standard input" if path is None else str(path)
        if document_id in origins:
            raise DuplicateDocumentError(
                f"{origin} and {origins[document_id]} would both get the document id "
                f"{document_id!r}: pass a folder that contains both"
            )
        origins[document_id] = origin
        if path is None:
            documents.append(read_text(document_id, _read_stdin(stdin), origin))
        else:
            documents.append(read_file(path, document_id))
    return documents


def source_files(paths: Iterable[str | Path]) -> list[Path]:
    """Return the files that `read_documents` would read.

    Raises:
        InvalidInputError: If a path is invalid or does not exist, or if a folder contains no
            readable file.
    """
    return [path for _, path in _sources(paths) if path is not None]


def path_exists(path: str | Path) -> bool:
    """Return whether a file or folder exists at a path.

    Raises:
        InvalidInputError: If the path is empty, too long, or contains a NUL character.
    """
    if str(path) == "":
        raise InvalidInputError("the path is empty: use . for the current folder")
    try:
        Path(path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be used: {error.strerror}") from error
    except ValueError as error:
        raise InvalidInputError(f"{str(path)!r} is not a valid path: {error}") from error
    return True


def read_file(path: str | Path, document_id: str | None = None) -> SourceDocument:
    """Read one file with the reader for its suffix, or as text if the suffix is unknown.

    Args:
        path: The file.
        document_id: The document's id; None uses the file name.

    Raises:
        UnreadableFileError: If the file cannot be read or its content does not match its suffix.
        MissingDependencyError: If the format needs the `files` extra and it is not installed.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UnreadableFileError(f"{path} cannot be read: {error.strerror}") from error
    reader = READERS.get(path.suffix.lower(), read_text)
    try:
        return reader(document_id or path.name, data, str(path))
    except ImportError as error:
        raise MissingDependencyError(
            f"{path} needs the package {error.name}: pip install 'e2graphrag-integrations[files]'"
        ) from error


def _sources(paths: Iterable[str | Path]) -> Iterator[tuple[str, Path | None]]:
    """Yield the id and the path of each source. The path is None for standard input."""
    for given in paths:
        path = Path(given)
        if str(given) == STDIN:
            yield "stdin", None
        elif not path_exists(given):
            raise InvalidInputError(f"{path} does not exist")
        elif path.is_dir():
            yield from _folder_files(path)
        else:
            yield path.name, path


def _folder_files(folder: Path) -> Iterator[tuple[str, Path]]:
    empty = True
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in relative.parts)
        if path.is_file() and not hidden and path.suffix.lower() in READERS:
            empty = False
            yield relative.as_posix(), path
    if empty:
        raise InvalidInputError(
            f"folder {folder} contains no readable file: "
            f"supported suffixes are {', '.join(sorted(READERS))}"
        )


def _read_stdin(stdin: BinaryIO | None) -> bytes:
    if stdin is None:
        raise InvalidInputError("standard input is closed")
    try:
        return stdin.read()
    except OSError as error:
        raise UnreadableFileError(f"standard input cannot be read: {error.strerror}") from error
