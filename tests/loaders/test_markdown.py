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
    ],
)
def test_level_1_heading_on_the_first_line_becomes_the_title(
    tmp_path: Path, text: str, title: str | None
):
    (tmp_path / "a.md").write_text(text)
    document = read_file(tmp_path / "a.md")
    assert (document.title, document.text) == (title, text)
