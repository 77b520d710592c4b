"""HTML: visible text, blocks, encodings and broken markup."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from e2graphrag_integrations.errors import UnreadableFileError
from e2graphrag_integrations.loaders import read_documents, read_file


def test_html_keeps_words_together_and_blocks_apart(tmp_path: Path):
    (tmp_path / "a.html").write_text(
        "<html><head><title>The page</title><style>p{}</style><script>x()</script></head><body>"
        "<h1>Head</h1><p>One <b>bo</b>ld word.</p><ul><li>first</li><li>second</li></ul></body>"
    )
    [document] = read_documents([tmp_path])
    assert document.title == "The page"
    assert document.text.split("\n\n")[0].strip() == "Head"
    assert "One bold word." in document.text
    assert "x()" not in document.text
    assert "first\n" in document.text


@pytest.mark.parametrize(
    "markup",
    [
        pytest.param("<div>" * 60_000 + "Bob", id="deep"),
        pytest.param("<p>Bob</p>" * 20_000 + "<br>" * 20_000, id="long"),
    ],
)
def test_html_is_read_in_linear_time(tmp_path: Path, markup: str):
    (tmp_path / "a.html").write_text(markup)
    started = time.perf_counter()
    assert read_file(tmp_path / "a.html").text.startswith("Bob")
    # Linear traversal takes about a second; modifying the tree in place took minutes.
    assert time.perf_counter() - started < 10


def test_html_leaves_out_comments_templates_and_declarations(tmp_path: Path):
    (tmp_path / "a.html").write_text(
        "<!doctype html><p>one<!-- no --><template>no</template> two<table><tr><td>a<td>b</table>"
    )
    assert read_file(tmp_path / "a.html").text == "one two\n\na\nb"


def test_xhtml_and_a_page_like_a_file_name_are_read_without_warnings(tmp_path: Path):
    (tmp_path / "a.html").write_text('<?xml version="1.0"?><html><p>Bob</p></html>')
    (tmp_path / "b.html").write_text("b.html")
    assert [d.text for d in read_documents([tmp_path])] == ["Bob", "b.html"]


def test_broken_html_is_rejected_with_the_reason(tmp_path: Path):
    (tmp_path / "a.html").write_text("<![foo <!-- <p <<>> ")
    with pytest.raises(
        UnreadableFileError, match="not a readable HTML file: AssertionError: unknown"
    ):
        read_file(tmp_path / "a.html")
