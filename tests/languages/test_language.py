"""Codes of languages, as users, frameworks and locales write them."""

from __future__ import annotations

import pytest

from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.languages.language import (
    LANGUAGES,
    checked_code,
    describe_language,
    find_code,
)


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
