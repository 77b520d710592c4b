"""Common English words, which a question in lower case does not use as names.

The list is made by `training/common_words.py`.
"""

from __future__ import annotations

import functools
from pathlib import Path

_LIST = Path(__file__).with_name("common_words.txt")


def is_common_word(word: str) -> bool:
    """Return whether English texts often have a casefolded word, mostly in lower case.

    >>> is_common_word("reading"), is_common_word("paris")
    (True, False)
    """
    return word in _words()


@functools.cache
def _words() -> frozenset[str]:
    return frozenset(_LIST.read_text(encoding="utf-8").split())
