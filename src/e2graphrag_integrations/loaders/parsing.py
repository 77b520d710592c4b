"""Helpers for readers that use a parser library."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from e2graphrag_integrations.errors import UnreadableFileError

_CONTENT_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,  # includes NotImplementedError and RecursionError
    SyntaxError,  # lxml raises it for malformed XML
    TypeError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
"""Exceptions that parsers leak for broken content, in addition to their own error classes."""


@contextmanager
def translate_errors(
    file_format: str, origin: str, *parser_errors: type[Exception]
) -> Iterator[None]:
    """Raise `UnreadableFileError` for any error that broken content causes in a parser.

    Args:
        file_format: Name of the format, for the message.
        origin: Name of the file, for the message.
        *parser_errors: Error classes of the parser library.
    """
    content_errors: tuple[type[Exception], ...] = (*parser_errors, *_CONTENT_ERRORS)
    try:
        yield
    except content_errors as error:
        # Messages of Beautiful Soup have several lines; the last one names the problem.
        reason = str(error).strip().rpartition("\n")[2].strip() or type(error).__name__
        raise UnreadableFileError(f"{origin} is not a readable {file_format}: {reason}") from error


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which SQLite cannot store and some PDF fonts produce."""
    return text.encode("utf-8", "replace").decode()
