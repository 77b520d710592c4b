"""Attributes made on demand: once a thread, kept, and never waiting for another instance."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from e2graphrag_integrations._utils.lazy import LazySequence, lazy


class Sums:
    """Counts how often its sum is made."""

    def __init__(self, wait=None) -> None:
        self.made = 0
        self.wait = wait

    @lazy
    def total(self):
        """Return the sum."""
        self.made += 1
        if self.wait is not None:
            assert self.wait.wait(10)
        return object()


def test_a_value_is_made_once_and_kept():
    sums = Sums()
    assert sums.total is sums.total
    assert sums.made == 1
    assert Sums.total.__doc__ == "Return the sum."


def test_making_one_does_not_wait_for_another_instance():
    ready = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(lambda: Sums(ready).total)
        assert Sums().total is not None  # with one lock for all instances it would wait for `slow`
        ready.set()
        assert slow.result(10) is not None


def test_items_of_a_sequence_are_made_when_they_are_looked_at():
    made = []

    def make(at):
        made.append(at)
        return at * at

    squares = LazySequence(5, make)
    assert (len(squares), made) == (5, [])
    assert (squares[3], squares[-1], squares[1:3], made) == (9, 16, [1, 4], [3, 4, 1, 2])
    assert list(squares) == [0, 1, 4, 9, 16]
    with pytest.raises(IndexError):
        squares[5]
