"""Rows of tables and logs are found, and prose has none."""

from __future__ import annotations

import hashlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.cli.demo import demo_text
from e2graphrag_integrations.embedders.hashing import HashingEmbedder
from e2graphrag_integrations.embedders.windowed import WindowedEmbedder
from e2graphrag_integrations.search.term_postings import read_postings
from e2graphrag_integrations.text.chunking import chunk_spans
from e2graphrag_integrations.text.lines import (
    ROWS,
    RowHeaders,
    can_be_paired,
    last_row_block,
    may_begin_in_rows,
    name_ends,
    pairs_of,
    row_block_at,
    row_blocks,
    row_pairs,
)
from e2graphrag_integrations.text.tokens import ApproximateTokenCounter


def csv(separator, rows=300, header=("sku", "product", "price")):
    lines = [separator.join(header)]
    lines += [separator.join([f"SKU-{n:05}", "lamp" * (n % 3 + 1), str(n)]) for n in range(rows)]
    return "\n".join(lines) + "\n"


MARKDOWN = "Prices:\n\n| sku | price |\n|---|---:|\n| A1 | 30 |\n| B2 | 40 |\n\nPrices change."


@pytest.mark.parametrize(
    ("text", "header", "rows"),
    [
        (csv(","), "sku,product,price", 301),
        (csv("\t"), "sku\tproduct\tprice", 301),
        (csv(";"), "sku;product;price", 301),
        (csv(" | "), "sku | product | price", 301),
        (csv(", "), "sku, product, price", 301),
        (MARKDOWN, "| sku | price |\n|---|---:|", 4),
        ('name,note\n"Krog, Anna",met\n"Moe, Ida",left 2 keys\n', "name,note", 3),
        ("1,2,3\n4,5,6\n7,8,9", None, 3),
        ('{"id": 1, "a": "x"},\n{"id": 2}', None, 2),
        ('<row id="1">x</row>\n  <row id="2"/>', None, 2),
        ("2024-03-05 10:00 on\n2024-03-05 10:01 off, cold\n2024-03-05 10:02 on", None, 3),
        ("Nov  3 12:45:16 up\nNov  3 12:45:17 cron: begins\nNov  3 12:45:18 down", None, 3),
        ("[1/Nov/2024] opened\n[2/Nov/2024] closed\n[5/Nov/2024] opened", None, 3),
    ],
)
def test_a_table_or_log_is_found_with_its_header(text, header, rows):
    [block] = row_blocks(text)
    assert (block.header and text[slice(*block.header)]) == header
    assert len(block.starts) == rows
    assert all(start == 0 or text[start - 1] == "\n" for start in block.starts)


@pytest.mark.parametrize(
    "text",
    [
        "He came, he saw,\nshe went, and so,\nthey met, at last,\nin Rome, or so.",
        "One, two, and three.\nFour, five, and six.\nSeven, eight, and nine.\nTen, or, so.",
        "Anna met Bert;\nhe left;\nshe stayed;\n",
        "",
        "a\nb\nc",
    ],
)
def test_prose_has_no_rows(text):
    assert row_blocks(text) == []


LINES = [
    "a,b",
    "c,1",
    "d;e;f",
    "g,h;i,j",
    "12,34,56",
    "Anna, Bert, and Carl",
    "one",
    " ",
    "",
    "k\t2 ",
]


@given(
    st.lists(st.sampled_from(LINES), max_size=12).map("\n".join)
    | st.text('ab,;\n" 1{<:', max_size=60)
)
def test_rows_are_found_whether_or_not_the_text_has_a_tab_elsewhere(text):
    assert row_blocks(f"{text}\n\n\tx") == row_blocks(text)


@given(st.lists(st.sampled_from(LINES), max_size=12).map("\n".join))
def test_the_rows_around_a_place_are_the_block_of_the_text_that_contains_it(text):
    blocks = row_blocks(text)
    for at in range(len(text)):
        inside = next((one for one in blocks if one.start <= at < one.end), None)
        assert row_block_at(text, at) == inside
    ends_text = bool(blocks) and not text[blocks[-1].end :].strip()
    assert last_row_block(text) == (blocks[-1] if ends_text else None)


def test_rows_have_the_header_of_their_table_in_an_earlier_text():
    headers = RowHeaders()
    for text, expected in [
        (csv(",", rows=5), "sku,product,price"),
        ("SKU-00005,lamp,5\nSKU-00006,lamp,6\nSKU-00007,lamp,7\n", "sku,product,price"),
        ("SKU-00008,lamp,8\n", "sku,product,price"),
        ("SKU-00009,lamp,9\nSKU-00010,lamp,10\nSKU-00011,lamp,11\nSold out.", "sku,product,price"),
        ("The prices of next year are not known.", ""),
        ("1,2,3\n4,5,6\n7,8,9", ""),
    ]:
        headers.read(text)
        assert headers.above(text.find("\n") + 1) == expected or len(text.splitlines()) == 1
        assert headers.above(0) == ("" if text.startswith("sku") else expected)


def test_only_places_below_a_header_in_its_table_have_it():
    headers = RowHeaders()
    headers.read(MARKDOWN)
    rows = {at for at in range(len(MARKDOWN)) if headers.above(at)}
    assert rows == set(range(MARKDOWN.index("\n| A1"), MARKDOWN.index("\n\nPrices")))


def test_prose_keeps_its_chunks_and_windows():
    """They decide which vectors an index needs, so rules for tables must not change them."""
    text = demo_text("en").read_text(encoding="utf-8")
    counter = ApproximateTokenCounter()
    chunks = chunk_spans(text, counter, chunk_size=300, chunk_overlap=30)
    windows = [WindowedEmbedder(HashingEmbedder()).windows(text[a:b]) for a, b in chunks[:20]]
    found = hashlib.sha256(repr((chunks, windows)).encode()).hexdigest()[:16]
    assert found == "3cce18bc5bbf9f31"


@pytest.mark.parametrize("separator", [",", "\t", ";", " | ", ", "])
def test_chunks_begin_and_end_with_rows(separator):
    text = csv(separator)
    rows = set(text.splitlines())
    for start, end in chunk_spans(text, ApproximateTokenCounter(), chunk_size=60, chunk_overlap=20):
        assert set(text[start:end].splitlines()) <= rows


def test_a_row_longer_than_a_chunk_is_split():
    text = "a,b\n" + ",".join(["word " * 200, "1"]) + "\nc,2\n"
    spans = chunk_spans(text, ApproximateTokenCounter(), chunk_size=50, chunk_overlap=0)
    assert "".join("".join(text[a:b].split()) for a, b in spans) == "".join(text.split())


def pieces(text):
    """Return the parts of a text between the ends of names."""
    ends = name_ends(text)
    places = [0, *(end + 1 for end in ends), len(text) + 1]
    parts = [text[a : b - 1].strip() for a, b in pairwise(places)]
    return [" ".join(part.split()) for part in parts if part]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Elsa Grimm\nEdith Orth", ["Elsa Grimm", "Edith Orth"]),
        ("Guests:\nElsa Grimm\nThey came.", ["Guests:", "Elsa Grimm They came."]),
        ("anna krog\npeter moe\nida lund", ["anna krog", "peter moe", "ida lund"]),
        (
            "Anna Krog\nHarbor Street 5\n5003 Bergen",
            ["Anna Krog", "Harbor Street 5", "5003 Bergen"],
        ),
        ("We met\n- Anna Krog and\n- Ida", ["We met", "- Anna Krog and", "- Ida"]),
        ("Name: Anna Krog\nCity: Bergen", ["Name: Anna Krog", "City: Bergen"]),
        ("a,b\nAnna,1\nIda,2", ["a", "b", "Anna", "1", "Ida", "2"]),
    ],
)
def test_lines_of_their_own_end_names(text, expected):
    assert pieces(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "The letter that the postman brought was from Anna\nKrog of the old town that nobody knew.",
        "He saw Anna\nKrog in the harbor.",
        "one line only",
    ],
)
def test_wrapped_prose_goes_on(text):
    assert name_ends(text) == []


@pytest.mark.parametrize(
    ("line", "may_begin"),
    [
        ("A1,30", True),
        ("A1, 30", True),
        ("10:05:20 The time limit was reached. It stopped.", True),
        ('{"record of": "the time. And more."}', True),
        ("Mr. Bennet was so odd a mixture of quick parts, sarcastic humor, reserve", False),
        ("He came late, and left.", False),
    ],
)
def test_a_text_may_begin_in_rows_unless_its_first_line_is_prose(line, may_begin):
    assert may_begin_in_rows(f"{line}\nMore.") is may_begin


def test_a_long_line_of_dashes_takes_linear_time():
    """With quadratic time this would take minutes, so no time is asserted."""
    assert row_blocks("a\n|" + "-" * 200_000 + "x") == []


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_cells_of_three_digits_are_cells(separator):
    rows = [
        [str(8000 + n), "Bo Graf", f"2014-06-{n % 9 + 10}", "40 60 120".split()[n % 3]]
        for n in range(30)
    ]
    lines = [["id", "name", "joined", "fee"], *rows]
    [block] = row_blocks("\n".join(map(separator.join, lines)))
    assert (block.columns, len(block.starts)) == (4, 31)
    assert block.header


def test_thousands_in_a_table_with_spaces_are_no_cells():
    rows = [f"Paris, 2,165,{400 + n}, France" for n in range(6)]
    [block] = row_blocks("\n".join(["city, people, country", *rows]))
    assert (block.columns, len(block.starts)) == (3, 7)


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("color,item,price\nred,hat,3\nblue,scarf,4\n", {"hat&red", "blue&scarf"}),
        ("| red | hat |\n|---|---|\n| blue | scarf |", {"blue&scarf"}),
        ("Anna Holm\t555-1\nBert Voss\t555-2", {"anna&holm", "bert&voss"}),
        ('{"user": "ann", "did": "upload"}\n{"user": "bo", "did": "login"}', {"ann&upload"}),
    ],
)
def test_words_of_a_row_form_pairs(text, pairs):
    found = row_pairs(text)
    assert found[0] == ROWS
    assert pairs <= set(found)
    assert set(found) <= set(read_postings([text]).vocabulary)


def test_words_of_different_rows_keys_and_numbers_form_none():
    found = row_pairs("red,hat,3\nblue,scarf,4\nblue,hat,5")
    assert set(found) == {ROWS, "hat&red", "blue&scarf", "blue&hat"}
    keys = row_pairs('{"user": "ann", "did": "upload"}\n{"user": "bo", "did": "login"}')
    assert not any("user" in one for one in keys)


@pytest.mark.parametrize(
    "text",
    ["", "One line, of prose, with commas.", "We met Anna, Bert and Cleo.\nThey slept.\nWe left."],
)
def test_prose_has_no_pairs(text):
    assert row_pairs(text) == []


def test_a_long_row_forms_a_bounded_number_of_pairs():
    words = [f"{a}{b}{c}" for a in "abcde" for b in "xyz" for c in "klmn"]
    assert len(list(pairs_of(words))) == 45


@given(st.lists(st.sampled_from("anna bert cleo dora".split())))
def test_the_order_of_words_does_not_matter(words):
    assert sorted(pairs_of(words)) == sorted(pairs_of(reversed(words)))


@pytest.mark.parametrize("word", ["a", "2024", "a1", "the", ""])
def test_numbers_codes_and_function_words_form_no_pairs(word):
    assert not can_be_paired(word)


@given(st.text('ab,|\t\n;{}" 1', max_size=60))
def test_any_text_is_read(text):
    found = row_pairs(text)
    assert found == [] or (found[0] == ROWS and all(one.count("&") == 1 for one in found[1:]))
