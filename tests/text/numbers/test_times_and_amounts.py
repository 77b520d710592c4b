"""Times of the day and amounts have one form in all notations."""

from __future__ import annotations

import pytest

from e2graphrag_integrations.text.codes import code_terms, question_codes
from e2graphrag_integrations.text.numbers.dates import find_spoken_times, find_times
from e2graphrag_integrations.text.words import terms_of


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ("15:10", "15:10"),
        ("3:10 pm", "15:10 3:10"),
        ("3.10 p.m.", "15:10 3:10"),
        ("3PM", "15:00 3:00"),
        ("12 am", "0:00"),
        ("12:30 pm", "12:30"),
        ("08:05", "8:05"),
        ("15:10:20", "15:10:20 15:10"),
        ("15.10 Uhr", "15:10"),
        ("15 Uhr", "15:00"),
        ("15h10", "15:10"),
        ("下午3点10分", "15:10 3:10"),
        ("下午三点半", "15:30 3:30"),
        ("上午十点", "10:00"),
        ("午後3時半", "15:30 3:30"),
        ("오후 3시 10분", "15:10 3:10"),
        ("十五点三十分", "15:30"),
        ("三点钟", "3:00"),
        ("15時", "15:00"),
        ("24:00", "0:00 24:00"),
        ("晚上八点一刻", "20:15 8:15"),
        ("三点三刻", "3:45"),
        ("08:00-16:30", "8:00 16:30"),
        ("8.15-10.45 Uhr", "8:15 10:45"),
        ("9–12 Uhr", "9:00 12:00"),
        ("9am-5pm", "9:00 17:00 5:00"),
    ],
)
def test_a_time_has_the_same_form_in_each_notation(text, forms):
    assert [form for one in find_times(f"The bus leaves at {text}.") for form in one.forms] == (
        forms.split()
    )


@pytest.mark.parametrize(
    "text",
    [
        "1:2",
        "16:9",
        "3 Amps",
        "13 pm",
        "25:10",
        "15:61",
        "15:10-20",
        "3点",
        "三点",
        "24小时",
        "15时间",
        "a:10",
        "3h",
        "1.15:10",
        "8.15-10.45",
        "10:15-3",
        "9-12 Uhren",
    ],
)
def test_other_numbers_are_no_times(text):
    assert list(find_times(f"It is {text} here")) == []


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("half past eight", "8:30"),
        ("a quarter to nine", "8:45"),
        ("quarter past one", "1:15"),
        ("a quarter to one", "12:45"),
        ("ten past six", "6:10"),
        ("twenty-five minutes to two", "1:35"),
        ("5 o'clock", "5:00"),
        ("twelve o’clock", "12:00"),
        ("noon", "12:00"),
        ("midnight", "0:00"),
    ],
)
def test_a_time_in_words_is_that_in_digits(text, form):
    assert [one.forms for one in find_spoken_times(f"it leaves at {text}, or so")] == [(form,)]


@pytest.mark.parametrize(
    "text",
    ["five to ten men", "afternoon", "half past thirteen", "past ten", "quarter to the poor"],
)
def test_other_words_are_no_times(text):
    assert list(find_spoken_times(text)) == []


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("It leaves at 15:10.", "What leaves at 3:10 pm?"),
        ("It leaves at half past eight.", "What leaves at 8:30?"),
        ("讲座14：30开始。", "什么在下午2点半开始？"),
        ("It leaves at 12:00.", "What leaves at 12 pm?"),
        ("It leaves at 3:10 p.m.", "What leaves at 15:10?"),
        ("It came to $6,610, paid at once.", "What cost 6610 dollars?"),
        ("It came to 8.660 €.", "What cost 8660 euros?"),
        ("It came to 8'660 francs.", "What cost 8660 francs?"),
        ("It came to 8\u202f660 €.", "What cost 8,660 euros?"),
        ("It came to 8 660 kr.", "What cost 8660 kr?"),
        ("It came to 8660 dollars.", "What cost $8,660.?"),
    ],
)
def test_a_time_or_an_amount_is_found_in_another_notation(text, question):
    terms = {*code_terms(text), *terms_of(text)}
    [code] = [one for one in question_codes(question) if any(c.isdigit() for c in one.text)]
    assert terms & set(code.terms)


@pytest.mark.parametrize("text", ["On 22 333 44", "in 2024 100 people", "1.2345", "12 34"])
def test_other_groups_of_digits_are_not_one_number(text):
    assert not {"22333", "22333444", "2024100", "12345", "1234"} & set(code_terms(text))
