"""Dates of several languages have one form, and impossible ones have none."""

from __future__ import annotations

import pytest

from e2graphrag_integrations.text.codes import code_terms, question_codes
from e2graphrag_integrations.text.numbers.dates import (
    find_dates,
    find_days,
    find_han_days,
    find_short_dates,
)


@pytest.mark.parametrize(
    "text",
    [
        "2024-03-05",
        "2024/3/5",
        "2024.03.05",
        "5 March 2024",
        "5th of March, 2024",
        "Mar. 5, 2024",
        "MARCH 5TH 2024",
        "5. März 2024",
        "05.03.2024",
        "5 mars 2024",
        "5 de marzo de 2024",
        "5 marzo 2024",
        "5 maart 2024",
        "5 марта 2024",
        "2024年3月5日",
        "2024년 3월 5일",
        "2024-03-05T10:30:00Z",
        "二〇二四年三月五日",
        "20240305",
        "20240305T103000",
        "05-Mar-2024",
    ],
)
def test_a_date_is_found(text):
    before = "On that day, x: "
    [date] = find_dates(f"{before}{text} and more")
    assert date.forms == ("2024-03-05",)
    assert date.start == len(before)
    assert f"{before}{text} and more"[date.start : date.end] in text


def test_a_month_is_a_date_without_a_day():
    assert [one.forms for one in find_dates("March 2024; 2024年3月; 2024-03; 03/2024")] == [
        ("2024-03",)
    ] * 4


def test_a_date_that_may_mean_two_days_has_two_forms():
    [date] = find_dates("03/05/2024")
    assert date.forms == ("2024-05-03", "2024-03-05")
    [clear] = find_dates("25/03/2024")
    assert clear.forms == ("2024-03-25",)


@pytest.mark.parametrize(
    "text",
    [
        "2024-13-05",
        "31 February 2024",
        "version 1.2.2024.7",
        "12024-03-05",
        "1984",
        "5 May",
        "20241301",
        "120240305",
        "13/2024",
    ],
)
def test_other_numbers_are_no_dates(text):
    assert list(find_dates(text)) == []


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("九月六日", "--09-06"),
        ("9月6号", "--09-06"),
        ("9월 6일", "--09-06"),
        ("十二月二十八日", "--12-28"),
        ("2024年9月6日", "--09-06"),
        ("九月份", "--09"),
    ],
)
def test_a_day_without_a_year_is_found_in_east_asian_languages(text, form):
    [day] = find_han_days(f"在{text}见面")
    assert day.forms == (form,)


@pytest.mark.parametrize("text", ["三个月", "三月后", "13月", "2月30日", "岁月"])
def test_other_characters_are_no_days(text):
    assert list(find_han_days(f"在{text}见面")) == []


DAYS = "March 3; 3 March; Mar. 3rd; the 3rd of March; 3. März; 3 de marzo; march the 3rd".split(
    "; "
)


@pytest.mark.fast_cases(20)
@pytest.mark.parametrize("asked", DAYS)
@pytest.mark.parametrize("written", [*DAYS, "March 3, 2024"])
def test_a_day_without_its_year_is_found_in_each_notation(asked, written):
    [code] = question_codes(f"Which fair is on {asked}?")
    assert code.terms == ("#--03-03",)
    assert "#--03-03" in code_terms(f"The book fair is on {written}.")


@pytest.mark.parametrize(
    "text", ["March 33", "in March", "May 5.5", "3 mares", "march 3:10", "8.3 mar"]
)
def test_other_numbers_are_no_days(text):
    assert list(find_days(text.lower())) == []


@pytest.mark.parametrize("text", ["APRİL 5, 2024", "5 aprıl 2024", "5 APRIL 2024"])
def test_months_in_turkish_capitals_are_dates(text):
    assert [form for one in find_dates(text) for form in one.forms] == ["2024-04-05"]


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ("[05.03.24, 10:12] Ann: yes", ("2024-03-05",)),
        ("3/5/24, 9:41 AM - Bob: yes", ("2024-05-03", "2024-03-05")),
        ("13/5/24 - Bob: yes", ("2024-05-13",)),
        ("5-Mar-24 paid", ("2024-03-05",)),
        ("Paid 5 Mar 24.", ("2024-03-05",)),
        ("Paid 5 March '24 in cash", ("2024-03-05",)),
        ("born 5.3.71", ("1971-03-05",)),
    ],
)
def test_a_year_may_have_two_digits(text, forms):
    assert [date.forms for date in find_short_dates(text)] == [forms]


@pytest.mark.parametrize(
    "text",
    [
        *("version 5.3.24", "Release 5.3.24", "clause 5.3.24", "v5.3.24", "§ 5.3.24"),
        *(
            "5.3.24.1",
            "15.3.24.1",
            "1/5/3/24",
            "On 5 March 24 people came",
            "5 March 24,000 people",
        ),
        *("99.99.99", "32/1/24", "5.13.24"),
    ],
)
def test_a_version_or_a_number_is_no_date_with_a_short_year(text):
    assert [*find_short_dates(text)] == []


def test_what_may_be_a_version_remains_one():
    assert {"#5.3.24", "#2024-03-05"} <= {*code_terms("Firefox 5.3.24")}
    [code] = question_codes("Which bug has 5.3.24?")
    assert code.terms == ("#5.3.24", "#2024-03-05")
    [code] = question_codes("Which bug has version 5.3.24?")
    assert "#2024-03-05" not in code.terms


@pytest.mark.parametrize(
    "text", ["2024-03-05", "05.03.2024", "05.03.24", "3/5/2024", "5-Mar-24", "5 March 2024"]
)
def test_a_day_without_a_year_is_found_in_a_date_with_one(text):
    [code] = question_codes("What happened on March 5?")
    assert {*code.terms} & {*code_terms(f"{text}: Ann left.")}
