"""A numbered part has one form, whatever the spelling of its number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.text.codes import code_terms, question_codes
from e2graphrag_integrations.text.numbers.numbered import (
    find_numbered,
    numbered_in_question,
    other_numeral,
)

ONES = "one two three four five six seven eight nine".split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
FIRST = "first second third fourth fifth sixth seventh eighth ninth".split()


def english(number):
    """Return a number below 100 in words, cardinal and ordinal."""
    ten, one = divmod(number, 10)
    if number < 10:
        return ONES[one - 1], FIRST[one - 1]
    if ten == 1:
        return TEENS[one], "twelfth" if one == 2 else f"{TEENS[one]}th"
    word = TENS[ten - 2]
    if not one:
        return word, f"{word[:-1]}ieth"
    return f"{word}-{ONES[one - 1]}", f"{word}-{FIRST[one - 1]}"


def roman(number):
    written = ""
    for value, digits in zip(
        (100, 90, 50, 40, 10, 9, 5, 4, 1), "C XC L XL X IX V IV I".split(), strict=True
    ):
        written += digits * (number // value)
        number %= value
    return written


def chinese(number):
    digits = "零一二三四五六七八九"
    written, gap = "", False
    for unit, name in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit = number // unit % 10
        if digit:
            written += ("零" if gap and written else "") + digits[digit] + name
        gap = not digit
    return written.removeprefix("一") if 10 <= number < 20 else written


def forms(found):
    return [form for one in found for form in one.forms]


@given(st.integers(1, 99))
def test_every_spelling_of_a_number_has_one_form(number):
    cardinal, ordinal = english(number)
    form = f"chapter{number}"
    headings = (
        f"Chapter {roman(number)}",
        f"Chapter {cardinal.title()}",
        f"CHAPTER THE {ordinal.upper()}".replace("THE", "the"),
        f"{ordinal.title()} Chapter",
        f"Chapter {number}",
        f"Ch. {number}",
    )
    for heading in headings:
        assert forms(find_numbered(f"{heading}\n\nAnna slept.")) == [form], heading
    for asked in (
        f"chapter {roman(number).lower()}",
        f"chapter {cardinal}",
        f"the {ordinal} chapter",
        f"chapter {number}",
        f"ch. {number}",
    ):
        assert form in forms(numbered_in_question(f"What is in {asked}?")), asked


@given(st.integers(1, 9999))
def test_chinese_numbers_have_the_form_of_their_digits(number):
    form = [f"第{number}条"]
    assert forms(find_numbered(f"第{chinese(number)}条 买方付款。")) == form
    assert forms(find_numbered(f"第 {number} 条 买方付款。")) == form
    assert set(forms(numbered_in_question(f"第{chinese(number)}条规定了什么？"))) == set(form)
    assert set(forms(numbered_in_question(f"{number}条的内容是什么？"))) == set(form)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("Henry VIII married.", "henry8"),
        ("Henry the Eighth married.", "henry8"),
        ("World War II", "war2"),
        ("Henry V", "henry5"),
        ("patients with type II diabetes", "type2"),
        ("in phase III, in May", "phase3"),
        ("Part I", "part1"),
        ("the 13th Amendment", "amendment13"),
        ("§ 4 Rent", "§4"),
        ("§§ 4, 5", "§4"),
        ("Art. 27", "article27"),
        ("Sec. IV", "section4"),
        ("Глава 3", "глава3"),
        ("Élan 4", "élan4"),
        ("제12조 목적", "第12조"),
        ("第二〇三頁", "第203頁"),
    ],
)
def test_a_part_or_name_is_found(text, form):
    assert form in forms(find_numbered(text))


@pytest.mark.parametrize(
    "text",
    [
        "Then I went.",
        "When I was one, I slept.",
        "May 5 was warm.",
        "We left the House. 12 men came.",
        "Vitamin C is sour.",
        "It has vitamin C, and the IV was of type I.",
        "a stage IIIb or type IC, and aIV",
        "Her First Film was long.",
        "One day in March 2024",
        "In 1984 and in 12 years",
        "Anna one day slept.",
        "Section 4.2 and Section 4(b)",
        "",
    ],
)
def test_other_words_are_not_numbered(text):
    assert forms(find_numbered(text)) == []


@pytest.mark.parametrize(
    "question",
    [
        "When did I go?",
        "How many of the two?",
        "有一条河吗？",
        "Who has vitamin c?",
        "What was the first film of the second director?",
        "When did World War II end?",
    ],
)
def test_other_words_of_a_question_are_not_numbered(question):
    assert forms(numbered_in_question(question)) == []


def test_a_roman_numeral_after_a_word_in_lower_case_is_a_number():
    assert forms(numbered_in_question("Which cover does type VIII have?")) == ["type8"]
    assert forms(numbered_in_question("Which cover does type viii have?")) == []


@pytest.mark.parametrize("question", ["section 4", "paragraph four", "§4", "§ 4"])
def test_a_section_may_be_written_as_a_sign(question):
    assert "§4" in forms(numbered_in_question(f"What does {question} say?"))


@given(st.text("CLXVIivx§第12十条 .-ABth", max_size=40))
def test_any_text_is_read(text):
    for one in [*find_numbered(text), *numbered_in_question(text)]:
        assert 0 <= one.start < one.end <= len(text)
        assert all(one.forms)


@given(st.integers(2, 39).filter(lambda number: len(roman(number)) > 1))
def test_a_number_has_another_numeral(number):
    assert other_numeral(str(number)) == roman(number).lower()
    assert other_numeral(roman(number).lower()) == str(number)


@pytest.mark.parametrize("word", ["1", "5", "x", "40", "xl", "two", ""])
def test_other_words_have_no_other_numeral(word):
    assert other_numeral(word) == ""


@pytest.mark.parametrize("find", [find_numbered, numbered_in_question])
@pytest.mark.parametrize("text", ["CHAPTER FİVE", "chapter fıve", "the fıfth chapter", "section ı"])
def test_turkish_letters_are_those_of_english(text, find):
    in_english = text.replace("İ", "I").replace("ı", "i")
    assert [one.forms for one in find(text)] == [one.forms for one in find(in_english)]


@pytest.mark.parametrize(
    "text",
    [
        "Amendment No. 1",
        "Amendment Nr. 1",
        "Amendment number 1",
        "Amendment # 1",
        "Amendment #1",
        "Amendment No 1",
    ],
)
def test_the_word_number_may_stand_before_a_number(text):
    assert [one.forms for one in find_numbered(text)] == [("amendment1",)]
    assert [one.forms for one in numbered_in_question(f"What does {text} say?")] == [
        ("amendment1",)
    ]


@pytest.mark.parametrize("find", [find_numbered, numbered_in_question])
@pytest.mark.parametrize("text", ["Size XL", "a shirt of size XL", "Sizes XXL and XL"])
def test_a_size_in_letters_is_no_number(text, find):
    assert not list(find(text))


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("Exhibit B. The seller pays.", "exhibit B"),
        ("Appendix C", "appendix c"),
        ("Schedule A lists them", "Schedule A"),
        ("Rev. B", "revision B"),
        ("Vitamin D", "vitamin d"),
        ("Hepatitis B", "hepatitis B"),
        ("size S", "size s"),
    ],
)
def test_a_word_and_a_letter_are_a_code(text, asked):
    terms = {*code_terms(f"See {text}")}
    assert any({*code.terms} & terms for code in question_codes(f"What is in {asked}?"))


@pytest.mark.parametrize(
    "text", ["John F. Kennedy", "what I said", "a boy A walked", "in a B", "Ann's S", "x-ray B-29"]
)
def test_an_initial_and_an_article_belong_to_no_word(text):
    assert not any(term[-2:-1] == "-" and term[-1].isalpha() for term in code_terms(text))
