"""English words and forms by which a question refers to what was said before."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from e2graphrag_integrations.types import Mention

_BACK_REFERENCES = re.compile(
    r"\b(?:it|its|itself|they|them|their|theirs|he|him|his|she|her|hers|this|these|those"
    r"|there|other|others|another|same|such(?! as\b)|else|instead|then"
    r"|former|latter|that(?:'s)?(?=\W*$|[.,?!]|\W+(?:one|kind|type)\b))\b"
    # Not after a noun: "the film that was directed by ..."
    r"|(?:^\W*|\b(?:is|was|does|did|do|can|could|would|will|and|but|if|why|how|when|what) )that\b"
    r"|^\W*(?:what|how) about\b"
    r"|\bi (?:mean|meant)\b|\bi(?: a|['’])m (?:asking|talking|referring)\b"
    r"|\b(?!no\b|which\b|any\b|each\b|every\b)[a-z-]{1,20} ones?(?=\W*$|[.,?!])"
)
"""Words that refer to something mentioned before, or to another one of its kind."""

_EXPLETIVES = re.compile(
    r"\bit (?:is|was|makes?|takes?|seems?)\b"
    r"|\b(?:is|was|does|did|would|will) it (?:possible|make sense|take|true|necessary)\b"
    r"|\b(?:is|are|was|were|isn't|aren't) there\b|\bthere (?:is|are|was|were)\b"
    r"|\b(?:known|famous|noted|named) for (?:its|his|her|their)\b"
)
"""Phrases whose "it" or "there" refers to nothing, or whose "its" to the noun before them."""

_CONTINUATIONS = re.compile(
    r"^\W*(?:and|but|or|also|plus|no|nope|yes|ok|okay|what if|in that case)\b"
    r"|\b(?:too|either|as well|afterwards?|anyway)(?=\W*$|[.,?!])"
    r"|^\W*(?:please |can you |could you )*(?:explain|elaborate|clarify|continue|go on)\b"
    r"|\b(?:an|another|some) examples?(?=\W*$|[.,?!])"
    r"|(?:^|[.!?])\W{0,3}any (?!of\b)|\bany(?=\W*$)"
    r"|\bmore(?: details?| information)?(?: please)?(?=\W*$|[.?!])"
)
"""Words that continue or correct what was said, or ask for more of it."""

_ELLIPSES = re.compile(
    r"(?:^|[.!?,])\W{0,3}(?:(?:and|but|so) )?(?:why|how|when|where|who|whom|which|what)"
    r"(?: (?:not|so|often|long|much|many|far|soon|else|now|for|exactly))?\W*$"
    r"|^\W*(?:(?:and|so|but) )?which is (?:the )?(?:more |most |less |least )?[a-z]+\W*$"
)
"""Questions that consist of a question word, or compare without saying what."""

_ARTICLE = re.compile(r"\bthe(?P<between>(?: [\w'-]+)?) $", re.IGNORECASE)
"""A definite article in front of a noun, and the word between them. Longer phrases, such as "the
wash sale rule", identify what they refer to."""

_IDENTIFIED = re.compile(r"\b(?:only|first|last|next|same|own|\w+est|most|least)\b", re.IGNORECASE)
"""Words between an article and a noun with which the phrase can be complete."""

_MODIFIED = re.compile(
    r"(?:['’]s)? *(?:\b(?:of|in|for|to|on|at|by|from|with|about|between|among|against|under|over"
    r"|during|after|before|behind|that|which|who|whom|whose|where|when|i|you|we|called|named)\b"
    r"|[A-Z\d\"“'(])"
)
"""What follows a noun that the rest of the question identifies: an attribute or a name."""

_UNIQUE = frozenset(
    "world earth moon sun sky sea ocean internet web weather government president future past "
    "country state city public police law difference".split()
)
"""Nouns that need no antecedent."""

_NEARBY = 40
"""Number of characters before and after a noun that are read."""


def back_reference(question: str, mentions: Sequence[Mention]) -> str:
    """Return the first words before any name that refer back, or an empty string."""
    text, first_name = question.lower(), _first_name(question, mentions)
    expletives = [match.span() for match in _EXPLETIVES.finditer(text)]
    for match in _BACK_REFERENCES.finditer(text):
        start = match.start()
        if start < first_name and not any(first <= start < end for first, end in expletives):
            return match.group().strip()
    return ""


def open_reference(question: str, mentions: Sequence[Mention]) -> str:
    """Return words before any name that leave open what a question is about, or an empty string.

    These are continuations ("And ...", "Explain ..."), ellipses ("How often?"), and nouns with a
    definite article that nothing in the question identifies ("the fee").
    """
    text, first_name = question.lower(), _first_name(question, mentions)
    for pattern in (_CONTINUATIONS, _ELLIPSES):
        match = pattern.search(text)
        if match and match.start() < first_name:
            return match.group().strip(" .,?!")
    if any(one.named for one in mentions):
        return ""  # a name identifies more than an article leaves open
    return next(_definite_nouns(question, mentions), "")


def _first_name(question: str, mentions: Sequence[Mention]) -> int:
    return min((one.start for one in mentions if one.named), default=len(question))


def _definite_nouns(question: str, mentions: Sequence[Mention]) -> Iterator[str]:
    """Yield the nouns with a definite article that the question does not identify."""
    starts = {one.start for one in mentions}
    for noun in mentions:
        rest = question[noun.end : noun.end + _NEARBY]
        if noun.end + len(rest) - len(rest.lstrip()) in starts:
            continue  # the first part of a compound
        article = _ARTICLE.search(question[max(0, noun.start - _NEARBY) : noun.start])
        if (
            article
            and noun.entity.lower() not in _UNIQUE
            and not _IDENTIFIED.search(article["between"])
            and not _MODIFIED.match(rest)
        ):
            yield f"{article.group()}{question[noun.start : noun.end]}"
