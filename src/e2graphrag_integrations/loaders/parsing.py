"""Helpers for readers that use a parsing library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from e2graphrag_integrations.errors import UnreadableFileError


@contextmanager
def translate_errors(file_format: str, origin: str) -> Iterator[None]:
    """Convert any exception raised by a parser to `UnreadableFileError`.

    For broken content, parsers raise exceptions of many types, not only their own classes.

    Args:
        file_format: Name of the format in the error message.
        origin: Name of the file in the error message.
    """
    try:
        yield
    except (ImportError, MemoryError):
        raise  # not caused by the file
    except Exception as error:
        # Beautiful Soup's messages have several lines; the last one states the problem.
        reason = str(error).strip().rpartition("\n")[2].strip() or type(error).__name__
        raise UnreadableFileError(f"{origin} is not a readable {file_format}: {reason}") from error


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which SQLite cannot store and some PDF fonts produce."""
    return text.encode("utf-8", "replace").decode()
