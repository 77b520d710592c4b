"""Quarters and halves of years have one name in every notation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations import E2GraphRAG, SourceDocument
from e2graphrag_integrations.text.codes import code_terms, question_codes
from e2graphrag_integrations.text.numbers.periods import find_periods, words_in_ranges

THIRD = (
    "Q3 2024; Q3/2024; 2024 Q3; 2024-Q3; 3Q24; 3Q 2024; Q3 '24; Q3 FY24; 3rd quarter 2024; "
    "the third quarter of 2024; third quarter of fiscal year 2024; 3. Quartal 2024; "
    "2024年第三季度; 2024年3季度; 2024年第3四半期; 2024년 3분기"
).split("; ")


@pytest.mark.parametrize("spelling", THIRD)
def test_a_quarter_is_found_in_each_notation(spelling):
    text = f"Sales in {spelling}: less."
    [found] = find_periods(text.lower())
    assert (found.name, found.year) == ("q3", "2024")
    [code] = question_codes("What fell in Q3 2024?")
    assert code.terms[0] in code_terms(text)


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("H1 2024", "h1"),
        ("second half of 2024", "h2"),
        ("2024年上半年", "h1"),
        ("2. Halbjahr 2024", "h2"),
    ],
)
def test_a_half_of_a_year_is_found(spelling, name):
    [found] = find_periods(f"in {spelling}, it".lower())
    assert (found.name, found.year) == (name, "2024")


def terms_found(question, text):
    [code] = question_codes(question)
    terms = set(code_terms(text))
    return [one for one in code.terms if one in terms]


def test_a_quarter_without_a_year_is_one_of_any_year():
    assert terms_found("What fell in Q2?", "in the second quarter of 2023")
    assert terms_found("What fell in Q2 2024?", "in the second quarter")
    assert not terms_found("What fell in Q2 2024?", "in the second quarter of 2023")
    assert not terms_found("What fell in Q2?", "in Q3")


def test_the_half_of_something_else_is_no_code_of_a_question():
    assert question_codes("What happens in the first half of the book?") == []
    assert terms_found("What fell in H1?", "in the first half of 2023")


@pytest.mark.parametrize(
    "text", ["h3 heading", "q5", "a quarter of them", "half of it", "seq1", "h2o", "b1h2", "四季"]
)
def test_other_words_are_no_periods(text):
    assert list(find_periods(text)) == []


@given(st.text(st.sampled_from("q1h2 of quarterhalf '年季度第三2024/-")))
def test_any_text_is_read(text):
    for one in find_periods(text):
        assert 0 <= one.start < one.end <= len(text)


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("KW 12", "calendar week 12"),
        ("CW12", "week 12"),
        ("2024-W12", "week 12 of 2024"),
        ("KW 12/2024", "calendar week 12 of 2024"),
        ("FY20", "fiscal year 2020"),
        ("FY 2020", "FY20"),
        ("financial year 2020", "fiscal 2020"),
        ("2020财年", "FY2020"),
    ],
)
def test_a_week_and_a_business_year_are_found_in_another_spelling(text, asked):
    for written, question in ((text, asked), (asked, text)):
        terms = {*code_terms(f"As of {written}, it rose.")}
        codes = question_codes(f"What happened in {question}?")
        assert any({*code.terms} & terms for code in codes), (written, question)


@pytest.mark.parametrize(
    "text", ["54 weeks", "week 60", "week 0", "week 3.5", "weekly 12", "fyi 20"]
)
def test_another_number_is_no_week(text):
    assert [*find_periods(text)] == []


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
        ("Between 1999 and 2001", "1999 2000 2001"),
        ("zwischen 1999 und 2001", "1999 2000 2001"),
        ("Mon, Wed and Fri", "monday wednesday friday"),
        ("Mo/Mi/Fr", "montag mittwoch freitag"),
        ("So, Di und Do", "sonntag dienstag donnerstag"),
        ("TUE & THU", "tuesday thursday"),
        ("Mon Wed Fri", "monday wednesday friday"),
        ("closed at weekends", "saturday sunday"),
        ("Open 9-5 weekdays", "monday tuesday wednesday thursday friday"),
        ("10:00 - 18:00 weekdays", "monday tuesday wednesday thursday friday"),
        ("from 6 weekdays", "monday tuesday wednesday thursday friday"),
        ("9 – 5 weekdays", "monday tuesday wednesday thursday friday"),
        ("7-9 werktags", "montag dienstag mittwoch donnerstag freitag"),
        ("Weekdays only", "monday tuesday wednesday thursday friday"),
        ("am Wochenende", "samstag sonntag"),
        ("周末", "周六 期六 周日 期日"),
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
            "in 1999 and 2001",
        ),
        *(
            "2014-03",
            "2014-2016-7",
            "tel. 2014-2016789",
            "Sat on",
            "Monday",
            "Tuesdays and Thursdays",
            "Ann, Fri",
            "Sun and Moon",
            "So do I",
            "Refunds take 5 weekdays",
            "for two weekends",
            "in 3-5 Werktagen",
            "nach drei Werktagen",
            "5个工作日内",
            "三个周末",
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


def test_hours_of_the_weekend_are_found_by_its_days_and_the_reverse():
    shops = {
        "bakery": "The bakery opens Mon-Fri 7-18.",
        "museum": "The museum opens Sat 10-17.",
        "kiosk": "The kiosk opens on weekdays from 6.",
        "pool": "The pool opens at the weekend from 9.",
    }
    with E2GraphRAG.open(":memory:", embedder="hashing") as rag:
        rag.add([SourceDocument(id_, text) for id_, text in shops.items()])
        weekend = rag.retrieve("Which museum opens on weekends?", k=1).nodes[0]
        sunday = rag.retrieve("When does the pool open on a Sunday?", k=1).nodes[0]
        tuesday = rag.retrieve("Is the kiosk open on Tuesday?", k=1).nodes[0]
    assert [one.document_id for one in (weekend, sunday, tuesday)] == ["museum", "pool", "kiosk"]
