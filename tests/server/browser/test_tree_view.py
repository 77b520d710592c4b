"""The trees in Chromium: documents, levels, and the text beside each summary."""

from __future__ import annotations

import pytest

from chromium import running_page
from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    IndexSettings,
    Models,
    SourceDocument,
)
from e2graphrag_integrations.server.web import make_app
from fakes import NameExtractor

TEXT = "".join(f"Anna 😀 met Bert in room {n} of the castle. " for n in range(400))


@pytest.fixture(scope="module")
def tree_url(chromium):
    with E2GraphRAG.open(
        ":memory:",
        embedder=HashingEmbedder(),
        models=Models(extractor=NameExtractor()),
        settings=IndexSettings(chunk_size=64, chunk_overlap=8, group_size=3),
    ) as rag:
        rag.add([SourceDocument("castle", TEXT, title="The Castle"), SourceDocument("a", "Anna.")])
        with running_page(make_app(rag)) as url:
            yield url


def settled(page):
    page.locator("#view-tree [aria-busy]").wait_for(state="detached")


def test_documents_are_listed_searched_and_opened(open_page, page_url):
    page = open_page(f"{page_url}#/tree")
    page.locator(".tree-documents li").first.wait_for()
    assert page.locator("#view-tree .empty").is_visible()
    before = page.locator(".tree-documents li").count()
    page.locator("text=Show more documents").click()
    page.locator(".tree-documents li").nth(before).wait_for()
    page.locator("#tree-search").fill("nothing")
    page.locator("text=No indexed document").wait_for()
    page.locator("#tree-search").fill("letter 17")
    page.locator(".tree-documents a").filter(has_text="Letter 17").click()
    page.locator("#tree-title", has_text="Letter 17 (letter-17.txt)").wait_for()
    assert "Alice met Bob" in page.locator(".tree-node").first.inner_text()


def test_levels_open_beside_the_text_that_they_cover(open_page, tree_url):
    page = open_page(f"{tree_url}#/tree?document=castle")
    node = page.locator(".tree-node").first
    source = node.locator(".tree-source .tree-text").first
    source.filter(has_text="room 0 of").wait_for()
    assert "levels" in page.locator("#view-tree .facts").first.inner_text()
    assert TEXT.startswith(source.inner_text())
    node.locator("text=/Show more of .* characters/").first.click()
    settled(page)
    assert len(source.inner_text()) > 1_000
    assert TEXT.startswith(source.inner_text())
    last = page.locator(".tree-node").last
    for _ in range(5):
        if last.locator(".is-chunk").count():
            break
        last.locator(".tree-open").click()
        settled(page)
        last = page.locator(".tree-node").last
    assert TEXT.strip().endswith(last.locator(".tree-text").inner_text().strip()[-20:])
    last.locator("text=Show the text around it").click()
    last.locator("text=Show the text before it").click()
    settled(page)
    assert TEXT.strip().endswith(last.locator(".tree-text").inner_text().strip())
    opened = page.locator(".tree-open[aria-expanded=true]").last
    opened.click()
    assert last.is_hidden()


@pytest.mark.slow
def test_a_range_opens_its_chunk(open_page, tree_url):
    start = TEXT.index("room 333 ")
    page = open_page(f"{tree_url}#/tree?document=castle&start={start}&end={start + 8}")
    target = page.locator(".is-target")
    target.wait_for()
    assert "room 333 " in target.inner_text()
    assert page.evaluate("document.activeElement.classList.contains('is-target')")
    assert page.locator(".is-target").count() == 1


def test_a_hit_leads_to_its_marked_place_with_a_title_and_the_way_back(open_page, tree_url):
    page = open_page(f"{tree_url}#/ask?q=Who+met+Bert+in+room+333%3F&a.k=3", locale="zh-CN")
    page.locator(".hit h2 a").first.click()
    target = page.locator(".is-target")
    target.wait_for()
    assert target.locator(".facts strong").first.inner_text() == "The Castle (castle)"
    best = page.url.rpartition("best=")[2].split("-")
    if target.locator("mark").count():  # else the best part is the entire chunk
        assert target.locator("mark").inner_text() == TEXT[int(best[0]) : int(best[1])].strip()
    assert target.locator(".tree-text").first.get_attribute("lang") == "en"
    target.locator("text=返回结果").click()
    page.locator(".hit.is-current").wait_for()
    assert page.evaluate("document.activeElement.closest('.hit').classList.contains('is-current')")
    assert "q=Who" in page.url


@pytest.mark.slow
def test_the_best_part_of_a_chunk_is_marked(open_page, tree_url):
    chunk = TEXT.index("room 3 ")
    page = open_page(f"{tree_url}#/tree?document=castle&start=0&end=8&best={chunk}-{chunk + 6}")
    assert page.locator(".is-target mark").inner_text() == "room 3"
    assert TEXT.startswith(page.locator(".is-target .tree-text").inner_text()[:60])
    assert not page.locator(".is-target .facts a").count()  # there are no hits to go back to


@pytest.mark.slow
def test_the_title_is_shown_though_the_list_comes_late(open_page, tree_url):
    page = open_page("about:blank")
    late = []

    def hold(route):
        late.append(route)

    page.route("**/documents?*", hold)
    page.goto(f"{tree_url}#/tree?document=castle")
    while not late:
        page.wait_for_timeout(10)
    page.wait_for_timeout(200)
    late[0].continue_()
    page.locator("#tree-title", has_text="The Castle (castle)").wait_for()


@pytest.mark.slow
def test_a_short_document_and_an_unknown_one(open_page, tree_url, console):
    page = open_page(f"{tree_url}#/tree?document=a")
    page.locator("text=A short document").wait_for()
    assert page.locator(".tree-node").count() == 1
    console.expected.add("status of 404")
    page.goto(f"{tree_url}#/tree?document=nowhere")
    page.locator("#view-tree [role=alert]", has_text="nowhere").wait_for()


@pytest.mark.slow
def test_the_only_document_is_opened_at_once(open_page, chromium):
    with E2GraphRAG.open(
        ":memory:", embedder=HashingEmbedder(), models=Models(extractor=NameExtractor())
    ) as rag:
        rag.add(SourceDocument("a", "Anna met Bert."))
        with running_page(make_app(rag)) as url:
            page = open_page(f"{url}#/tree")
            page.locator(".tree-node", has_text="Anna met Bert.").wait_for()


@pytest.mark.slow
def test_levels_open_by_keyboard(open_page, tree_url):
    page = open_page(f"{tree_url}#/tree?document=castle")
    page.locator(".tree-open").first.wait_for()
    page.locator("#tree-search").focus()
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('tree-open')"):
            break
    page.keyboard.press("Enter")
    page.locator(".tree-open[aria-expanded=true]").wait_for()
    assert page.locator(".tree-list .tree-list .tree-node").count() == 3
    page.keyboard.press("Enter")
    page.locator(".tree-open[aria-expanded=true]").wait_for(state="hidden")


@pytest.mark.slow
@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_trees_are_accessible(open_page, tree_url, check_access, width, theme):
    start = TEXT.index("room 333 ")
    page = open_page(f"{tree_url}#/tree?document=castle&start={start}&end={start + 8}", width=width)
    page.locator(".is-target").wait_for()
    page.locator(".tree-source .tree-text:not(:empty)").first.wait_for()
    check_access(page, width=width, theme=theme)


@pytest.mark.slow
def test_the_tree_of_a_changed_document_is_read_again(open_page, console, web_index):
    # The document may change while a text of the old tree is on its way.
    console.expected.add("status of 400")
    with running_page(make_app(web_index)) as url:
        page = open_page(f"{url}#/tree?document=letter-01.txt")
        page.locator(".tree-node", has_text="map 1").first.wait_for()
        page.locator("#state", has_text="3 documents are indexed").wait_for()  # before the change
        new = SourceDocument("letter-01.txt", "Zoe painted the lighthouse.", title="Letter 1")
        web_index.update(new)
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # looks at the state
        page.locator(".tree-node", has_text="Zoe painted the lighthouse").first.wait_for()
        page.locator('nav a[data-view="ask"]').click()
        web_index.update(SourceDocument("letter-01.txt", "Dora slept.", title="Letter 1"))
        page.locator('nav a[data-view="tree"]').click()
        page.locator(".tree-node", has_text="Dora slept").first.wait_for()
