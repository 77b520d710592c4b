"""A name ends with a line of its own, and goes on in wrapped prose."""

from __future__ import annotations

from itertools import pairwise

import pytest

from e2graphrag_integrations.text.layout.lines import name_ends


def pieces(text):
    """Return the parts of a text between the ends of names."""
    ends = name_ends(text)
    places = [0, *(end + 1 for end in ends), len(text) + 1]
    parts = [text[a : b - 1].strip() for a, b in pairwise(places)]
    return [" ".join(part.split()) for part in parts if part]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Elsa Grimm\nEdith Orth", ["Elsa Grimm", "Edith Orth"]),
        ("Guests:\nElsa Grimm\nThey came.", ["Guests:", "Elsa Grimm They came."]),
        ("anna krog\npeter moe\nida lund", ["anna krog", "peter moe", "ida lund"]),
        (
            "Anna Krog\nHarbor Street 5\n5003 Bergen",
            ["Anna Krog", "Harbor Street 5", "5003 Bergen"],
        ),
        ("We met\n- Anna Krog and\n- Ida", ["We met", "- Anna Krog and", "- Ida"]),
        ("Name: Anna Krog\nCity: Bergen", ["Name: Anna Krog", "City: Bergen"]),
        ("a,b\nAnna,1\nIda,2", ["a", "b", "Anna", "1", "Ida", "2"]),
    ],
)
def test_lines_of_their_own_end_names(text, expected):
    assert pieces(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "The letter that the postman brought was from Anna\nKrog of the old town that nobody knew.",
        "He saw Anna\nKrog in the harbor.",
        "one line only",
    ],
)
def test_wrapped_prose_goes_on(text):
    assert name_ends(text) == []
