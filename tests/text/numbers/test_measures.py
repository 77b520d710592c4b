"""A measure has one form in every notation, and other numbers have none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.text.codes import code_terms, question_codes
from e2graphrag_integrations.text.numbers.measures import (
    find_han_measures,
    find_measures,
    find_sizes,
    find_spelled_measures,
)
from e2graphrag_integrations.text.words import terms_of

SPELLINGS = {
    "5km": "5 km; 5km; 5 kilometers; five kilometres; 五公里; 5千米",
    "14pct": "14%; 14 %; 14 percent; fourteen per cent; 百分之十四; 14.0%",
    "3200000usd": "$3.2M; $3.2 million; 3.2 million dollars; US$3,200,000; USD 3.2m; 320万美元",
    "1500000000eur": "€1.5bn; 1.5 billion euros; 1,5 Mrd. Euro; EUR 1,500,000,000; 15亿欧元",
    "40000gbp": "£40,000; 40 thousand pounds; forty thousand pounds; GBP 40k",
    "-5deg": "-5 °C; minus 5 degrees; −5°C; 零下五度",
    "40m2": "40 m²; 40 m2; 40 sqm; forty square meters; 四十平方米",
    "3200000cny": "320万元; 三百二十万元; 3,200,000元",
    "3.5m": "3.5 m; 3.5 meters; 3.50 metres; 三点五米",
    "90ft": "90-foot; ninety feet; 90 ft",
    "250000": "250K; 250 thousand",
    "3kg": "3 kg; 3公斤; 三千克; 三公斤; 3千克",
    "12min": "12分钟; 十二分钟",
}
PAIRS = [(form, one) for form, spellings in SPELLINGS.items() for one in spellings.split("; ")]


def forms_in(text):
    lowered = text.lower()
    finders = (find_measures, find_spelled_measures, find_han_measures)
    return [form for find in finders for one in find(lowered) for form in one.forms]


@pytest.mark.parametrize(("form", "spelling"), PAIRS)
def test_a_measure_has_the_same_form_in_each_notation(form, spelling):
    assert form in forms_in(f"It was {spelling}, they said.")


@pytest.mark.parametrize(("form", "spelling"), PAIRS)
def test_a_question_finds_each_notation(form, spelling):
    first = SPELLINGS[form].split("; ")[0]
    text = f"It was {spelling}, they said."
    terms = {*code_terms(text), *code_terms(text, terms_of(text))}
    [code] = question_codes(f"Which was {first}?")
    assert terms & {*code.terms}
    assert code.text == first


@pytest.mark.parametrize(
    "text",
    [
        "3 in 4 came",
        "in 2024",
        "rooms 5 and 6",
        "section 5.1.2 m",
        "10:05 m",
        "B5 m",
        "version 2.10.1%",
        "5 monkeys",
        "A 5 Can",
        "12345678901234567890 km",
        "",
    ],
)
def test_other_numbers_are_no_measures(text):
    assert forms_in(text) == []


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("1,250 feet", "1250ft"),
        ("1.250.000 Euro", "1250000eur"),
        ("1'250 km", "1250km"),
        ("0.50 l", "0.5l"),
        ("1,5 kg", "1.5kg"),
        ("$1,250.50", "1250.5usd"),
        ("10-15 km", "15km"),
        ("5 C$ or 5 $", "5usd"),
    ],
)
def test_points_and_commas_are_read_as_their_places_say(text, form):
    assert forms_in(text) == [form]


def test_a_pound_is_money_or_a_mass():
    assert forms_in("40 pounds") == ["40lb", "40gbp"]


@pytest.mark.parametrize("spelling", ["20 x 30 cm", "20x30cm", "20×30", "20 by 30 inches"])
def test_a_size_is_found_in_each_notation(spelling):
    [code] = [one for one in question_codes("What is 20 x 30 cm?") if "x" in one.terms[0]]
    assert code.terms[0] in code_terms(f"It is {spelling}.")


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_any_text_is_read(text):
    for find in (find_measures, find_spelled_measures, find_han_measures, find_sizes):
        for one in find(text):
            assert 0 <= one.start < one.end <= len(text)
            assert one.forms
