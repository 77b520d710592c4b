"""Helpers for readers that use a parsing library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from e2graphrag_integrations._utils.failures import CodedText
from e2graphrag_integrations.errors import FileLimitError, UnreadableFileError

OLD_FORMAT = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""First bytes of old office files, such as .doc, and of new ones with a password."""

LOCKED = "it is protected with a password: save it without one"
"""Why an encrypted file cannot be read."""


@contextmanager
def translate_errors(file_format: str, origin: str, *errors: type[Exception]) -> Iterator[None]:
    """Convert exceptions of a parser to `UnreadableFileError`.

    Use it only around calls of the parser, so that it does not hide mistakes of this package.

    Args:
        file_format: Name of the format in the error message.
        origin: Name of the file in the error message.
        errors: The exceptions that the parser raises for broken content; none means that any
            exception is converted, for a parser that raises exceptions of many types.
    """
    caught = errors or (Exception,)
    try:
        yield
    except (ImportError, MemoryError, FileLimitError):
        raise
    except caught as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise unreadable(origin, file_format, reason) from error


def unreadable(origin: str, file_format: str, reason: str) -> UnreadableFileError:
    """Return the error for a file that is not in its format.

    Args:
        origin: Name of the file.
        file_format: Name of the format.
        reason: What is wrong, for the end of the message.
    """
    return UnreadableFileError(
        CodedText(
            "unreadable",
            "{file} is not a readable {format}: {reason}",
            file=origin,
            format=file_format,
            reason=reason,
        )
    )


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which SQLite cannot store and some PDF fonts produce."""
    return text.encode("utf-8", "replace").decode()
