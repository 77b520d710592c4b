"""Rule-based sentence boundaries for any language, used by chunking and extractive summaries.

Entity extraction uses spaCy's sentences. Chunking only needs good places to split a text, so a few
rules suffice and no model is loaded.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from e2graphrag_integrations.text.letters import IDEOGRAPHIC, LAO, THAI, is_written_in_latin
from e2graphrag_integrations.text.lines import RowBlock, row_blocks
from e2graphrag_integrations.types import Span

_CLOSERS = "\"'”’»)\\]】」』）〉》〕〗］｝＂＇"
SEMICOLON = "；"
"""The semicolon of Chinese and Japanese."""

_WIDE_STOPS = "。！？；｡‼⁇⁈⁉"
_OTHER_STOPS = "।॥؟۔።፧፨։༎།၊။។៕᠃꧉"
"""Full stops and question marks of other scripts, from Devanagari to Javanese."""

_STOPS = ".!?…"
_LATIN_STOP = (
    # A match begins at the first mark of a run; otherwise a line of dots would take quadratic time.
    rf"(?<![{_STOPS}])[{_STOPS}]+[{_CLOSERS}]*\s+(?=\S)"
)
_BOUNDARY = re.compile(
    # A stop, or a blank line. `re` skips to the next character of a set fast if a pattern begins
    # with it.
    rf"[{_STOPS}\n](?:(?<!\n)(?<![{_STOPS}]{{2}})[{_STOPS}]*[{_CLOSERS}]*\s+(?=\S)"
    r"|(?<=\n)[^\S\n]*\n\s*)"
)
_BOUNDARY_IN_ANY_SCRIPT = re.compile(
    # A title in double angle brackets contains no boundary.
    rf"(?P<title>《[^《》\n]{{1,100}}》)|{_LATIN_STOP}"
    # Punctuation that needs no whitespace: always, or between ideographs.
    rf"|(?P<wide>[{_WIDE_STOPS}]+…*"
    rf"|(?<=[{IDEOGRAPHIC}])[!?]+(?=[{_CLOSERS}]*[{IDEOGRAPHIC}“‘「『《])"
    rf"|(?<!…)…{{2,}}(?=[{_CLOSERS}]))(?P<closers>[{_CLOSERS}]*)\s*"
    rf"|[{_OTHER_STOPS}]+[{_CLOSERS}]*\s*"
    r"|\n[^\S\n\u3000]*[\n\u3000]\s*"  # a blank line, or an indented line of Chinese or Japanese
    rf"|(?P<space>(?<=[{THAI}{LAO}])\s+(?=[{THAI}{LAO}])(?![ๆໆ]))"
)
_LETTER = re.compile(r"[^\W\d_]")
_THAI_LETTER = re.compile(f"[{THAI}{LAO}]")
_MIN_THAI = 0.5
"""Minimum share of Thai and Lao letters in a text in which spaces separate sentences: these scripts
have no full stop."""

_CONTINUATIONS = frozenset("，、：；,:;)）的と…—")
"""Characters after a closing quote that continue the sentence around it, as in “为什么？”的问题."""

_ABBREVIATION = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Messrs|Mme|Mlle|Dr|Prof|Rev|Hon|Capt|Col|Gen|Lt|Sgt|Sir|St|Jr|Sr|Mt|No|Vol"
    r"|vs|viz|cf|ca|etc|i\.e|e\.g|Inc|Ltd|Co|Corp|Fig|pp?)|\b[A-Z]|(?:\b[A-Za-z]\.)+[A-Za-z]"
    r"|(?:\n|\A)[ \t#>*]*(?:\d{1,3}|[a-z]))\.$"  # the number of an item
)
_ABBREVIATION_REACH = 16
"""Number of characters, up to and including a period, that are searched for an abbreviation."""

_END = re.compile(rf"[.!?…{_WIDE_STOPS}{_OTHER_STOPS}][{_CLOSERS}]*\s*$|[\"”’]\s*$")


_VISIBLE = re.compile(r"\S")


def sentence_starts(
    text: str, *, clauses: bool = True, blocks: Sequence[RowBlock] | None = None
) -> list[int]:
    """Return the ascending character offsets of the sentence starts, beginning with 0.

    Args:
        text: The text.
        clauses: Whether the semicolon of Chinese and Japanese ends a sentence. The parts of such a
            sentence can be read on their own, but a text should not end with one.
        blocks: The tables and logs in the text, if they are known (`row_blocks`).
    """
    if is_written_in_latin(text):
        matches = (match for match in _BOUNDARY.finditer(text) if _is_stop(text, match))
    else:
        is_thai = _is_mostly_thai(text)
        matches = (
            match
            for match in _BOUNDARY_IN_ANY_SCRIPT.finditer(text)
            if _is_boundary(text, match)
            and (is_thai or match["space"] is None)
            and (clauses or match["wide"] != SEMICOLON)
        )
    starts = [0, *(match.end() for match in matches if match.end() < len(text))]
    return _with_rows(text, starts, row_blocks(text) if blocks is None else blocks)


def _with_rows(text: str, starts: list[int], blocks: Sequence[RowBlock]) -> list[int]:
    """Return sentence starts in which each row of a table or log is a sentence."""
    if not blocks:
        return starts
    firsts = [block.start for block in blocks]
    outside = []
    for start in starts:
        before = bisect_left(firsts, start)  # the number of blocks that start before it
        if not before or start > blocks[before - 1].end:
            outside.append(start)
    rows = [start for block in blocks for start in block.starts]
    matches = (_VISIBLE.search(text, block.end) for block in blocks)
    after = [match.start() for match in matches if match is not None]
    return sorted({0, *outside, *(start for start in rows + after if start < len(text))})


def _is_mostly_thai(text: str) -> bool:
    thai = sum(1 for _ in _THAI_LETTER.finditer(text))
    return thai > 0 and thai >= _MIN_THAI * sum(1 for _ in _LETTER.finditer(text))


def _is_stop(text: str, match: re.Match[str]) -> bool:
    """Return whether a period ends a sentence; any other match does."""
    after_stop = match.start() + 1
    if text[match.start()] != "." or text[after_stop] in _STOPS:
        return True
    head = text[max(0, after_stop - _ABBREVIATION_REACH) : after_stop]
    blank_line = text.count("\n", match.start(), match.end()) > 1
    return blank_line or not (_ABBREVIATION.search(head) or text[match.end()].islower())


def _is_boundary(text: str, match: re.Match[str]) -> bool:
    """Return whether a match in a text with letters of other scripts is the end of a sentence."""
    if match["title"] is not None:
        return False
    if match["closers"]:
        is_inside = match["closers"][0] in ")）" and match["wide"][0] not in "。｡"
        return not is_inside and text[match.end() : match.end() + 1] not in _CONTINUATIONS
    return _is_stop(text, match)


def ends_sentence(text: str) -> bool:
    """Return whether a text ends with the end of a sentence, or with a quote."""
    return _END.search(text, max(0, len(text) - _ABBREVIATION_REACH)) is not None


def sentence_spans(text: str, *, clauses: bool = True) -> list[Span]:
    """Return the spans of the sentences of `text`, without surrounding whitespace.

    Args:
        text: The text.
        clauses: As for `sentence_starts`.
    """
    starts = sentence_starts(text, clauses=clauses)
    spans = (stripped_span(text, *borders) for borders in pairwise([*starts, len(text)]))
    return [span for span in spans if span.start < span.end]


def stripped_span(text: str, start: int, end: int) -> Span:
    """Return the span of a part of a text without the whitespace around it, which may be empty."""
    part = text[start:end]
    start += len(part) - len(part.lstrip())
    return Span(start, start + len(part.strip()))
