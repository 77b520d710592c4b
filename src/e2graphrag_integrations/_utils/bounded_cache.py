"""Caches of the most recently used values."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any, Generic, TypeVar, TypeVarTuple, Unpack, overload
from weakref import ref

from e2graphrag_integrations._utils.concurrency import process_lock

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
Ts = TypeVarTuple("Ts")
Decorated = TypeVar("Decorated")


class BoundedCache(Generic[K, T]):
    """Remembers the most recently used values of keys; safe for concurrent use by threads.

    Unlike `functools.lru_cache`, it does not refer to the object that computes the values, so it
    creates no reference cycle.

    Args:
        size: Maximum number of values.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = process_lock()
        self._values: OrderedDict[K, T] = OrderedDict()

    def get(self, key: K, compute: Callable[[K], T]) -> T:
        """Return the value of a key, computing it if it is not remembered."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = compute(key)  # not under the lock: models take long
        with self._lock:
            self._values[key] = value
            while len(self._values) > self._size:
                self._values.popitem(last=False)
        return value

    def clear(self) -> None:
        """Forget all values."""
        with self._lock:
            self._values.clear()


class CachedMethod(Generic[*Ts, T]):
    """A method whose values each instance remembers; see `cached_method`."""

    def __init__(self, compute: Callable[[Any, Unpack[Ts]], T], size: int) -> None:
        self._compute = compute
        self._size = size
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> CachedMethod[*Ts, T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Callable[[Unpack[Ts]], T]: ...

    def __get__(
        self, instance: object | None, owner: type
    ) -> Callable[[Unpack[Ts]], T] | CachedMethod[*Ts, T]:
        """Return the method of an instance, which looks into the cache of that instance."""
        if instance is None:
            return self
        reference = ref(instance)

        def compute(*arguments: *Ts) -> T:
            owner = reference()
            if owner is None:
                raise ReferenceError(f"the object of {self._name} no longer exists")
            return self._compute(owner, *arguments)

        # Found before this descriptor from now on: calls take no detour through Python.
        method: Callable[[Unpack[Ts]], T]
        method = instance.__dict__.setdefault(self._name, lru_cache(self._size)(compute))
        return method


def cached_method(
    size: int,
) -> Callable[[Callable[[Decorated, Unpack[Ts]], T]], CachedMethod[*Ts, T]]:
    """Decorate a method so that each instance remembers its most recently used values.

    The values live and die with the instance. `functools.lru_cache` on a method would either keep
    all instances alive, or create a reference cycle, which the garbage collector breaks late.

    Args:
        size: Maximum number of values of an instance.
    """

    def decorate(compute: Callable[[Decorated, Unpack[Ts]], T]) -> CachedMethod[*Ts, T]:
        return CachedMethod(compute, size)

    return decorate
