"""Names a statistical model misses: works, titles and aliases, found by their capitals.

A run of capitalised words, joined over "of", "the", "and", "&", "-" and the like, is a name. The
first word of a sentence is capitalised anyway and counts only with evidence: a proper-noun tag, or
no lower-case use in the text and a tag of an open class. Where a run and the model's entities
overlap, the longer wins, except that a run which only strings several entities together with "and"
is given up for them (research: such rules raised multi-hop recall more than any graph detail).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from e2graphrag_integrations.normalize import ADDRESSES

_JOINERS = frozenset(
    [
        "of",
        "the",
        "and",
        "&",
        "-",
        "–",
        "de",
        "la",
        "le",
        "du",
        "des",
        "von",
        "van",
        "der",
        "den",
        "di",
        "da",
        "del",
        "el",
        "al",
        "bin",
        "ibn",
        "in",
        "for",
        "to",
        "on",
        "at",
        "with",
        "a",
        "an",
        "from",
        "or",
        "'s",
        "’s",
        ":",
        "'",
    ]
)
_LOOSE_JOINERS = frozenset(
    ["and", "&", "or", "in", "for", "to", "on", "at", "with", "from", "a", "an", ":", "'"]
)
"""Joiners that hold a run together only where capitals follow on and no entity border is there."""

_MAX_JOINERS = 2
_CALENDAR = frozenset(
    [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
        "jan",
        "feb",
        "mar",
        "apr",
        "jun",
        "jul",
        "aug",
        "sep",
        "sept",
        "oct",
        "nov",
        "dec",
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
        "mon",
        "tue",
        "wed",
        "thu",
        "fri",
        "sat",
        "sun",
    ]
)
_OPEN_CLASSES = frozenset({"PROPN", "NOUN", "ADJ", "NUM", "X", "VERB"})
_NAME_CLASSES = frozenset({"PROPN", "NOUN", "ADJ", "X"})
_ALL_CAPS_SHARE = 0.7


class NameSpan(NamedTuple):
    """Token range `[start, end)` of a name in its document, with a label."""

    start: int
    end: int
    label: str


def find_names(
    sentence: Any, entities: Sequence[NameSpan], lower_words: frozenset[str]
) -> list[NameSpan]:
    """Return the names in one spaCy sentence: the model's entities merged with capitalised runs.

    Args:
        sentence: A spaCy `Span`.
        entities: The model's entities in it.
        lower_words: Words that occur in lower case anywhere in the text.
    """
    runs = _runs(sentence, lower_words)
    return _merge(sentence.doc, list(entities), runs)


def _runs(sentence: Any, lower_words: frozenset[str]) -> list[NameSpan]:
    tokens = [token for token in sentence if not token.is_space]
    letters = [token for token in tokens if token.is_alpha]
    if sum(token.is_upper for token in letters) > _ALL_CAPS_SHARE * max(1, len(letters)):
        return []  # a heading in capitals: case says nothing
    runs: list[NameSpan] = []
    at = 0
    while at < len(tokens):
        if not _begins(tokens, at, lower_words):
            at += 1
            continue
        end = _run_end(tokens, at)
        if _is_name(tokens[at:end]):
            runs.append(NameSpan(tokens[at].i, tokens[end - 1].i + 1, "NAME"))
        at = end
    return runs


def _is_capital(token: Any) -> bool:
    return bool(token.text[0].isupper()) and token.lower_ not in ("i", "i'm", "i'll", "i've", "i'd")


def _begins(tokens: list[Any], at: int, lower_words: frozenset[str]) -> bool:
    token = tokens[at]
    if not _is_capital(token):
        return False
    if token.lower_ in _JOINERS and token.pos_ != "PROPN":
        return False
    if token.lower_.rstrip(".") in ADDRESSES and at + 1 < len(tokens):
        return not _is_capital(tokens[at + 1])  # "Mr. Darcy" is Darcy, as the models have it
    if not _sentence_initial(tokens, at):
        return True
    if token.pos_ == "PROPN":
        return True
    follows = at + 1 < len(tokens) and _is_capital(tokens[at + 1])
    return token.pos_ in _NAME_CLASSES and (follows or token.lower_ not in lower_words)


def _sentence_initial(tokens: list[Any], at: int) -> bool:
    """Tell whether only punctuation stands before, or a stop or an opening quote just before."""
    if all(token.is_punct for token in tokens[:at]):
        return True
    before = tokens[at - 1].text
    return before in {".", "!", "?", ":", "“", "‘", "—", "--", "(", "["}


def _run_end(tokens: list[Any], start: int) -> int:
    end = start + 1
    while end < len(tokens):
        ahead = end
        while (
            ahead < len(tokens)
            and ahead - end < _MAX_JOINERS
            and tokens[ahead].lower_ in _JOINERS
            and not _is_capital(tokens[ahead])
        ):
            ahead += 1
        if ahead >= len(tokens) or not _is_capital(tokens[ahead]):
            return end
        end = ahead + 1
    return end


def _is_name(tokens: list[Any]) -> bool:
    if all(
        token.lower_.rstrip(".") in _CALENDAR or not token.text[0].isalpha() for token in tokens
    ):
        return False
    if len(tokens) == 1:
        return tokens[0].pos_ in _NAME_CLASSES and len(tokens[0].text) > 1
    return any(token.pos_ in _OPEN_CLASSES for token in tokens)


def _merge(doc: Any, entities: list[NameSpan], runs: list[NameSpan]) -> list[NameSpan]:
    kept: list[NameSpan] = []
    used: set[int] = set()
    for run in runs:
        inside = [i for i, e in enumerate(entities) if run.start <= e.start and e.end <= run.end]
        touching = [i for i, e in enumerate(entities) if e.start < run.end and run.start < e.end]
        if len(inside) != len(touching):
            continue  # an entity reaches beyond the run: the model saw more
        if len(inside) > 1 and _strings_together(doc, run, [entities[i] for i in inside]):
            continue
        label = entities[inside[0]].label if len(inside) == 1 else run.label
        kept.append(NameSpan(run.start, run.end, label))
        used.update(inside)
    kept.extend(e for i, e in enumerate(entities) if i not in used)
    return sorted(kept)


def _strings_together(doc: Any, run: NameSpan, entities: list[NameSpan]) -> bool:
    """Tell whether a loose joiner stands right between two of the entities."""
    borders = {entity.end for entity in entities if entity.end < run.end}
    return any(doc[border].lower_ in _LOOSE_JOINERS for border in borders)
