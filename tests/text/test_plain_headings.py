"""Headings of texts without markup."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.text.plain_headings import HeadingsAbove, plain_headings

SEPARATOR = "\n\n"
PROSE = "Rinse the tank with vinegar for ten minutes, and dry it with a soft cloth."


def names(text):
    return [(one.name, one.level) for one in plain_headings(text)]


@pytest.mark.parametrize(
    "heading", ["Cleaning", "3.2 Tank and filter", "CHAPTER V", "Chapter 1: A Tank", "§ 4 Fees"]
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_short_line_between_blank_lines_is_a_heading(heading, newline):
    text = newline.join([PROSE, "", heading, "", PROSE, ""])
    assert [one.name for one in plain_headings(text)] == [heading]


@pytest.mark.parametrize("heading", ["Cleaning", "3.2 Tank and filter", "第三章 赤壁之战"])
def test_a_pdf_needs_no_blank_lines(heading):
    assert [one.name for one in plain_headings(f"{PROSE}\n{heading}\n{PROSE}\n")] == [heading]


@pytest.mark.parametrize(
    ("above", "below"), [("3 Care", "3.1 Filter"), ("CHAPTER V", "The Golden Age")]
)
def test_a_heading_of_a_pdf_follows_one_of_a_higher_level(above, below):
    assert [name for name, _ in names(f"{PROSE}\n{above}\n{below}\n{PROSE}\n")] == [above, below]


def test_a_short_numbered_list_is_no_sequence_of_headings():
    assert names(f"{PROSE}\n1. Rinse it\n2. Dry it\n\n{PROSE}\n") == []


@pytest.mark.parametrize(
    "line",
    [
        "Dear Ann,",
        "It was cold.",
        "Ann Bell: I agree",
        "Time: 20240401_10:00",
        "Page 12",
        "12",
        "a line that goes on",
        "- an item",
        "sku\tprice",
        "| a | b |",
        "x = 5",
        "“See to it.”",
        "word " * 13,
    ],
)
def test_other_short_lines_are_no_headings(line):
    assert names(f"{PROSE}\n\n{line}\n\n{PROSE}\n") == []


def test_lines_of_wrapped_prose_are_no_headings():
    assert names("He went to\nLondon and Paris\nAnd came back.\nThen he slept\nand woke up.") == []


def test_a_list_is_no_sequence_of_headings():
    assert names(SEPARATOR.join(["Milk", "Eggs", "Flour", "Sugar", PROSE])) == []
    assert names("Bring:\nMilk\nEggs\n\nBob\n\nFrom: Ann\nTo: Bob\n") == []


def test_levels_follow_numbers_capitals_and_order():
    text = SEPARATOR.join(
        ["PART I", "Chapter 2", PROSE, "ASTER", PROSE, "Care", PROSE, "2.1 Filter", PROSE]
    )
    assert names(text) == [
        ("PART I", 1),
        ("Chapter 2", 2),
        ("ASTER", 3),
        ("Care", 4),
        ("2.1 Filter", 5),
    ]


def test_a_heading_directly_above_another_is_above_it():
    text = SEPARATOR.join(
        ["Aster 200", "Care", PROSE, "Storage", PROSE, "Borea 310", "Care", PROSE]
    )
    above = HeadingsAbove()
    above.read(text)
    assert above.at(text.index("Storage") + 20) == ["Aster 200", "Storage"]
    assert above.at(len(text)) == ["Borea 310", "Care"]


def test_headings_above_a_place_go_on_in_the_next_text():
    above = HeadingsAbove()
    above.read("# One\n\nText.\n\n## Two\n\nText.")
    assert above.at(0) == []
    assert above.at(10) == ["One"]
    assert above.at(30) == ["One", "Two"]
    above.read("More of it.\n\n## Three\n\nText.")
    assert above.at(5) == ["One", "Two"]
    assert above.at(40) == ["One", "Three"]
    above.read("Without a heading.")
    assert above.at(5) == ["One", "Three"]


def test_a_document_with_markdown_has_no_others():
    above = HeadingsAbove()
    above.read(f"# Tools\n\n{PROSE}\n\nCare\n\n{PROSE}")
    assert above.at(1000) == ["Tools"]
    above.read(f"{PROSE}\n\nStorage\n\n{PROSE}")
    assert above.at(1000) == ["Tools"]


@given(st.text(alphabet="Aa1. :\n\r\t#-三第章", max_size=200))
def test_spans_are_those_of_the_lines(text):
    previous = 0
    for one in plain_headings(text):
        assert previous <= one.start < one.end
        assert text[one.start : one.end].strip(" \t\r\u3000") == one.name
        assert "\n" not in one.name
        previous = one.end
