"""LangChain's text splitters as splitters of the core: pieces are found again in the text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.indexing.planning import Splitter
from e2graphrag_integrations.types import Span

_INK = re.compile(r"\S")


def splitter_of(given: Any) -> Splitter:
    """Return a splitter of the core.

    Args:
        given: A LangChain text splitter, or a function from a text to its pieces.

    Raises:
        InvalidInputError: If it is neither.
    """
    split = getattr(given, "split_text", given)
    if not callable(split) or isinstance(given, type):
        raise InvalidInputError(
            f"splitter={short_repr(given)} is no text splitter: pass one such as "
            "RecursiveCharacterTextSplitter(...), or a function from a text to its pieces"
        )
    return lambda text: _spans(text, split)


def _spans(text: str, split: Callable[[str], Sequence[Any]]) -> list[Span]:
    pieces = split(text)
    wrong = [pieces] if isinstance(pieces, str) else [p for p in pieces if not isinstance(p, str)]
    if wrong:
        given = type(wrong[0]).__name__
        raise InvalidInputError(f"it gave a {given} where a list of pieces of text was expected")
    pieces = [piece for piece in pieces if piece.strip()]
    return _located(text, pieces) or _found(text, pieces)


def _found(text: str, pieces: Sequence[str]) -> list[Span]:
    """Return the first places of the pieces, one after the other."""
    spans: list[Span] = []
    for piece in pieces:
        start = text.find(piece, spans[-1].start + 1 if spans else 0)
        if start < 0:
            raise InvalidInputError(
                f"the piece {short_repr(piece)} does not stand in the text as it is: the index keeps "
                "exact offsets, so take a splitter that leaves the text unchanged"
            )
        spans.append(Span(start, start + len(piece)))
    return spans


def _located(text: str, pieces: Sequence[str]) -> list[Span] | None:
    """Return places of the pieces that leave nothing but white space out, if there are such.

    Pieces may overlap and texts repeat themselves: a place that leads nowhere is given up again.
    """
    spans: list[Span] = []
    ends = [0]  # how far the text is covered, by the number of pieces placed
    tried: set[tuple[int, int, int]] = set()
    places = [_places(text, pieces, spans, 0)]
    while places:
        start = next(places[-1], None)
        if start is None:
            places.pop()
            if spans:
                spans.pop()
                ends.pop()
            continue
        end = start + len(pieces[len(spans)])
        state = (len(spans), start, max(end, ends[-1]))
        if state in tried:
            continue
        tried.add(state)
        spans.append(Span(start, end))
        ends.append(state[2])
        if len(spans) == len(pieces) and not text[ends[-1] :].strip():
            return spans
        places.append(_places(text, pieces, spans, ends[-1]))
    return None


def _places(text: str, pieces: Sequence[str], spans: Sequence[Span], end: int) -> Iterator[int]:
    """Yield where the next piece may start: after the end, then before it."""
    if len(spans) == len(pieces):
        return
    piece = pieces[len(spans)]
    before = spans[-1].start if spans else -1
    ink = _INK.search(text, end)
    last = ink.start() if ink else len(text)
    for first, limit in (
        (max(end, before + 1), last),
        (max(before, end - len(piece)) + 1, end - 1),
        (before + 1, end - len(piece)),
    ):
        at = text.find(piece, first, limit + len(piece))
        while at >= 0:
            yield at
            at = text.find(piece, at + 1, limit + len(piece))
