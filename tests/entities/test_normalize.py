import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.entities import normalize
from e2graphrag_integrations.entities.normalize import (
    normal_form,
    sub_spans,
    without_honorifics,
)
from strategies import quick, texts


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("Elizabeth Bennet", "elizabeth bennet"),
        ("Elizabeth\r\n   Bennet", "elizabeth bennet"),
        ("The Time Machine", "time machine"),
        ("the", "the"),  # stripping it would leave nothing
        ("“Longbourn”", "longbourn"),
        ("Darcy's", "darcy"),
        ("Darcy’s", "darcy"),
        ("the Bennets'", "bennets"),
        ("Mr.", "mr."),
        ("St. James's", "st. james"),
        ("U.S.", "u.s."),
        ("Straße", "strasse"),
        ("ＡＢＣ", "abc"),  # full-width letters
        ("ﬁnance", "finance"),  # a ligature
        ("Cafe\u0301", "caf\u00e9"),
        ("北京", "北京"),
        ("Москва", "москва"),
        ("ΑΘΗΝΑ", "αθηνα"),
        ("القاهرة", "القاهرة"),
        ("עִבְרִית", "עברית"),  # with and without vowel points
        ("مُحَمَّد", "محمد"),
        ("محـــمد", "محمد"),  # tatweel, which only lengthens a line
        ("أحمد", "احمد"),
        ("تهران‌ی", "تهراني"),  # a Persian joiner and the Persian letter yeh
        ("\u202bאבג\u202c\u200f", "אבג"),  # direction marks
        ("Dar\u00adcy\u200b", "darcy"),
        ("\ufeffDarcy", "darcy"),
        ("क्\u200dष", "क्ष"),
        ("İstanbul", "istanbul"),
        ("ISPARTA", "isparta"),
        ("Isparta", "isparta"),
        ("Iğdır", "iğdir"),
        ("Ὀδυσσεύς", "ὀδυσσεύσ"),  # the final sigma
        ("Королёв", "королев"),
        ("Việt Nam", "việt nam"),
        (unicodedata.normalize("NFD", "Việt Nam"), "việt nam"),
        (unicodedata.normalize("NFD", "한국"), "한국"),
        ("ﾌﾗﾝｽ", "フランス"),
        ("约翰・史密斯", "约翰·史密斯"),
        ("约翰 • 史密斯", "约翰·史密斯"),
        ("अध्याय १२", "अध्याय 12"),
        ("हिन्दी", "हिन्दी"),  # ends with a vowel sign, which \w does not match
        ("ที่", "ที่"),  # a consonant, a vowel sign and a tone mark
        ("I ❤️ NY ❤️", "i ❤ ny"),
        ("!?", ""),
        ("❤️", ""),
        ("", ""),
    ],
)
def test_normal_form_of_a_name(name, form):
    assert normal_form(name) == form


@quick
@given(texts(6))
def test_normal_form_is_idempotent(name):
    form = normal_form(name)
    assert normal_form(form) == form


@quick
@given(st.text(st.characters(categories=["Lo", "Nd"], min_codepoint=0x370), min_size=1))
def test_normal_form_keeps_letters_of_every_script(name):
    folded = name
    for _ in range(3):
        folded = unicodedata.normalize("NFKC", folded).casefold()
    letters = [c for c in folded if c.isalnum()]
    kept = [c for c in normal_form(name) if c.isalnum()]
    # Letters and digits that writers replace by each other become one.
    assert len(kept) == len(letters)
    assert [c for c in kept if not c.isascii() and c not in "اكي"] == [
        c for c in letters if c not in "أإآٱاكيکی" and not c.isdecimal()
    ]


def test_name_with_a_long_run_of_dashes_takes_linear_time():
    """With quadratic time this would take hours, so no time is asserted."""
    dashes = "-" * 500_000
    assert normal_form(f"A{dashes}B") == f"a{dashes}b"


@pytest.mark.parametrize(
    ("form", "stripped"),
    [
        ("mr. darcy", "darcy"),
        ("the reverend mr. collins", "collins"),
        ("lady catherine de bourgh", "catherine de bourgh"),
        ("prince of wales", "of wales"),
        ("mr.", "mr."),
        ("elizabeth", "elizabeth"),
    ],
)
def test_leading_honorifics_are_stripped_except_from_single_words(form, stripped):
    assert without_honorifics(form) == stripped


def test_parts_of_a_name_are_ordered_by_length_then_position():
    assert sub_spans("a b c") == ["a b", "b c", "a", "b", "c"]


def test_parts_of_a_name_in_an_unspaced_script_are_its_beginnings_and_long_ends():
    assert sub_spans("北京市") == ["北京", "京市"]
    parts = sub_spans("香港教育工作者联会黄楚标中学")
    assert "工作者" not in parts  # in the middle
    assert "中学" not in parts  # generic
    assert {"香港教育工作者联会", "教育工作者联会黄楚标中学"} <= set(parts)
    assert sub_spans("约瑟夫·洛克") == ["约瑟夫", "洛克"]


@pytest.mark.parametrize("form", ["elizabeth", "zürich", "москва", "القاهرة"])
def test_single_word_in_a_spaced_script_has_no_parts(form):
    assert sub_spans(form) == []


def test_number_of_parts_of_a_long_name_is_bounded():
    # A part has at most 24 of the 300 words, so there are at most 24 * 300 parts.
    parts = sub_spans(" ".join(f"w{i}" for i in range(300)))
    assert len(parts[0].split()) == 24
    assert len(parts) == sum(300 - size + 1 for size in range(1, 25))


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("The a the Time Machine", "time machine"),
        ("the a the", "the"),
        ("the an .", "an ."),  # no letter or digit would remain without the article
        ("James's's'", "james"),
        ("James 's", "james"),
    ],
)
def test_repeated_articles_and_possessives_are_removed(name, form):
    assert normal_form(name) == form


def test_long_runs_of_articles_honorifics_and_possessives_take_few_passes(monkeypatch):
    passes = 0
    trim = normalize._trim

    def counted(form):
        nonlocal passes
        passes += 1
        return trim(form)

    monkeypatch.setattr(normalize, "_trim", counted)
    assert normal_form("the " * 999 + "x" + "'s" * 999) == "x"
    assert passes <= 4
    assert without_honorifics("mr. " * 999 + "sir") == "sir"


@pytest.mark.parametrize(
    ("name", "form"),
    [("C++", "c++"), ("C#", "c#"), ("the C++'s", "c++"), ("C", "c"), ("#1", "1")],
)
def test_languages_of_programs_are_different_names(name, form):
    assert normal_form(name) == form


def test_quoted_articles_are_removed_in_linear_time():
    """With quadratic time this would take minutes, so no time is asserted."""
    assert normal_form("'the " * 60_000 + "end") == "end"
