"""Names, attributes and sequence items that are imported or computed on demand, without a lock."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Generic, TypeVar, overload

_PACKAGE = f"{__name__.partition('.')[0]}."

_MAX_ITEMS = 100
"""Maximum length of a list whose items `compute_like` visits."""

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


def compute_like(new: object, old: object, proceed: Callable[[], bool] = lambda: True) -> None:
    """Compute the lazy attributes of an object that an older object of its class has computed.

    The same applies to the objects of this package that are reachable through attributes and
    short lists. An item of a list is compared with the older item in its place, or the last one.

    Args:
        new: The object.
        old: The older object, which is not changed.
        proceed: Called before each computation. If it returns False, nothing more is computed.
    """
    _compute_like(new, old, proceed, set())


def _compute_like(new: object, old: object, proceed: Callable[[], bool], visited: set[int]) -> None:
    if new is old or type(new) is not type(old) or id(new) in visited or not proceed():
        return
    if isinstance(new, list | tuple) and isinstance(old, list | tuple):
        if old and len(new) <= _MAX_ITEMS:
            for number, item in enumerate(new):
                _compute_like(item, old[min(number, len(old) - 1)], proceed, visited)
        return
    if not type(old).__module__.startswith(_PACKAGE) or not hasattr(old, "__dict__"):
        return
    visited.add(id(new))
    for name, value in list(vars(old).items()):
        if isinstance(getattr(type(old), name, None), lazy) and proceed():
            getattr(new, name)
        if name in vars(new):
            _compute_like(vars(new)[name], value, proceed, visited)


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


def load_name(package: str, homes: Mapping[str, Collection[str]], name: str) -> Any:
    """Return a public name of a package; for `__getattr__` of the package.

    Args:
        package: The package.
        homes: The names that each module of the package defines, by the module's relative name.
        name: The name.

    Raises:
        AttributeError: If no module defines the name.
    """
    for home, names in homes.items():
        if name in names:
            return getattr(importlib.import_module(f"{package}.{home}"), name)
    raise AttributeError(f"module {package!r} has no attribute {name!r}")
