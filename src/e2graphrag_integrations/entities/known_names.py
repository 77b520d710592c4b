"""Names of the index in a Chinese question that its extractor did not find.

In a short question, the extractor misses rare names. Chinese has neither spaces nor capitals that
would show them. So the names and subjects in the index, which the extractor found in longer texts,
are looked up in the question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from e2graphrag_integrations.entities.han import has_han
from e2graphrag_integrations.entities.normalize import fold_letters
from e2graphrag_integrations.text.simplified import simplified
from e2graphrag_integrations.types import NOUN, Mention

KNOWN = "KNOWN"
"""Label of the mentions that are found because the index knows the name."""

_SHORTEST, _LONGEST = 3, 20
"""Range of the lengths of names, in characters. Shorter ones are parts of too many words."""

_REACH = 1_000
"""Number of characters of the question that are searched."""


def with_known_names(
    question: str, mentions: Iterable[Mention], is_name: Callable[[str], bool]
) -> tuple[Mention, ...]:
    """Return the mentions, and the known names in Chinese characters that overlap with no name.

    Of overlapping names, the first and longest counts. Nouns within a name are dropped.

    Args:
        question: The question.
        mentions: The mentions that were found in it.
        is_name: Whether a normal form is a name or a subject of the index.

    >>> [m.entity for m in with_known_names("红腹锉尾蛇有多长?", (), {"红腹锉尾蛇"}.__contains__)]
    ['红腹锉尾蛇']
    """
    kept = list(mentions)
    if not has_han(question):
        return tuple(kept)
    letters = (fold_letters(character) for character in question[:_REACH])
    text = "".join(one if len(one) == 1 else " " for one in letters)  # keeps the offsets
    forms = (text, simplified(text))
    taken = {place for m in kept if m.label != NOUN for place in range(m.start, m.end)}
    found: list[Mention] = []
    start = 0
    while start <= len(text) - _SHORTEST:
        found += _name_at(question, forms, start, taken, is_name)
        start = found[-1].end if found and found[-1].end > start else start + 1
    inside = {place for m in found for place in range(m.start, m.end)}
    kept = [m for m in kept if m.label != NOUN or not inside.issuperset(range(m.start, m.end))]
    return (*kept, *found)


def _name_at(
    question: str,
    forms: tuple[str, ...],
    start: int,
    taken: set[int],
    is_name: Callable[[str], bool],
) -> list[Mention]:
    """Return the longest known name that begins at an offset, as a list of one mention."""
    if not has_han(question[start]):
        return []
    longest = 0
    while start + longest < len(forms[0]) and longest < _LONGEST and start + longest not in taken:
        longest += 1
    for length in range(longest, _SHORTEST - 1, -1):
        for form in forms:
            name = form[start : start + length]
            if is_name(name):
                return [Mention(name, start, start + length, KNOWN)]
    return []
