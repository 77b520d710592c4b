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
    ],
)
def test_other_lines_stay(pages: list[str]):
    assert without_running_heads(pages) == pages


def test_two_pages_are_enough_for_page_numbers():
    pages = ["Anna left.\nPage 1 of 2", "Bob came.\nPage 2 of 2"]
    assert without_running_heads(pages) == ["Anna left.", "Bob came."]


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
