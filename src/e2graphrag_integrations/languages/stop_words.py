"""Function words of languages, and those that distinguish two languages in Latin letters."""

from __future__ import annotations

import functools
import importlib
import importlib.util

from e2graphrag_integrations.languages.language import ENGLISH

_CODES = {"no": "nb", "nn": "nb", "bs": "hr"}
"""Codes under which spaCy has the words of a language, where they differ from ours."""


@functools.cache
def distinctive_words(language: str, other: str = ENGLISH) -> frozenset[str]:
    """Return the stop words of a language that are not stop words of another.

    The lists are those of spaCy. Languages without a list have no words.

    >>> sorted(distinctive_words("it") & {"di", "una", "a", "the"})
    ['di', 'una']
    """
    return stop_words(language) - stop_words(other)


@functools.cache
def stop_words(language: str) -> frozenset[str]:
    """Return the stop words of a language, as spaCy lists them; none if it has no list."""
    code = _CODES.get(language, language)
    if importlib.util.find_spec(f"spacy.lang.{code}") is None:
        return frozenset()
    try:
        module = importlib.import_module(f"spacy.lang.{code}.stop_words")
    except ModuleNotFoundError:
        return frozenset()
    return frozenset(word for word in module.STOP_WORDS if word.isalpha())
