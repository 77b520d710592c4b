"""Running heads, page numbers and titles of PDF files."""

from __future__ import annotations

import pytest

from e2graphrag_integrations.errors import UnreadableFileError
from e2graphrag_integrations.loaders import read_data
from e2graphrag_integrations.loaders.running_heads import without_running_heads
from file_makers import make_bookmarked_pdf, make_pdf, make_pdf_of

BODIES = ["Anna met Bob.\nThey built a ship.", "Carol came.\nIt rained.", "Dan left.", "The end."]


@pytest.mark.parametrize(
    ("head", "foot"),
    [
        pytest.param("Annual Report 2024", "", id="head"),
        pytest.param("", "{n}", id="number"),
        pytest.param("", "- {n} -", id="dashes"),
        pytest.param("ACME | Annual Report", "Confidential | Page {n} of 9", id="both"),
        pytest.param("ACME Ltd.\nReport 7, page {n}", "Draft\n© 2024 ACME", id="two_lines"),
        pytest.param("Seite {n}", "第 {n} 页", id="languages"),
    ],
)
@pytest.mark.parametrize("first", [1, 17])
def test_repeated_lines_and_page_numbers_are_dropped(head: str, foot: str, first: int):
    pages = [
        "\n".join(filter(None, [head.format(n=n), body, foot.format(n=n)]))
        for n, body in enumerate(BODIES, first)
    ]
    assert without_running_heads(pages) == BODIES


def test_roman_numbers_and_heads_of_left_and_right_pages_are_dropped():
    roman = ["i", "ii", "iii", "iv", "v", "vi"]
    pages = [
        f"{'Jane Doe' if n % 2 else 'The Sea'}\nText {chr(65 + n)}.\n{roman[n]}" for n in range(6)
    ]
    assert without_running_heads(pages) == [f"Text {chr(65 + n)}." for n in range(6)]


@pytest.mark.parametrize(
    "pages",
    [
        pytest.param([f"Chapter {n}\nText {n * n}." for n in range(1, 6)], id="chapters"),
        pytest.param([f"Bob sold {n * n} ships." for n in range(1, 6)], id="other_numbers"),
        pytest.param(["Same text."] * 4, id="nothing_else"),
        pytest.param(["Letter\nAnna left.", "Letter\nBob came."], id="two_pages"),
        pytest.param(
            ["Results\nA.", "Results\nB.", "Results\nC."] + [f"{c}" for c in "PQRSTUVWXY"],
            id="a_title_of_a_few_slides",
        ),
        pytest.param([f"Part | Price\nBolt {c} | {n}" for n, c in enumerate("ACEG")], id="table"),
        pytest.param(
            [f"{c}\nStep {n} follows.\n{c * 2}" for n, c in enumerate("ACEG")], id="inner"
        ),
        pytest.param([], id="empty"),
        pytest.param(
            [f"Room {c}\nResult: {'failed' if c < 'C' else 'passed'}" for c in "ABCDEF"],
            id="values_of_a_label",
        ),
        pytest.param(
            [f"Room {c}\n结果：{'否' if c < 'C' else '是'}" for c in "ABCDEF"], id="chinese_label"
        ),
        pytest.param(
            [f"Room {c}\nDegrees:\n{n}" for n, c in enumerate("ABC", 20)], id="numbers_of_a_label"
        ),
        pytest.param(
            [f"Degrees:\n{n}\nRoom {c}" for n, c in enumerate("ABC", 20)], id="label_above"
        ),
        pytest.param(
            [f"Exam\nin May\n{name}\nin Oslo\nhas passed" for name in ("Ada", "Bo", "Cy")],
            id="certificates",
        ),
    ],
)
def test_other_lines_stay(pages: list[str]):
    assert without_running_heads(pages) == pages


def test_page_numbers_and_running_heads_below_lines_with_colons_are_dropped():
    pages = [f"Phone:\n0451 22\nText {c}. Also:\n{n}" for n, c in enumerate("ABCD", 5)]
    assert without_running_heads(pages) == [f"Text {c}. Also:" for c in "ABCD"]
    pages = [f"Text {c}.\nPage:\n{n}" for n, c in enumerate("ABCD", 5)]
    assert without_running_heads(pages) == [f"Text {c}." for c in "ABCD"]
    pages = [f"Status: {'open' if n < 8 else 'paid'}\nFor {n * n}.\n{n}" for n in range(5, 11)]
    assert without_running_heads(pages) == [page.rpartition("\n")[0] for page in pages]


def test_two_pages_are_enough_for_page_numbers():
    pages = ["Anna left.\nPage 1 of 2", "Bob came.\nPage 2 of 2"]
    assert without_running_heads(pages) == ["Anna left.", "Bob came."]


@pytest.mark.parametrize(
    "heads",
    [
        ["Invoice No. 1001", "Invoice No. 1002", "Invoice No. 1003"],
        ["Invoice No. | 11", "Invoice No. | 12", "Invoice No. | 13"],
        ["Invoice 1001, page 1", "Invoice 1002, page 1", "Invoice 1003, page 1"],
        ["Invoice 1001 page 1", "Invoice 1002 page 2", "Invoice 1003 page 3"],
        ["Patient ID 501", "Patient ID 502", "Patient ID 503"],
        ["Patient record | 501", "Patient record | 502", "Patient record | 503"],
        ["Exercise sheet 1", "Exercise sheet 2", "Exercise sheet 3"],
        ["Travel report 7", "Travel report 8", "Travel report 9"],
        ["12 March 2021", "13 March 2021", "14 March 2021"],
        ["March 2021 | 12", "March 2021 | 13", "March 2021 | 14"],
        ["2021-03-12", "2021-03-13", "2021-03-14"],
        ["12/3", "13/3", "14/3"],
        ["1989", "1990", "1991"],
        ["Total: 41 EUR", "Total: 42 EUR", "Total: 43 EUR"],
        ["$41", "$42", "$43"],
    ],
    ids=lambda heads: heads[0],
)
@pytest.mark.parametrize("foot", ["", "{n}", "Page {n}"], ids=["alone", "number", "page"])
def test_numbers_and_dates_of_one_item_per_page_stay(heads: list[str], foot: str):
    bodies = [f"{head}\n{body}" for head, body in zip(heads, BODIES, strict=False)]
    pages = [f"{body}\n{foot.format(n=n)}".strip() for n, body in enumerate(bodies, 1)]
    assert without_running_heads(pages) == bodies


def test_numbers_of_several_documents_in_one_file_stay():
    heads = [f"Order {n}" for n in (17, 17, 17, 18, 19)]
    pages = [f"{head}\nText {chr(65 + n)}." for n, head in enumerate(heads)]
    assert without_running_heads(pages)[3:] == pages[3:]


@pytest.mark.parametrize(
    "line", ["ACME Ltd. | {n}", "{n} | Annual Report 2024", "3 | {n} of 19", "{n}/19", "{n} von 19"]
)
def test_a_number_apart_from_a_running_head_and_one_with_the_last_page_are_dropped(line: str):
    pages = [f"{body}\n{line.format(n=n)}" for n, body in enumerate(BODIES, 16)]
    expected = pages if line.startswith("3") else BODIES  # no running head, but a single number
    assert without_running_heads(pages) == expected


def test_page_numbers_at_the_outer_edges_and_of_the_starts_of_chapters_are_dropped():
    heads = ["5", "6 Jane Doe", "The Sea 7", "8 Jane Doe", "The Sea 9", "10", "The Sea 11"]
    heads += ["12 Jane Doe", "13", "14 Jane Doe"]
    bodies = [f"Text {chr(65 + n)}." for n in range(10)]
    pages = [f"{head}\n{body}" for head, body in zip(heads, bodies, strict=True)]
    assert without_running_heads(pages) == bodies


def test_page_numbers_that_begin_again_are_dropped():
    numbers = ["i", "ii", "iii", "iv", *map(str, range(1, 7))]
    pages = [f"Text {chr(65 + n)}.\n{number}" for n, number in enumerate(numbers)]
    assert without_running_heads(pages) == [f"Text {chr(65 + n)}." for n in range(10)]


def test_a_number_alone_that_is_not_that_of_its_page_stays():
    pages = [f"Text {chr(65 + n)}.\n{n + 1}" for n in range(6)]
    pages[3] = "Who came?\n1066"
    assert without_running_heads(pages)[3] == pages[3]


def test_pages_and_bookmarks_of_a_pdf_fit_the_text_without_running_heads():
    pages = [f"The Sea\nPart {word}\n{word} text.\n{n}" for n, word in enumerate("ABC", 1)]
    data = make_bookmarked_pdf(pages, [(1, "Part B", 1)])
    document = read_data(data, "a.pdf")
    assert document.text.split() == "Part A A text. Part B B text. Part C C text.".split()
    starts = {segment[2].get("page"): segment[0] for segment in reversed(document.segments)}
    assert [document.text[starts[n] :][:6] for n in (1, 2, 3)] == ["Part A", "Part B", "Part C"]
    assert [dict(one[2]) for one in document.segments][1] == {"page": 2, "headings": ["Part B"]}


@pytest.mark.parametrize(
    "title",
    ["untitled", "Untitled-1", "Microsoft Word - x.doc", "Microsoft Word - Plan", "report_v2.docx",
     "a", "A.pdf", "Document1", "Presentation1", "file:///tmp/x.htm", "/home/x", " "],
)  # fmt: skip
def test_a_made_up_title_or_a_file_name_is_ignored(title: str):
    assert read_data(make_pdf(["Bob."], title), "docs/a.pdf").title is None


@pytest.mark.parametrize("title", ["The Sea", "Untitled stories", "Document management", "Node.js"])
def test_a_real_title_is_kept(title: str):
    assert read_data(make_pdf(["Bob."], title), "a.pdf").title == title


def test_a_scanned_pdf_is_refused_with_the_reason():
    with pytest.raises(UnreadableFileError, match=r"a\.pdf has no text: its pages are probably"):
        read_data(make_pdf_of([b"q 1 0 0 1 0 0 cm Q"] * 2, [0, 1]), "a.pdf")
