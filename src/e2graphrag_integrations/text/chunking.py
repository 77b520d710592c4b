"""Chunks: spans of at most `chunk_size` tokens, cut between sentences where one fits.

`chunk_spans` fills one chunk after the other, as the paper does; `content_spans` cuts where the
text itself says, so that an edit leaves the chunks around it as they were.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.protocols import TokenCounter
from e2graphrag_integrations.text.content_defined import content_boundaries, text_hash
from e2graphrag_integrations.text.sentences import sentence_starts
from e2graphrag_integrations.text.tokens import counted_spans
from e2graphrag_integrations.types import Span

_LEAST_PART = 3
"""A content-defined chunk holds at least one part in this many of the most."""

_TOKENS_HASHED = 8
"""Of a sentence longer than a chunk every token is a place to cut, told by those from it on."""


def chunk_spans(
    text: str, counter: TokenCounter, *, chunk_size: int = 1200, chunk_overlap: int = 100
) -> list[Span]:
    """Split `text` into spans of at most `chunk_size` tokens (E2GraphRAG, section 3.1).

    A chunk ends at the last sentence boundary that fits; a sentence longer than a chunk is cut
    between tokens. The next chunk begins with the whole sentences among the last `chunk_overlap`
    tokens, or exactly `chunk_overlap` tokens back where a sentence was cut. Every character that
    belongs to a token lies in some chunk; chunks neither begin nor end with white space.

    Args:
        text: Any text; no tokens give no chunks.
        counter: Finds the tokens.
        chunk_size: Most tokens in a chunk.
        chunk_overlap: Most tokens shared by neighbors; less than `chunk_size`.

    Returns:
        Character spans in order, both ends strictly increasing.

    Raises:
        InvalidInputError: If the sizes make no sense, or the counter finds no tokens in words.
    """
    if chunk_size < 1 or not 0 <= chunk_overlap < chunk_size:
        raise InvalidInputError(
            f"chunk_size={chunk_size}, chunk_overlap={chunk_overlap}: need chunk_size >= 1 and "
            "0 <= chunk_overlap < chunk_size"
        )
    tokens, before = counted_spans(counter, text)
    # Some tokenizers make tokens of white space alone; no chunk may begin or end with one.
    cutter = _Cutter(before, _sentence_tokens(text, tokens[:, 1]), chunk_size, chunk_overlap)
    spans: list[Span] = []
    start = 0
    while start < len(tokens):
        end = cutter.end(start)
        span = _strip(text, int(tokens[start, 0]), int(tokens[end - 1, 1]))
        if span.start < span.end:
            spans.append(span)
        if end == len(tokens):
            break
        start = max(start + 1, cutter.next_start(end))
    _check_found(spans, text, counter)
    return _increasing(spans)


def content_spans(text: str, counter: TokenCounter, *, chunk_size: int = 1200) -> list[Span]:
    """Split `text` into spans that follow from what stands there, not from where it stands.

    A chunk begins with a sentence whose hash is the smallest within a third of `chunk_size` on both
    sides (see `boundaries`); a sentence longer than a chunk is cut between tokens by the same rule.
    Chunks hold a third of `chunk_size` to `chunk_size` tokens, about 0.6 of it on average, and do
    not overlap. An edit changes the chunk that it is in and seldom more than its neighbors.

    Args:
        text: Any text; no tokens give no chunks.
        counter: Finds the tokens.
        chunk_size: Most tokens in a chunk.

    Returns:
        Character spans in order; chunks neither begin nor end with white space.

    Raises:
        InvalidInputError: If the size makes no sense, or the counter finds no tokens in words.
    """
    if chunk_size < 1:
        raise InvalidInputError(f"chunk_size={chunk_size}: a chunk needs at least one token")
    tokens, before = counted_spans(counter, text)
    places, hashes = _places(text, tokens, before, chunk_size)
    least = max(1, chunk_size // _LEAST_PART)
    cuts = content_boundaries(hashes, before[places].tolist(), int(before[-1]), least, chunk_size)
    starts = [places[cut] for cut in cuts.tolist()]
    spans = [
        _strip(text, int(tokens[start, 0]), int(tokens[end - 1, 1]))
        for start, end in zip(starts, [*starts[1:], len(tokens)], strict=False)
    ]
    spans = [span for span in spans if span.start < span.end]
    _check_found(spans, text, counter)
    return spans


def _places(
    text: str, tokens: NDArray[np.int64], before: NDArray[np.int64], chunk_size: int
) -> tuple[list[int], list[int]]:
    """Return the tokens at which a chunk may begin, ascending, with the hash of what begins."""
    if not len(tokens):
        return [], []
    sentences = _sentence_tokens(text, tokens[:, 1])
    sentences = np.union1d([0], sentences[sentences < len(tokens)])
    places: list[int] = []
    hashes: list[int] = []
    for first, last in zip(sentences.tolist(), [*sentences[1:].tolist(), len(tokens)], strict=True):
        if before[last] - before[first] <= chunk_size:
            places.append(first)
            hashes.append(text_hash(text[tokens[first, 0] : tokens[last - 1, 1]]))
            continue
        for token in range(first, last):
            places.append(token)
            following = min(last, token + _TOKENS_HASHED) - 1
            hashes.append(text_hash(text[tokens[token, 0] : tokens[following, 1]]))
    return places, hashes


def _check_found(spans: list[Span], text: str, counter: TokenCounter) -> None:
    # Letters are asked for, not any character: some tokenizers drop control characters.
    if not spans and any(character.isalnum() for character in text):
        raise InvalidInputError(
            f"{type(counter).__name__}.spans() found no token in {text.strip()[:80]!r}: it must "
            "return the span of every word"
        )


def _sentence_tokens(text: str, token_ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the indices of the tokens with which sentences begin, ascending."""
    starts = np.asarray(sentence_starts(text))
    # By ends: to some tokenizers a word begins with the space before it.
    return np.unique(np.searchsorted(token_ends, starts, side="right"))


class _Cutter:
    """Finds where chunks end and begin; all positions are indices of token spans.

    Args:
        before: Tokens before each span, and in all.
        boundaries: Spans with which sentences begin, ascending.
        size, overlap: In tokens.
    """

    def __init__(
        self, before: NDArray[np.int64], boundaries: NDArray[np.int64], size: int, overlap: int
    ) -> None:
        self._before = before
        self._boundaries = boundaries
        self._size = size
        self._overlap = overlap

    def end(self, start: int) -> int:
        """Return the end of the chunk that begins at `start`."""
        reach = self._before[start] + self._size
        limit = max(start + 1, int(np.searchsorted(self._before, reach, side="right")) - 1)
        if limit >= len(self._before) - 1:
            return len(self._before) - 1
        at = np.searchsorted(self._boundaries, limit, side="right") - 1
        boundary = int(self._boundaries[at])
        # A boundary inside the overlap would make no progress.
        advances = self._before[boundary] - self._before[start] > self._overlap
        return boundary if boundary > start and advances else limit

    def next_start(self, end: int) -> int:
        """Return where the chunk after one that ends at `end` begins, overlap included."""
        earliest = int(np.searchsorted(self._before, self._before[end] - self._overlap))
        at = int(np.searchsorted(self._boundaries, earliest))
        if at < len(self._boundaries) and self._boundaries[at] <= end:
            return int(self._boundaries[at])
        return earliest


def _strip(text: str, start: int, end: int) -> Span:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return Span(start, end)


def _increasing(spans: list[Span]) -> list[Span]:
    """Drop a span that stripping made part of its neighbor."""
    kept: list[Span] = []
    for span in spans:
        if kept and span.end <= kept[-1].end:
            continue
        if kept and span.start <= kept[-1].start:
            kept.pop()
        kept.append(span)
    return kept


def truncate(text: str, max_tokens: int, counter: TokenCounter) -> tuple[str, bool]:
    """Cut a text to `max_tokens`, after a sentence where one fits; tell whether it was cut."""
    spans, before = counted_spans(counter, text)
    if before[-1] <= max_tokens:
        return text, False
    fitting = int(np.searchsorted(before, max_tokens, side="right")) - 1
    limit = int(spans[fitting - 1, 1]) if fitting else 0
    # A sentence ends where the next begins; strip takes the white space between.
    last = limit
    for start in sentence_starts(text):
        end = len(text[:start].rstrip())
        if end > limit:
            break
        last = end or last
    return text[:last].rstrip(), True
