"""Entity extraction for any language by rules, without a model: a fallback."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from e2graphrag_integrations._utils.validation import check_name
from e2graphrag_integrations.entities.capitalized_names import (
    NAME,
    capitalized_names,
)
from e2graphrag_integrations.entities.content_words import ContentWords
from e2graphrag_integrations.entities.grammar import grammar_of
from e2graphrag_integrations.entities.quoted_titles import quoted_titles
from e2graphrag_integrations.entities.word_tokens import INVISIBLE, Word, find_words
from e2graphrag_integrations.text.sentences import ends_sentence, sentence_starts
from e2graphrag_integrations.types import Mention, Sentences

RULES_VERSION = 1
"""Version of the rules; part of the fingerprint. Raise it when they change."""

_INITIAL = re.compile(r"(?:^|[^\w])[^\W\d_]\.\s*$")
_INITIAL_REACH = 8
_MAX_NAME = 100
"""Maximum length of an entity, in characters."""

_INVISIBLE = re.compile(f"[{INVISIBLE}]")
_SHORT_QUERY = 12
"""Maximum number of words of a sentence that reads as a query without a question mark."""

_QUESTION_MARKS = ("?", "؟", "？", "՞", "፧")

UNKNOWN = "und"
"""The code of an unknown language."""


class RuleBasedExtractor:
    """Finds entities in any language by rules. A fallback for languages without a pipeline.

    It finds capitalized names, names with numbers ("Boeing 747"), quoted titles, and repeated words
    as common nouns. Words are not lemmatized: two forms of a name are two entities. In scripts
    without capital letters, few names are found. A spaCy pipeline for the language finds more:
    `extractor={"de": "de_core_news_sm"}`.

    Args:
        language: ISO 639-1 code of the language, which decides about function words, the words that
            join names, and whether all nouns are capitalized. "und" if it is unknown.

    Raises:
        InvalidInputError: If the language is not a non-empty string.
    """

    def __init__(self, language: str = UNKNOWN) -> None:
        self.language = check_name("language", language).lower()

    def __reduce__(self) -> tuple[type[RuleBasedExtractor], tuple[str]]:
        return type(self), (self.language,)

    @property
    def fingerprint(self) -> str:
        """The version of the rules, and the language."""
        return f"rules:{RULES_VERSION}:{self.language}"

    def extract(self, texts: Sequence[str]) -> list[Sentences]:
        """Return the mentions in each sentence of each text, in order."""
        return [self._sentences(text) for text in texts]

    def _sentences(self, text: str) -> list[list[Mention]]:
        grammar = grammar_of(self.language)
        words = find_words(text)
        starts = _starts(text)
        names = capitalized_names(text, words, starts, grammar)
        titles = [Mention(text[start:end], start, end, NAME) for start, end in quoted_titles(text)]
        is_query = len(starts) == 1 and _reads_as_query(text, words)
        content = ContentWords(text, words, is_query, grammar).mentions()
        mentions = _longest(m for m in (*titles, *names, *content) if m.end - m.start <= _MAX_NAME)
        return _grouped(mentions, starts)


def _reads_as_query(text: str, words: Sequence[Word]) -> bool:
    """Return whether a sentence is a question, or short and without a full stop."""
    end = len(text)
    while end and (text[end - 1].isspace() or _INVISIBLE.match(text[end - 1])):
        end -= 1
    text = text[:end]
    if text.endswith(_QUESTION_MARKS):
        return True
    return len(words) <= _SHORT_QUERY and not ends_sentence(text)


def _starts(text: str) -> list[int]:
    """Return the sentence starts. None follows an initial, as in "A. S. Pushkin"."""
    return [
        start
        for start in sentence_starts(text)
        if start == 0 or not _INITIAL.search(text[max(0, start - _INITIAL_REACH) : start])
    ]


def _longest(mentions: Iterable[Mention]) -> list[Mention]:
    """Return disjoint mentions in order; of mentions that overlap, the longest one."""
    chosen: list[Mention] = []
    for mention in sorted(mentions, key=lambda m: (m.start, -m.end)):
        if chosen and mention.start < chosen[-1].end:
            if mention.end - mention.start > chosen[-1].end - chosen[-1].start:
                chosen[-1] = mention
        else:
            chosen.append(mention)
    return chosen


def _grouped(mentions: Sequence[Mention], starts: Sequence[int]) -> list[list[Mention]]:
    """Group mentions by sentence. A sentence does not end inside a mention."""
    ends = [mention.end for mention in mentions]
    kept = []
    for start in starts:
        after = bisect_right(ends, start)
        if after == len(mentions) or mentions[after].start >= start:
            kept.append(start)
    sentences: list[list[Mention]] = [[] for _ in kept]
    for mention in mentions:
        sentences[bisect_right(kept, mention.start) - 1].append(mention)
    return sentences
