"""Locks and threads in forked processes.

A forked process has only the thread that called `fork`. A lock that another thread held at that
moment stays locked forever in the child, and work handed to another thread never finishes.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any, Protocol


class Lock(Protocol):
    """The methods that `threading.Lock` and `threading.RLock` share."""

    def acquire(self, blocking: bool = ..., timeout: float = ...) -> bool:
        """Acquire the lock; return whether it was acquired."""
        ...

    def release(self) -> None:
        """Release the lock."""
        ...


class ProcessLock:
    """A lock that each process has for itself: a forked process starts with an unlocked one.

    Args:
        create: Creates the lock of a process: `threading.Lock` or `threading.RLock`.
    """

    def __init__(self, create: Callable[[], Lock]) -> None:
        self._create = create
        self._locks: dict[int, Lock] = {}

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire the lock of this process; see `threading.Lock.acquire`."""
        pid = os.getpid()
        lock = self._locks.get(pid)
        if lock is None:
            lock = self._locks.setdefault(pid, self._create())  # atomic
        return lock.acquire(blocking, timeout)

    def release(self) -> None:
        """Release the lock; do nothing if it was acquired before a fork."""
        lock = self._locks.get(os.getpid())
        if lock is not None:
            lock.release()

    def __enter__(self) -> None:
        """Acquire the lock."""
        self.acquire()

    def __exit__(self, *_: object) -> None:
        """Release the lock."""
        self.release()


def process_lock() -> ProcessLock:
    """Return a `ProcessLock` that is not reentrant."""
    return ProcessLock(threading.Lock)


def process_rlock() -> ProcessLock:
    """Return a reentrant `ProcessLock`."""
    return ProcessLock(threading.RLock)


def use_one_thread_after_fork(loaded_in: int) -> None:
    """Make PyTorch and FAISS use one thread if this process is a fork of the given one.

    Their worker threads do not exist in a forked process, and OpenMP would wait for them forever.

    Args:
        loaded_in: Id of the process that loaded the model or the index.
    """
    if loaded_in == os.getpid():
        return
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.get_num_threads() > 1:
        torch.set_num_threads(1)
    faiss: Any = sys.modules.get("faiss")
    if faiss is not None and faiss.omp_get_max_threads() > 1:
        faiss.omp_set_num_threads(1)
