"""The page in Chromium: views, themes, widths, keyboard, hostile texts, tokens, lost servers."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("playwright")
from playwright.sync_api import expect

from chromium import SIZES, running_page
from e2graphrag_integrations.server.web import Client, WebOptions, make_app

READY = {
    "ask": "#question",
    "documents": "#view-documents tbody tr",
    "graph": "#view-graph li",
    "tree": "#view-tree li",
}
"""Elements that each view shows when it is complete."""
TOKEN = "a-token-of-the-tests"  # noqa: S105 - for tests only


def ask(page, question):
    page.locator("#question").fill(question)
    page.locator("#question").press("Enter")
    page.locator("#answers:not([aria-busy])").wait_for()
    page.locator("#answers .hits, #answers .empty, #answers .error").first.wait_for()


def show(page, view):
    page.locator(f'nav a[data-view="{view}"]').click()
    page.locator(READY[view]).first.wait_for()


@pytest.mark.slow
@pytest.mark.parametrize("view", ["ask", "documents", "tree"])  # the graph has tests of its own
def test_views_are_accessible_in_both_themes_and_widths(open_page, page_url, check_access, view):
    question = (
        "q=Where+did+Alice+meet+Bob%3F&compare=1&a.k=3&b.k=2&b.mode=global&gold=letter-02.txt"
    )
    page = open_page(f"{page_url}#/{view}{'?' + question if view == 'ask' else ''}")
    page.locator(READY[view]).first.wait_for()
    if view == "ask":
        page.locator('[data-setting="B"] .hit').first.wait_for()
        page.get_by_text("Save the question").dispatch_event("click")
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    for width in SIZES:
        for theme in ("light", "dark"):
            check_access(page, width=width, theme=theme)


@pytest.mark.slow
def test_no_view_shows_a_missing_value(open_page, page_url):
    page = open_page(page_url)
    question = "q=Where+did+Alice+meet+Bob%3F"
    addresses = {
        f"ask?{question}&a.paths=1&gold=letter-02.txt": ".hit",
        f"ask?{question}&compare=1&b.mode=local": '[data-setting="B"] .hit',
        f"ask?{question}&compare=1&a.strategy=tree&b.strategy=paper": '[data-setting="B"] .hit',
        "documents": READY["documents"],
        "graph?entity=alice": "#view-graph li",
        "tree?document=treasure.pdf": ".tree-node",
    }
    for address, ready in addresses.items():
        page.goto(f"{page_url}#/{address}")
        page.locator(ready).first.wait_for()
        page.locator("[aria-busy]").first.wait_for(state="detached")
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        view = page.locator("main > .view:not([hidden])")
        labels = view.evaluate(
            "one => [...one.querySelectorAll('*')].flatMap((each) => ['aria-label', 'title', "
            "'placeholder', 'href'].map((name) => each.getAttribute(name) ?? '')).join('\\n')"
        )
        shown = f"{page.title()}\n{view.inner_text()}\n{labels}"
        assert len(shown) > 100
        for word in ("null", "undefined", "NaN", "[object"):
            assert word not in shown, (address, word)


@pytest.mark.slow
def test_theme_follows_the_system_until_one_is_chosen(open_page, page_url):
    page = open_page(page_url, color_scheme="dark")
    background = "getComputedStyle(document.documentElement).backgroundColor"
    dark = page.evaluate(background)
    page.emulate_media(color_scheme="light")
    light = page.evaluate(background)
    assert dark != light
    page.locator("#theme").select_option("dark")
    assert page.evaluate(background) == dark
    page.reload()
    assert page.evaluate(background) == dark
    assert page.locator("#theme").input_value() == "dark"
    page.locator("#theme").select_option("system")
    assert page.evaluate(background) == light


@pytest.mark.slow
def test_the_keyboard_alone_asks_a_question_and_switches_views(open_page, page_url):
    page = open_page(page_url)
    page.locator("#question").wait_for()
    keyboard = page.keyboard
    keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "skip"
    keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    keyboard.press("Tab")
    keyboard.type("Where did Alice meet Bob?")
    keyboard.press("Enter")
    page.locator(".hit").first.wait_for()
    outlines = set()
    for _ in range(20):  # to the first control of the first hit
        keyboard.press("Tab")
        outlines.add(page.evaluate("getComputedStyle(document.activeElement).outlineStyle"))
        if page.evaluate("document.activeElement.closest('.hit') !== null"):
            break
    assert page.evaluate("document.activeElement.closest('.hit') !== null")
    assert "none" not in outlines
    page.wait_for_load_state("networkidle")  # what loads later adds controls on the way
    for _ in range(80):
        keyboard.press("Shift+Tab")
        if page.evaluate("document.activeElement.dataset.view") == "documents":
            break
    assert page.evaluate("document.activeElement.dataset.view") == "documents"
    keyboard.press("Enter")
    page.locator("#view-documents tbody tr").first.wait_for()
    assert page.locator('nav a[aria-current="page"]').inner_text() == "Documents"


@pytest.mark.slow
def test_a_link_opens_the_question_with_its_settings_and_a_reload_keeps_them(open_page, page_url):
    page = open_page(page_url)
    page.locator("#a-k").fill("2")
    page.locator("#a-mode").select_option("global")
    ask(page, "Where did Alice meet Bob?")
    address = page.url
    titles = page.locator(".hit").all_inner_texts()
    page.reload()
    page.locator(".hit").first.wait_for()
    assert page.locator(".hit").all_inner_texts() == titles
    assert len(titles) == 2
    other = open_page(address)
    other.locator(".hit").first.wait_for()
    assert other.locator("#question").input_value() == "Where did Alice meet Bob?"
    assert other.locator("#a-mode").input_value() == "global"
    other.locator("#question").fill("Who is Dora?")
    other.wait_for_url("**Who+is+Dora*")  # the address follows the form
    ask(other, "Who is Dora?")
    other.go_back()
    expect(other.locator("#question")).to_have_value("Where did Alice meet Bob?")


def test_hostile_texts_do_nothing(open_page, page_url):
    page = open_page(f"{page_url}#/ask?q=Mallory+parcel&a.k=3")
    page.locator('.hit:has-text("<script>")').first.wait_for()
    page.locator(".why > summary").first.click()
    page.locator(".numbers > summary").first.click()
    page.locator(".metadata", has_text="<script>").first.wait_for()
    assert page.locator(".hit script, .hit img, .hit svg, .hit iframe").count() == 0
    hrefs = page.eval_on_selector_all("main a", "all => all.map((one) => one.getAttribute('href'))")
    assert hrefs
    assert all(one.startswith("#/") for one in hrefs)
    show(page, "documents")
    page.locator("#document-search").fill("<script>")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.locator("tbody button", has_text="Read").click()
    page.locator("dialog .document-text", has_text="onerror").wait_for()
    page.keyboard.press("Escape")
    page.locator("#document-search").fill("broken")
    page.locator(".reason").first.wait_for()
    show(page, "graph")
    show(page, "tree")
    page.goto(
        f"{page_url}#/ask?q=%3Cimg+src%3Dx+onerror%3Dhacked(5)%3E&a.mode=%3Cscript%3E&a.where=%7B"
    )
    page.locator(".error").first.wait_for()
    assert page.evaluate("attacks") == []


@pytest.mark.slow
def test_a_server_that_goes_away_is_reported_and_found_again(open_page, web_index):
    app = make_app(web_index)
    with running_page(app) as url:
        page = open_page(url)
        ask(page, "Where did Alice meet Bob?")
    port = int(url.rstrip("/").rpartition(":")[2])
    ask(page, "Who is Carol?")
    assert "does not answer" in page.locator("#answers [role=alert], #banner").first.inner_text()
    assert page.locator("#banner").is_visible()
    with running_page(make_app(web_index), port):
        page.locator("#banner").wait_for(state="hidden")
        page.locator(".hit").first.wait_for()
        assert not page.locator("#answers [role=alert]").count()


def test_a_token_is_asked_for_and_forgotten_on_request(open_page, console, web_index):
    console.expected.add("status of 401")
    options = WebOptions(clients=[Client("reader", TOKEN, where={"day": 1})])
    with running_page(make_app(web_index, options)) as url:
        page = open_page(f"{url}#/ask?q=Who+is+Carol%3F")
        page.locator("#token").fill("wrong-token-of-tests")
        page.locator("#token").press("Enter")
        assert page.locator("#view-login [role=alert]").inner_text()
        page.locator("#token").fill(TOKEN)
        page.locator("#token").press("Enter")
        page.locator(".hit").first.wait_for()
        assert page.locator(".badge").all_inner_texts() == ["Read-only", "Scoped"]
        for place in page.locator(".place").all_inner_texts():
            assert place.startswith("letter-01")
        assert TOKEN not in page.evaluate("document.cookie + JSON.stringify(localStorage)")
        show(page, "documents")
        assert page.locator("tbody tr").count() == 1
        assert page.get_by_text("can only read").is_visible()
        assert not page.locator("button", has_text="Delete").count()
        page.locator("#log-out").click()
        page.locator("#token").wait_for()
        assert "Carol" not in page.url
        page.reload()
        page.locator("#token").wait_for()


@pytest.mark.slow
def test_the_questions_of_a_client_are_not_those_of_the_next(open_page, console, web_index):
    console.expected.add("status of 401")
    names = {"alice": "alice-token-of-tests", "bob": "bob-token-of-the-tests"}
    options = WebOptions(clients=[Client(name, token) for name, token in names.items()])
    with running_page(make_app(web_index, options)) as url:
        page = open_page(f"{url}#/ask?q=Who+is+Carol%3F")
        page.locator("#token").fill(names["alice"])
        page.locator("#token").press("Enter")
        page.locator(".hit").first.wait_for()
        line = {"question": "Who found Carol?", "gold_ids": ["letter-01.txt"]}
        file = {"name": "q.jsonl", "mimeType": "text/plain", "buffer": json.dumps(line).encode()}
        page.locator("#question-set summary").click()
        page.get_by_label("Import questions").set_input_files(file)
        page.locator("#question-set", has_text="Who found Carol?").wait_for()
        page.locator("#log-out").click()
        page.locator("#token").fill(names["bob"])
        page.locator("#token").press("Enter")
        page.locator("#question").wait_for()
        assert "Carol" not in page.locator("#question-set").text_content()
