"""Keyboard shortcuts, the selected hit, and the header that stays in view."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("playwright")
from playwright.sync_api import expect

from chromium import SIZES, running_page
from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.server.web import make_app

QUESTION = "q=Where+did+Alice+meet+Bob%3F&a.k=4"


def current(page):
    """Return the number of the selected hit, from 1 on; 0 if there is none."""
    hits = page.locator(".hit")
    classes = hits.evaluate_all("all => all.map((one) => one.classList.contains('is-current'))")
    return classes.index(True) + 1 if any(classes) else 0


def test_keys_move_through_the_hits_and_the_views(open_page, page_url):
    page = open_page(f"{page_url}#/ask?{QUESTION}")
    page.locator(".hit").nth(3).wait_for()
    keyboard = page.keyboard
    for key, place in (("j", 1), ("j", 2), ("ArrowDown", 3), ("k", 2), ("ArrowUp", 1), ("k", 1)):
        keyboard.press(key)
        assert current(page) == place, key
    keyboard.press("j")
    keyboard.press("w")
    expect(page.locator(".hit.is-current .why")).to_have_attribute("open", "")
    keyboard.press("Escape")
    expect(page.locator(".hit .why[open]")).to_have_count(0)
    keyboard.press("Enter")
    page.locator("#view-tree .is-target").wait_for()
    page.go_back()
    expect(page.locator(".hit.is-current")).to_be_visible()
    page.locator(".hit.is-current article").focus()
    keyboard.press("r")
    page.locator("dialog mark", has_text="Alice met Bob").wait_for()
    keyboard.press("Escape")
    keyboard.press("?")
    expect(page.locator("dialog.keys")).to_be_visible()
    keyboard.press("j")  # means nothing below a dialog
    keyboard.press("Escape")
    assert current(page) == 2
    keyboard.press("g")
    keyboard.press("d")
    page.locator("#view-documents tbody tr").first.wait_for()
    keyboard.press("/")
    expect(page.locator("#question")).to_be_focused()
    keyboard.type("?gdj/")
    assert page.locator("#question").input_value().endswith("?gdj/")
    assert "#/ask" in page.url
    assert not page.locator("dialog").count()


@pytest.mark.slow
def test_the_address_keeps_the_selected_hit_and_its_document(open_page, page_url):
    page = open_page(f"{page_url}#/ask?{QUESTION}&compare=1&b.mode=local&b.k=3")
    page.locator('[data-setting="B"] .hit').nth(2).wait_for()
    for _ in range(6):
        page.keyboard.press("j")
    page.wait_for_url(re.compile(r"hit=B\."))
    page.keyboard.press("r")
    page.wait_for_url("**read=1**")
    marked = page.locator("dialog mark").inner_text()
    other = open_page(page.url)
    expect(other.locator("dialog mark")).to_have_text(marked)
    other.keyboard.press("Escape")
    expect(other.locator(".hit.is-current article")).to_be_focused()
    assert current(other) == 6
    expect(other).not_to_have_url(re.compile("read=1"))
    other.locator("#question").fill("Who is Dora?")
    other.locator("#question").press("Enter")
    expect(other).to_have_url(re.compile("q=Who"))
    expect(other.locator(".hit.is-current")).to_have_count(0)


@pytest.mark.slow
def test_the_address_keeps_the_list_of_documents(open_page, page_url):
    page = open_page(f"{page_url}#/documents?status=done&order=-characters&page=2")
    page.locator("tbody tr").first.wait_for()
    assert page.locator("#document-status").input_value() == "done"
    assert page.locator("[aria-sort=descending]").inner_text() == "Characters"
    assert "26–" in page.locator("#view-documents nav .hint").inner_text()
    page.locator("#document-search").fill("treasure")
    page.wait_for_url("**search=treasure**")
    page.get_by_role("button", name="Read treasure.pdf").click()
    page.wait_for_url("**read=treasure.pdf**")
    other = open_page(page.url)
    expect(other.locator("dialog .document-text")).to_contain_text("Dora found the treasure")
    other.go_back()
    other.go_forward()
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile("read="))
    page.locator('a[data-view="tree"]').click()
    page.locator('a[data-view="documents"]').click()
    expect(page.locator("#document-search")).to_have_value("treasure")
    expect(page).to_have_url(re.compile("search=treasure"))


@pytest.mark.slow
def test_a_hit_is_marked_in_a_long_document_and_the_text_before_it_can_be_read(
    open_page, web_index
):
    quiet = "The harbour was quiet, and nobody knew why. " * 100
    web_index.add(SourceDocument("long.txt", f"😀 {quiet}Zoe met Yann in Oslo. {quiet}"))
    with running_page(make_app(web_index)) as url:
        page = open_page(f"{url}#/ask?q=Where+did+Zoe+meet+Yann%3F&a.k=1")
        page.locator(".hit", has_text="Zoe met Yann").wait_for()
        page.keyboard.press("j")
        page.keyboard.press("r")
        mark = page.locator("dialog mark")
        expect(mark).to_contain_text("Zoe met Yann")
        assert mark.evaluate("one => one.getBoundingClientRect().top < innerHeight")
        text = page.locator("dialog .document-text")
        assert "😀" not in text.inner_text()
        page.get_by_role("button", name="Show the text before it").click()
        expect(text).to_contain_text("😀")
        assert text.inner_text().replace("\n", " ").count("Zoe met Yann") == 1


@pytest.mark.slow
def test_the_address_keeps_the_searches_of_the_graph_and_the_tree(open_page, page_url):
    page = open_page(f"{page_url}#/graph")
    page.locator("#view-graph .graph-members li").first.wait_for()
    page.locator("#graph-size").select_option("20")
    page.locator("#entity-search").fill("ca")
    page.wait_for_url("**find=ca**")
    title = page.locator("#graph-title").inner_text()
    other = open_page(page.url)
    expect(other.locator("#graph-title")).to_have_text(title)
    expect(other.locator("#entity-search")).to_have_value("ca")
    assert other.locator("#graph-size").input_value() == "20"
    other.locator(".entity-list a", has_text="Carol").click()
    expect(other).to_have_url(re.compile(r"entity=carol&find=ca&size=20"))
    page.goto(f"{page_url}#/tree")
    page.locator("#tree-search").fill("treasure")
    page.wait_for_url("**search=treasure**")
    page.locator(".tree-documents a").click()
    page.locator(".tree-node").first.wait_for()
    other = open_page(page.url)
    expect(other.locator("#tree-title")).to_contain_text("treasure.pdf")
    expect(other.locator("#tree-search")).to_have_value("treasure")


@pytest.mark.slow
def test_shortcuts_can_be_switched_off(open_page, page_url):
    page = open_page(f"{page_url}#/ask?{QUESTION}")
    page.locator(".hit").first.wait_for()
    page.locator("#keys").click()
    page.locator("#keys-on").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("?")
    assert current(page) == 0
    assert not page.locator("dialog").count()
    page.locator("#keys").click()
    assert not page.locator("#keys-on").is_checked()


@pytest.mark.slow
@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
def test_the_header_stays_and_hides_nothing_that_has_the_focus(open_page, page_url, locale):
    page = open_page(f"{page_url}#/ask?{QUESTION}&a.k=20", locale=locale)
    page.locator(".hit").nth(9).wait_for()
    for width, height in {**SIZES, 800: 380}.items():
        page.set_viewport_size({"width": width, "height": height})
        for key in ("j",) * 8 + ("k",) * 5:
            page.keyboard.press(key)
        box = page.locator(".top").bounding_box()
        hit = page.locator(".hit.is-current").bounding_box()
        stays = height > 480
        assert (box["y"] == 0) == stays
        assert hit["y"] >= (box["height"] if stays else 0)
        assert box["height"] < height / 5 or not stays


@pytest.mark.slow
@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
def test_the_sheet_and_the_document_are_accessible(open_page, page_url, check_access, locale):
    page = open_page(f"{page_url}#/ask?{QUESTION}", locale=locale)
    page.locator(".hit").first.wait_for()
    for key, width in (("?", 390), ("?", 1280), ("r", 390), ("r", 1920)):
        page.keyboard.press("j")
        page.keyboard.press(key)
        page.locator("dialog[open]").wait_for()
        check_access(page, width=width, theme="light")
        check_access(page, width=width, theme="dark")
        page.keyboard.press("Escape")
