"""The script of each character comes from its Unicode block."""

from __future__ import annotations

import unicodedata
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.languages.language import (
    LANGUAGES,
    checked_code,
    count_scripts,
    describe_language,
    find_code,
    script_of,
)
from strategies import examples

NAMES = {
    "LATIN ": "Latn",
    "CYRILLIC ": "Cyrl",
    "GREEK ": "Grek",
    "ARABIC LETTER": "Arab",
    "HEBREW LETTER": "Hebr",
    "DEVANAGARI ": "Deva",
    "THAI CHARACTER": "Thai",
    "HANGUL ": "Hang",
    "HIRAGANA LETTER": "Kana",
    "KATAKANA LETTER": "Kana",
    "CJK UNIFIED": "Hani",
    "CJK COMPATIBILITY IDEOGRAPH": "Hani",
    "BENGALI LETTER": "Beng",
    "TAMIL LETTER": "Taml",
    "KHMER LETTER": "Khmr",
    "MYANMAR LETTER": "Mymr",
    "LAO LETTER": "Laoo",
    "GEORGIAN ": "Geor",
    "ARMENIAN ": "Armn",
    "ETHIOPIC SYLLABLE": "Ethi",
}
"""Starts of the Unicode names of letters, and their scripts."""


@pytest.fixture(scope="module")
def letter_names():
    """The Unicode names of all letters."""
    letters = filter(str.isalpha, map(chr, [*range(0x3134F), *range(0xFF00, 0xFFF0)]))
    return [(letter, unicodedata.name(letter, "")) for letter in letters]


@pytest.mark.parametrize("start", NAMES)
def test_letters_have_the_script_of_their_unicode_name(start, letter_names):
    letters = [letter for letter, name in letter_names if name.startswith(start)]
    found = Counter(map(script_of, letters))
    assert found[NAMES[start]] > 0.8 * len(letters)  # without phonetic letters and symbols
    assert found[NAMES[start]] + found[""] > 0.95 * len(letters)


@given(st.text())
@examples(60)
def test_each_letter_is_counted_once(text):
    counts = count_scripts(text)
    assert sum(counts.values()) == sum(script_of(character) != "" for character in text)
    assert list(counts.values()) == sorted(counts.values(), reverse=True)


def test_digits_marks_of_punctuation_and_emoji_have_no_script():
    assert count_scripts("1984 。、！？ \U0001f600 ١٢ % \n") == {}


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ("zh", "zh"),
        ("zh-CN", "zh"),
        ("zh-Hant-TW", "zh"),
        ("ZH_tw", "zh"),
        ("cmn", "zh"),
        ("en_US.UTF-8", "en"),
        ("ca_ES@valencia", "ca"),
        (" de ", "de"),
        ("ger", "de"),
        ("deu_Latn", "de"),
        ("und", "und"),
    ],
)
def test_codes_and_locales_name_a_language(given, code):
    assert find_code(given) == code


@pytest.mark.parametrize(
    "given",
    ["No language found.", "", " ", "xx", "english", "e", "en-", "1", "zh/en", None, 3, ["en"]],
)
def test_other_values_name_none(given):
    assert find_code(given) is None
    with pytest.raises(InvalidInputError, match="is not the code of a language"):
        checked_code(given)


def test_the_table_is_complete_and_consistent():
    assert len(LANGUAGES) == 183
    long_codes = [code for one in LANGUAGES.values() for code in one.long_codes]
    assert len(long_codes) == len(set(long_codes))
    assert all(len(code) == 2 and one.scripts for code, one in LANGUAGES.items())
    assert {len(code) for code in long_codes} == {3}
    assert describe_language("de") == "German (de)"
