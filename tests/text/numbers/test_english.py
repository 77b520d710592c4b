"""Numbers in English words have their values, and their spellings in digits find each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.text.numbers.english import (
    find_spelled,
    other_spellings_of_number,
    value_of_spelled,
    with_digits,
)

UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
).split()
TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()


def in_words(number, joint=" and "):
    for size, name in ((10**9, "billion"), (10**6, "million"), (1000, "thousand")):
        if number >= size:
            rest = number % size
            gap = joint if 0 < rest < 100 else " "
            words = f"{in_words(number // size, joint)} {name}"
            return f"{words}{gap}{in_words(rest, joint)}" if rest else words
    if number >= 100:
        rest = number % 100
        return f"{UNITS[number // 100]} hundred{joint + in_words(rest) if rest else ''}"
    if number >= 20:
        return TENS[number // 10] + (f"-{UNITS[number % 10]}" if number % 10 else "")
    return UNITS[number]


@given(st.integers(1, 10**12 - 1), st.sampled_from([" and ", " "]))
def test_a_number_has_its_value(number, joint):
    words = in_words(number, joint)
    assert value_of_spelled(words) == number
    if " " in words or "-" in words:
        assert with_digits(f"They had {words} boats.") == f"They had {number} boats."


@pytest.mark.parametrize(
    ("words", "digits"),
    [
        ("twenty-first", "21st"),
        ("forty second", "42nd"),
        ("one hundred and third", "103rd"),
        ("one hundred and eleventh", "111th"),
        ("a hundred", "100"),
        ("half a million", "500000"),
        ("two dozen", "24"),
        ("nineteen eighty-four", "1984"),
        ("Twenty Twenty-Four", "2024"),
        ("twelve hundred", "1200"),
    ],
)
def test_an_ordinal_a_year_and_a_round_number_have_their_values(words, digits):
    text = f"The {words} of them came."
    [found] = find_spelled(text.lower())
    assert (text[found.start : found.end], found.forms) == (words, (digits,))


@pytest.mark.parametrize(
    "text",
    ["nine", "one or two", "one two three", "seven eight", "hundreds of men", "weighty one", ""],
)
def test_other_words_are_no_number_of_several_words(text):
    assert list(find_spelled(text)) == []


@given(st.text() | st.lists(st.sampled_from([*UNITS, *TENS, "hundred", "and", "a", "half"])))
def test_any_text_is_read(text):
    text = text if isinstance(text, str) else " ".join(text)
    for one in find_spelled(text):
        assert 0 <= one.start < one.end <= len(text)


@pytest.mark.parametrize("number", range(2, 20))
def test_a_word_and_its_digits_are_spellings_of_each_other(number):
    assert other_spellings_of_number(UNITS[number]) == (str(number),)
    assert UNITS[number] in other_spellings_of_number(str(number))


@pytest.mark.parametrize(
    ("word", "others"),
    [
        ("21st", {"21"}),
        ("4th", {"fourth", "4"}),
        ("first", {"1st"}),
        ("1990s", {"nineties", "90s"}),
        ("twenties", {"20s", "1920s"}),
    ],
)
def test_ordinals_days_and_decades_have_other_spellings(word, others):
    assert {*other_spellings_of_number(word)} == others


def test_a_pronoun_and_a_number_of_several_words_have_no_other_spelling():
    assert [other_spellings_of_number(one) for one in ("one", "1", "42", "cat")] == [()] * 4
