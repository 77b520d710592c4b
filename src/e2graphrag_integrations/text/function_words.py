"""English function words."""

from __future__ import annotations

from string import ascii_lowercase

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
