"""Letters and marks that need rules of their own: in tokenizers, at cuts, and in comparisons.

The constants are the inside of a regular expression's character class, from the table of scripts in
`languages`. All tokenizers use them, so that they agree on which letters form words.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Mapping
from itertools import chain
from pathlib import Path

from e2graphrag_integrations.languages.language import HAN, HANGUL, KANA, letters_of

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


_HAN = re.compile(f"[{HAN_LETTERS}]")


def has_han(text: str) -> bool:
    """Return whether a text contains a Chinese character."""
    return not text.isascii() and _HAN.search(text) is not None


def is_written_in_latin(text: str) -> bool:
    """Return whether no letter or mark of a text has rules of its own.

    Greek and Cyrillic have none.
    """
    return text.isascii() or _OTHER_SCRIPTS.search(text) is None


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

    A cluster is what a reader sees as one character, such as a letter with its accents. This is an
    approximation of Unicode's extended grapheme clusters (UAX #29) that needs no library.

    Adjacent flags are not divided from each other.

    >>> inner_offsets("e\u0301a")
    [1]
    """
    return [] if text.isascii() else [match.start() for match in _INNER.finditer(text)]


_TABLE = Path(__file__).with_name("simplified_characters.txt")


def simplified(text: str) -> str:
    """Return a text of the same length with simplified instead of traditional characters.

    Unlike OpenCC, which names need (`entities/chinese/extractor.py`), the table ignores the words
    that a character occurs in. It needs no dependency, and no offset changes.

    >>> simplified("劉備與諸葛亮")
    '刘备与诸葛亮'
    """
    return text if text.isascii() else text.translate(_table())


@functools.cache
def _table() -> Mapping[int, str]:
    _, traditional, simple = _TABLE.read_text(encoding="utf-8").splitlines()
    return dict(zip(map(ord, traditional), simple, strict=True))
