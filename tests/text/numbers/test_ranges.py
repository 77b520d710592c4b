"""A range of days, months or years is found by one within it."""

from __future__ import annotations

import pytest

from e2graphrag_integrations import E2GraphRAG, SourceDocument
from e2graphrag_integrations.text.numbers.periods import words_in_ranges


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Mon-Fri 9-17", "monday tuesday wednesday thursday friday"),
        ("Monday to Wednesday", "monday tuesday wednesday"),
        ("Fri. – Mon.", "friday saturday sunday monday"),
        ("MON-TUE", "monday tuesday"),
        ("Mo–Mi", "montag dienstag mittwoch"),
        ("Montag bis Mittwoch", "montag dienstag mittwoch"),
        ("周一至周三", "周一 期一 周二 期二 周三 期三"),
        ("星期六到星期天", "周六 期六 周日 期日"),
        ("April–June", "april may june"),
        ("from Nov to Jan", "november december january"),
        ("Tue, 5 Mar 2024", "tuesday"),
        ("Sat. 9:00", "saturday"),
        ("2014-2016", "2014 2015 2016"),
        ("2014–16", "2014 2015 2016"),
        ("between 1999 to 2001", "1999 2000 2001"),
    ],
)
def test_a_range_has_what_lies_within_it(text, words):
    assert [*dict.fromkeys(words_in_ranges(text))] == words.split()


@pytest.mark.parametrize(
    "text",
    [
        *(
            "The cat sat on 2 mats",
            "She sat 3 hours",
            "He may to this day",
            "1914-2014",
            "2016-2014",
        ),
        *(
            "2014-03",
            "2014-2016-7",
            "tel. 2014-2016789",
            "Sat on",
            "Monday",
            "Mond-Frau",
            "fri-end",
        ),
    ],
)
def test_other_words_and_numbers_are_no_range(text):
    assert [*words_in_ranges(text)] == []


def test_opening_hours_are_found_by_a_day_that_they_do_not_name():
    shops = {
        "bakery": "The bakery opens Mon-Fri 7-18.",
        "museum": "The museum opens Sat and Sun 10-17.",
        "market": "The market opens Fri-Sun 8-13.",
    }
    with E2GraphRAG.open(":memory:", embedder="hashing") as rag:
        rag.add([SourceDocument(id_, text) for id_, text in shops.items()])
        for day, shop in (("Wednesday", "bakery"), ("Thursday", "bakery")):
            assert rag.retrieve(f"What is open on {day}?", k=1).nodes[0].document_id == shop
