"""Lazy attributes: computed once, cached, and independent of other instances."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from e2graphrag_integrations._utils.lazy import LazySequence, compute_like, lazy


class Sums:
    """Counts the computations of `total`."""

    def __init__(self, wait=None) -> None:
        self.computations = 0
        self.wait = wait

    @lazy
    def total(self):
        """Return the sum."""
        self.computations += 1
        if self.wait is not None:
            assert self.wait.wait(10)
        return object()


def test_value_is_computed_once_and_cached():
    sums = Sums()
    assert sums.total is sums.total
    assert sums.computations == 1
    assert Sums.total.__doc__ == "Return the sum."


def test_computation_does_not_wait_for_another_instance():
    ready = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(lambda: Sums(ready).total)
        assert Sums().total is not None  # a lock shared by all instances would block here
        ready.set()
        assert slow.result(10) is not None


def test_sequence_items_are_computed_on_access():
    computed = []

    def square(number):
        computed.append(number)
        return number * number

    squares = LazySequence(5, square)
    assert (len(squares), computed) == (5, [])
    assert (squares[3], squares[-1], squares[1:3], computed) == (9, 16, [1, 4], [3, 4, 1, 2])
    assert list(squares) == [0, 1, 4, 9, 16]
    with pytest.raises(IndexError):
        squares[5]


class Part:
    """A part with a lazy attribute, as in a snapshot."""

    __module__ = "e2graphrag_integrations.test"

    def __init__(self, **attributes) -> None:
        vars(self).update(attributes)

    @lazy
    def total(self):
        return object()

    @lazy
    def other(self):
        return object()


def test_compute_like_computes_what_an_older_object_has_computed():
    shared = Part()
    old = Part(inner=Part(), shared=shared, parts=(Part(), Part()), names=["a"], itself=None)
    old.itself = old
    new = Part(inner=Part(), shared=shared, parts=(Part(), Part(), Part()), names=["b"])
    new.itself = new
    _ = old.total, old.inner.other, old.parts[1].total
    compute_like(new, old)
    assert {"total"} == {"total", "other"} & vars(new).keys()
    assert {"other"} == {"total", "other"} & vars(new.inner).keys()
    assert not vars(shared)
    assert ["total" in vars(part) for part in new.parts] == [False, True, True]


def test_compute_like_can_be_stopped():
    old, new = Part(), Part()
    assert old.total
    compute_like(new, old, lambda: False)
    assert "total" not in vars(new)
