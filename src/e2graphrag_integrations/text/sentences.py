"""Where sentences begin, by rule and in any language: for chunk borders and extractive summaries.

Entities use spaCy's own sentences; here a boundary only has to be a good place to cut, so a few
rules do, and chunking needs no model.
"""

from __future__ import annotations

import re

from e2graphrag_integrations.types import Span

_CLOSERS = "\"'”’»)\\]】」』）"
_BOUNDARY = re.compile(
    # Western stop, closing quotes, white space; from a run's first stop only, else a line of dots
    # takes quadratic time
    rf"(?<![.!?…])(?P<stop>[.!?…]+)[{_CLOSERS}]*\s+(?=\S)"
    rf"|[。！？｡]+[{_CLOSERS}]*\s*"  # CJK stop: no space needed
    r"|\n[^\S\n]*\n\s*"  # blank line
)
_ABBREVIATION = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Messrs|Mme|Mlle|Dr|Prof|Rev|Hon|Capt|Col|Gen|Lt|Sgt|Sir|St|Jr|Sr|Mt|No|Vol"
    r"|vs|viz|cf|ca|etc|i\.e|e\.g|Inc|Ltd|Co|Corp|Fig|pp?)|\b[A-Z]|(?:\b[A-Za-z]\.)+[A-Za-z])\.$"
)
_ABBREVIATION_REACH = 16
"""Characters before a full stop in which an abbreviation can begin."""


def sentence_starts(text: str) -> list[int]:
    """Return the character offsets at which sentences begin, ascending; 0 is always first."""
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
    """Return the spans of the sentences of `text`, without surrounding white space."""
    starts = sentence_starts(text)
    spans = []
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        piece = text[start:end]
        stripped = piece.strip()
        if stripped:
            offset = start + piece.index(stripped)
            spans.append(Span(offset, offset + len(stripped)))
    return spans
