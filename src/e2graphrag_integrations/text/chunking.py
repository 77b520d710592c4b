"""Splitting of a text into chunks, which end at sentence boundaries where possible.

A chunk has at most `chunk_size` tokens. `chunk_spans` fills one chunk after another, as in the
paper. `content_spans` uses content-defined boundaries, so that an edit leaves distant chunks
unchanged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.protocols import TokenCounter
from e2graphrag_integrations.text.letters import inner_offsets
from e2graphrag_integrations.text.sentences import SEMICOLON, sentence_starts, stripped_span
from e2graphrag_integrations.text.tokens import counted_spans
from e2graphrag_integrations.types import Span

Ints = NDArray[np.int64]


def text_hash(text: str) -> int:
    """Return a 63-bit hash of a text."""
    encoded = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(encoded, digest_size=8).digest(), "big") >> 1


def content_boundaries(
    hashes: Sequence[int], at: Sequence[int], end: int, least: int, most: int
) -> Ints:
    """Choose boundaries among candidate positions. The first candidate is always a boundary.

    A candidate is a boundary if its hash is the smallest within a distance of `least` on both sides
    (ties broken by the earlier candidate) and if it is at least `least` away from both ends. A
    piece longer than `most` is split at the candidate with the smallest hash among those that leave
    at least `least` on both sides. If there are none, it is split at the candidate nearest to its
    middle.

    Args:
        hashes: The hash of the text at each candidate.
        at: Positions of the candidates, strictly ascending from 0, for example in tokens.
        end: End of the last piece.
        least: Minimum length of a piece. A piece may be shorter if an overlong piece has no better
            candidate to split at.
        most: Maximum length of a piece. A piece with no candidate inside it may be longer.

    Returns:
        Ascending indices into `at`.
    """
    if not len(at):
        return np.empty(0, dtype=np.int64)
    positions = np.asarray(at, dtype=np.int64)
    order = np.lexsort((np.arange(len(positions)), np.asarray(hashes, dtype=np.int64)))
    ranks = np.empty(len(positions), dtype=np.int64)
    ranks[order] = np.arange(len(positions))
    first = np.searchsorted(positions, positions - least, side="right")
    last = np.searchsorted(positions, positions + least, side="left")
    minima = _RangeMinima(ranks)
    cut = minima.of(first, last) == ranks
    cut &= (positions >= least) & (end - positions >= least)
    cut[0] = True
    cuts = np.flatnonzero(cut)
    found: list[int] = []
    for one, following in zip(cuts, [*cuts[1:], len(positions)], strict=True):
        stop = end if following == len(positions) else int(positions[following])
        piece = (int(one), int(following), stop)
        found.append(piece[0])
        if stop - positions[one] > most:
            found += _splits(minima, order, positions, piece, (least, most))
    return np.asarray(sorted(found), dtype=np.int64)


class _RangeMinima:
    """A sparse table, which returns the minimum of any range of values in constant time."""

    def __init__(self, values: Ints) -> None:
        self._table = [values]
        while len(self._table[-1]) > (step := 1 << (len(self._table) - 1)):
            below = self._table[-1]
            self._table.append(np.minimum(below[:-step], below[step:]))

    def of(self, first: Ints, last: Ints) -> Ints:
        """Return the minimum of `values[first:last]` for each pair. No range may be empty."""
        level = np.frexp(last - first)[1].astype(np.int64) - 1
        minima = np.empty(len(first), dtype=np.int64)
        for power, ranges in enumerate(self._table):
            rows = np.flatnonzero(level == power)
            if len(rows):
                right = ranges[last[rows] - (1 << power)]
                minima[rows] = np.minimum(ranges[first[rows]], right)
        return minima

    def one(self, first: int, last: int) -> int:
        """Return the minimum of the non-empty range `values[first:last]`."""
        power = (last - first).bit_length() - 1
        ranges = self._table[power]
        return int(min(ranges[first], ranges[last - (1 << power)]))


def _splits(
    minima: _RangeMinima,
    order: Ints,
    positions: Ints,
    piece: tuple[int, int, int],
    sizes: tuple[int, int],
) -> list[int]:
    """Return the boundaries that split a piece longer than the maximum.

    Args:
        minima: Range minima over the hash ranks of the candidates.
        order: The candidate that has each rank.
        positions: Positions of the candidates.
        piece: First candidate, end (exclusive) of the candidates, and end position of the piece.
        sizes: Minimum and maximum length of a piece.
    """
    least, most = sizes
    found: list[int] = []
    open_ = [piece]
    while open_:
        first, last, end = open_.pop()
        start = int(positions[first])
        if end - start <= most or last - first < 2:  # noqa: PLR2004 - no candidate inside
            continue
        low = max(first + 1, int(np.searchsorted(positions, start + least, side="left")))
        high = min(last, int(np.searchsorted(positions, end - least, side="right")))
        if low < high:
            cut = int(order[minima.one(low, high)])
        else:
            cut = _nearest(positions, first + 1, last, start + end)
        found.append(cut)
        open_ += [(first, cut, int(positions[cut])), (cut, last, end)]
    return found


def _nearest(positions: Ints, first: int, last: int, twice: int) -> int:
    """Return the index from `first` to `last` - 1 of the position nearest to `twice / 2`.

    Ties are broken by the lower index.
    """
    at = int(np.searchsorted(positions, twice / 2))
    at = min(max(at, first), last)
    near = [one for one in (at - 1, at) if first <= one < last]
    return min(near, key=lambda one: (abs(2 * int(positions[one]) - twice), one))


_MIN_FRACTION = 3
"""Divisor of `chunk_size` that gives the minimum size of a content-defined chunk, in tokens."""

_HASHED_TOKENS = 8
"""Number of tokens that are hashed at each token of a sentence longer than a chunk. Any of its
tokens may begin a chunk."""


def chunk_spans(
    text: str, counter: TokenCounter, *, chunk_size: int = 1200, chunk_overlap: int = 100
) -> list[Span]:
    """Split `text` into spans of at most `chunk_size` tokens (E2GraphRAG, section 3.1).

    A chunk ends at the last sentence boundary that fits; a sentence longer than a chunk is split
    between tokens. The next chunk repeats the complete sentences among the last `chunk_overlap`
    tokens of the previous one, or exactly the last `chunk_overlap` tokens if a sentence was split.
    Every character of a token is in a chunk. Chunks do not begin or end with whitespace.

    Args:
        text: The text to split. A text without tokens has no chunks.
        counter: Token counter that locates the tokens.
        chunk_size: Maximum number of tokens in a chunk.
        chunk_overlap: Maximum number of tokens that two consecutive chunks share; less than
            `chunk_size`.

    Returns:
        Character spans; starts and ends are strictly increasing.

    Raises:
        InvalidInputError: If a size is out of range, or the counter finds no token although the
            text contains letters or digits.
    """
    if chunk_size < 1 or not 0 <= chunk_overlap < chunk_size:
        raise InvalidInputError(
            f"chunk_size={chunk_size}, chunk_overlap={chunk_overlap}: need chunk_size >= 1 and "
            "0 <= chunk_overlap < chunk_size"
        )
    tokens, before = _uncut_spans(text, counter, chunk_size)
    # Some tokenizers produce whitespace tokens; no chunk may begin or end with one.
    sentences = _sentence_tokens(text, tokens[:, 1])
    has_clauses = SEMICOLON in text
    clauses = _sentence_tokens(text, tokens[:, 1], clauses=True) if has_clauses else sentences
    cutter = _Cutter(before, sentences, clauses, chunk_size, chunk_overlap)
    spans: list[Span] = []
    start = 0
    while start < len(tokens):
        end = cutter.end(start)
        span = stripped_span(text, int(tokens[start, 0]), int(tokens[end - 1, 1]))
        if span.start < span.end:
            spans.append(span)
        if end == len(tokens):
            break
        start = max(start + 1, cutter.next_start(end))
    _check_found(spans, text, counter)
    return _increasing(spans)


def content_spans(text: str, counter: TokenCounter, *, chunk_size: int = 1200) -> list[Span]:
    """Split `text` at content-defined boundaries.

    A chunk begins at a sentence whose hash is the smallest within a third of `chunk_size` on both
    sides (see `content_boundaries`); a sentence longer than a chunk is split between tokens by the
    same rule. A chunk has between a third of `chunk_size` and `chunk_size` tokens, 0.6 times
    `chunk_size` on average. Chunks do not overlap. An edit changes the chunk that contains it, and
    rarely more than the adjacent ones.

    Args:
        text: The text to split. A text without tokens has no chunks.
        counter: Token counter that locates the tokens.
        chunk_size: Maximum number of tokens in a chunk.

    Returns:
        Ordered character spans that do not begin or end with whitespace.

    Raises:
        InvalidInputError: If the size is out of range, or the counter finds no token although the
            text contains letters or digits.
    """
    if chunk_size < 1:
        raise InvalidInputError(f"chunk_size={chunk_size}: a chunk needs at least one token")
    tokens, before = _uncut_spans(text, counter, chunk_size)
    places, hashes = _places(text, tokens, before, chunk_size)
    least = max(1, chunk_size // _MIN_FRACTION)
    cuts = content_boundaries(hashes, before[places].tolist(), int(before[-1]), least, chunk_size)
    starts = [places[cut] for cut in cuts.tolist()]
    spans = [
        stripped_span(text, int(tokens[start, 0]), int(tokens[end - 1, 1]))
        for start, end in zip(starts, [*starts[1:], len(tokens)], strict=False)
    ]
    spans = [span for span in spans if span.start < span.end]
    _check_found(spans, text, counter)
    return spans


def _places(text: str, tokens: Ints, before: Ints, chunk_size: int) -> tuple[list[int], list[int]]:
    """Return the indices of tokens that may begin a chunk, and the hash of the text at each."""
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
            following = min(last, token + _HASHED_TOKENS) - 1
            hashes.append(text_hash(text[tokens[token, 0] : tokens[following, 1]]))
    return places, hashes


def _uncut_spans(text: str, counter: TokenCounter, most: int) -> tuple[Ints, Ints]:
    """Return the result of `counted_spans`, with the tokens of each grapheme cluster merged.

    Otherwise, a cut could separate a vowel sign from its letter, or the parts of an emoji. A
    cluster of more than `most` tokens is not merged.
    """
    spans, before = counted_spans(counter, text)
    inner = inner_offsets(text)
    if not inner or not len(spans):
        return spans, before
    is_first = np.append(True, ~np.isin(spans[:-1, 1], inner))
    first = np.flatnonzero(is_first)
    sizes = np.diff(np.append(before[first], before[-1]))
    is_first |= np.repeat(sizes > most, np.diff(np.append(first, len(spans))))
    first = np.flatnonzero(is_first)
    last = np.append(first[1:], len(spans)) - 1
    merged = np.stack([spans[first, 0], spans[last, 1]], axis=1)
    return merged, np.append(before[first], before[-1])


def _check_found(spans: list[Span], text: str, counter: TokenCounter) -> None:
    # A text without letters and digits may have no tokens: some tokenizers drop control characters.
    if not spans and any(character.isalnum() for character in text):
        raise InvalidInputError(
            f"{type(counter).__name__}.spans() found no token in {text.strip()[:80]!r}: it must "
            "return the span of every word"
        )


def _sentence_tokens(text: str, token_ends: Ints, *, clauses: bool = False) -> Ints:
    """Return the ascending indices of the tokens that begin sentences, and optionally clauses."""
    starts = np.asarray(sentence_starts(text, clauses=clauses))
    # Compare token ends: some tokenizers include the preceding space in a token.
    return np.unique(np.searchsorted(token_ends, starts, side="right"))


@dataclass(frozen=True, eq=False)
class _Cutter:
    """Finds the start and end of each chunk, as indices into the token spans.

    Attributes:
        before: Number of tokens before each span, followed by the total.
        boundaries: Ascending indices of the token spans that begin sentences.
        clauses: The same, and those that begin clauses, where a sentence that does not fit is cut.
        size: Maximum tokens in a chunk.
        overlap: Maximum tokens in the overlap.
    """

    before: Ints
    boundaries: Ints
    clauses: Ints
    size: int
    overlap: int

    def end(self, start: int) -> int:
        """Return the end of the chunk that begins at `start`."""
        reach = self.before[start] + self.size
        limit = max(start + 1, int(np.searchsorted(self.before, reach, side="right")) - 1)
        if limit >= len(self.before) - 1:
            return len(self.before) - 1
        for boundaries in (self.boundaries, self.clauses):
            boundary = int(boundaries[np.searchsorted(boundaries, limit, side="right") - 1])
            # A chunk that ends within the overlap would make no progress.
            advances = self.before[boundary] - self.before[start] > self.overlap
            if boundary > start and advances:
                return boundary
        return limit

    def next_start(self, end: int) -> int:
        """Return the start, including the overlap, of the chunk after one that ends at `end`."""
        earliest = int(np.searchsorted(self.before, self.before[end] - self.overlap))
        at = int(np.searchsorted(self.boundaries, earliest))
        if at < len(self.boundaries) and self.boundaries[at] <= end:
            return int(self.boundaries[at])
        return earliest


def _increasing(spans: list[Span]) -> list[Span]:
    """Drop each span that lies within an adjacent span once whitespace is stripped."""
    kept: list[Span] = []
    for span in spans:
        if kept and span.end <= kept[-1].end:
            continue
        if kept and span.start <= kept[-1].start:
            kept.pop()
        kept.append(span)
    return kept


def truncate(text: str, max_tokens: int, counter: TokenCounter) -> tuple[str, bool]:
    """Truncate a text to `max_tokens` tokens, at the end of a sentence if one fits.

    Returns:
        The text, and whether it was truncated.
    """
    spans, before = _uncut_spans(text, counter, max_tokens)
    if before[-1] <= max_tokens:
        return text, False
    fitting = int(np.searchsorted(before, max_tokens, side="right")) - 1
    limit = int(spans[fitting - 1, 1]) if fitting else 0
    # A sentence ends where the next one begins, less the whitespace between them.
    last = limit
    for start in sentence_starts(text, clauses=False):
        end = len(text[:start].rstrip())
        if end > limit:
            break
        last = end or last
    return text[:last].rstrip(), True
