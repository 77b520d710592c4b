"""The dates of documents in Chromium: a column that is there if the index has dates."""

from __future__ import annotations

import pytest

pytest.importorskip("playwright")
from playwright.sync_api import expect

from chromium import running_page
from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.server.web import make_app

pytestmark = pytest.mark.slow


def test_documents_have_a_column_with_dates_if_there_are_some(open_page, web_index, check_access):
    with running_page(make_app(web_index)) as url:
        page = open_page(f"{url}#/documents")
        page.locator(".documents tbody tr").first.wait_for()
        assert page.get_by_role("button", name="Date").count() == 0
        for day in (3, 9):
            metadata = {"date": f"2024-05-0{day}T10:00"}
            web_index.add(SourceDocument(f"day-{day}", f"Bob slept on day {day}.", None, metadata))
        page.reload()
        page.get_by_role("button", name="Date").click()
        cell = page.locator('td[data-label="Date"]')
        expect(cell.first).to_have_text("2024-05-09")
        page.get_by_role("button", name="Date").click()
        expect(cell.first).to_have_text("2024-05-03")
        expect(cell.last).to_have_text("–")
        for width in (1280, 390):
            check_access(page, width=width, theme="light")
        expect(page.locator("#document-order")).to_have_value("date")
