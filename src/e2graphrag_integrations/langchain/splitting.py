"""LangChain's text splitters as splitters of the core: pieces are found again in the text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from e2graphrag_integrations.checks import shown
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.indexing import Splitter
from e2graphrag_integrations.types import Span


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
            f"splitter={shown(given)} is no text splitter: pass one such as "
            "RecursiveCharacterTextSplitter(...), or a function from a text to its pieces"
        )
    return lambda text: _spans(text, split)


def _spans(text: str, split: Callable[[str], Sequence[Any]]) -> list[Span]:
    spans: list[Span] = []
    for piece in split(text):
        if not isinstance(piece, str):
            raise InvalidInputError(f"it gave a {type(piece).__name__} instead of a piece of text")
        if not piece.strip():
            continue
        # Pieces may overlap: the next one starts after the start, not the end, of the one before.
        start = text.find(piece, spans[-1].start + 1 if spans else 0)
        if start < 0:
            raise InvalidInputError(
                f"the piece {shown(piece)} does not stand in the text as it is: the index keeps "
                "exact offsets, so take a splitter that leaves the text unchanged"
            )
        spans.append(Span(start, start + len(piece)))
    return spans
