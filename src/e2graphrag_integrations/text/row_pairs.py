"""Pairs of words in a row of a table.

A window of a table has many rows, so most windows contain all words of "the small black scarf", and
only one has them in one row. A text has a term for each two words of a row, and a question is
searched for with the pairs of its words. The keys of records, which each has, form no pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, islice

from e2graphrag_integrations.text.lines import row_blocks
from e2graphrag_integrations.text.words import is_function_word, terms_of

ROWS = "!rows"
"""The term of a text with rows. No word begins with an exclamation mark."""

_MOST_WORDS = 10
"""Maximum number of words of a row that form pairs, from its first cell on: 45 pairs."""

MOST_ASKED = 20
"""Maximum number of words of a question that form pairs."""


def row_pairs(text: str) -> list[str]:
    r"""Return the terms of the pairs in the rows of a text, and `ROWS` if there are any.

    >>> row_pairs("hat\tblue\t30\nscarf\tred\t40")
    ['!rows', 'blue&hat', 'red&scarf']
    """
    found: set[str] = set()
    for block in row_blocks(text):
        ends = [*block.starts[1:], block.end]
        rows = [_words(text[start:end]) for start, end in zip(block.starts, ends, strict=True)]
        keys: set[str] = set() if block.columns > 1 else set.intersection(*map(set, rows))
        for row in rows:
            found.update(pairs_of(word for word in row if word not in keys))
    return [ROWS, *sorted(found)] if found else []


def pairs_of(words: Iterable[str], most: int = _MOST_WORDS) -> Iterator[str]:
    """Yield the terms of the pairs of the first words; a pair does not depend on their order.

    >>> list(pairs_of(["small", "black", "scarf"]))
    ['black&scarf', 'black&small', 'scarf&small']
    """
    kept = sorted(islice(dict.fromkeys(words), most))
    yield from (f"{first}&{second}" for first, second in combinations(kept, 2))


def can_be_paired(word: str) -> bool:
    """Return whether a word forms pairs. Numbers and codes are rare by themselves."""
    return len(word) > 1 and word.isalpha() and not is_function_word(word)


def _words(row: str) -> list[str]:
    return list(filter(can_be_paired, dict.fromkeys(terms_of(row))))
