"""Decoding stored data that may be damaged or crafted: checked errors, bounded memory."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from e2graphrag_integrations.errors import CorruptStoreError

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


@contextmanager
def invalid_rows(path: str, what: str) -> Iterator[None]:
    """Convert the errors that invalid stored values cause to `CorruptStoreError`.

    A crafted file can contain such values with valid checksums.

    Args:
        path: The index file, for the error message.
        what: What is read, for the error message.
    """
    try:
        yield
    except _INVALID as error:
        raise CorruptStoreError(
            f"{path}: {what} has invalid values ({type(error).__name__}: {error}); run verify(), "
            "then restore a backup or index again"
        ) from error
