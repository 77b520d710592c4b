"""The page of an index in shards: what it can do, and an answer without a shard."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("playwright")

from chromium import running_page
from e2graphrag_integrations import HashingEmbedder, Models, SourceDocument
from e2graphrag_integrations.server.web import make_app
from e2graphrag_integrations.shards import create_shards, open_shards
from fakes import NameExtractor


@pytest.mark.slow
def test_documents_are_deleted_but_not_added_and_a_lost_shard_is_named(
    open_page, check_access, tmp_path
):
    create_shards(tmp_path / "x.shards.json", 2)
    models = Models(extractor=NameExtractor())
    options = {"embedder": HashingEmbedder(), "models": models, "partial": True}
    with open_shards(tmp_path / "x.shards.json", **options) as shards:
        shards.add([SourceDocument(f"d{day}", f"Anna met Bert on day {day}.") for day in range(6)])
        with running_page(make_app(shards)) as url:
            page = open_page(f"{url}#/documents")
            page.locator("#view-documents tbody tr").first.wait_for()
            told = page.locator("#view-documents .hint", has_text="This index is in 2 shards.")
            assert "e2graphrag indexes add-to-shards" in told.inner_text()
            assert not page.locator("#upload, #reindex:visible").count()
            page.locator("#select-page").check()
            assert page.locator("#delete-selected").is_visible()
            assert not page.locator("#index-selected").is_visible()
            page.goto(f"{url}#/graph?entity=anna")
            page.locator("#view-graph .graph-members li").first.wait_for()
            assert not page.locator("#edits-heading").count()
    lost = Path(shards.shards[1])
    lost.rename(lost.with_suffix(".hidden"))
    again = open_shards(tmp_path / "x.shards.json", **options)
    with again as shards, running_page(make_app(shards)) as url:
        page = open_page(f"{url}#/ask?q=Anna")
        warning = page.locator(".answer .incomplete")
        warning.wait_for()
        assert warning.inner_text().startswith("Parts of the index cannot be asked now: x.1.")
        told = page.locator("#state", has_text="Parts of the index cannot be asked now: x.1.")
        told.wait_for()
        check_access(page, width=1280, theme="light")
        page.goto(f"{url}#/graph?entity=anna")
        page.locator("#view-graph .graph-members li").first.wait_for()
        assert told.is_visible()
