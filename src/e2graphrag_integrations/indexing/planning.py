"""Planning: a document's tree, its summaries still without text, before anything is paid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from e2graphrag_integrations._utils.validation import wrap_errors
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.protocols import TokenCounter
from e2graphrag_integrations.settings import Settings
from e2graphrag_integrations.tree import Tree, plan_tree
from e2graphrag_integrations.types import SourceDocument, Span

Splitter = Callable[[str], Sequence[tuple[int, int]]]
"""Cuts a text into the half-open spans of its chunks, in order."""

Planner = Callable[[SourceDocument, Settings, TokenCounter], Tree]
"""Makes a document's tree, its summaries still without text."""


def make_planner(splitter: Splitter | None, *, by_segment: bool = False) -> Planner:
    """Return the planner that cuts with a user's splitter, or else with our own.

    Args:
        splitter: The user's.
        by_segment: Whether each segment of a document is cut by itself.
    """
    if splitter is None and not by_segment:
        return plan_document

    def planned(document: SourceDocument, settings: Settings, counter: TokenCounter) -> Tree:
        def cut(text: str) -> Sequence[tuple[int, int]]:
            return settings.spans(text, counter) if splitter is None else splitter(text)

        whole = _by_segment(cut, document) if by_segment else cut
        spans = checked_spans(whole, document)
        return plan_tree(document.id, document.text, spans, settings.groups)

    return planned


def _by_segment(cut: Splitter, document: SourceDocument) -> Splitter:
    """Return a splitter that cuts each segment, and what lies between them, by itself."""
    size = len(document.text)
    borders = {0, size}.union(*({s[0], s[1]} for s in document.segments))

    def split(text: str) -> list[tuple[int, int]]:
        return [
            (start + a, start + b)
            for start, end in pairwise(sorted(borders))
            for a, b in cut(text[start:end])
        ]

    return split


def checked_spans(splitter: Splitter, document: SourceDocument) -> list[Span]:
    """Return where a splitter cuts a document.

    Raises:
        InvalidInputError: If the spans are not in order, not in the text, or leave text out.
    """
    with wrap_errors(InvalidInputError, f"the splitter failed on document {document.id!r}"):
        spans = [Span(int(start), int(end)) for start, end in splitter(document.text)]
    text, at = document.text, 0
    for number, (start, end) in enumerate(spans):
        after = not number or start > spans[number - 1].start
        if not (0 <= start < end <= len(text) and after and not text[at:start].strip()):
            raise InvalidInputError(
                f"the splitter cut document {document.id!r} at {start}-{end}: spans must be in "
                "order, within the text, and leave nothing but white space out"
            )
        at = max(at, end)
    if text[at:].strip():
        raise InvalidInputError(
            f"the splitter left the end of document {document.id!r} out, from {at}"
        )
    return spans


def plan_document(document: SourceDocument, settings: Settings, counter: TokenCounter) -> Tree:
    """Return a document's tree, its summaries still without text."""
    spans = settings.spans(document.text, counter)
    return plan_tree(document.id, document.text, spans, settings.groups)
