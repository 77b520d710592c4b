"""Words with one typing error, in questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from string import ascii_lowercase

from e2graphrag_integrations.text.words import is_common_word

_SHORTEST = 5
"""Minimum number of letters of a word that may have an error. One letter decides between too many
short words."""

_LONG = 8
"""Number of letters from which a word is corrected to any word, and not only to a common one: a
short unknown word may be a name that is like another word."""


def corrections(word: str, is_known: Callable[[str], object]) -> tuple[str, ...]:
    """Return the known words that differ from an unknown one by one error, sorted.

    A letter is missing, superfluous or wrong, or two adjacent letters are exchanged
    (Damerau 1964). A common English word has no error.

    Args:
        word: A casefolded word.
        is_known: Whether a word is in the index.

    >>> corrections("libarian", {"librarian"}.__contains__)
    ('librarian',)
    >>> corrections("louisa", {"louise"}.__contains__)
    ()
    """
    if len(word) < _SHORTEST or not (word.isascii() and word.isalpha()) or is_common_word(word):
        return ()
    variants = set(_variants(word)) - {word}
    if len(word) < _LONG:
        variants = set(filter(is_common_word, variants))
    return tuple(sorted(filter(is_known, variants)))


def _variants(word: str) -> Iterator[str]:
    splits = [(word[:place], word[place:]) for place in range(len(word) + 1)]
    for start, end in splits:
        yield from (start + letter + end for letter in ascii_lowercase)
        if end:
            yield start + end[1:]
            yield from (start + letter + end[1:] for letter in ascii_lowercase)
    for (start, end), _ in pairwise(splits[:-1]):
        yield start + end[1] + end[0] + end[2:]
