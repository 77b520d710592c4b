"""The part of a hit that the command line shows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from e2graphrag_integrations.retrieval.result import RetrievedNode

_LEAD_CHARACTERS = 40
"""Characters before the first name in an excerpt."""


def excerpt(node: RetrievedNode, width: int) -> str:
    """Return about `width` characters of a hit, on one line.

    The excerpt is the part of the best window that contains most of the question's names. If the
    window contains none of them, it is the part of the hit that does. Without names, it is the
    start of the window.
    """
    first, last = _best_window(node)
    text = " ".join(node.text.split())
    start = len(" ".join(node.text[:first].split()))
    end = start + len(" ".join(node.text[first:last].split())) + 1
    left = _densest(text[start:end], node.entities, width)
    if left is not None:
        start += left
    elif node.entities:
        found = _densest(text, node.entities, width)
        start = start if found is None else found
    if len(text) <= width:
        return text
    start = min(start, len(text) - width)
    start = text.rfind(" ", 0, start + 1) + 1 if start > 0 else 0  # the start of a word
    cut = text[start : start + width].rstrip()
    if start + width < len(text) and " " in cut:
        cut = cut.rpartition(" ")[0]  # the end of a word
    return f"{'... ' if start else ''}{cut}{' ...' if start + len(cut) < len(text) else ''}"


def _best_window(node: RetrievedNode) -> tuple[int, int]:
    """Return the range of the best window in the text, or that of the whole text."""
    best, offset = node.best_span, 0
    if best is None or node.level:
        return 0, len(node.text)
    from e2graphrag_integrations.retrieval.result import GAP

    for span, text in node.pieces:
        if span.start <= best.start < span.end:
            first = offset + best.start - span.start
            return first, min(first + best.end - best.start, offset + len(text))
        offset += len(text) + len(GAP)
    return 0, len(node.text)


def _densest(text: str, names: Sequence[str], width: int) -> int | None:
    """Return where to start so that most different names are shown, or None without names."""
    found = sorted(
        (match.start(), number)
        for number, name in enumerate(names)
        for match in re.finditer(
            r"\b" + r"\W+".join(map(re.escape, name.split())), text, re.IGNORECASE
        )
    )
    reach = width - 2 * _LEAD_CHARACTERS
    best, most, right = None, 0, 0
    inside: Counter[int] = Counter()
    for position, number in found:
        while right < len(found) and found[right][0] < position + reach:
            inside[found[right][1]] += 1
            right += 1
        if len(+inside) > most:
            best, most = position, len(+inside)
        inside[number] -= 1
    return None if best is None else max(0, best - _LEAD_CHARACTERS)
