"""Attributes and sequence items that are computed on demand, without a lock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")
Item_co = TypeVar("Item_co", covariant=True)


class lazy(Generic[T]):  # noqa: N801 - a decorator, named like property
    """The lock-free `functools.cached_property` of Python 3.12, also for Python 3.11.

    In Python 3.11, `cached_property` holds one lock for all instances while it computes a value.
    With that lock, two threads could deadlock, and queries from several threads were embedded one
    after another. Without it, two threads may compute the same value; the last result is kept.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> T | lazy[T]:
        """Compute the value and store it in the instance, where it shadows this descriptor."""
        if instance is None:
            return self
        value = self._compute(instance)
        instance.__dict__[self._name] = value
        return value


class LazySequence(Sequence[Item_co]):
    """A sequence that computes an item each time it is accessed.

    Args:
        count: Number of items.
        compute: Function that returns the item at an index from 0 to `count` - 1.
    """

    def __init__(self, count: int, compute: Callable[[int], Item_co]) -> None:
        self._count = count
        self._compute = compute

    def __len__(self) -> int:
        """Return the number of items."""
        return self._count

    @overload
    def __getitem__(self, index: int) -> Item_co: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item_co]: ...
    def __getitem__(self, index: int | slice) -> Item_co | list[Item_co]:
        """Return one item, or a list of items for a slice."""
        if isinstance(index, slice):
            return [self._compute(i) for i in range(*index.indices(self._count))]
        return self._compute(range(self._count)[index])
