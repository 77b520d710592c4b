"""Joining the chunks of a text splitter into the text that they come from.

Both integrations accept chunks that another splitter made. They keep these chunks, but a document
needs one text that contains all of them, and no overlap may occur in it twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from e2graphrag_integrations.types import Span

_MIN_OVERLAP = 10
"""Minimum number of characters that count as an overlap; fewer can be equal by chance."""

_MAX_GAP = 1_000_000
"""Maximum number of characters between two chunks; if a gap is larger, offsets are ignored."""

_SEPARATOR = "\n\n"


class JoinedChunks(NamedTuple):
    """A text that contains chunks.

    Attributes:
        text: The text. Characters that no chunk contains are spaces.
        spans: Span of each chunk in the text, in order.
        is_exact: Whether the spans are also the chunks' spans in their source.
    """

    text: str
    spans: list[Span]
    is_exact: bool


def join_chunks(chunks: Sequence[str], starts: Sequence[int | None]) -> JoinedChunks:
    """Return a text that contains chunks, given in text order, and their spans in it.

    If all starts are known and agree with the chunks, each chunk has its own offset. Otherwise the
    chunks follow each other, overlaps occur once, and blank lines separate the other chunks.

    >>> join_chunks(["One two.", "two. Three."], [3, 7]).text
    '   One two. Three.'
    >>> join_chunks(["One. Two three.", "Two three. Four."], [None, None]).spans
    [Span(start=0, end=15), Span(start=5, end=21)]

    Args:
        chunks: The chunks.
        starts: The offset of each chunk in its source, or None if it is unknown.
    """
    return _place(chunks, starts) or _append(chunks)


def overlap(previous: str, chunk: str) -> int:
    """Return the length of the longest end of a chunk that is also the start of the next one.

    An overlap of fewer than 10 characters counts as none.
    """
    head = chunk[:_MIN_OVERLAP]
    if len(head) < _MIN_OVERLAP:
        return 0
    start = previous.find(head, max(1, len(previous) - len(chunk)))
    while start >= 0:
        if chunk.startswith(previous[start:]):
            return len(previous) - start
        start = previous.find(head, start + 1)
    return 0


def _place(chunks: Sequence[str], starts: Sequence[int | None]) -> JoinedChunks | None:
    """Return the chunks at their offsets, or None if these are unknown or contradict the chunks."""
    parts: list[str] = []
    spans: list[Span] = []
    covered, previous = 0, ""
    for chunk, start in zip(chunks, starts, strict=True):
        if start is None or start < 0 or start - covered > _MAX_GAP:
            return None
        end, shared = start + len(chunk), covered - start
        if spans and (start <= spans[-1].start or end < covered):
            return None
        if shared > 0 and previous[-shared:] != chunk[:shared]:
            return None
        parts += [" " * -shared, chunk[max(0, shared) :]]
        spans.append(Span(start, end))
        covered, previous = end, chunk
    return JoinedChunks("".join(parts), spans, is_exact=True)


def _append(chunks: Sequence[str]) -> JoinedChunks:
    parts: list[str] = []
    spans: list[Span] = []
    end, previous = 0, ""
    for chunk in chunks:
        shared = overlap(previous, chunk)
        if spans and not shared:
            parts.append(_SEPARATOR)
            end += len(_SEPARATOR)
        parts.append(chunk[shared:])
        spans.append(Span(end - shared, end - shared + len(chunk)))
        end, previous = spans[-1].end, chunk
    return JoinedChunks("".join(parts), spans, is_exact=False)
