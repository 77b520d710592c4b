"""Titles in quotation marks and brackets of many languages."""

from __future__ import annotations

import re

from e2graphrag_integrations.entities.word_tokens import Kind, find_words
from e2graphrag_integrations.types import Span

_MAX_WORDS, _MAX_LETTERS = 8, 60
_MAX_UNSPACED = 20
_PAIRS = (
    ("“", "”"),
    ("„", "“”"),
    ("«", "»"),
    ("»", "«"),
    ('"', '"'),
    ("《", "》"),
    ("〈", "〉"),
    ("『", "』"),
    ("「", "」"),
)
_TITLE_BRACKETS = frozenset("《〈『")
_GAP = "[ \u00a0\u202f]?"  # French
_QUOTED = re.compile(
    "|".join(
        rf"{opening}{_GAP}(?!\s)([^\n{opening}{closing}]{{1,{_MAX_LETTERS}}}?){_GAP}[{closing}]"
        for opening, closing in _PAIRS
    )
)
_SPEECH_END = re.compile(r"[.,;:!?…。！？，、؟۔।]$")


def quoted_titles(text: str) -> list[Span]:
    """Return the spans of the quotations in a text that read as titles, without the marks.

    A title begins with a capital letter or is written in a script without capitals, has at most 8
    words, or 20 characters in a script without spaces, and does not end like a sentence.
    """
    titles = []
    for match in _QUOTED.finditer(text):
        start, end = match.span(match.lastindex or 0)
        opening = text[match.start()]
        before = text[max(0, match.start() - 2) : match.start()].rstrip()
        if opening not in _TITLE_BRACKETS and before.endswith(":"):
            continue  # speech
        if _is_title(text[start:end]):
            titles.append(Span(start, end))
    return titles


def _is_title(quoted: str) -> bool:
    words = find_words(quoted)
    if not words or _SPEECH_END.search(quoted) or quoted != quoted.strip():
        return False
    unspaced = [word for word in words if word.kind is not Kind.SPACED]
    if unspaced:
        only_kana = all(word.kind is Kind.HIRAGANA for word in words)
        return not only_kana and 1 < len(quoted) <= _MAX_UNSPACED
    first = words[0]
    begins = first.form.is_capitalized or first.text[0].isdigit() or not first.form.is_cased
    return begins and len(words) <= _MAX_WORDS
