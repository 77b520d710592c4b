"""How unusual the letters of a text are in an encoding, to choose among encodings.

Text in a wrong encoding has rare letters, symbols within words, and scripts that are mixed.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Mapping
from itertools import pairwise
from types import MappingProxyType

from e2graphrag_integrations.languages.detection import detect_language
from e2graphrag_integrations.languages.language import ENGLISH
from e2graphrag_integrations.text.letters import simplified

ENCODINGS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        name: frozenset(languages.split())
        for name, languages in {
            "cp1252": "en de fr es pt it nl sv da no nb nn fi is ca gl eu af id ms",
            "gb18030": "zh",
            "big5": "zh",
            "cp932": "ja",
            "euc_jp": "ja",
            "cp949": "ko",
            "cp1251": "ru uk be bg sr mk",
            "cp1250": "pl cs sk hu sl hr ro bs sq",
            "koi8_r": "ru",
            "cp866": "ru",
            "iso8859_2": "pl cs sk hu sl hr ro bs sq",
            "cp1253": "el",
            "cp1254": "tr az",
            "cp1255": "he yi",
            "cp1256": "ar fa ur",
            "cp1257": "lt lv et",
            "cp874": "th",
            "cp1258": "vi",
            "utf_16_le": "",
            "utf_16_be": "",
        }.items()
    }
)
"""Encodings that are considered, the most frequent first, and the languages that they are for."""

WIDE = ("utf_16_le", "utf_16_be")
"""Encodings with two bytes for every letter."""

_JAPANESE = frozenset({"cp932", "euc_jp"})
_TWO_BYTES = frozenset({"gb18030", "big5", "cp932", "euc_jp", "cp949"})

_COMMON_HAN = frozenset(
    "的年国在中一是人为大有日会上和月了于时个以不长出成行新比地发后分生来公全第主本高球部名这作下同到最业家增"
    "美开前动与经电多对场将之度市得加体世其现员方影数及学次也用能自运间网元北队区他期可斯万要位过法三进表至总文"
    "子入小等内面政布尔由合事海天特而界演产机民定军平京关西代报计者首量力外利目实选重车我都通务台被据当式工所并"
    "么举达道相此单金联线提二女们里两任东化就手但站点什情组理制安南因路你她那去说看自然张李王刘陈建造议记要见面"
)
"""The most frequent Chinese characters, simplified."""

_COMMON_HANGUL = frozenset(
    "이다는의에가을를은하고지로한기사도리인아어서나자시들대그해일전으상제부있장수보성주정과게요스만안라동원조여"
    "공구비교세관국무었면니경소했마위신야것연미치생내와우물러적된용계회행선방중화문분금번호김박최름록약울년월역법"
)
"""The most frequent Korean syllables."""

_COMMON_CYRILLIC = frozenset("оеаинтсрвлкмдпуі")

_RARE: Mapping[str, str] = MappingProxyType(
    {
        "cp1252": "ÝýÞþÐð",  # Icelandic, and far more often Turkish
        "cp1250": "ţŢ",
        "iso8859_2": "ţŢ",
        "cp1256": "پچژگڈٹںہھےکàâçèéêëîïôùûü",  # Persian, Urdu and French
    }
)
"""Letters that an encoding has for rare languages. In other texts, the encoding is wrong."""

_MARKS_IN_TEXT = frozenset(
    "’‘“”„‚«»‹›–—…•·§©®™°€£¥¿¡、。，；：！？（）《》〈〉「」『』【】・〜～￥№"
)
"""Punctuation and symbols that are usual in texts."""

_LANGUAGE_BONUS, _ENGLISH_BONUS = 0.2, 0.08
"""How much lower the cost is of a text in a language that the encoding is for. A short text in
Latin letters counts as English, which says little."""

_CONTROL_COST, _CONTROL_WEIGHT = 2.0, 10.0
"""Cost of a character that no text contains, and of the share of ASCII control characters."""

_INNER_MARK = re.compile(r"(?<=[^\W\d_])[^\w\s\x00-\x7f’·‐‑–—ּ](?=[^\W\d_])")
_INNER_MARK_COST = 0.8
"""Cost of a symbol between two letters, as in a word in the wrong encoding."""


def text_cost(text: str, encoding: str, chaos: float) -> float:
    """Return how unusual the letters of a text are, per letter that is not ASCII; 0 is best."""
    letters = text if encoding in WIDE else "".join(c for c in text if not c.isascii())
    if not letters:
        return 1.0
    total = sum(_letter_cost(letter, encoding) for letter in letters)
    total += sum(_joint_cost(first, second) for first, second in pairwise(text))
    if encoding not in _TWO_BYTES:
        total += _INNER_MARK_COST * sum(1 for _ in _INNER_MARK.finditer(text))
    controls = sum(text.count(chr(code)) for code in range(32) if chr(code) not in "\t\n\r")
    language = detect_language(text)
    bonus = _ENGLISH_BONUS if language == ENGLISH else _LANGUAGE_BONUS
    cost = total / len(letters) + _CONTROL_WEIGHT * controls / len(text) + chaos
    return cost - bonus * (language in ENCODINGS[encoding])


def _joint_cost(first: str, second: str) -> float:
    """Return the cost of two adjacent characters."""
    if first.isascii() and second.isascii():
        return 0.0
    if second.isupper() and first.isalpha():
        return 1.0 if first.islower() else 0.2  # as in Russian text in the wrong encoding
    return 0.5 * (_script(first) * _script(second) != 0 and _script(first) != _script(second))


@functools.lru_cache(maxsize=4096)
def _script(letter: str) -> int:
    """Return a number for the script of a letter: 0 for no letter."""
    if not letter.isalpha():
        return 0
    name = unicodedata.name(letter, "")
    scripts = ("LATIN", "CYRILLIC", "GREEK", "HEBREW", "ARABIC", "THAI", "HANGUL")
    return next((n for n, script in enumerate(scripts, 1) if name.startswith(script)), 0)


@functools.lru_cache(maxsize=16384)
def _letter_cost(letter: str, encoding: str) -> float:
    """Return how unusual a letter is in texts of an encoding: 0 to 1, or more for controls."""
    if letter.isascii():
        return 0.0
    if letter in _MARKS_IN_TEXT:
        return 0.02
    category = unicodedata.category(letter)
    if category in {"Cc", "Cn", "Co", "Cs"}:
        return _CONTROL_COST
    if category[0] in "SN" or letter in "ªºˇ":
        return 0.5
    script = unicodedata.name(letter, "").partition(" ")[0]
    if category == "Mn":
        return 0.3
    return _SCRIPT_COSTS.get(script, _other_cost)(letter, encoding)


def _other_cost(letter: str, encoding: str) -> float:
    if letter in _RARE.get(encoding, ""):
        return 0.4
    is_wide = unicodedata.east_asian_width(letter) == "F" or not letter.isalpha()
    return 0.6 if encoding in _TWO_BYTES and not is_wide else 0.05


def _han_cost(letter: str, encoding: str) -> float:
    if encoding == "cp949":
        return 0.8
    if simplified(letter) in _COMMON_HAN:
        return 0.05
    if encoding in _JAPANESE:
        return 0.1 if _is_in(letter, "euc_jp", 0xD0) else 0.8
    levels = {"gb18030": [("gb2312", 0xD8)], "big5": [("big5", 0xC7)]}
    usual = levels.get(encoding) or [("gb2312", 0xD8), ("big5", 0xC7), ("euc_jp", 0xD0)]
    return 0.2 if any(_is_in(letter, *one) for one in usual) else 0.8


def _kana_cost(_letter: str, encoding: str) -> float:
    return 0.05 if encoding in {*_JAPANESE, *WIDE} else 0.7


def _hangul_cost(letter: str, encoding: str) -> float:
    if encoding not in {"cp949", *WIDE}:
        return 0.9
    if not "가" <= letter <= "힣":
        return 0.6
    return 0.05 if letter in _COMMON_HANGUL else 0.3 if _is_in(letter, "euc_kr", 0xFF) else 0.7


def _cyrillic_cost(letter: str, encoding: str) -> float:
    if encoding in _TWO_BYTES:
        return 0.6
    return 0.02 if letter.lower() in _COMMON_CYRILLIC else 0.2


_SCRIPT_COSTS: Mapping[str, Callable[[str, str], float]] = MappingProxyType(
    {
        "CJK": _han_cost,
        "HIRAGANA": _kana_cost,
        "KATAKANA": _kana_cost,
        "HANGUL": _hangul_cost,
        "CYRILLIC": _cyrillic_cost,
        "THAI": lambda *_: 0.25,  # every byte can be one
        "HEBREW": lambda *_: 0.02,  # rather than Greek without accents
    }
)
"""The costs of letters, by the first word of their names."""


def _is_in(letter: str, encoding: str, end: int) -> bool:
    """Return whether a letter is in the first rows of a character set, the frequent ones."""
    try:
        return letter.encode(encoding)[0] < end
    except UnicodeEncodeError:
        return False
