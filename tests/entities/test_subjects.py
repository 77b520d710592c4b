from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.entities.subjects import defined_names, subject_candidates


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Rush is a Canadian rock band.", ["Rush"]),
        ("The 131st Bomb Wing is a unit of the Air National Guard.", ["131st Bomb Wing"]),
        ("Stoner rock or stoner metal is a genre.", ["Stoner rock", "stoner metal"]),
        ("Stamford, Connecticut is a city.", ["Stamford", "Stamford, Connecticut"]),
        (
            "Jeffrey Thomas Porcaro (April 1, 1954 – August 5, 1992) was a drummer.",
            ["Jeffrey Thomas Porcaro", "Jeffrey Porcaro", "Jeffrey Thomas"],
        ),
        (
            "Tameka “Tiny” Harris (née Cottle, born Tameka Pope; July 14, 1975) is a singer.",
            ["Tameka Harris", "Tiny Harris", "Tameka Tiny Harris", "Cottle", "Tameka Pope"],
        ),
        (
            "The Department of Land and Natural Resources (DLNR) is a part of the state.",
            ["Department of Land and Natural Resources", "DLNR"],
        ),
        (
            "Nina Agzarian (born 1984), better known by her stage name Nina Las Vegas, is a DJ.",
            ["Nina Agzarian", "Nina Las Vegas"],
        ),
    ],
)
def test_definition_gives_the_names_of_its_subject(text, names):
    assert defined_names(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "",
        "He was late.",
        "It is a truth universally acknowledged that a single man must be in want of a wife.",
        "however, it was late",
        "Alice met Bob. She was late.",
        "A long story of the many odd things that happened in the old town to us was read by all.",
        "No verb here",
        "Unclosed (parenthesis is here",
    ],
)
def test_other_sentences_define_nothing(text):
    assert defined_names(text) == []


def test_front_matter_is_no_subject():
    text = "---\nauthor: Ann Lund\n---\n\nRush is a Canadian rock band.\n"
    [rush] = subject_candidates(text)
    assert (rush.entity, text[rush.start :][:4]) == ("Rush", "Rush")


@given(st.text(alphabet='AbC isw()[]"“”,;. or', max_size=80))
def test_names_are_distinct_and_come_from_the_text(text):
    names = defined_names(text)
    assert len(set(names)) == len(names)
    words = {word.strip('()[]"“”,;. ') for word in text.split()}
    for name in names:
        assert name.strip()
        assert len(words) > 0
