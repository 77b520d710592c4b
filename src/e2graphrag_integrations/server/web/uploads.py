"""Uploads: forms with files, checked before anything is read, and read as documents."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, BinaryIO, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.types import Message

from e2graphrag_integrations._utils.concurrency import run_in_thread
from e2graphrag_integrations._utils.failures import CodedText, on_error
from e2graphrag_integrations._utils.files import composed
from e2graphrag_integrations.errors import (
    E2GraphRAGError,
    FileLimitError,
    InvalidInputError,
    MissingDependencyError,
    StoppedError,
)
from e2graphrag_integrations.indexing.inputs import OnDuplicate
from e2graphrag_integrations.loaders import LoaderLimits, read_data
from e2graphrag_integrations.loaders.files import READERS, reason_to_skip
from e2graphrag_integrations.server.web.calls import MAX_NUMBER
from e2graphrag_integrations.server.web.options import Limits
from e2graphrag_integrations.server.web.problems import Problem, describe
from e2graphrag_integrations.server.web.routing import declared_length
from e2graphrag_integrations.types import SourceDocument

FIELD = "files"
"""Name of the field of the form that contains the files."""

_MAX_NAME = 255
"""Maximum number of bytes in the name of a file."""

_WHOLE = 10
"""Maximum time of a whole upload, in multiples of the time for one part."""

_UNPACKED = 2
"""Maximum size of the content of a compressed file, in multiples of the size of an upload."""

_FORBIDDEN = frozenset("\\\u200b\ufeff\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""The separator of folders on Windows, and letters that hide or reorder others."""

_CONTROLS = ("Cc", "Cs", "Zl", "Zp")
"""Categories of control characters and line breaks."""

_MAX_FIELD = 1_000
"""Maximum number of bytes in another field."""

_AROUND = 1_000
"""Number of bytes of a form for each file, such as its name, which do not count."""


class FileForm(BaseModel):
    """A form with files only."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class UploadForm(FileForm):
    """The other fields of a form with files."""

    on_duplicate: OnDuplicate = Field(
        "error", description="For a document that is indexed with another text."
    )
    max_llm_calls: int | None = Field(
        None,
        ge=0,
        le=MAX_NUMBER,
        description="Stop before the first LLM call if the summaries need more calls than this.",
    )


F = TypeVar("F", bound=FileForm)


def form_schema(form: type[FileForm]) -> dict[str, Any]:
    """Return what OpenAPI says about a request with files; FastAPI does not see the form."""
    schema = form.model_json_schema()
    files = {"type": "array", "items": {"type": "string", "format": "binary"}}
    schema |= {"properties": {FIELD: files, **schema["properties"]}, "required": [FIELD]}
    content = {"multipart/form-data": {"schema": schema}}
    return {"requestBody": {"required": True, "content": content}}


@dataclass(frozen=True)
class Upload(Generic[F]):
    """The files of a form, which are on disk if they are large, and its other fields.

    Attributes:
        files: The files by name.
        form: The other fields.
        limits: Limits for reading each file.
        refused: Why other files of the form are left out, by name.
    """

    files: Mapping[str, BinaryIO]
    form: F
    limits: LoaderLimits
    refused: Mapping[str, Problem]

    def close(self) -> None:
        """Delete the files."""
        for file in self.files.values():
            file.close()

    def read(self, is_stopped: Callable[[], bool] = lambda: False) -> Documents:
        """Return the documents; files that cannot be read are left out.

        Args:
            is_stopped: Whether to stop before the next file.

        Raises:
            StoppedError: If reading was stopped.
            FileLimitError: If all texts together are too long.
        """
        documents: list[SourceDocument] = []
        size, most = 0, self.limits.file_bytes
        unread: dict[str, E2GraphRAGError | Problem] = dict(self.refused)
        warnings: dict[str, list[CodedText]] = {}
        for name, file in self.files.items():
            if is_stopped():
                raise StoppedError("the upload was stopped")
            file.seek(0)
            try:
                document = read_data(
                    file.read(),
                    name,
                    limits=self.limits,
                    on_warning=warnings.setdefault(name, []).append,
                )
            except Exception as error:
                if (reason := reason_to_skip(name, error)) is None:
                    raise
                unread[name] = reason
                continue
            size += len(document.text)
            if size > most:  # small files can contain much text
                raise FileLimitError(
                    f"with {name!r}, the upload contains more than {most:,} characters: divide it"
                )
            documents.append(document)
        return Documents(documents, unread, {name: one for name, one in warnings.items() if one})

    async def aread(self) -> Documents:
        """Run `read` in a thread."""
        stopped = threading.Event()
        return await run_in_thread(lambda: self.read(stopped.is_set), stopped.set)


@dataclass(frozen=True)
class Documents:
    """The documents of an upload.

    Attributes:
        documents: The documents.
        unread: Why other files could not be read, by name.
        warnings: What may be wrong with texts, by the name of the file.
    """

    documents: Sequence[SourceDocument]
    unread: Mapping[str, E2GraphRAGError | Problem]
    warnings: Mapping[str, Sequence[CodedText]]

    def check(self) -> None:
        """Check that at least one file could be read.

        Raises:
            UnreadableFileError: If not: why the first one cannot be read.
            FileLimitError: The same, if it is too large.
            Problem: The same, if it was refused or the server lacks a package.
        """
        if self.documents:
            return
        [first, *_] = self.unread.values()
        if isinstance(first, MissingDependencyError):
            raise Problem(501, "MissingDependencyError", f"the server cannot read it: {first}")
        raise first


async def receive_upload(request: Request, limits: Limits, form: type[F]) -> Upload[F]:
    """Receive a form with files.

    Args:
        request: The request.
        limits: The limits of the server.
        form: The other fields that the form may have.

    Raises:
        Problem: If the form is too large, comes too slowly, is no form, or all of its files are
            empty, of an unknown kind, or have too long a name.
        InvalidInputError: If the name of a file is not allowed, or another field is invalid.
    """
    if declared_length(request) > _most_received(limits):
        raise _too_large(limits)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "multipart/form-data":
        raise Problem(415, "MediaTypeError", "send the files as multipart/form-data")
    limited = Request(request.scope, _Counting(request, limits))
    parser = _Form(
        limited.headers,
        limited.stream(),
        max_files=limits.upload_files,
        max_fields=len(form.model_fields) + 1,
        max_part_size=_MAX_FIELD,
    )
    try:
        with on_error(lambda _: _close_files(parser)):
            async with asyncio.timeout(_WHOLE * limits.body_seconds), aclosing(parser.stream):
                received = await parser.parse()
    except TimeoutError:
        raise Problem(408, "SlowRequestError", "the upload took too long") from None
    except MultiPartException as error:
        if error.message.startswith("Too many files"):
            message = f"Too many files: an upload may have {limits.upload_files:,}"
            most = {"most": limits.upload_files}
            raise Problem(413, "TooLargeError", message, "too_many_files", most) from error
        if error.message.startswith("Part exceeded"):
            message = f"a field of the form has more than {_MAX_FIELD:,} bytes"
            raise Problem(413, "TooLargeError", message, "form") from error
        raise Problem(400, "FormError", error.message) from error
    parts = received.multi_items()
    async with contextlib.AsyncExitStack() as undo:
        undo.callback(_close_files, parser)  # one that was cut is not in the form
        undo.push_async_callback(received.close)
        parser.check_end()
        files, refused = _files([one for name, one in parts if name == FIELD])
        total = sum(one.size or 0 for _, one in parts if isinstance(one, UploadFile))
        if total > limits.upload_bytes:
            raise _too_large(limits)
        values = _fields([one for one in parts if one[0] != FIELD], form)
        undo.pop_all()
    unpacked = min(LoaderLimits().unpacked_bytes, _UNPACKED * limits.upload_bytes)
    return Upload(files, values, LoaderLimits(limits.upload_bytes, unpacked), refused)


class _Form(MultiPartParser):
    """Notes whether the end of the form was received; without it, the last file may be cut."""

    is_complete = False

    def on_end(self) -> None:
        """Note the end."""
        super().on_end()
        self.is_complete = True

    def check_end(self) -> None:
        """Check that the end was received.

        Raises:
            Problem: If it was not.
        """
        if not self.is_complete:
            raise Problem(400, "FormError", "the form ends in the middle of a file")


def _close_files(parser: MultiPartParser) -> None:
    # The parser closes them only for errors of its own.
    for file in parser._files_to_close_on_error:  # noqa: SLF001
        file.close()


def _most_received(limits: Limits) -> int:
    return limits.upload_bytes + _AROUND * limits.upload_files


def _too_large(limits: Limits) -> Problem:
    return Problem(
        413,
        "TooLargeError",
        f"an upload may have at most {limits.upload_bytes:,} bytes in total",
        "too_large",
        {"most": limits.upload_bytes},
    )


class _Counting:
    """Receives the parts of a request, and counts bytes and seconds."""

    def __init__(self, request: Request, limits: Limits) -> None:
        self._receive = request.receive
        self._limits = limits
        self._size = 0

    async def __call__(self) -> Message:
        """Return the next part.

        Raises:
            Problem: If the request is too large, or the part does not come.
        """
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                message = await self._receive()
        except TimeoutError:
            raise Problem(
                408,
                "SlowRequestError",
                f"nothing was received for {self._limits.body_seconds:g} seconds",
            ) from None
        self._size += len(message.get("body", b""))
        if self._size > _most_received(self._limits):
            raise _too_large(self._limits)
        return message


def _files(parts: Sequence[Any]) -> tuple[dict[str, BinaryIO], dict[str, Problem]]:
    """Return the files of a form by name, and why others are left out.

    Raises:
        Problem: If the form has no file, or only files that are left out.
        InvalidInputError: If a name is not allowed, or two files have it.
    """
    if not parts:
        raise Problem(400, "FormError", f"the form has no file: name the field {FIELD}")
    files: dict[str, BinaryIO] = {}
    refused: dict[str, Problem] = {}
    for part in parts:
        if not isinstance(part, UploadFile):
            raise Problem(400, "FormError", f"{FIELD} must be a file with a name")
        name = check_file_name(part.filename or "")
        if name in files or name in refused:
            raise InvalidInputError(f"two files are named {name!r}")
        problem = _problem_of(name, part)
        if problem is None:
            files[name] = part.file
        else:
            part.file.close()
            refused[name] = problem
    if not files:
        raise next(iter(refused.values()))
    return files, refused


def check_file_name(name: str) -> str:
    """Return the composed name of a file, which becomes the id of its document.

    A file in a folder is named by its path, as in `reports/may.md`. Nothing is written there.

    Raises:
        InvalidInputError: If it is not a plain name, or a relative path of plain names.
    """
    name = composed(name)
    if not name.strip():
        raise InvalidInputError(f"the name of a file must have 1 to {_MAX_NAME} bytes")
    if any(letter in _FORBIDDEN or unicodedata.category(letter) in _CONTROLS for letter in name):
        raise InvalidInputError(
            f"{name[:80]!r} is not the name of a file: it contains a backslash or a control "
            "character"
        )
    for part in name.split("/"):
        if not part or part != part.strip() or part.startswith("."):
            raise InvalidInputError(
                f"{name[:80]!r} is not the name of a file: a part of it is empty, begins with a "
                "dot, or begins or ends with white space"
            )
    return name


def _problem_of(name: str, file: UploadFile) -> Problem | None:
    """Return why a file is left out although it may be uploaded, or None."""
    if len(name.encode("utf-8", "replace")) > _MAX_NAME:
        return Problem(
            400,
            "FileNameError",
            f"{name[:80]!r} is too long: the name of a file must have 1 to {_MAX_NAME} bytes, with "
            "the folders above it",
            "long_file_name",
            {"file": name[:80], "most": _MAX_NAME},
        )
    if PurePosixPath(name).suffix.lower() not in READERS:
        return Problem(
            415,
            "FileKindError",
            f"{name!r} is of an unknown kind: use .txt, .md, .pdf, .html, .docx, .xlsx, .pptx, "
            ".epub, .rtf, .eml, .csv, .json or source code",
            values={"file": name},
        )
    if not file.size:
        return Problem(400, "EmptyFileError", f"{name!r} is empty", values={"file": name})
    return None


def _fields(parts: Sequence[tuple[str, Any]], form: type[F]) -> F:
    for name, value in parts:
        if name not in form.model_fields or not isinstance(value, str):
            allowed = ", ".join([FIELD, *form.model_fields])
            raise InvalidInputError(f"unknown field {name[:100]!r} in the form: use {allowed}")
    [(name, count), *_] = Counter(name for name, _ in parts).most_common(1) or [("", 0)]
    if count > 1:
        raise InvalidInputError(f"the field {name!r} of the form is given twice")
    try:
        return form.model_validate(dict(parts))
    except ValidationError as error:
        raise InvalidInputError(describe(error.errors())) from error
