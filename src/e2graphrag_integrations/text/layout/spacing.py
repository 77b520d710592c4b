"""Spaces between joined texts, which Chinese and Japanese do not have."""

from __future__ import annotations

import re
from collections.abc import Iterable

from e2graphrag_integrations.text.letters import IDEOGRAPHIC

_WIDE = f"{IDEOGRAPHIC}\u3001-\u303f\uff01-\uff65"
"""Ideographs, kana, and their punctuation."""

_QUOTES = "\"'“”‘’"
"""Quotation marks that texts with and without spaces share."""

_LINE_BREAK = re.compile(
    rf"(?:(?<=[{_WIDE}])|(?<=[{_WIDE}][{_QUOTES}…—]))[^\S\n]*\n\s*(?=[{_QUOTES}…—]?[{_WIDE}])"
)
_ENDS_WIDE = re.compile(rf"[{_WIDE}][{_QUOTES}…—]*$")
_STARTS_WIDE = re.compile(rf"[{_QUOTES}…—]*[{_WIDE}]")
_ENDS_WITH_MARK = re.compile(rf"[\u3001-\u303f\uff01-\uff65][{_QUOTES}]*$")


def on_one_line(text: str) -> str:
    r"""Return a text with single spaces, and none where a line of Chinese or Japanese breaks.

    >>> on_one_line("One  two\nthree"), on_one_line("话说天下\n大势")
    ('One two three', '话说天下大势')
    """
    return " ".join(_LINE_BREAK.sub("", text).split())


def join_sentences(sentences: Iterable[str]) -> str:
    """Return sentences joined by spaces, except where Chinese or Japanese meets either of them.

    >>> join_sentences(["One.", "Two."]), join_sentences(["他来了。", "2008年他走了。"])
    ('One. Two.', '他来了。2008年他走了。')
    """
    joined = ""
    for sentence in sentences:
        if joined and _needs_space(joined, sentence):
            joined += " "
        joined += sentence
    return joined


def _needs_space(left: str, right: str) -> bool:
    tail = left[-8:]
    if _ENDS_WITH_MARK.search(tail):
        return False
    return not (_ENDS_WIDE.search(tail) and _STARTS_WIDE.match(right))
