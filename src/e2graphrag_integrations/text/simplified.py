"""Simplified characters for comparing Chinese texts, character by character.

Unlike OpenCC, which names need (`entities/chinese/han.py`), the table ignores the words that a
character occurs in. It needs no dependency, and no offset changes.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

_TABLE = Path(__file__).with_name("simplified_characters.txt")


def simplified(text: str) -> str:
    """Return a text of the same length with simplified instead of traditional characters.

    >>> simplified("劉備與諸葛亮")
    '刘备与诸葛亮'
    """
    return text if text.isascii() else text.translate(_table())


@functools.cache
def _table() -> Mapping[int, str]:
    _, traditional, simple = _TABLE.read_text(encoding="utf-8").splitlines()
    return dict(zip(map(ord, traditional), simple, strict=True))
