from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2graphrag_integrations.text.headings import (
    first_line_heading,
    front_matter,
    is_junk_title,
    markdown_headings,
    name_of_file,
    section_name,
    words_of_file,
)

BODY = "Jeffrey Thomas Porcaro was an American drummer, songwriter and record producer."


@pytest.mark.parametrize(
    ("first_line", "heading"),
    [
        ("Jeff Porcaro", "Jeff Porcaro"),
        ("  Jeff Porcaro  ", "Jeff Porcaro"),
        ("Star Wars: A New Hope", "Star Wars: A New Hope"),
        ("红楼梦", "红楼梦"),
    ],
)
def test_a_short_first_line_is_a_heading(first_line, heading):
    assert first_line_heading(f"{first_line}\n{BODY}") == heading
    assert first_line_heading(f"\n\n{first_line}\r\n\n{BODY}") == heading


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "Jeff Porcaro",
        "Jeff Porcaro\n",
        f"He was born in Hartford.\n{BODY}",
        f"Was he born in Hartford?\n{BODY}",
        f"A line that goes on,\n{BODY}",
        "Jeff Porcaro\nwas an American drummer, songwriter and record producer of the band.",
        f"{'word ' * 13}\n{BODY * 3}",
        "It was the best of times, it was the worst\nIt was the age of wisdom, it was the age",
    ],
)
def test_other_first_lines_are_not_headings(text):
    assert first_line_heading(text) is None


MARKDOWN = """\
# [The Palace](https://example.org) #

Of **green** porcelain.

Weena
-----
She swam.

```sh
# not a heading
```

   ### *Eloi* ###
#no heading
| a | b |
|---|---|
"""


def test_markdown_headings_have_levels_and_spans_in_the_text():
    headings = list(markdown_headings(MARKDOWN))
    assert [(h.name, h.level) for h in headings] == [("The Palace", 1), ("Weena", 2), ("Eloi", 3)]
    assert [
        MARKDOWN[h.start :].startswith(p) for h, p in zip(headings, ("#", "W", "   #"), strict=True)
    ]


@pytest.mark.parametrize(
    "block",
    [
        "````\n```\n# x\n```\n````",
        "~~~ sh\n```\n# x\n~~~~ \n",
        "```\n~~~\n# x\n``` sh\n# x\n```",
        "```ls``` lists files\n\nA <!-- b",
        "<!-- x\n# x\n\n```\n# x -->",
        "<!-- x -->\n\n<!--\nx\n----\n" + "y" * 500 + "-->",
        "```\n<!--\n```",
        "A -->",
    ],
)
def test_headings_after_code_and_comments_are_found_and_those_in_them_are_none(block: str):
    headings = markdown_headings(f"# First\n\n{block}\n\n# Last\n\n<!-- no end\n\n# End\n")
    assert [heading.name for heading in headings] == ["First", "Last", "End"]


@pytest.mark.parametrize(
    "text", ["", "#", "# ", "---", "\n===", f"# {'word ' * 13}", "a" * 500 + "\n---"]
)
def test_other_lines_are_no_markdown_headings(text):
    assert list(markdown_headings(text)) == []


YAML = "---\nauthor: Ann Lund\ntags:\n  - saws\n# a comment\nlast updated: 2024-05-01\n---\n"
TOML = '+++\r\ntitle = "Saws"\r\n[params]\r\nauthor = "Ann"\r\n+++\r\n'


@pytest.mark.parametrize("front", [YAML, TOML])
def test_front_matter_contains_no_headings(front):
    text = f"{front}\n# Tools\n\nSaws\n----\n"
    assert front_matter(text) == front
    [tools, saws] = markdown_headings(text)
    assert (tools.name, saws.name) == ("Tools", "Saws")
    assert text[tools.start : saws.end] == "# Tools\n\nSaws\n----"


@pytest.mark.parametrize(
    "slides", ["---\n# Tools\n\nsaws\n---\n# Dogs\n", "---\nWe met Ann.\n---\n", "---\na: b\n"]
)
def test_lines_between_slides_are_no_front_matter(slides):
    assert front_matter(slides) == ""


def test_a_long_chinese_line_is_no_heading():
    body = "\n" + "正文" * 60 + "。"
    assert first_line_heading("赤壁之战" + body) == "赤壁之战"
    assert first_line_heading("很长的一行" * 8 + body) is None


@pytest.mark.parametrize(
    "title",
    [
        "Microsoft Word - x.doc",
        "Microsoft PowerPoint - Talk",
        "untitled",
        "Untitled-1",
        "Document1",
        "PowerPoint Presentation",
        "slide 1",
        "report_final.docx",
        "scan.pdf",
        "10.1017/s0034670500032745",
        "doi:10.2307/2672986",
        "https://example.org/a",
        "20260106_0900",
        "d41d8cd98f00b204e9800998ecf8427e",
        "2024-01-05",
        "January 5, 2024",
        "5 May 2024",
        "***",
    ],
)
def test_title_without_a_name_is_junk(title):
    assert is_junk_title(title)


@pytest.mark.parametrize(
    "title",
    [
        "Dune (novel)",
        "1984",
        "Mars",
        "Augere",
        "May",
        "Apollo 13",
        "2001: A Space Odyssey",
        "The Document",
        "Microsoft Word",
        "Facebook",
        "时间机器",
    ],
)
def test_title_with_a_name_is_not_junk(title):
    assert not is_junk_title(title)


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        ("Weena", "Weena"),
        ("3.1 The Palace", "The Palace"),
        ("IV. The Time Machine", "The Time Machine"),
        ("Appendix A: Palaces", "Palaces"),
        ("I, Claudius", "I, Claudius"),
        ("Civil War", "Civil War"),
        ("Vitamin C", "Vitamin C"),
        ("Introduction", None),
        ("Results and Discussion", None),
        ("1.2 Results", None),
        ("Chapter 3", None),
        ("Part II", None),
        ("Table of Contents", None),
        ("See also", None),
        ("May 2024", None),
        ("", None),
    ],
)
def test_section_name_is_the_heading_without_its_number(heading, name):
    assert section_name(heading) == name


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("Palace of Green Porcelain.pdf", "Palace of Green Porcelain"),
        ("books/Jeff_Porcaro.txt", "Jeff Porcaro"),
        ("C:\\books\\Weena.docx", "Weena"),
        ("Apollo 13.pdf", "Apollo 13"),
        ("时间机器.txt", "时间机器"),
        ("scan_0042.pdf", None),
        ("final-v2.docx", None),
        ("Report Final.docx", None),
        ("README.md", None),
        ("Introduction.md", None),
        ("notes.txt", None),
        ("Weena", None),
        ("Mr. Smith", None),
        ("https://example.org/Weena.html", None),
        (".pdf", None),
    ],
)
def test_file_name_counts_only_if_it_reads_as_a_name(path, name):
    assert name_of_file(path) == name


@given(st.text(max_size=60))
def test_any_text_is_judged_without_an_error(text):
    assert is_junk_title(text) in (True, False)
    for found in (section_name(text), name_of_file(text), name_of_file(f"{text}.pdf")):
        assert found is None or found.strip()


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        ("第三章 赤壁之战", "赤壁之战"),
        ("第一回 宴桃园豪杰三结义", "宴桃园豪杰三结义"),
        ("二、诸葛亮", "诸葛亮"),
        ("第十二章", None),
        ("一、简介", None),
        ("參考文獻", None),
        ("三国演义", "三国演义"),
    ],
)
def test_chinese_headings_lose_their_number(heading, name):
    assert section_name(heading) == name


@pytest.mark.parametrize(
    "title", ["未命名文档", "新建文本文档 (2)", "第12页", "2024年1月5日", "幻灯片3"]
)
def test_chinese_templates_and_dates_are_junk(title):
    assert is_junk_title(title)
    assert not is_junk_title("三国演义")


def test_a_title_of_many_numbers_is_judged_in_linear_time():
    """With cubic time this would take hours, so no time is asserted."""
    assert not is_junk_title("1_" * 20_000 + " x")
    assert is_junk_title("report_2024_final")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("reports/annual_report_2021.pdf", "reports annual report 2021"),
        (r"C:\data\acme\2021\AnnualReport.docx", "acme 2021 Annual Report"),
        ("https://example.com/docs/pump%20X200/install?lang=en", "docs pump X200 install"),
        ("https://example.com", ""),
        ("report2021.txt", "report 2021"),
        ("notes_v2.md", "notes v2"),
        ("uploads/0f8fad5b-d9cb-469f-a165-70867728950e.pdf", "uploads"),
        ("2024-03-05_minutes.txt", "2024-03-05 minutes"),
        ("20240305.txt", "20240305"),
        ("年度报告_2021.pdf", "年度报告 2021"),
        ("uploaded by Ann", ""),
        ("doc-7", ""),
        ("", ""),
        ("./../.txt", ""),
    ],
)
def test_words_of_a_file_are_those_of_its_name_and_two_folders(path, words):
    assert words_of_file(path) == words
