"""Words and the scripts that are written without spaces.

Two tables and two tokenizers live here side by side. They differ on texts that mix scripts, and
changing either would change results; unifying them belongs to the support of more languages.
"""

from __future__ import annotations

import re
from itertools import pairwise

UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
"""Character class of scripts without spaces between words, for words and names: Thai, Lao, Khmer,
Myanmar, kana and Han."""

SINGLE_LETTER_SCRIPTS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Character class of letters that count as one token each, as in most byte-pair vocabularies: the
scripts of `UNSPACED`, Hangul syllables, and rare and compatibility ideographs."""

_RUN = re.compile(rf"[{UNSPACED}]+|[^\W{UNSPACED}]+")
_WORD = re.compile(r"\w+")
_UNSPACED = re.compile(f"[{UNSPACED}]")


def has_unspaced(text: str) -> bool:
    """Return whether a text contains a letter of a script without spaces."""
    return _UNSPACED.search(text) is not None


def count_words(text: str) -> int:
    """Return the number of runs of letters, digits and underscores in a text."""
    return sum(1 for _ in _WORD.finditer(text))


def bm25_terms(text: str) -> list[str]:
    """Return the casefolded words of a text, and character bigrams in scripts without spaces."""
    terms: list[str] = []
    for run in _RUN.findall(text.casefold()):
        if len(run) > 1 and _UNSPACED.match(run):
            terms.extend(first + second for first, second in pairwise(run))
        else:
            terms.append(run)
    return terms


def sentence_terms(sentence: str) -> list[str]:
    """Return casefolded words, and character bigrams of words with a letter of such a script.

    Unlike `bm25_terms`, a word that mixes scripts is not split where the script changes.
    """
    terms: list[str] = []
    for word in _WORD.findall(sentence.casefold()):
        if len(word) > 1 and _UNSPACED.search(word):
            terms.extend(first + second for first, second in pairwise(word))
        else:
            terms.append(word)
    return terms
