"""Names written almost alike, against comparing all of them one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz import fuzz, process

from e2graphrag_integrations.entities.fuzzy import FuzzyNames

# "!" and "a" share a bit, as "é" and "i" do.
words = st.text("aab!cdéi贾宝玉", min_size=1, max_size=7)
forms = st.lists(words, min_size=1, max_size=3).map(" ".join)


def one_by_one(names, form):
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
def test_it_finds_what_comparing_all_would_find(names, form):
    assert FuzzyNames(names).most_similar(form) == one_by_one(names, form)


@given(
    st.lists(forms.filter(lambda name: len(name) > 8), min_size=1, max_size=30, unique=True),
    st.data(),
)
def test_a_letter_too_many_is_found_as_comparing_all_would_find_it(names, data):
    name = data.draw(st.sampled_from(names))
    at = data.draw(st.integers(1, len(name) - 1))
    form = name[:at] + data.draw(st.sampled_from("abc贾")) + name[at:]
    assert FuzzyNames(names).most_similar(form) == one_by_one(names, form)


def test_a_name_is_compared_by_any_of_its_words():
    spellings = FuzzyNames(["fitzwilliam darcy", "darcy fitzgerald"])
    assert [name for name, _ in spellings.most_similar("darcy fitzwiliam")] == ["fitzwilliam darcy"]
    assert spellings.most_similar("zarcy fitzwilliam") == []


def test_the_five_most_alike_are_returned_best_first():
    names = [f"katherine{end}" for end in "abcdefg"]
    found = FuzzyNames(names).most_similar("katherineg")
    assert len(found) == 5
    assert found[0] == ("katherineg", 1.0)
    assert [score for _, score in found] == sorted((s for _, s in found), reverse=True)


def test_lone_surrogates_are_letters_as_others():
    assert FuzzyNames(["katherine\ud800"]).most_similar("katherine\ud800") == [
        ("katherine\ud800", 1.0)
    ]
