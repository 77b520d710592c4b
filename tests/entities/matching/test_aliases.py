"""Aliases of names: surnames, initials, short titles and misspellings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from e2graphrag_integrations.entities.matching.aliases import Alias, Aliases, Tie


def aliases(doc_freq, named=None):
    """Return the aliases of names with their numbers of chunks."""
    is_name = [True] * len(doc_freq) if named is None else named
    return Aliases(
        list(doc_freq), np.asarray(is_name), np.asarray(list(doc_freq.values()), dtype=np.int64)
    )


def find_alias(form, *names):
    return aliases(dict.fromkeys(names, 1)).find(form)


@pytest.mark.parametrize(
    ("form", "name"),
    [
        ("bennet", "elizabeth bennet"),
        ("tolkien", "j.r.r. tolkien"),
        ("beethoven", "ludwig van beethoven"),
        ("guin", "ursula k. le guin"),
        ("inc", "acme inc."),
        ("un", "united nations"),
        ("u.n.", "united nations"),
        ("boe", "bank & office of the empire"),
        ("jrrt", "j. r. r. tolkien"),
        ("dune", "dune: part two"),
        ("ночной дозор", "ночной дозор: пролог"),
        ("गांधी", "महात्मा गांधी"),  # vowel signs are no letters for str.isalpha()
        ("محفوظ", "نجيب محفوظ"),
    ],
)
def test_surnames_initials_and_titles_before_a_colon_are_aliases(form, name):
    assert find_alias(form, "zuleika dobson", name) == Alias(name, "alias", 1.0)


@pytest.mark.parametrize(
    ("form", "name"),
    [
        ("states", "the most united of states"),  # a name of five words
        ("11", "apollo 11"),
        ("the", "hail the"),
        ("a", "apollo 11"),
        ("a1", "apollo 11"),
        ("e", "elizabeth"),
        ("two", "two"),
        ("apollo", "apollo 11"),
        ("saint", "saint george"),
        ("نم", "نجيب محفوظ"),  # scripts without capitals have no initials
        ("", ": part two"),
    ],
)
def test_numbers_joiners_titles_single_words_and_ends_of_long_names_are_not_aliases(form, name):
    assert find_alias(form, name) is None


@pytest.mark.parametrize("form", ["elizabeth", "e. bennet", "e.bennet", "EBennet".lower()])
def test_a_first_name_or_initial_means_a_name_only_if_no_other_has_it(form):
    assert find_alias(form, "elizabeth bennet", "jane bennet").entity == "elizabeth bennet"
    tied = aliases({"elizabeth bennet": 2, "elizabeth b. bennet": 3, "jane bennet": 9})
    assert tied.find(form) == Tie(("elizabeth b. bennet", "elizabeth bennet"))


@pytest.mark.parametrize(
    ("form", "name"),
    [
        ("green-porcelain", "green porcelain"),
        ("greenporcelain", "green porcelain"),
        ("ohara", "o'hara"),
        ("jrr tolkien", "j. r. r. tolkien"),
        ("hamres", "hamre"),
        ("the joneses", "jones"),
        ("bennets", "elizabeth bennet"),
    ],
)
def test_separators_and_plurals_do_not_matter(form, name):
    found = find_alias(form.removeprefix("the "), "zuleika dobson", name)
    assert (found.entity, found.how) == (name, "similar")


def test_of_names_with_equal_letters_the_most_similar_one_is_meant():
    doc_freq = {"green porcelain": 9, "green-porcelain": 1, "gr een porcelain": 9}
    found = aliases(doc_freq).find("green-porcelains")
    assert (found.entity, found.others) == (
        "green-porcelain",
        ("green porcelain", "gr een porcelain"),
    )


def test_names_with_equally_many_typos_are_a_tie():
    names = {"louis vane": 1, "louise vane": 4, "louis crane": 9}
    assert aliases(names).find("louisa vane") == Tie(("louise vane", "louis vane"))
    assert aliases(names).find("loui vane").entity == "louis vane"
    assert aliases(names).find("louisa vane", {"louise vane"}).entity == "louis vane"


def test_ambiguous_alias_means_the_most_frequent_name_with_its_share_as_score():
    doc_freq = {"jane bennet": 2, "elizabeth bennet": 5, "mary bennet": 1}
    assert aliases(doc_freq).find("bennet") == Alias(
        "elizabeth bennet", "alias", 0.625, ("jane bennet", "mary bennet")
    )


def test_ambiguous_alias_of_equally_frequent_names_means_the_first():
    assert aliases({"b bennet": 3, "a bennet": 3}).find("bennet") == Alias(
        "b bennet", "alias", 0.5, ("a bennet",)
    )


def test_names_without_chunks_have_equal_shares():
    doc_freq = {"a bennet": 0, "b bennet": 0, "c bennet": 0}
    assert aliases(doc_freq).find("bennet") == Alias(
        "a bennet", "alias", 0.3333, ("b bennet", "c bennet")
    )


def test_common_nouns_have_no_aliases():
    doc_freq = {"market town": 9, "eva town": 1, "butterflies": 5}
    all_aliases = aliases(doc_freq, [False, True, False])
    assert all_aliases.find("town") == Alias("eva town", "alias", 1.0)
    assert all_aliases.find("mt") is None
    assert all_aliases.find("butterflys") is None


def test_one_wrong_letter_in_nine_is_a_misspelling_but_in_eight_a_different_name():
    # A wrong letter is an insertion and a deletion: 1 - 2 / 18.
    assert find_alias("katherinx", "katherine") == Alias("katherine", "similar", 0.8889)
    assert find_alias("katerinx", "katerine") is None


def test_missing_letter_and_swapped_words_are_misspellings():
    assert find_alias("fitzwiliam darcy", "fitzwilliam darcy") == Alias(
        "fitzwilliam darcy", "similar", 0.9697
    )
    assert find_alias("darcy fitzwilliam", "fitzwilliam darcy") == Alias(
        "fitzwilliam darcy", "similar", 1.0
    )


def test_names_and_forms_below_five_letters_are_never_misspellings():
    assert find_alias("aa acd", "acd aa") == Alias("acd aa", "similar", 1.0)
    assert find_alias("a ac", "ac a") is None
    assert find_alias("berta", "bert") is None  # similarity 1 - 1 / 9
    assert find_alias("bert", "berta") is None


def test_most_similar_spelling_wins_in_any_order():
    for names in (["katherines", "katherine"], ["katherine", "katherines"]):
        assert find_alias("katherin", *names).entity == "katherine"


def test_alias_takes_precedence_over_a_similar_spelling():
    assert find_alias("katherine", "katherina", "anna katherine").how == "alias"
    assert find_alias("katherine", "katherina").how == "similar"


def test_unknown_form_has_no_alias():
    assert find_alias("zeus", "elizabeth bennet", "apollo 11") is None
    assert find_alias("zeus") is None


words = st.sampled_from(["anna", "bert", "cleo", "of", "the", "r2", "anna-lena", "j.r."])


@st.composite
def names(draw):
    parts = draw(st.lists(st.lists(words, min_size=1, max_size=5), min_size=1, max_size=6))
    doc_freq = {" ".join(part): draw(st.integers(0, 4)) for part in parts}
    return doc_freq, [draw(st.booleans()) for _ in doc_freq]


def expected_matches(form, doc_freq, is_name):
    """Return the names whose last word or initials equal the form, by the definition."""
    matches = []
    for name, is_candidate in zip(doc_freq, is_name, strict=True):
        parts = [word.replace(".", "") for word in name.split()]
        surname = parts[-1] if 2 <= len(parts) <= 4 and parts[-1].isalpha() else ""
        heavy = [word for word in parts if word not in {"of", "the"}]
        initials = "".join(word[0] for word in heavy) if len(heavy) > 1 else ""
        if is_candidate and form in {surname if surname not in {"of", "the"} else "", initials} - {
            ""
        }:
            matches.append(name)
    return matches


@given(names(), st.sampled_from(["anna", "bert", "the", "jr", "r2", "ab", "abc", "a.b.", "cr"]))
def test_most_frequent_of_all_matching_names_is_found(drawn, form):
    doc_freq, is_name = drawn
    plain = form.replace(".", "")
    # "jr" means a name "j.r." rather than those that end with it.
    assume(all(name == form or name.replace(".", "") != plain for name in doc_freq))
    matches = expected_matches(plain, doc_freq, is_name)
    hit = aliases(doc_freq, is_name).find(form)
    if not matches:
        parts = {name for name in doc_freq if form == name.split(" ")[0].replace(".", "")}
        assert hit is None or set(hit.entities if isinstance(hit, Tie) else [hit.entity]) <= parts
        return
    most = max(doc_freq[name] for name in matches)
    total = sum(doc_freq[name] for name in matches)
    assert hit.entity == next(name for name in matches if doc_freq[name] == most)
    assert hit.score == pytest.approx(most / total if total else 1 / len(matches), abs=1e-4)


@given(names(), st.lists(words, min_size=1, max_size=5).map(" ".join))
def test_only_names_are_found_with_scores_up_to_one(drawn, form):
    doc_freq, is_name = drawn
    hit = aliases(doc_freq, is_name).find(form)
    if isinstance(hit, Tie):
        assert len(hit.entities) > 1
    elif hit is not None:
        assert dict(zip(doc_freq, is_name, strict=True))[hit.entity]
        assert 0 < hit.score <= 1


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("natásha rostóva", "natasha rostova"),
        ("natásha rostóva", "rostova"),
        ("charlotte brontë", "bronte"),
        ("bronte", "brontë"),
    ],
)
def test_a_name_is_found_with_and_without_marks(name, form):
    assert aliases({name: 1}).find(form).entity == name
