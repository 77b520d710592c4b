"""Rule-based sentence boundaries for any language, used by chunking and extractive summaries.

Entity extraction uses spaCy's sentences. Chunking only needs good places to split a text, so a few
rules suffice and no model is loaded.
"""

from __future__ import annotations

import re

from e2graphrag_integrations.types import Span

_CLOSERS = "\"'”’»)\\]】」』）"
_BOUNDARY = re.compile(
    # Punctuation, closing quotes, whitespace. A match begins at the first mark of a run; otherwise
    # a line of dots would take quadratic time.
    rf"(?<![.!?…])(?P<stop>[.!?…]+)[{_CLOSERS}]*\s+(?=\S)"
    rf"|[。！？｡]+[{_CLOSERS}]*\s*"  # CJK punctuation, which needs no whitespace
    r"|\n[^\S\n]*\n\s*"  # blank line
)
_ABBREVIATION = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Messrs|Mme|Mlle|Dr|Prof|Rev|Hon|Capt|Col|Gen|Lt|Sgt|Sir|St|Jr|Sr|Mt|No|Vol"
    r"|vs|viz|cf|ca|etc|i\.e|e\.g|Inc|Ltd|Co|Corp|Fig|pp?)|\b[A-Z]|(?:\b[A-Za-z]\.)+[A-Za-z])\.$"
)
_ABBREVIATION_REACH = 16
"""Number of characters, up to and including a period, that are searched for an abbreviation."""


def sentence_starts(text: str) -> list[int]:
    """Return the ascending character offsets of the sentence starts, beginning with 0."""
    starts = [0]
    for match in _BOUNDARY.finditer(text):
        if match["stop"] == ".":
            after_stop = match.start() + 1
            head = text[max(0, after_stop - _ABBREVIATION_REACH) : after_stop]
            blank_line = text.count("\n", match.start(), match.end()) > 1
            if not blank_line and (_ABBREVIATION.search(head) or text[match.end()].islower()):
                continue
        if match.end() < len(text):
            starts.append(match.end())
    return starts


def sentence_spans(text: str) -> list[Span]:
    """Return the spans of the sentences of `text`, without surrounding whitespace."""
    starts = sentence_starts(text)
    spans = []
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        piece = text[start:end]
        stripped = piece.strip()
        if stripped:
            offset = start + piece.index(stripped)
            spans.append(Span(offset, offset + len(stripped)))
    return spans
