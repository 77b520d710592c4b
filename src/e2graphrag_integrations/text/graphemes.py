"""Grapheme clusters: what a reader sees as one character, such as a letter with its accents.

An approximation of Unicode's extended grapheme clusters (UAX #29) that needs no library.
"""

from __future__ import annotations

import re

from e2graphrag_integrations.text.letters import MARKS

_EXTENDERS = (
    f"{MARKS}\u0e33\u0eb3\u1160-\u11ff\ud7b0-\ud7ff\uff9e\uff9f"  # vowels and final consonants
    "\u200c\u200d\u20d0-\u20f0\ufe00-\ufe0f\U000e0100-\U000e01ef"  # joiners, variation selectors
    "\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f"  # skin tones and the letters in flags
)
_CONJUNCT_MARKS = "\u094d\u09cd\u0acd\u0b4d\u0c4d\u0d4d\u1039\u17d2"
"""Marks that join the consonants before and after them."""

_INNER = re.compile(
    rf"[{_EXTENDERS}]|(?<=\u200d)\S|(?<=[{_CONJUNCT_MARKS}])\w"
    r"|(?<=[\U0001f1e6-\U0001f1ff])[\U0001f1e6-\U0001f1ff]"  # the second letter of a flag
)


def inner_offsets(text: str) -> list[int]:
    r"""Return the ascending offsets at which a cut would divide a grapheme cluster.

    Adjacent flags are not divided from each other.

    >>> inner_offsets("e\u0301a")
    [1]
    """
    return [] if text.isascii() else [match.start() for match in _INNER.finditer(text)]
