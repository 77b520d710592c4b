"""A cache of the most recently used values."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from e2graphrag_integrations._utils.processes import process_lock

T = TypeVar("T")


class BoundedCache(Generic[T]):
    """Remembers the most recently used values of texts; safe for concurrent use by threads.

    Unlike `functools.lru_cache`, it does not refer to the object that computes the values, so it
    creates no reference cycle.

    Args:
        size: Maximum number of values.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = process_lock()
        self._values: OrderedDict[str, T] = OrderedDict()

    def get(self, text: str, compute: Callable[[str], T]) -> T:
        """Return the value of a text, computing it if it is not remembered."""
        with self._lock:
            if text in self._values:
                self._values.move_to_end(text)
                return self._values[text]
        value = compute(text)  # not under the lock: models take long
        with self._lock:
            self._values[text] = value
            while len(self._values) > self._size:
                self._values.popitem(last=False)
        return value

    def clear(self) -> None:
        """Forget all values."""
        with self._lock:
            self._values.clear()
