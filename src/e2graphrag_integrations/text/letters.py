"""Letters and marks that need rules of their own, from the table of scripts in `languages`.

Every constant is the inside of a regular expression's character class. All tokenizers use them, so
that they agree on which letters form words.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import chain

from e2graphrag_integrations.languages.scripts import HAN, HANGUL, KANA, letters_of

IDEOGRAPHIC = letters_of(HAN, KANA)
"""Letters of Chinese and Japanese, which have neither spaces between words nor combining marks."""

HAN_LETTERS = letters_of(HAN)
HANGUL_LETTERS = letters_of(HANGUL)
THAI = letters_of("Thai")
LAO = letters_of("Laoo")

ALPHABETIC_UNSPACED = letters_of("Thai", "Laoo", "Mymr", "Khmr", "Tale", "Talu", "Lana")
"""Letters and marks of alphabets that are written without spaces between words."""

UNSPACED = IDEOGRAPHIC + ALPHABETIC_UNSPACED
"""Letters and marks of all scripts without spaces between words."""

_MARK_BLOCKS = (
    (0x0300, 0x1E00),
    (0x2CEF, 0x2E00),
    (0x302A, 0x309B),
    (0xA66F, 0xAC00),
    (0xFB1E, 0xFB1F),
    (0xFE20, 0xFE30),
    (0x101FD, 0x1037B),
    (0x10A01, 0x11FFF),
    (0x13440, 0x13456),
    (0x1611E, 0x16130),
    (0x16AF0, 0x16FF2),
    (0x1BC9D, 0x1BC9F),
    (0x1E000, 0x1E94B),
)
"""Ranges that contain all marks of letters. Variation selectors, enclosing symbols, music
and SignWriting are left out."""


def _class_of(codes: list[int]) -> str:
    """Return the class of some characters, given their ascending codes."""
    ranges: list[tuple[int, int]] = []
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1] = (ranges[-1][0], code)
        else:
            ranges.append((code, code))
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


MARKS = _class_of(
    [
        code
        for code in chain.from_iterable(range(*block) for block in _MARK_BLOCKS)
        if unicodedata.category(chr(code)).startswith("M")
    ]
)
"""Combining marks: vowel signs, tone marks and accents. They belong to the letter before them,
although `\\w` does not match them."""

_OTHER_SCRIPTS = re.compile(
    "[\u0300-\u036f\u0530-\u1dff\u203c\u2047-\u2049\u2e80-\ufb00\ufb07-\ufdff\ufe20-\uffff"
    "\U00010000-\U0001cfff\U0001e000-\U0001efff\U00020000-\U000e0000]"
)
"""Letters and marks with rules of their own, and others beside them, but no emoji."""


def is_written_in_latin(text: str) -> bool:
    """Return whether no letter or mark of a text has rules of its own.

    Greek and Cyrillic have none.
    """
    return text.isascii() or _OTHER_SCRIPTS.search(text) is None
