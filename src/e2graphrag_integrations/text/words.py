"""Words: the terms of a text for BM25, and the English words without content of their own.

A term is a casefolded word. Words of Chinese, Japanese and Korean are not separated by spaces or
end in particles: pairs of adjacent characters, and single ideographs, are terms instead. They need
no dictionary, and find names that no dictionary has.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from string import ascii_lowercase

from e2graphrag_integrations.text.letters import (
    ALPHABETIC_UNSPACED,
    HAN_LETTERS,
    HANGUL_LETTERS,
    IDEOGRAPHIC,
    MARKS,
    UNSPACED,
    simplified,
)

_LIST = Path(__file__).with_name("common_words.txt")


def is_common_word(word: str) -> bool:
    """Return whether English texts often have a casefolded word, mostly in lower case.

    A question in lower case does not use it as a name. `training/common_words.py` makes the list.

    >>> is_common_word("reading"), is_common_word("paris")
    (True, False)
    """
    return word in _words()


@functools.cache
def _words() -> frozenset[str]:
    return frozenset(_LIST.read_text(encoding="utf-8").split())


TERM_RULES = 24
"""Version of the terms of BM25 indexes, which are built again if it is another one."""

_SPLIT = IDEOGRAPHIC + HANGUL_LETTERS + ALPHABETIC_UNSPACED


def _words_without(letters: str) -> str:
    """Return the pattern of words without some letters, but with marks and joiners after marks."""
    return rf"[^\W{letters}]+(?:[{MARKS}]+[\u200c\u200d]?[^\W{letters}]*)*"


_ASCII_WORD = re.compile(r"\w+", re.ASCII)
_WESTERN = re.compile("[\x00-\u012f\u0131-\u01ef\u01f1-\u02ff\u2010-\u2027]*")
"""Texts of Latin letters, with quotes and dashes, which `normalized` only casefolds. The letters
that it turns into a letter and an accent are left out."""

_WESTERN_WORD = re.compile(r"\w+")
_WORD = re.compile(_words_without(""))
_HAS_SPLIT = re.compile(f"[{_SPLIT}]")
_RUN = re.compile(
    rf"(?P<characters>[{IDEOGRAPHIC}{HANGUL_LETTERS}]+)|(?P<clusters>[{ALPHABETIC_UNSPACED}]+)"
    rf"|{_words_without(_SPLIT)}"
)
_HAN = re.compile(f"[{HAN_LETTERS}]")
_CLUSTER = re.compile(rf".[{MARKS}]*")
_JOINER = re.compile("[\u200c\u200d]")

_COMPOSABLE = re.compile("[\u0300-\u036f\u1100-\u11ff\u3099\u309a]")
"""Marks and letters that may be composed with the letter before them."""

_COMPATIBLE = re.compile(
    "[\u2080-\u2089\u2e80-\u2fdf\u3200-\u33ff\uf900-\ufaff\uff10-\uff19\uff21-\uff3a\uff3f\uff41-\uff5a\uff66-\uffdc"
    "\U0002f800-\U0002fa1f]+"
)
"""Subscript digits, full-width and half-width forms, radicals, squared words and compatibility
ideographs."""

_OPTIONAL = re.compile(
    "[\u0300-\u036f\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed"
    "\ufe00-\ufe0f\U000e0100-\U000e01ef]+"
)
"""Accents that cannot be composed with their letter, such as stress marks in Cyrillic; vowels of
Hebrew and Arabic; the line that extends Arabic letters; variation selectors."""

_UNSPACED = re.compile(f"[{UNSPACED}]")
_COUNTED = re.compile(rf"[{UNSPACED}][{MARKS}]*|{_words_without(UNSPACED)}")


def has_unspaced(text: str) -> bool:
    """Return whether a text contains a letter from a script without spaces."""
    return _UNSPACED.search(text) is not None


def count_words(text: str) -> int:
    """Return the number of words in a text; in scripts without spaces, each letter is one."""
    return sum(1 for _ in _COUNTED.finditer(text))


def terms_of(text: str) -> list[str]:
    """Return the terms of a text.

    >>> terms_of("Anna's STRASSE"), terms_of("X光片")
    (['anna', 's', 'strasse'], ['x', '光', '片', '光片'])
    """
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    if _WESTERN.fullmatch(text):
        return _WESTERN_WORD.findall(text.casefold())
    text = normalized(text)
    if not _HAS_SPLIT.search(text):
        return _without_joiners(_WORD.findall(text))
    terms: list[str] = []
    for match in _RUN.finditer(text):
        run = match.group()
        if match["characters"]:
            run = simplified(run)
            terms += _HAN.findall(run) if len(run) > 1 else run
            terms += [a + b for a, b in pairwise(run)]
        elif match["clusters"]:
            units = _CLUSTER.findall(run)
            terms += [*_ngrams(units, 2), *_ngrams(units, 3)] if len(units) > 1 else units
        else:
            terms += _without_joiners([run])
    return terms


def longest_terms(text: str) -> list[str]:
    """Return the terms of a text without the single ideographs of pairs.

    >>> longest_terms("X光片"), longest_terms("王 Wang")
    (['x', '光片'], ['王', 'wang'])
    """
    terms = terms_of(text)
    if not has_unspaced(" ".join(terms)):  # many terms take long to test one by one
        return terms
    in_pairs = {one for term in terms if len(term) > 1 and has_unspaced(term) for one in term}
    return [term for term in terms if term not in in_pairs]


def _ngrams(units: Sequence[str], size: int) -> list[str]:
    return ["".join(units[start : start + size]) for start in range(len(units) - size + 1)]


def _without_joiners(words: list[str]) -> list[str]:
    return [_JOINER.sub("", word) for word in words]


def normalized(text: str) -> str:
    """Return a casefolded text in which different encodings of one letter are equal."""
    if _COMPOSABLE.search(text):
        text = unicodedata.normalize("NFC", text)
    text = _COMPATIBLE.sub(lambda match: unicodedata.normalize("NFKC", match.group()), text)
    return _OPTIONAL.sub("", text.casefold())


FUNCTION_WORDS = frozenset(
    "about after again all also am an and any are as at be because been before being between both "
    "but by can could did do does during each every for from had has have he her hers him his how "
    "if in into is it its may me might more most must my no not of off on or other our out over "
    "please shall she should since so some such than that the their theirs them then there these "
    "they this those through to under until up us used was we were what when where which while who "
    "whom whose why will with would yes you your".split()
)
"""English words of at least two letters without content of their own."""

LETTERS = frozenset(ascii_lowercase)


def is_function_word(term: str) -> bool:
    """Return whether a casefolded word is a function word of English, or a single letter."""
    return term in FUNCTION_WORDS or term in LETTERS


_SHORTEST_CAPITALIZED = 3
"""Minimum number of letters of an abbreviation that is spelled like a function word."""


def is_capitalized_function_word(word: str) -> bool:
    """Return whether a word is a function word in capitals, which may be an abbreviation.

    >>> [is_capitalized_function_word(word) for word in ("WHO", "Who", "IT", "ILO")]
    [True, False, False, False]
    """
    is_long = len(word) >= _SHORTEST_CAPITALIZED
    return is_long and word.isupper() and is_function_word(word.casefold())


_SHORTEST = 5
"""Minimum number of letters of a word that may have an error. One letter decides between too many
short words."""

_LONG = 8
"""Number of letters from which a word is corrected to any word. A shorter one with a wrong letter
is corrected only to a common word, because Harlow and Marlow are two names."""

_LONGEST = 64
"""Number of letters above which a word is no word. The words that differ from it by one error have
as many letters together as the square of its length: a gigabyte for a word of 5,000."""


def corrections(word: str, is_known: Callable[[str], object]) -> tuple[str, ...]:
    """Return the known words that differ from an unknown one by one error, sorted.

    A letter is missing, superfluous or wrong, or two adjacent letters are exchanged
    (Damerau 1964). A common English word has no error, and a text without spaces is no word.

    Args:
        word: A casefolded word.
        is_known: Whether a word is in the index.

    >>> corrections("libarian", {"librarian"}.__contains__)
    ('librarian',)
    >>> corrections("louisa", {"louise"}.__contains__)
    ()
    >>> corrections("halrow", {"harlow", "marlow"}.__contains__)
    ('harlow',)
    """
    if (
        not _SHORTEST <= len(word) <= _LONGEST
        or not (word.isascii() and word.isalpha())
        or is_common_word(word)
    ):
        return ()
    known = filter(is_known, sorted(set(_variants(word)) - {word}))
    return tuple(one for one in known if len(word) >= _LONG or _is_likely(word, one))


def _is_likely(word: str, other: str) -> bool:
    """Return whether a short word is probably another one with an error, and no other name."""
    if is_common_word(other) or sorted(word) == sorted(other):
        return True
    return len(word) != len(other) and (word[0], word[-1]) == (other[0], other[-1])


def _variants(word: str) -> Iterator[str]:
    splits = [(word[:place], word[place:]) for place in range(len(word) + 1)]
    for start, end in splits:
        yield from (start + letter + end for letter in ascii_lowercase)
        if end:
            yield start + end[1:]
            yield from (start + letter + end[1:] for letter in ascii_lowercase)
    for (start, end), _ in pairwise(splits[:-1]):
        yield start + end[1] + end[0] + end[2:]
