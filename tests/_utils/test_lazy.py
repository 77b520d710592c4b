"""Lazy attributes: computed once, cached, and independent of other instances."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from e2graphrag_integrations._utils.lazy import LazySequence, lazy


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
