"""The part of a hit that the command line shows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING
from unicodedata import east_asian_width

from e2graphrag_integrations.text.broken_words import on_one_line
from e2graphrag_integrations.text.letters import UNSPACED, inner_offsets, simplified
from e2graphrag_integrations.text.words import has_unspaced

if TYPE_CHECKING:
    from e2graphrag_integrations.retrieval.result import RetrievedNode

_LEAD_CHARACTERS = 40
"""Maximum number of characters before the first name in an excerpt."""

_SPACED = rf"[^\s{UNSPACED}\u3000-\u303f\uff00-\uff65]"
_IN_WORD = re.compile(f"(?<={_SPACED}){_SPACED}")
"""A character of a word after the first one, in scripts with spaces."""


def excerpt(node: RetrievedNode, width: int, words: Sequence[str] = ()) -> str:
    """Return about `width` columns of a hit, on one line; a wide character has two columns.

    The excerpt is the part of the best window that contains most of the question's names, or words
    if it has no names. If the window contains none of them, it is the part of the hit that does.
    Without them, it is the start of the window.

    Args:
        node: The hit.
        width: Number of columns.
        words: The words of the question that say what it is about.
    """
    from e2graphrag_integrations.retrieval.result import best_window

    first, last = best_window(node) or (0, len(node.text))
    text = on_one_line(node.text)
    width = _characters_in(width, text)
    start = len(on_one_line(node.text[:first]))
    end = start + len(on_one_line(node.text[first:last])) + 1
    names = node.entities or words
    left = _densest(text[start:end], names, width)
    if left is not None:
        start += left
    elif names:
        found = _densest(text, names, width)
        start = start if found is None else found
    if len(text) <= width:
        return text
    start = _start_of_word(text, max(0, min(start, len(text) - width)))
    end = _start_of_word(text, start + width) if start + width < len(text) else len(text)
    end = end if end > start else start + width
    cut = text[start:end].strip()
    return f"{'... ' if start else ''}{cut}{' ...' if text[end:].strip() else ''}"


def _characters_in(width: int, text: str) -> int:
    """Return the number of characters of a text that fill `width` columns on average."""
    columns = sum(2 if east_asian_width(one) in "WF" else 1 for one in text)
    return max(1, width * len(text) // max(1, columns))


def _start_of_word(text: str, at: int) -> int:
    """Return the start of the word that contains an offset, or the offset between words."""
    inside = set(inner_offsets(text[: at + 1]))
    while at > 0 and (at in inside or _IN_WORD.match(text, at)):
        at -= 1
    return at


def _densest(text: str, names: Sequence[str], width: int) -> int | None:
    """Return where to start so that most different names are shown, or None without names."""
    text = simplified(text)
    found = sorted(
        (match.start(), number)
        for number, name in enumerate(names)
        for match in re.finditer(
            ("" if has_unspaced(name[:1]) else r"\b")
            + r"\W+".join(map(re.escape, simplified(name).split())),
            text,
            re.IGNORECASE,
        )
    )
    lead = min(_LEAD_CHARACTERS, width // 6)
    reach = width - 2 * lead
    best, most, right = None, 0, 0
    inside: Counter[int] = Counter()
    for position, number in found:
        while right < len(found) and found[right][0] < position + reach:
            inside[found[right][1]] += 1
            right += 1
        if len(+inside) > most:
            best, most = position, len(+inside)
        inside[number] -= 1
    return None if best is None else max(0, best - lead)
