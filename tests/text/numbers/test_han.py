"""Numbers in Chinese characters have the value of the same number in digits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.text.codes import code_terms, question_codes
from e2graphrag_integrations.text.numbers.han import find_amounts, value_of_han
from e2graphrag_integrations.text.words import terms_of

DIGITS = "零一二三四五六七八九"


def in_han(number):
    """Return a number below a trillion in Chinese characters."""
    for size, unit in ((10**8, "亿"), (10**4, "万"), (1000, "千"), (100, "百"), (10, "十")):
        if number >= size:
            rest = number % size
            gap = "零" if rest and rest < size // 10 else ""
            return f"{in_han(number // size)}{unit}{gap}{in_han(rest) if rest else ''}"
    return DIGITS[number]


@given(st.integers(0, 10**12 - 1))
def test_a_number_has_its_value(number):
    assert value_of_han(in_han(number)) == number


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("三百二十万", "3200000"),
        ("320万", "3200000"),
        ("3.2百万", "3200000"),
        ("3,200万", "32000000"),
        ("2万亿", "2000000000000"),
        ("兩萬五", "25000"),
        ("三千五", "3500"),
        ("一百零五", "105"),
        ("十二", "12"),
        ("一亿两千万", "120000000"),
    ],
)
def test_an_amount_is_found(text, digits):
    before = "共有"
    [amount] = find_amounts(f"{before}{text}元。")
    assert amount.forms == (digits,)
    assert f"{before}{text}"[amount.start : amount.end] == text


def test_a_year_in_characters_is_found():
    assert [one.forms[0] for one in find_amounts("一九九八年, 二〇一〇年")] == ["1998", "2010"]


@pytest.mark.parametrize(
    "text",
    ["十分好", "千万不要", "万一", "三五百人", "第十二条", "十二月", "三点", "一一", "1.23456万"],
)
def test_other_characters_are_no_amounts(text):
    assert list(find_amounts(text)) == []


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("预算是三百二十万元。", "预算320万的项目"),
        ("预算是320万元。", "预算三百二十万的项目"),
        ("预算是3,200,000元。", "预算320万的项目"),
        ("建于一九九八年。", "1998年建的是什么？"),
        ("建于1998年。", "一九九八年建的是什么？"),
        ("有一百二十个座位。", "哪里有120个座位？"),
        ("有120个座位。", "哪里有一百二十个座位？"),
        ("仪式定于九月六日。", "9月6日有什么仪式？"),
        ("仪式定于9月6日。", "九月六号有什么仪式？"),
        ("仪式定于2024年9月6日。", "九月六日有什么仪式？"),
        ("九月六日举行。", "9月份有什么活动？"),
        ("下午三点到达。", "15点到达的是谁？"),
        ("午後3時に始まります。", "15時に始まるのは？"),
        ("오후 3시에 시작합니다.", "15:00에 시작하는 견학"),
    ],
)
def test_a_question_in_digits_finds_characters_and_the_reverse(text, question):
    terms = {*code_terms(text), *terms_of(text)}
    asked = {term for code in question_codes(question) for term in code.terms}
    assert terms & {*asked, *(one for one in terms_of(question) if one.isdigit())}


def test_a_year_of_a_date_is_no_amount_of_a_question():
    [code] = question_codes("一九九八年三月五日发生了什么？")
    assert code.terms == ("#1998-03-05",)
