"""Fuzzy search for names finds the same names as comparing with all of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz import fuzz, process

from e2graphrag_integrations.entities.matching.name_keys import NameCodes
from e2graphrag_integrations.entities.matching.similar_names import FuzzyNames

# "!" and "a" share a bit of the filter; so do "é" and "i".
words = st.text("aab!cdéi贾宝玉", min_size=1, max_size=7)
forms = st.lists(words, min_size=1, max_size=3).map(" ".join)


def most_similar(names, form):
    return FuzzyNames(NameCodes.of(names)).most_similar(form)


def compare_with_all(names, form):
    if len(form) < 5:
        return []
    compared = [
        name
        for name in names
        if len(name) >= 5 and form[0] in {word[0] for word in name.split(" ")}
    ]
    found = process.extract(
        form, compared, scorer=fuzz.token_sort_ratio, score_cutoff=88.0, limit=5
    )
    return [(name, score / 100) for name, score, _ in found]


@given(st.lists(forms, max_size=30, unique=True), forms)
def test_result_equals_comparing_with_all_names(names, form):
    assert most_similar(names, form) == compare_with_all(names, form)


@given(
    st.lists(forms.filter(lambda name: len(name) > 8), min_size=1, max_size=30, unique=True),
    st.data(),
)
def test_result_for_an_extra_letter_equals_comparing_with_all_names(names, data):
    name = data.draw(st.sampled_from(names))
    position = data.draw(st.integers(1, len(name) - 1))
    form = name[:position] + data.draw(st.sampled_from("abc贾")) + name[position:]
    assert most_similar(names, form) == compare_with_all(names, form)


def test_name_is_a_candidate_by_any_of_its_words():
    names = ["fitzwilliam darcy", "darcy fitzgerald"]
    assert [name for name, _ in most_similar(names, "darcy fitzwiliam")] == ["fitzwilliam darcy"]
    assert most_similar(names, "zarcy fitzwilliam") == []


def test_five_most_similar_names_are_returned_best_first():
    names = [f"katherine{end}" for end in "abcdefg"]
    found = most_similar(names, "katherineg")
    assert len(found) == 5
    assert found[0] == ("katherineg", 1.0)
    assert [score for _, score in found] == sorted((s for _, s in found), reverse=True)


def test_names_with_line_ends_are_compared_as_a_whole():
    names = ["katherine\nkatherine", "anna"]
    assert most_similar(names, "katherine\nkatherin")[0][0] == names[0]
    assert most_similar(names, "katherine") == []


def test_lone_surrogates_are_ordinary_letters():
    assert most_similar(["katherine\ud800"], "katherine\ud800") == [("katherine\ud800", 1.0)]
