"""Adapts LangChain text splitters to the engine, which needs the span of each chunk."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.indexing.planning import Splitter
from e2graphrag_integrations.types import Span

_NON_SPACE = re.compile(r"\S")


def adapt_splitter(splitter: Any) -> Splitter:
    """Convert a LangChain splitter to an engine splitter.

    Args:
        splitter: A LangChain text splitter, or a function from a text to its chunks.

    Raises:
        InvalidInputError: If `splitter` is neither.
    """
    split = getattr(splitter, "split_text", splitter)
    if not callable(split) or isinstance(splitter, type):
        raise InvalidInputError(
            f"splitter={short_repr(splitter)} is not a text splitter: pass one such as "
            "RecursiveCharacterTextSplitter(...), or a function from a text to its chunks"
        )
    return lambda text: _split_spans(text, split)


def _split_spans(text: str, split: Callable[[str], Sequence[Any]]) -> list[Span]:
    chunks = split(text)
    wrong = [chunks] if isinstance(chunks, str) else [c for c in chunks if not isinstance(c, str)]
    if wrong:
        raise InvalidInputError(
            f"the splitter must return a list of strings, but returned a {type(wrong[0]).__name__}"
        )
    chunks = [chunk for chunk in chunks if chunk.strip()]
    return _covering_spans(text, chunks) or _first_spans(text, chunks)


def _first_spans(text: str, chunks: Sequence[str]) -> list[Span]:
    """Return the first occurrences of the chunks, each after the start of the previous one."""
    spans: list[Span] = []
    for chunk in chunks:
        start = text.find(chunk, spans[-1].start + 1 if spans else 0)
        if start < 0:
            raise InvalidInputError(
                f"the chunk {short_repr(chunk)} does not occur in the text: the index needs exact "
                "offsets, so use a splitter that does not change the text"
            )
        spans.append(Span(start, start + len(chunk)))
    return spans


def _covering_spans(text: str, chunks: Sequence[str]) -> list[Span] | None:
    """Return chunk spans that leave out only whitespace, or None if there are none.

    Chunks may overlap and text may repeat, so a chunk can have several candidate spans. A
    depth-first search tries these spans.
    """
    spans: list[Span] = []
    covered = [0]  # end of the covered text after 0, 1, 2, ... chunks
    visited: set[tuple[int, int, int]] = set()
    candidates = [_candidate_starts(text, chunks, spans, 0)]
    while candidates:
        start = next(candidates[-1], None)
        if start is None:
            candidates.pop()
            if spans:
                spans.pop()
                covered.pop()
            continue
        end = start + len(chunks[len(spans)])
        state = (len(spans), start, max(end, covered[-1]))
        if state in visited:
            continue
        visited.add(state)
        spans.append(Span(start, end))
        covered.append(state[2])
        if len(spans) == len(chunks) and not text[covered[-1] :].strip():
            return spans
        candidates.append(_candidate_starts(text, chunks, spans, covered[-1]))
    return None


def _candidate_starts(
    text: str, chunks: Sequence[str], spans: Sequence[Span], covered: int
) -> Iterator[int]:
    """Yield possible starts of the next chunk, those after the covered text first."""
    if len(spans) == len(chunks):
        return
    chunk = chunks[len(spans)]
    previous = spans[-1].start if spans else -1
    next_char = _NON_SPACE.search(text, covered)
    latest = next_char.start() if next_char else len(text)
    for first, last in (
        (max(covered, previous + 1), latest),
        (max(previous, covered - len(chunk)) + 1, covered - 1),
        (previous + 1, covered - len(chunk)),
    ):
        start = text.find(chunk, first, last + len(chunk))
        while start >= 0:
            yield start
            start = text.find(chunk, start + 1, last + len(chunk))
