"""Recognizes a heading in the first line of a text."""

from __future__ import annotations

MAX_HEADING_WORDS = 12
"""Maximum number of words in a heading."""

_END_PUNCTUATION = frozenset(".!?;,…。！？；，、")

_MAX_WIDTH = 0.6
"""Maximum length of a heading relative to the longest other line. The first line of hard-wrapped
prose is about as long as the others."""


def first_line_heading(text: str) -> str | None:
    r"""Return the first line of a text if it reads as a heading, without surrounding whitespace.

    A heading has at most 12 words, does not end like a sentence, is much shorter than the longest
    of the following lines, and is not continued in lowercase.

    >>> first_line_heading("Jeff Porcaro\nJeffrey Thomas Porcaro was an American drummer.")
    'Jeff Porcaro'
    >>> first_line_heading("It was a long line that goes on\nin the next one.") is None
    True
    """
    line, newline, rest = text.lstrip().partition("\n")
    line, rest = line.strip(), rest.lstrip()
    if not newline or not line or not rest:
        return None
    ends_like_sentence = line[-1] in _END_PUNCTUATION
    if ends_like_sentence or rest[0].islower() or len(line.split()) > MAX_HEADING_WORDS:
        return None
    longest = max(len(other) for other in rest.split("\n"))
    return line if len(line) <= _MAX_WIDTH * longest else None
