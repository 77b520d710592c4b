"""Reading stored data that may be damaged, crafted or of another version."""

from __future__ import annotations

import zlib
from types import TracebackType

from e2graphrag_integrations.errors import CorruptStoreError, SchemaVersionError

_MAX_RATIO = 200
"""Maximum size of decompressed data relative to the compressed data. Text and columns of numbers
reach 5 to 20; a crafted archive reaches 1,000."""

_MIN_LIMIT = 64 << 20
"""Size in bytes up to which data may always be decompressed."""

_INVALID = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""Errors that invalid values cause. A lack of memory is not one of them."""


def decompress(data: bytes) -> bytes:
    """Decompress data in zlib's format, without using more memory than its size justifies.

    Raises:
        ValueError: If the data is damaged or expands too much.
    """
    limit = max(_MIN_LIMIT, _MAX_RATIO * len(data))
    decoder = zlib.decompressobj()
    try:
        content = decoder.decompress(data, limit)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if decoder.unconsumed_tail:
        raise ValueError(f"it expands to more than {limit} bytes")
    if not decoder.eof:
        raise ValueError("it is incomplete")
    return content


class invalid_rows:  # noqa: N801 - used in a `with` statement, like `suppress`
    """Convert the errors that invalid stored values cause to `CorruptStoreError`.

    A crafted file can contain such values with valid checksums. This is a class because a
    generator takes longer, and every row that a query reads is checked.

    Args:
        path: The index file, for the error message.
        what: What is read, for the error message.
    """

    __slots__ = ("_path", "_what")

    def __init__(self, path: str, what: str) -> None:
        self._path, self._what = path, what

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Raise `CorruptStoreError` from the error."""
        if isinstance(error, _INVALID):
            raise CorruptStoreError(
                f"{self._path}: {self._what} has invalid values ({type(error).__name__}: {error}); "
                "run verify(), then restore a backup or index again"
            ) from error


def check_format_version(
    where: str, found: object, supported: int, advice: str = "index the documents again"
) -> None:
    """Check that stored data have the supported format version.

    Args:
        where: The place of the data, for the error message.
        found: The version there.
        supported: The version that this package reads and writes.
        advice: What to do with data of another version.

    Raises:
        SchemaVersionError: If the versions differ.
    """
    if found != supported:
        raise SchemaVersionError(
            f"{where} has format version {found}, but this version of e2graphrag-integrations "
            f"reads only version {supported}: {advice}"
        )
