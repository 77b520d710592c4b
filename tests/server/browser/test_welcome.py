"""The first screen in Chromium: what the index holds, and questions that a click asks."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("playwright")
from playwright.sync_api import expect

from chromium import running_page
from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.server.web import WebOptions, make_app
from e2graphrag_integrations.views.graph import list_entities


def test_the_first_screen_shows_the_index_and_a_click_asks_a_question(open_page, web_index):
    web_index.add(SourceDocument("pair.txt", "Viktor met Wanda in Bergen."))
    stats = web_index.stats()
    with running_page(make_app(web_index)) as url:
        page = open_page(url)
        facts = page.locator("#index-facts")
        facts.wait_for()
        assert facts.locator("span").all_inner_texts() == [
            "4 documents",
            f"{stats.chunks} chunks",
            f"{list_entities(web_index, names_only=True).total} names",
            "English",
        ]
        page.locator("#a-k").fill("2")
        expect(page).to_have_url(re.compile(r"a\.k=2"))
        link = page.locator(".examples a", has_text="connected?").first
        text = link.inner_text()
        link.focus()
        page.keyboard.press("Enter")
        page.locator(".hit").first.wait_for()
        assert page.locator("#question").input_value() == text
        expect(page.locator("#question")).to_be_focused()
        assert page.locator("#a-k").input_value() == "2"  # the settings are kept
        assert page.locator(".hit").count() <= 2
        expect(page.locator(".welcome")).to_have_count(0)


@pytest.mark.slow
def test_the_first_screen_follows_the_index(open_page, web_index):
    for one in web_index.status():
        web_index.delete(one.id)
    with running_page(make_app(web_index)) as url:
        page = open_page(url)
        page.locator(".drop", has_text="Choose a folder").wait_for()  # begin with files
        page.locator('a[data-view="ask"]').click()
        page.locator(".welcome", has_text="Add documents first.").wait_for()
        web_index.add(SourceDocument("new.txt", "Viktor met Wanda."))
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        expect(page.locator("#index-facts")).to_contain_text("1 document")
        page.locator(".examples a", has_text="How are Viktor and Wanda connected?").wait_for()


def test_a_session_of_a_scope_sees_its_own_names(open_page, web_index):
    web_index.add(SourceDocument("own.txt", "Viktor met Wanda.", metadata={"tenant": "a"}))
    with running_page(make_app(web_index, WebOptions(where={"tenant": "a"}))) as url:
        page = open_page(url)
        expect(page.locator("#index-facts")).to_contain_text("1 document")
        assert page.locator(".examples a").all_inner_texts() == [
            "How are Viktor and Wanda connected?"
        ]


def test_hostile_names_stay_text_in_the_confirmation_and_the_examples(open_page, page_url):
    page = open_page(f"{page_url}#/documents")
    page.locator("#document-search").fill("mallory")
    row = page.locator("tbody tr")
    expect(row).to_have_count(1)
    row.get_by_role("checkbox").check()
    page.locator("#delete-selected").click()
    dialog = page.locator("dialog")
    assert "Mallory <script>" in dialog.inner_text()
    assert not dialog.locator("script, img, iframe").count()
    page.keyboard.press("Escape")
    expect(page.locator("#delete-selected")).to_be_focused()
    page.locator('nav a[data-view="ask"]').click()
    page.locator(".examples a", has_text="Mallory").wait_for()
    assert page.evaluate("attacks") == []


@pytest.mark.slow
@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "light"), (390, "dark")])
@pytest.mark.parametrize("view", ["ask", "documents"])
def test_the_first_screen_and_a_selection_are_accessible(
    open_page, page_url, check_access, view, width, theme
):
    page = open_page(f"{page_url}#/{view}", width=width)
    if view == "ask":
        page.locator(".examples a").first.wait_for()
    else:
        boxes = page.locator("tbody").get_by_role("checkbox")
        for place in (0, 1):  # one has failed
            boxes.nth(place).check()
        page.locator("#index-selected").wait_for()
    check_access(page, width=width, theme=theme)
    assert page.evaluate("attacks") == []
