"""Chunks: spans of at most `chunk_size` tokens, cut between sentences where one fits."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.protocols import TokenCounter
from e2graphrag_integrations.sentences import sentence_starts
from e2graphrag_integrations.tokens import token_spans
from e2graphrag_integrations.types import Span


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
        chunk_overlap: Most tokens shared by neighbours; less than `chunk_size`.

    Returns:
        Character spans in order, both ends strictly increasing.

    Raises:
        InvalidInputError: If the sizes make no sense.
    """
    if chunk_size < 1 or not 0 <= chunk_overlap < chunk_size:
        raise InvalidInputError(
            f"chunk_size={chunk_size}, chunk_overlap={chunk_overlap}: need chunk_size >= 1 and "
            "0 <= chunk_overlap < chunk_size"
        )
    tokens = token_spans(counter, text)
    # Some tokenizers make tokens of white space alone; no chunk may begin or end with one.
    boundaries = _sentence_tokens(text, tokens[:, 1])
    spans: list[Span] = []
    start = 0
    while start < len(tokens):
        end = _chunk_end(start, len(tokens), boundaries, chunk_size, chunk_overlap)
        span = _strip(text, int(tokens[start, 0]), int(tokens[end - 1, 1]))
        if span.start < span.end:
            spans.append(span)
        if end == len(tokens):
            break
        start = _next_start(end, boundaries, chunk_overlap)
    return _increasing(spans)


def _sentence_tokens(text: str, token_ends: np.ndarray) -> list[int]:
    """Return the indices of the tokens with which sentences begin."""
    starts = np.asarray(sentence_starts(text))
    # By ends: to some tokenizers a word begins with the space before it.
    return sorted({int(i) for i in np.searchsorted(token_ends, starts, side="right")})


def _chunk_end(start: int, total: int, boundaries: list[int], size: int, overlap: int) -> int:
    limit = start + size
    if limit >= total:
        return total
    boundary = boundaries[bisect_right(boundaries, limit) - 1]
    # A boundary inside the overlap would make no progress.
    return boundary if boundary > start + overlap else limit


def _next_start(end: int, boundaries: list[int], overlap: int) -> int:
    earliest = end - overlap
    at = bisect_right(boundaries, earliest - 1)
    if at < len(boundaries) and boundaries[at] <= end:
        return boundaries[at]
    return earliest


def _strip(text: str, start: int, end: int) -> Span:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return Span(start, end)


def _increasing(spans: list[Span]) -> list[Span]:
    """Drop a span that stripping made part of its neighbour."""
    kept: list[Span] = []
    for span in spans:
        if kept and span.end <= kept[-1].end:
            continue
        if kept and span.start <= kept[-1].start:
            kept.pop()
        kept.append(span)
    return kept
