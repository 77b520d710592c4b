"""Memory that is free, but still belongs to the process."""

from __future__ import annotations

import contextlib
import ctypes


def release_free_memory() -> None:
    """Return free memory to the operating system, if the C library is glibc.

    For every thread that allocates, glibc keeps a heap of its own, and reuses little of it after
    the thread has built large arrays.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
