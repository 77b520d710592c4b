"""The cache of the most recently used values."""

from __future__ import annotations

from e2graphrag_integrations._utils.bounded_cache import BoundedCache


def test_the_least_recently_used_value_is_forgotten_first():
    cache, computed = BoundedCache[str](2), []

    def upper(text):
        computed.append(text)
        return text.upper()

    assert [cache.get(text, upper) for text in "abacab"] == list("ABACAB")
    assert computed == ["a", "b", "c", "b"]
    cache.clear()
    cache.get("b", upper)
    assert computed == ["a", "b", "c", "b", "b"]
