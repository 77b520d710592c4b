"""A report in Chromium: its views without a server, keyboard, accessibility, hostile texts."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    IndexSettings,
    Models,
    SourceDocument,
)
from e2graphrag_integrations.html_report import write_report
from fakes import STORY, NameExtractor

ATTACK = (
    '</script><script>hacked("script")</script><img src=x onerror="hacked(1)">'
    '<svg onload="hacked(2)"></svg><a href="javascript:hacked(3)">link</a>'
)
LONG = "".join(f"Anna 😀 met Bert in room {n} of the castle. " for n in range(300))
VIEWS = ("overview", "answers")
"""The views that only a report has; the tests of the page check the others."""


@pytest.fixture(scope="session")
def report_url(tmp_path_factory):
    """A report of three documents, one of which is too large for it."""
    out = tmp_path_factory.mktemp("report") / "report.html"
    with E2GraphRAG.open(
        ":memory:",
        embedder=HashingEmbedder(),
        models=Models(extractor=NameExtractor()),
        settings=IndexSettings(chunk_size=64, chunk_overlap=8, group_size=3),
    ) as rag:
        rag.add(
            [
                SourceDocument("story", STORY, title="A Map"),
                SourceDocument("long", LONG, title="The Castle"),
                SourceDocument(ATTACK, f"Mallory met Anna. {ATTACK}", title=ATTACK),
                SourceDocument("huge", "Anna met Zoe. " * 5_000),
            ]
        )
        questions = ["How is Cleo connected with Emil?", f"Who is Mallory? {ATTACK}"]
        write_report(rag, out, questions=questions, max_mb=0.06)
    return out.as_uri()


def show(page, view):
    page.goto(f"{page.url.partition('#')[0]}#/{view}")


@pytest.mark.slow
@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_overview_and_answers_are_accessible(open_page, report_url, check_access, width, theme):
    page = open_page(report_url)
    for view in VIEWS:
        show(page, view)
        page.locator(f"#view-{view} h1").wait_for()
        page.locator("[aria-busy]").wait_for(state="detached")
        check_access(page, width=width, theme=theme)
    language = page.locator('#view-overview td[data-label="Language"]')
    assert language.first.text_content() == "English"


@pytest.mark.slow
def test_answers_lead_to_the_tree_and_the_graph(open_page, report_url):
    page = open_page(report_url)
    page.locator(".hit").first.wait_for()
    assert page.title().startswith("Answers")
    hit = page.locator(".hit", has_text="Cleo").first
    hit.locator(".why > summary").click()
    hit.locator("text=Show in the tree").click()
    page.locator(".is-target").wait_for()
    assert "Cleo" in page.locator(".is-target").inner_text()
    page.go_back()
    page.locator(".path-box > summary").first.click()
    page.locator(".paths a").first.click()
    page.locator("#graph-title", has_text="cleo – emil").wait_for()
    assert "met" in page.locator(".graph-paths").inner_text()
    page.locator(".graph-paths [aria-pressed]").last.click()
    page.go_back()
    page.locator(".entity", has_text="cleo").first.click()
    page.locator("#graph-title", has_text="cleo").wait_for()
    page.locator(".graph-edges summary").first.click()
    page.locator(".graph-edges .sentences li").first.wait_for()
    page.locator("#entity-search").fill("ber")
    page.locator(".entity-list a", has_text="bert").click()
    page.locator("#graph-title", has_text="bert").wait_for()
    assert page.locator(".graph-canvas canvas").count() > 0


@pytest.mark.slow
def test_overview_names_what_is_left_out(open_page, report_url):
    page = open_page(report_url)
    page.locator("a[data-view=overview]").click()
    assert "3 of 4 documents" in page.locator(".report-notes").inner_text()
    rows = page.locator("#view-overview tbody tr")
    assert rows.count() == 4
    assert "left out" in rows.filter(has_text="huge").inner_text()
    show(page, "tree?document=huge")
    assert "--max-mb" in page.locator("#view-tree [role=alert]").inner_text()
    show(page, "graph?entity=xenia")
    assert "does not contain" in page.locator("#view-graph [role=alert]").inner_text()


@pytest.mark.slow
def test_tree_shows_summaries_beside_their_text_and_loads_more(open_page, report_url):
    page = open_page(f"{report_url}#/tree?document=long")
    first = page.locator(".tree-node").first
    source = first.locator(".tree-source .tree-text")
    source.filter(has_text="room 0 of").wait_for()
    shown = source.inner_text()
    assert LONG.startswith(shown)
    first.locator("text=/Show more of .* characters/").click()
    source.locator("span").nth(1).wait_for()
    assert LONG.startswith(source.inner_text())
    while page.locator(".tree-node .is-chunk").count() == 0:
        page.locator(".tree-open[aria-expanded=false]").last.click()
        page.locator("[aria-busy]").wait_for(state="detached")
    chunk = page.locator(".tree-node:has(.is-chunk)").last
    chunk.locator("text=Show the text around it").click()
    chunk.locator("text=Show the text before it").click()
    chunk.locator(".tree-around").first.wait_for()
    assert chunk.locator(".tree-text").inner_text().strip() in LONG
    page.locator("#tree-search").fill("map")
    page.locator(".tree-documents a", has_text="A Map").click()
    page.locator("#tree-title", has_text="A Map").wait_for()


def test_hostile_texts_do_nothing_and_nothing_is_requested(open_page, report_url):
    page = open_page("about:blank")
    requested = []
    page.on("request", lambda request: requested.append(request.url))
    page.goto(report_url)
    page.locator(".hit").first.wait_for()
    page.locator(".report-answer summary h2").last.click()
    page.locator("text=javascript:hacked").first.wait_for()
    for view in ("overview", "graph?entity=mallory", f"tree?document={quote(ATTACK)}"):
        show(page, view)
        page.locator(f"#view-{view.partition('?')[0]}", has_text="hacked").wait_for()
    assert page.evaluate("attacks") == []
    assert page.evaluate("document.querySelectorAll('main img, main svg, main iframe').length") == 0
    assert {url.partition("#")[0] for url in requested} == {report_url}


@pytest.mark.slow
def test_keyboard_reaches_every_view_and_opens_the_tree(open_page, report_url):
    page = open_page(report_url)
    page.locator(".hit").first.wait_for()

    def press_until(script):
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate(
                f"(() => {{ const one = document.activeElement; return {script} }})()"
            ):
                return
        raise AssertionError(script)

    press_until("one.dataset.view === 'graph'")
    page.keyboard.press("Enter")
    page.locator(".graph-members li").first.wait_for()
    before = page.locator(".graph-members li").count()
    press_until("one.id === 'entity-search'")
    page.keyboard.type("oslo")
    page.locator(".entity-list a", has_text="oslo").wait_for()
    press_until("one.closest('.entity-list') && one.textContent === 'Oslo'")
    page.keyboard.press("Enter")
    page.locator("#graph-title", has_text="oslo").wait_for()
    assert before
    page.locator("a[data-view=tree]").focus()
    page.keyboard.press("Enter")
    page.locator(".tree-documents a", has_text="The Castle").wait_for()
    press_until("one.textContent === 'The Castle'")
    page.keyboard.press("Enter")
    page.locator(".tree-open").first.wait_for()
    press_until("one.classList.contains('tree-open')")
    page.keyboard.press("Enter")
    page.locator(".tree-open[aria-expanded=true]").wait_for()


@pytest.mark.slow
def test_themes_can_be_chosen(open_page, report_url):
    page = open_page(report_url)
    color = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(f"{color} + getComputedStyle(document.documentElement).backgroundColor")
    page.locator("#theme").select_option("dark")
    dark = page.evaluate(f"{color} + getComputedStyle(document.documentElement).backgroundColor")
    assert light != dark
    page.locator("#theme").select_option("system")
    assert page.evaluate("document.documentElement.dataset.theme") is None
