"""English function words in questions about texts that are not in English.

Chinese texts contain a few English titles and quotations. In such an index, "which" and "the" are
as rare as names, so BM25 would search for them first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from e2graphrag_integrations.search.bm25 import BM25Index
from e2graphrag_integrations.text.function_words import FUNCTION_WORDS, is_function_word
from e2graphrag_integrations.types import Mention

_WORD = re.compile(r"\S+")

_MIN_COMMON = 0.2
"""Minimum share of function words in an English question. A Chinese one may quote a title."""

_MIN_SHARE = 0.1
"""If no function word occurs in this share of the texts, the index is not in English. In English,
"the" is in more than half of all sentences."""


def is_foreign(terms: Sequence[str], bm25: BM25Index) -> bool:
    """Return whether a question is in English, and the index is in another language.

    Args:
        terms: The words of the question.
        bm25: The index.
    """
    if is_english(bm25):
        return False
    common = sum(term in FUNCTION_WORDS for term in terms)
    return common >= _MIN_COMMON * len(terms) > 0


def content_words(terms: Sequence[str], bm25: BM25Index) -> list[str]:
    """Return the words of a question without function words that tell nothing in the index.

    These are all if the index is not in English, and otherwise those that it does not contain: in
    a list or a chat, "what" and "did" would count as rare words that nothing matches.
    """
    if FUNCTION_WORDS.isdisjoint(terms):
        return list(terms)
    kept = bm25.doc_freq if is_english(bm25) else lambda _: 0
    return [term for term in terms if not is_function_word(term) or kept(term)]


def without_function_words(
    mentions: Iterable[Mention], bm25: Callable[[], BM25Index]
) -> tuple[Mention, ...]:
    """Return mentions without function words at their ends, if the index is not in English.

    An extractor for another language takes many English words for names.

    Args:
        mentions: Mentions in a question.
        bm25: Returns the index. It is called only if a mention has a function word.
    """
    given = tuple(mentions)
    stripped = tuple(_stripped(mention) for mention in given)
    if stripped == given or is_english(bm25()):
        return given
    return tuple(mention for mention in stripped if mention is not None)


def _stripped(mention: Mention) -> Mention | None:
    """Return a mention without function words at its ends; None if nothing remains."""
    words = [(one.group(), *one.span()) for one in _WORD.finditer(mention.entity)]
    kept = [one for one in words if one[0].lower() not in FUNCTION_WORDS]
    if not words or (kept and kept[0] == words[0] and kept[-1] == words[-1]):
        return mention
    if not kept:
        return None
    first, last = kept[0][1], kept[-1][2]
    entity, start, end, label = mention
    if len(entity) == end - start:  # otherwise, the entity is not written as in the question
        start, end = start + first, start + last
    return Mention(entity[first:last], start, end, label)


def is_english(bm25: BM25Index) -> bool:
    """Return whether function words of English are frequent in the index."""
    return bm25.has_frequent(FUNCTION_WORDS, _MIN_SHARE)
