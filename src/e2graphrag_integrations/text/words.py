"""Word tokenizers that support scripts written without spaces.

This module has two tables of scripts and two tokenizers. The tokenizers differ on texts that mix
scripts. Unifying them would change results, so it is left for when more languages are supported.
"""

from __future__ import annotations

import re
from itertools import pairwise

UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
"""Regex character class of scripts without spaces between words: Thai, Lao, Khmer, Myanmar, kana
and Han."""

SINGLE_LETTER_SCRIPTS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Regex character class of letters that count as one token each, as in most byte-pair
vocabularies: the scripts in `UNSPACED`, Hangul syllables, and rare and compatibility ideographs."""

_RUN = re.compile(rf"[{UNSPACED}]+|[^\W{UNSPACED}]+")
_WORD = re.compile(r"\w+")
_UNSPACED = re.compile(f"[{UNSPACED}]")


def has_unspaced(text: str) -> bool:
    """Return whether a text contains a letter from a script without spaces."""
    return _UNSPACED.search(text) is not None


def count_words(text: str) -> int:
    """Return the number of words in a text: runs of letters, digits and underscores."""
    return sum(1 for _ in _WORD.finditer(text))


def bm25_terms(text: str) -> list[str]:
    """Return the casefolded words of a text, with character bigrams for scripts without spaces."""
    terms: list[str] = []
    for run in _RUN.findall(text.casefold()):
        if len(run) > 1 and _UNSPACED.match(run):
            terms.extend(first + second for first, second in pairwise(run))
        else:
            terms.append(run)
    return terms


def sentence_terms(sentence: str) -> list[str]:
    """Return the casefolded words of a sentence, with character bigrams for scripts without spaces.

    Unlike `bm25_terms`, this function does not split a word where its script changes: if a word
    contains a letter from a script without spaces, all of it becomes bigrams.
    """
    terms: list[str] = []
    for word in _WORD.findall(sentence.casefold()):
        if len(word) > 1 and _UNSPACED.search(word):
            terms.extend(first + second for first, second in pairwise(word))
        else:
            terms.append(word)
    return terms
