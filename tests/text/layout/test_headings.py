from __future__ import annotations

import pytest

from e2graphrag_integrations.text.layout.headings import first_line_heading, markdown_headings

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
    "text", ["", "#", "# ", "---", "\n===", f"# {'word ' * 13}", "a" * 500 + "\n---"]
)
def test_other_lines_are_no_markdown_headings(text):
    assert list(markdown_headings(text)) == []


def test_a_long_chinese_line_is_no_heading():
    body = "\n" + "正文" * 60 + "。"
    assert first_line_heading("赤壁之战" + body) == "赤壁之战"
    assert first_line_heading("很长的一行" * 8 + body) is None
