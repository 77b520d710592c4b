"""Markdown: the title."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2graphrag_integrations.loaders import read_file


@pytest.mark.parametrize(
    ("text", "title"),
    [
        pytest.param("# Title\n\nBody.", "Title", id="first_line"),
        pytest.param("\n\n# Title\n", "Title", id="after_blank_lines"),
        pytest.param("Body.\n\n# Title", None, id="later_heading"),
        pytest.param("## Title", None, id="second_level"),
        pytest.param("# ", None, id="empty_heading"),
        pytest.param("# Title\rBody.\r", "Title", id="line_ends_of_old_macs"),
        pytest.param("Title\n=====\n\nBody.", "Title", id="underlined"),
        pytest.param("Body.\nMore.", None, id="two_lines"),
        pytest.param("<!-- a\nb -->\n# Title", "Title", id="after_a_comment"),
        pytest.param(
            '<p align="center"><img src="x"></p>\n\n[![b](http://x)](y) ![c](d)\n# Title',
            "Title",
            id="after_images",
        ),
        pytest.param("---\ndate: 1\n---\n\n# Title", "Title", id="after_front_matter"),
        pytest.param('---\ntitle: "A: Title"\n---\n# Other', "A: Title", id="front_matter"),
        pytest.param("---\r\ntitle: A Title\r\n---\r\nBody.", "A Title", id="windows"),
        pytest.param("+++\ntitle = 'A Title'\n+++\nBody.", "A Title", id="toml"),
        pytest.param("---\ntitle: >\n  Folded\n---\n# Title", "Title", id="folded_title"),
        pytest.param("Body.\n\n---\ntitle: x\n---\n", None, id="later_rule"),
    ],
)
def test_a_heading_on_the_first_line_or_the_front_matter_gives_the_title(
    tmp_path: Path, text: str, title: str | None
):
    (tmp_path / "a.md").write_text(text, newline="")
    document = read_file(tmp_path / "a.md")
    assert (document.title, document.text) == (title, text)
