"""Attributes worked out when they are first asked for, without a lock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")
Item_co = TypeVar("Item_co", covariant=True)


class lazy(Generic[T]):  # noqa: N801 - reads like the decorator it is
    """`functools.cached_property` as it is from Python 3.12 on.

    Before, one lock for all instances was held while a value was made: two threads could wait for
    each other, one for the lock, the other for what its holder needs; and questions of different
    threads were embedded one after the other. Without a lock a value may be made twice, and the
    last stays.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._name = make.__name__
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> T | lazy[T]:
        """Make the value and keep it where it is found before this is."""
        if instance is None:
            return self
        value = self._make(instance)
        instance.__dict__[self._name] = value
        return value


class LazySequence(Sequence[Item_co]):
    """Items that are made when they are looked at.

    Args:
        count: How many there are.
        make: Makes the item at a place, from 0.
    """

    def __init__(self, count: int, make: Callable[[int], Item_co]) -> None:
        self._count = count
        self._make = make

    def __len__(self) -> int:
        """Return how many there are."""
        return self._count

    @overload
    def __getitem__(self, at: int) -> Item_co: ...
    @overload
    def __getitem__(self, at: slice) -> list[Item_co]: ...
    def __getitem__(self, at: int | slice) -> Item_co | list[Item_co]:
        """Return one, or a list of some."""
        if isinstance(at, slice):
            return [self._make(i) for i in range(*at.indices(self._count))]
        return self._make(range(self._count)[at])
