"""llms.txt has the format of llmstxt.org and lists every page of the documentation."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def llms(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    return importlib.import_module("llms")


def test_llms_txt_has_a_title_a_summary_and_described_links(llms):
    title, summary, *groups = llms.llms_txt().strip().split("\n\n")
    assert re.fullmatch(r"# \S.*", title)
    assert re.fullmatch(r"> \S.{40,}", summary)
    assert groups[-2] == "## Optional"
    for heading, links in zip(groups[::2], groups[1::2], strict=True):
        assert re.fullmatch(r"## \S.*", heading)
        for line in links.splitlines():
            assert re.fullmatch(r"- \[[^\]]+\]\(https://\S+\): \S.{10,}", line), line


def test_llms_txt_lists_every_page_once(llms):
    linked = re.findall(r"/latest/(?:_sources/)?(\S+?)(?:\.md\.txt|\.html)\)", llms.llms_txt())
    pages = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")}
    pages = {page for page in pages if not page.startswith(("_", "maintainers/"))}
    assert sorted(linked) == sorted(pages - {"index", "api/index"})


def test_full_text_contains_the_pages(llms):
    text = llms.llms_full_txt()
    assert "# Coming from GraphRAG" in text
    assert "{toctree}" not in text
    assert "\n# Benchmarks\n" not in text
