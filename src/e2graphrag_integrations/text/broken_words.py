"""What a layout adds to a text: broken words, soft hyphens, zero widths, and spaces at line breaks.

Texts are stored and shown as they are. What reads them, such as an extractor, an embedder or BM25,
reads them without this noise, and spans are mapped back.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from e2graphrag_integrations.text.letters import IDEOGRAPHIC

_LINE_END = r"[ \t]*\r?\n[ \t]*(?=[^\W\d_])"
_BREAK = rf"(?<=[^\W\d_])[-\u2010\u00ad]{_LINE_END}"
# A search skips to the first character of a pattern only if that is one class of characters.
_NOISE = re.compile(
    rf"[-\u2010\u00ad\u200b\u2060\ufeff](?:(?<=[^\W\d_][-\u2010\u00ad]){_LINE_END}|(?<![-\u2010]))"
)
_BROKEN = re.compile(rf"[^\W\d_]+{_BREAK}[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class CleanText:
    """A text without noise.

    Attributes:
        text: The text.
        starts: Where each part that follows noise begins, ascending.
        removed: Number of characters removed before each of them.
    """

    text: str
    starts: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in the original text of a span in this one."""
        if not self.starts or start >= end:
            shift = self._removed_before(start)
            return start + shift, end + shift
        return start + self._removed_before(start), end + self._removed_before(end - 1)

    def _removed_before(self, at: int) -> int:
        place = bisect_right(self.starts, at)
        return self.removed[place - 1] if place else 0


def clean(text: str) -> CleanText:
    r"""Return a text without noise: words broken at the end of a line are joined.

    A hyphen before a capital letter remains, as in "Rolls-\nRoyce".

    >>> clean("The miller of Veld-\nhoven").text
    'The miller of Veldhoven'
    """
    parts, starts, removed = [], [], []
    last = length = gone = 0
    for match in _NOISE.finditer(text):
        start, end = match.span()
        if text[end : end + 1].isupper() and "\n" in match.group():
            start += 1  # keeps the hyphen, and joins the lines
        parts.append(text[last:start])
        length += start - last
        gone += end - start
        last = end
        starts.append(length)
        removed.append(gone)
    if not starts:
        return CleanText(text)
    return CleanText("".join([*parts, text[last:]]), tuple(starts), tuple(removed))


def clean_text(text: str) -> str:
    """Return the text of `clean`."""
    return clean(text).text


def parts_of_broken_words(text: str) -> str:
    r"""Return the words that are broken at the end of a line, with both parts.

    Whether "well-\nknown" is one word or two is not known, so a search finds both.

    >>> parts_of_broken_words("a well-\nknown man")
    'well-\nknown'
    """
    return " ".join(match.group() for match in _BROKEN.finditer(text))


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
