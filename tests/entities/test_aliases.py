"""Other ways to write a name, against what a reader would take it for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.entities.aliases import Alias, Aliases


def aliases(held, named=None):
    """Return the aliases of names that so many chunks hold."""
    marks = [True] * len(held) if named is None else named
    return Aliases(list(held), np.asarray(marks), np.asarray(list(held.values()), dtype=np.int64))


def found(form, *names):
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
    ],
)
def test_surnames_initials_and_what_is_before_a_colon_are_aliases(form, name):
    assert found(form, "zuleika dobson", name) == Alias(name, "alias", 1.0)


@pytest.mark.parametrize(
    ("form", "name"),
    [
        ("states", "the most united of states"),  # of five words
        ("11", "apollo 11"),
        ("the", "hail the"),
        ("a", "apollo 11"),
        ("a1", "apollo 11"),
        ("e", "elizabeth"),
        ("two", "two"),
        ("elizabeth", "elizabeth bennet"),
        ("", ": part two"),
    ],
)
def test_numbers_joiners_single_words_and_the_ends_of_long_names_are_none(form, name):
    assert found(form, name) is None


def test_of_several_bearers_the_commonest_is_meant_as_surely_as_its_share_of_chunks():
    held = {"jane bennet": 2, "elizabeth bennet": 5, "mary bennet": 1}
    assert aliases(held).find("bennet") == Alias("elizabeth bennet", "alias", 0.625)


def test_of_equally_common_bearers_the_earlier_is_meant():
    assert aliases({"b bennet": 3, "a bennet": 3}).find("bennet") == Alias("b bennet", "alias", 0.5)


def test_bearers_that_no_chunk_holds_share_alike():
    held = {"a bennet": 0, "b bennet": 0, "c bennet": 0}
    assert aliases(held).find("bennet") == Alias("a bennet", "alias", 0.3333)


def test_a_common_noun_is_found_under_no_other_name():
    held = {"market town": 9, "eva town": 1, "butterflies": 5}
    made = aliases(held, [False, True, False])
    assert made.find("town") == Alias("eva town", "alias", 1.0)
    assert made.find("mt") is None
    assert made.find("butterflys") is None


def test_one_wrong_letter_in_nine_is_a_misspelling_and_in_eight_another_name():
    # A wrong letter is one too many and one missing: 1 - 2 / 18.
    assert found("katherinx", "katherine") == Alias("katherine", "similar", 0.8889)
    assert found("katerinx", "katerine") is None


def test_a_missing_letter_and_another_order_of_words_are_misspellings():
    assert found("fitzwiliam darcy", "fitzwilliam darcy") == Alias(
        "fitzwilliam darcy", "similar", 0.9697
    )
    assert found("darcy fitzwilliam", "fitzwilliam darcy") == Alias(
        "fitzwilliam darcy", "similar", 1.0
    )


def test_names_and_forms_of_less_than_five_letters_are_never_misspelled():
    assert found("aa acd", "acd aa") == Alias("acd aa", "similar", 1.0)
    assert found("a ac", "ac a") is None
    assert found("berta", "bert") is None  # 1 - 1 / 9 alike
    assert found("bert", "berta") is None


def test_the_most_similar_spelling_is_taken_whatever_its_order():
    for names in (["katherines", "katherine"], ["katherine", "katherines"]):
        assert found("katherin", *names).entity == "katherine"


def test_an_alias_wins_over_a_similar_spelling():
    assert found("katherine", "katherina", "anna katherine").how == "alias"
    assert found("katherine", "katherina").how == "similar"


def test_what_nobody_is_called_is_nobody():
    assert found("zeus", "elizabeth bennet", "apollo 11") is None
    assert found("zeus") is None


words = st.sampled_from(["anna", "bert", "cleo", "of", "the", "r2", "anna-lena", "j.r."])


@st.composite
def names(draw):
    parts = draw(st.lists(st.lists(words, min_size=1, max_size=5), min_size=1, max_size=6))
    held = {" ".join(part): draw(st.integers(0, 4)) for part in parts}
    return held, [draw(st.booleans()) for _ in held]


def expected_bearers(form, held, marks):
    """Return the names with this last word or these initials, by their rules."""
    bearers = []
    for name, marked in zip(held, marks, strict=True):
        parts = [word.replace(".", "") for word in name.split()]
        surname = parts[-1] if 2 <= len(parts) <= 4 and parts[-1].isalpha() else ""
        heavy = [word for word in parts if word not in {"of", "the"}]
        initials = "".join(word[0] for word in heavy) if len(heavy) > 1 else ""
        if marked and form in {surname if surname not in {"of", "the"} else "", initials} - {""}:
            bearers.append(name)
    return bearers


@given(names(), st.sampled_from(["anna", "bert", "the", "jr", "r2", "ab", "abc", "a.b.", "cr"]))
def test_the_commonest_of_all_bearers_is_found(drawn, form):
    held, marks = drawn
    bearers = expected_bearers(form.replace(".", ""), held, marks)
    hit = aliases(held, marks).find(form)
    if not bearers:
        assert hit is None  # of at most four letters: too short for a misspelling
        return
    most = max(held[name] for name in bearers)
    total = sum(held[name] for name in bearers)
    assert hit.entity == next(name for name in bearers if held[name] == most)
    assert hit.score == pytest.approx(most / total if total else 1 / len(bearers), abs=1e-4)


@given(names(), st.lists(words, min_size=1, max_size=5).map(" ".join))
def test_only_names_are_found_and_their_scores_are_shares(drawn, form):
    held, marks = drawn
    hit = aliases(held, marks).find(form)
    if hit is not None:
        assert dict(zip(held, marks, strict=True))[hit.entity]
        assert 0 < hit.score <= 1
