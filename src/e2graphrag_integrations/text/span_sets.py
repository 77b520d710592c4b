"""Sets of spans: unions, differences, and whether they cover a text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from e2graphrag_integrations.types import Span


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """Return disjoint spans with the same characters, in order.

    >>> merge_spans([Span(5, 9), Span(0, 3), Span(2, 4)])
    [Span(start=0, end=4), Span(start=5, end=9)]
    """
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1].end:
            merged[-1] = Span(merged[-1].start, max(merged[-1].end, end))
        else:
            merged.append(Span(start, end))
    return merged


def subtract_spans(spans: Sequence[Span], covered: Sequence[Span]) -> list[Span]:
    """Return the parts of disjoint spans that other disjoint spans do not cover.

    Args:
        spans: Disjoint spans, in order.
        covered: Disjoint spans, in order.
    """
    left: list[Span] = []
    for start, end in spans:
        begin = start
        for other in covered:
            if other.end <= begin or other.start >= end:
                continue
            if begin < other.start:
                left.append(Span(begin, other.start))
            begin = other.end
        if begin < end:
            left.append(Span(begin, end))
    return left


def is_covered(text: str, spans: Iterable[tuple[int, int]]) -> bool:
    """Return whether spans, in order, cover all of a text but white space.

    >>> is_covered("One. Two.", [(0, 4), (5, 9)]), is_covered("One. Two.", [(0, 4)])
    (True, False)
    """
    end = 0
    for first, last in spans:
        if text[end:first].strip():
            return False
        end = max(end, last)
    return not text[end:].strip()
