"""Find the files in the given paths, and read each file with the reader for its suffix."""

from __future__ import annotations

import codecs
import errno
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, NamedTuple

from e2graphrag_integrations._utils.failures import CodedText
from e2graphrag_integrations._utils.files import KnownFiles, composed, is_folder
from e2graphrag_integrations.errors import (
    DuplicateDocumentError,
    E2GraphRAGError,
    InvalidInputError,
    MissingDependencyError,
    UnreadableFileError,
)
from e2graphrag_integrations.loaders.docx import read_docx
from e2graphrag_integrations.loaders.encodings import check_encoding, decode_as
from e2graphrag_integrations.loaders.epub import read_epub
from e2graphrag_integrations.loaders.html import read_html
from e2graphrag_integrations.loaders.limits import Budget, LoaderLimits
from e2graphrag_integrations.loaders.mail import read_eml, read_mbox
from e2graphrag_integrations.loaders.pdf import read_pdf
from e2graphrag_integrations.loaders.pptx import read_pptx
from e2graphrag_integrations.loaders.rtf import read_rtf
from e2graphrag_integrations.loaders.text import (
    read_json,
    read_markdown,
    read_notebook,
    read_subtitles,
    read_text,
)
from e2graphrag_integrations.loaders.xlsx import read_xlsx
from e2graphrag_integrations.types import SourceDocument

logger = logging.getLogger(__name__)

_MAX_REASON = 200
"""Characters of the error of a reader in the message about its file."""

STDIN = "-"
"""The path that means standard input."""

Reader = Callable[[str, bytes, Budget], SourceDocument]
"""Takes the document's id, the content of the file, and its limits, which also name the file in the
messages of errors."""

_TEXT_SUFFIXES = (
    # texts and records
    ".txt .text .log .rst .adoc .org .tex .bib .csv .tsv "
    ".xml .yaml .yml .toml .ini .cfg .conf .properties "
    # source code
    ".py .pyi .r .jl .js .mjs .cjs .jsx .ts .tsx .vue .svelte .css .scss .less .java .kt .kts "
    ".scala .groovy .gradle .clj .cljs .c .h .cc .cpp .cxx .hh .hpp .hxx .m .mm .cs .fs .vb .go "
    ".rs .swift .dart .rb .php .pl .pm .lua .sh .bash .zsh .fish .ps1 .bat .cmd .sql .graphql "
    ".proto .tf .hcl .cmake .mk .hs .ml .mli .elm .erl .ex .exs .lisp .el .scm .nim .zig .f90 "
    ".pas .asm .s .v .sv .vhd .sol"
).split()
"""Suffixes of files that are read as text."""

READERS: Mapping[str, Reader] = MappingProxyType(
    dict.fromkeys(_TEXT_SUFFIXES, read_text)
    | dict.fromkeys((".json", ".jsonl", ".ndjson", ".geojson"), read_json)
    | {".ipynb": read_notebook}
    | dict.fromkeys((".srt", ".vtt"), read_subtitles)
    | dict.fromkeys((".md", ".markdown"), read_markdown)
    | {".pdf": read_pdf}
    | dict.fromkeys((".html", ".htm", ".xhtml"), read_html)
    | {".rtf": read_rtf, ".epub": read_epub}
    | dict.fromkeys((".eml", ".mht", ".mhtml"), read_eml)
    | {".mbox": read_mbox}
    | dict.fromkeys((".docx", ".docm", ".dotx"), read_docx)
    | dict.fromkeys((".pptx", ".pptm", ".ppsx"), read_pptx)
    | dict.fromkeys((".xlsx", ".xlsm", ".xltx"), read_xlsx)
)
"""Maps a lowercase file suffix to its reader."""

_TEXT_READERS = frozenset(
    {read_text, read_markdown, read_json, read_notebook, read_subtitles, read_html}
)
"""The readers of files that have an encoding."""

_SHOWN_FILES = 3
"""Number of files that a message lists."""

_INDEX_FILES = (
    *(".e2g", ".e2g.lock", ".e2g-wal", ".e2g-shm", ".e2g-journal", ".e2g.snapshot"),
    ".shards.json",
)
"""Endings of the files and folders of an index, which are not documents."""

_OWNER_FILE = "~$"
"""Start of the names of files in which an office program notes who has a document open."""

_SYSTEM_FILES = frozenset({"desktop.ini", "thumbs.db"})
"""Files that Windows hides in folders."""

_SAVE_AS: Mapping[str, str] = MappingProxyType(
    dict.fromkeys((".doc", ".odt", ".pages"), "save it as .docx")
    | dict.fromkeys((".xls", ".xlsb", ".ods", ".numbers"), "save it as .xlsx")
    | dict.fromkeys((".ppt", ".odp"), "save it as .pptx")
    | {".msg": "save it as .eml"}
    | dict.fromkeys((".zip", ".7z", ".rar", ".tar", ".gz", ".tgz", ".bz2", ".xz"), "unpack it")
)
"""What to do about files that contain texts but cannot be read."""


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that was not read.

    Attributes:
        document_id: The id that the document would have.
        path: The file; None for standard input.
        error: Why the file, or the folder, could not be read; None for a file of an unknown kind,
            or a link to a folder outside of the given one.
    """

    document_id: str
    path: Path | None
    error: UnreadableFileError | MissingDependencyError | None = None

    @property
    def reason(self) -> str:
        """Why the file was skipped, in words."""
        if self.error is not None:
            return str(self.error)
        if self.path is not None and self.path.is_dir():
            return "a link to a folder, which is not followed: give the folder itself, too"
        suffix = self.path.suffix if self.path is not None else ""
        advice = _SAVE_AS.get(suffix.lower())
        return f"unknown kind of file: {suffix or 'no suffix'}" + (f"; {advice}" if advice else "")


def read_documents(
    paths: str | Path | Iterable[str | Path],
    stdin: BinaryIO | None = None,
    *,
    encoding: str | None = None,
    limits: LoaderLimits = LoaderLimits(),  # noqa: B008 - immutable
    on_skip: Callable[[SkippedFile], None] | None = None,
    exclude: Callable[[Path], bool] = lambda _: False,
    name: Callable[[Path, str], str] = lambda _, document_id: document_id,
) -> list[SourceDocument]:
    r"""Read files and folders; folders are read recursively, in sorted order.

    The id of a document is its POSIX path relative to the given folder, or its file name if the
    file is given directly, with composed letters (NFC). `-` reads standard input as text, with the
    id `stdin`. In folders, hidden files, those of open office programs (`~$`) and the files of an
    index are ignored, and files with an unknown suffix are skipped, like links to folders outside
    of the given one. A file that is given directly is read as text if its suffix is unknown.

    A file that is found twice, also through a link, is read once: with the id of the file itself
    rather than of the link, or else with the first id. Bytes of a file name that are not valid
    UTF-8 appear as escapes such as `\xe9` in the id.

    Args:
        paths: Files and folders to read, or a single one.
        stdin: Binary stream that `-` reads. None means that standard input is not available.
        encoding: Encoding of all text and HTML files, such as "gb18030". None finds the encoding
            of each file, and logs those that are not certain in one warning.
        limits: Limits for each file.
        on_skip: Called with every file that is skipped because its kind is unknown, it cannot be
            read, it exceeds a limit, or it needs a package that is not installed; the other files
            are read. None means that only files of an unknown kind are skipped, and that any other
            such file raises its error.
        exclude: Returns whether a file or folder within a given folder is ignored.
        name: Returns the id of a document, given its file and the id that it would have.

    Raises:
        InvalidInputError: If a path is invalid or does not exist, if a folder contains no readable
            file, if `-` is given but `stdin` is None, or if the encoding is unknown.
        UnreadableFileError: If the content of a file does not match its suffix.
        FileLimitError: If a file exceeds a limit.
        DuplicateDocumentError: If two files would have the same id.
        MissingDependencyError: If a format needs the `files` extra and it is not installed.
    """
    if encoding is not None:
        check_encoding(encoding)
    documents: list[SourceDocument] = []
    origins: dict[str, str] = {}
    guesses: dict[str, list[str]] = {}
    given = [paths] if isinstance(paths, str | Path) else paths
    for default_id, path, is_known in _distinct(_sources(given, exclude)):
        if not is_known:
            if on_skip is not None:
                on_skip(SkippedFile(default_id, path))
            continue
        origin = "standard input" if path is None else shown_name(path)
        document_id = default_id if path is None else name(path, default_id)
        if document_id in origins:
            raise DuplicateDocumentError(
                f"{origin} and {origins[document_id]} would both get the document id "
                f"{document_id!r}: pass a folder that contains both"
            )
        origins[document_id] = origin
        budget = Budget(limits, origin)
        try:
            if path is None:
                data, suffix = _stdin_data(stdin, budget), ""
            else:
                data, suffix = _file_data(path, budget), path.suffix
            documents.append(_read(data, suffix, document_id, budget, encoding))
        except Exception as error:
            reason = None if on_skip is None else reason_to_skip(origin, error)
            if on_skip is None or reason is None:
                raise
            on_skip(SkippedFile(document_id, path, reason))
            continue
        _log_warnings(budget)
        if budget.guess is not None:
            guesses.setdefault(budget.guess, []).append(document_id)
    _log_guesses(guesses)
    return documents


def source_files(paths: Iterable[str | Path]) -> list[Path]:
    """Return the files that `read_documents` would read.

    Raises:
        InvalidInputError: If a path is invalid or does not exist, or if a folder contains no
            readable file.
    """
    sources = _distinct(_sources(paths, lambda _: False))
    return [path for _, path, is_known in sources if path and is_known and not path.is_dir()]


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
        raise InvalidInputError(f"{shown_name(path)} cannot be used: {error.strerror}") from error
    except ValueError as error:
        raise InvalidInputError(f"{str(path)!r} is not a valid path: {error}") from error
    return True


def read_file(
    path: str | Path,
    document_id: str | None = None,
    *,
    encoding: str | None = None,
    limits: LoaderLimits = LoaderLimits(),  # noqa: B008 - immutable
) -> SourceDocument:
    """Read one file with the reader for its suffix, or as text if the suffix is unknown.

    Args:
        path: The file.
        document_id: The document's id; None uses the file name.
        encoding: Encoding of a text or HTML file; None finds it, and logs one that is not certain.
        limits: Limits for the file.

    Raises:
        UnreadableFileError: If the file cannot be read or its content does not match its suffix.
        FileLimitError: If the file exceeds a limit.
        MissingDependencyError: If the format needs the `files` extra and it is not installed.
        InvalidInputError: If the encoding is unknown.
    """
    path = Path(path)
    budget = Budget(limits, shown_name(path))
    data = _file_data(path, budget)
    own_id = document_id or shown_name(path.name)
    document = _read(data, path.suffix, own_id, budget, encoding)
    _report(budget, own_id)
    return document


def read_data(
    data: bytes,
    document_id: str,
    *,
    encoding: str | None = None,
    limits: LoaderLimits = LoaderLimits(),  # noqa: B008 - immutable
    on_warning: Callable[[CodedText], None] | None = None,
) -> SourceDocument:
    """Read the content of a file with the reader for the suffix of its id, or as text.

    Args:
        data: The content.
        document_id: The document's id, such as the name of the file.
        encoding: Encoding of a text or HTML file; None finds it, and logs one that is not certain.
        limits: Limits for the file.
        on_warning: Called with what may be wrong with the text; None logs it.

    Raises:
        UnreadableFileError: If the content does not match the suffix.
        FileLimitError: If the content exceeds a limit.
        MissingDependencyError: If the format needs the `files` extra and it is not installed.
        InvalidInputError: If the encoding is unknown.
    """
    budget = Budget(limits, document_id)
    budget.check_file(len(data))
    document = _read(data, Path(document_id).suffix, document_id, budget, encoding)
    _report(budget, document_id, on_warning)
    return document


def _read(
    data: bytes, suffix: str, document_id: str, budget: Budget, encoding: str | None
) -> SourceDocument:
    reader = READERS.get(suffix.lower(), read_text)
    if encoding is not None:
        check_encoding(encoding)
    if encoding is not None and reader in _TEXT_READERS:
        text = decode_as(data, encoding, budget.origin)
        data = codecs.BOM_UTF8 + text.encode("utf-8", "replace")
    try:
        return reader(document_id, data, budget)
    except UnreadableFileError:
        raise
    except InvalidInputError as error:  # for example, the path is too long for an id
        raise UnreadableFileError(f"{budget.origin} cannot be a document: {error}") from error
    except ImportError as error:
        raise MissingDependencyError(
            f"{budget.origin} needs the package {error.name}: "
            "pip install 'e2graphrag-integrations[files]'"
        ) from error


def reason_to_skip(
    origin: str, error: Exception
) -> UnreadableFileError | MissingDependencyError | None:
    """Return why a file is left out and the others are read; None if the error concerns them all.

    A mistake of a reader of this package, which is logged, must not stop the others.
    """
    if isinstance(error, UnreadableFileError | MissingDependencyError):
        return error
    if isinstance(error, E2GraphRAGError | MemoryError):
        return None
    logger.error("%s: its reader failed", origin, exc_info=error)
    return UnreadableFileError(
        CodedText(
            "reader_failed",
            "{file} was left out because of an internal error ({reason}): please report it",
            file=origin,
            reason=f"{type(error).__name__}: {error}"[:_MAX_REASON],
        )
    )


def _report(
    budget: Budget, document_id: str, on_warning: Callable[[CodedText], None] | None = None
) -> None:
    """Pass on what may be wrong with the text of a document, or log it."""
    if on_warning is None:
        _log_warnings(budget)
        _log_guesses({budget.guess: [document_id]} if budget.guess else {})
        return
    if budget.guess is not None:
        budget.warn(
            "guessed_encoding",
            "{file} is not in UTF-8 and was read in the encoding that fits its letters, "
            "{encoding}: if its text looks wrong, save it in UTF-8",
            encoding=budget.guess,
        )
    for text in budget.warnings:
        on_warning(text)


def _log_warnings(budget: Budget) -> None:
    for text in budget.warnings:
        logger.warning("%s", text)


def _log_guesses(guesses: Mapping[str, list[str]]) -> None:
    """Log the encodings that are not certain, with the files in them."""
    if not guesses:
        return
    parts = [
        f"{encoding} ({', '.join(ids[:_SHOWN_FILES])}"
        + (f" and {len(ids) - _SHOWN_FILES} more)" if len(ids) > _SHOWN_FILES else ")")
        for encoding, ids in sorted(guesses.items())
    ]
    logger.warning(
        "%d file(s) not in UTF-8 were read in the encoding that fits their letters: %s; if a text "
        "looks wrong, read it again with its encoding given",
        sum(map(len, guesses.values())),
        ", ".join(parts),
    )


def shown_name(path: str | Path) -> str:
    """Return a path as text; the bytes of file names that are not UTF-8 become escapes."""
    return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


class _Source(NamedTuple):
    """A source: its id, its path, and whether there is a reader for it.

    The path is None for standard input.
    """

    document_id: str
    path: Path | None
    is_known: bool


def _distinct(sources: Iterable[_Source]) -> list[_Source]:
    """Return the sources without those that are the same file."""
    found: dict[str, _Source] = {}
    known_files = KnownFiles()
    for source in sources:
        path = source.path
        real = STDIN if path is None else known_files.first_spelling(os.path.realpath(path))
        known = found.setdefault(real, source)
        if known.path != source.path and known.path and known.path.is_symlink():
            found[real] = source
    return list(found.values())


def _sources(paths: Iterable[str | Path], exclude: Callable[[Path], bool]) -> Iterator[_Source]:
    for given in paths:
        path = Path(given)
        if str(given) == STDIN:
            yield _Source("stdin", None, is_known=True)
        elif not path_exists(given):
            raise InvalidInputError(f"{shown_name(path)} does not exist")
        elif path.is_dir():
            yield from _folder_files(path, exclude)
        else:
            yield _Source(composed(shown_name(path.name)), path, is_known=True)


def _folder_files(folder: Path, exclude: Callable[[Path], bool]) -> Iterator[_Source]:
    if not os.access(folder, os.R_OK | os.X_OK):
        raise InvalidInputError(f"folder {shown_name(folder)} cannot be read: permission denied")
    empty = True
    names = {path: path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    listed = set(names.values())
    for path in sorted(names, key=lambda one: (composed(names[one]).split("/"), names[one])):
        parts = names[path].split("/")
        is_left_out = is_folder(path) and _is_left_out(path, folder)
        is_file = is_left_out or _may_be_file(path)
        if any(map(_is_ignored, parts)) or not is_file or exclude(path):
            continue
        is_known = path.suffix.lower() in READERS and not is_left_out
        empty = empty and not is_known
        # Linux can have both names.
        name = names[path] if composed(names[path]) in listed else composed(names[path])
        # A folder that cannot be read is reported like such a file.
        yield _Source(shown_name(name), path, is_known or (is_left_out and not path.is_symlink()))
    if empty:
        raise InvalidInputError(
            f"folder {shown_name(folder)} contains no file of a known kind, such as .txt, .md, "
            ".pdf, .html, .docx, .xlsx, .csv, .json or source code; a file given directly is read "
            "as text"
        )


def _may_be_file(path: Path) -> bool:
    """Return whether a path is a file, or a broken link that has the name of a known file."""
    try:
        if path.is_file():
            return True
        is_broken = path.is_symlink() and not path.exists()
        return is_broken and path.suffix.lower() in READERS
    except OSError:  # its folder, or the target of the link, cannot be entered
        return True


def _is_left_out(path: Path, folder: Path) -> bool:
    """Return whether the files of a folder are not found: it cannot be read, or is elsewhere."""
    if path.is_symlink():
        own, given = (f"{os.path.realpath(one)}{os.sep}" for one in (path, folder))
        return not (own.startswith(given) or given.startswith(own))
    return not os.access(path, os.R_OK | os.X_OK)


def _is_ignored(name: str) -> bool:
    """Return whether a file or folder in a folder is hidden, or not made by the user."""
    lower = name.lower()
    is_hidden = lower.startswith((".", _OWNER_FILE)) or lower in _SYSTEM_FILES
    return is_hidden or lower.endswith(_INDEX_FILES)


def _file_data(path: Path, budget: Budget) -> bytes:
    try:
        if path.is_dir() and not os.access(path, os.R_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        budget.check_file(path.stat().st_size)
        with path.open("rb") as file:  # a device has no size
            data = file.read(budget.limits.file_bytes + 1)
    except OSError as error:
        raise UnreadableFileError(f"{budget.origin} cannot be read: {error.strerror}") from error
    budget.check_file(len(data))
    return data


def _stdin_data(stdin: BinaryIO | None, budget: Budget) -> bytes:
    if stdin is None:
        raise InvalidInputError("standard input is closed")
    try:
        data = stdin.read(budget.limits.file_bytes + 1)
    except OSError as error:
        raise UnreadableFileError(f"standard input cannot be read: {error.strerror}") from error
    budget.check_file(len(data))
    return data
