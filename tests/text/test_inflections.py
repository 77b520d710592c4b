"""The inflected forms of English words."""

from __future__ import annotations

import pytest

from e2graphrag_integrations.text.inflections import inflections


@pytest.mark.parametrize(
    ("word", "form"),
    [
        ("die", "died"),
        ("monday", "mon"),
        ("thurs", "thursday"),
        ("died", "die"),
        ("dies", "died"),
        ("meeting", "meetings"),
        ("meetings", "meeting"),
        ("study", "studies"),
        ("studied", "study"),
        ("stop", "stopped"),
        ("stopped", "stop"),
        ("hope", "hoping"),
        ("hoping", "hoped"),
        ("box", "boxes"),
        ("boxes", "box"),
        ("play", "played"),
        ("give", "gave"),
        ("gave", "gives"),
        ("gave", "giving"),
        ("children", "child"),
        ("wives", "wife"),
    ],
)
def test_forms_of_a_word_include(word, form):
    assert form in inflections(word)


@pytest.mark.parametrize("word", ["is", "of", "2.10", "été", "赤壁", "", "a1b2"])
def test_short_words_codes_and_other_scripts_have_no_forms(word):
    assert inflections(word) == ()


@pytest.mark.parametrize("word", ["need", "bus", "glass", "king", "this"])
def test_a_word_that_only_looks_like_a_form_is_its_own_base(word):
    assert all(form.startswith(word[:-1]) for form in inflections(word))


def test_a_word_is_not_a_form_of_itself_and_forms_are_distinct():
    for word in ("stopped", "meeting", "found", "lay", "wound", "houses"):
        forms = inflections(word)
        assert word not in forms
        assert len(set(forms)) == len(forms)


def test_an_abbreviation_and_its_word_find_each_other():
    assert "st" in inflections("street")
    assert "street" in inflections("st")
    assert {"min", "mins"} <= {*inflections("minutes")}
    assert "september" in inflections("sept")
