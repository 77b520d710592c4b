"""The tokenizer of BM25 and of extractive summaries, and word counts."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from e2graphrag_integrations.text.letters import HANGUL_LETTERS, MARKS
from e2graphrag_integrations.text.words import (
    corrections,
    count_words,
    has_unspaced,
    terms_of,
)
from strategies import examples, quick, texts


def test_words_are_runs_of_letters_digits_and_underscores():
    assert count_words("Mr. Darcy's 10,000 a year") == 7  # Mr Darcy s 10 000 a year
    assert count_words("... !") == 0


def test_each_letter_of_a_script_without_spaces_counts_as_a_word():
    assert count_words("我们 met 王") == 4
    assert count_words("हिन्दी में") == 2
    assert count_words("ที่นี่") == 2  # two letters with their marks


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Anna's STRASSE, straße 42!", ["anna", "s", "strasse", "strasse", "42"]),
        (" ...", []),
        ("林黛玉 met 王", ["林", "黛", "玉", "林黛", "黛玉", "met", "王"]),
        ("X光片", ["x", "光", "片", "光片"]),
        ("2023年，GDP", ["2023", "年", "gdp"]),
        ("ＧＤＰ２０２３", ["gdp2023"]),  # full-width forms
        ("ｶﾞｽ", ["ガス"]),  # half-width kana
        ("人々", ["人", "々", "人々"]),
        ("𠮷野", ["𠮷", "野", "𠮷野"]),  # a supplementary ideograph
        ("ジョン・スミス", ["ジョ", "ョン", "スミ", "ミス"]),
        ("서울은", ["서울", "울은"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("क्\u200dष", ["क्ष"]),  # a joiner after a mark only affects the appearance
        ("کتاب‌ها", ["کتاب", "ها"]),  # a joiner after a letter separates words
        ("كَتَبَ", ["كتب"]),  # vowels are optional
        ("cafe\u0301", ["café"]),
        ("Ти\u0301хон", ["тихон"]),  # a stress mark
        ("İzmir", ["izmir"]),
        ("お茶", ["茶", "お茶"]),
        ("茶", ["茶"]),
        ("劉備與后羿", terms_of("刘备与后羿")),
        ("葛\U000e0100飾", ["葛", "饰", "葛饰"]),  # a variation selector
        ("❤️", []),
        ("ไทย", ["ไท", "ทย", "ไทย"]),
        ("ปู", ["ปู"]),
    ],
)
def test_terms_of_each_script(text, terms):
    assert terms_of(text) == terms


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("\uf9dc", "隆"),  # a compatibility ideograph
        ("⽂", "文"),  # a radical
        ("한글", "\u1112\u1161\u11ab\u1100\u1173\u11af"),  # decomposed
        ("㈱", "(株)"),
        ("が", "か\u3099"),
    ],
)
def test_different_encodings_of_a_letter_are_equal(one, other):
    assert terms_of(one) == terms_of(other) != []


_HANGUL = re.compile(f"[{HANGUL_LETTERS}]")


@quick
@given(texts())
def test_terms_in_scripts_without_spaces_are_short_and_never_mixed(text):
    for term in terms_of(text):
        letters = [one for one in term if not unicodedata.category(one).startswith("M")]
        assert term == term.casefold()
        is_split = [has_unspaced(one) or _HANGUL.match(one) for one in letters]
        assert not has_unspaced(term) or (len(letters) <= 3 and all(is_split))


@quick
@given(st.text(st.characters(max_codepoint=0x2FF)))
def test_terms_without_marks_and_other_scripts_are_casefolded_words(text):
    # The lowercase letters of İ and ǰ have marks.
    assume(not any(unicodedata.combining(character) for character in text.casefold()))
    assert terms_of(text) == re.findall(r"\w+", text.casefold())


@quick
@given(texts(), texts())
def test_terms_of_two_paragraphs_are_those_of_each(first, second):
    assert terms_of(f"{first}\n{second}") == terms_of(first) + terms_of(second)


def test_table_of_marks_contains_every_mark_of_a_letter():
    marks = {
        character
        for character in map(chr, range(0x30000))
        if unicodedata.category(character).startswith("M")
    }
    others = "[\u20d0-\u20f0\ufe00-\ufe0f\U0001cf00-\U0001daff]"
    letters = {mark for mark in marks if not re.match(others, mark)}
    assert set(re.findall(f"[{MARKS}]", "".join(map(chr, range(0x30000))))) == letters


@quick
@given(texts())
def test_terms_do_not_depend_on_the_script_of_other_words(text):
    assert terms_of(f"{text} 茶") == [*terms_of(text), "茶"]


KNOWN = frozenset(
    {"librarian", "receipt", "address", "hotel", "louise", "hamre", "johnson", "kierkegaard"}
)


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("libarian", "librarian"),  # a letter is missing
        ("librariaan", "librarian"),  # superfluous
        ("librarien", "librarian"),  # wrong
        ("reciept", "receipt"),  # two letters are exchanged
        ("adress", "address"),
        ("kierkegard", "kierkegaard"),
        ("harme", "hamre"),
        ("jonson", "johnson"),
    ],
)
def test_a_word_with_one_error_is_corrected(word, found):
    assert corrections(word, KNOWN.__contains__) == (found,)


@pytest.mark.parametrize(
    "word", ["louisa", "louis", "hamra", "amre", "hotl", "reception", "dress", "", "straße"]
)
def test_short_unknown_words_and_common_words_remain(word):
    assert corrections(word, KNOWN.__contains__) == ()


@pytest.mark.parametrize(("length", "is_corrected"), [(64, True), (65, False)])
def test_letters_without_spaces_are_no_word_that_may_have_an_error(length, is_corrected):
    asked = []
    corrections("x" * length, asked.append)
    assert bool(asked) == is_corrected


@given(st.sampled_from(["librarian", "electrician", "photographer"]), st.data())
@examples(100)
def test_any_single_error_in_a_long_word_is_found(word, data):
    place = data.draw(st.integers(0, len(word) - 2))
    letter = data.draw(st.sampled_from("abcdefghijklmnopqrstuvwxyz"))
    start, end = word[:place], word[place:]
    exchanged = start + end[1] + end[0] + end[2:]
    wrong = data.draw(
        st.sampled_from(
            [start + letter + end, start + end[1:], start + letter + end[1:], exchanged]
        )
    )
    assert wrong == word or corrections(wrong, {word}.__contains__) in {(word,), ()}
    if wrong != word and corrections(wrong, {word}.__contains__) == ():
        assert corrections(wrong, lambda _: True) == ()  # it is another common word
