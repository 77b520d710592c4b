"""Caches of the most recently used values."""

from __future__ import annotations

import gc
import weakref
from functools import lru_cache

import pytest

from e2graphrag_integrations._utils.bounded_cache import BoundedCache, cached_method


class Words:
    """Counts how often a method computes."""

    def __init__(self):
        self.computed = []

    @cached_method(2)
    def repeated(self, word, times):
        """Return a word several times."""
        self.computed.append(word)
        return word * times


def test_the_least_recently_used_value_is_forgotten_first():
    cache, computed = BoundedCache[str, str](2), []

    def upper(text):
        computed.append(text)
        return text.upper()

    assert [cache.get(text, upper) for text in "abacab"] == list("ABACAB")
    assert computed == ["a", "b", "c", "b"]
    cache.clear()
    cache.get("b", upper)
    assert computed == ["a", "b", "c", "b", "b"]


def test_each_instance_remembers_the_values_of_its_methods():
    one, other = Words(), Words()
    assert [one.repeated(word, 2) for word in "abacab"] == ["aa", "bb", "aa", "cc", "aa", "bb"]
    assert one.computed == ["a", "b", "c", "b"]
    assert one.repeated("b", 3) == "bbb"
    assert other.repeated("b", 3) == "bbb"
    assert other.computed == ["b"]
    assert Words.repeated.__doc__ == "Return a word several times."


def test_a_cached_method_creates_no_reference_cycle():
    class WithCycle:
        def __init__(self):
            self.value = lru_cache(1)(self.compute)

        def compute(self, number):
            return number

    gc.collect()
    gc.disable()  # only reference counts may free the instance
    try:
        words, with_cycle = Words(), WithCycle()
        words.repeated("a", 1)
        alive, alive_in_cycle = weakref.ref(words), weakref.ref(with_cycle)
        del words, with_cycle
        assert alive() is None
        assert alive_in_cycle() is not None
    finally:
        gc.enable()
        gc.collect()


def test_an_error_is_not_remembered():
    class Failing:
        calls = 0

        @cached_method(1)
        def value(self, number):
            self.calls += 1
            if self.calls == 1:
                raise ValueError("first")
            return number

    one = Failing()
    with pytest.raises(ValueError, match="first"):
        one.value(1)
    assert one.value(1) == 1
