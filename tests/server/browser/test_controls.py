"""Every control of a view is used; a new one must be added here."""

from __future__ import annotations

import pytest

pytest.importorskip("playwright")
from playwright.sync_api import expect

from chromium import running_page
from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.server.web import Client, WebOptions, make_app

pytestmark = pytest.mark.slow

TOKEN = "a-token-of-the-tests"  # noqa: S105 - for tests only
MAX_PART = 20_000


def use_header(page):
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # the link to the content
    for view in ("documents", "graph", "tree", "ask"):
        page.locator(f'nav a[data-view="{view}"]').click()
    page.locator("#theme").select_option("dark")
    page.locator("#language").focus()
    page.keyboard.press("Shift")  # another choice would load the page again
    page.locator("#keys").click()
    page.locator("#keys-on").click(click_count=2)
    button(page, "Close").click()


def open_all(page, selector):
    """Open every `details` element below a place, also those in others."""
    closed = page.locator(f"{selector} details:not([open]) > summary:visible")
    while closed.count():
        closed.first.click()


def button(page, name):
    return page.get_by_role("button", name=name, exact=True)


def use_filter(page, side):
    page.locator(f"#{side}-preset").select_option("context")
    form = page.locator(f'[data-fields="{side.upper()}"] .filter-form')
    keys = form.locator("select")
    for key in ("document_id", "author", "day"):
        expect(keys).to_be_enabled()
        keys.select_option(key)
    for row in ("Documents", "author"):
        form.get_by_role("group", name=row).locator("li input").first.wait_for()
    for box in form.get_by_role("checkbox").all():
        box.click()
    for field in form.locator("input:not([type='checkbox']):visible").all():
        field.fill("1")
    for _ in range(3):
        form.get_by_role("button", name="Remove").first.click()
    expect(form.locator(".condition")).to_have_count(0)


def use_form(page):
    page.locator("#settings > summary").click(click_count=2)  # it is open beside the answers
    page.locator("#compare").check()
    page.locator("#b-k").fill("7")
    button(page, "Reset").click()
    expect(page.locator("#b-k")).to_have_value("")
    wait_for_answers(page)
    page.locator("#a-k").fill("3")
    page.locator("#ask-again").click()
    wait_for_answers(page)
    open_all(page, "#view-ask")
    for side, k in (("a", "5"), ("b", "30")):
        use_filter(page, side)
        page.locator(f"#{side}-mode").select_option("local" if side == "a" else "")
        page.locator(f"#{side}-strategy").select_option("hybrid")
        page.locator(f"#{side}-k").fill(k)
        page.locator(f"#{side}-token_budget").fill("5000")
        for name in ("dense", "bm25", "entity", "title_link"):
            page.locator(f"#{side}-{name}_weight").fill("1.5")
        page.locator(f"#{side}-where").fill('{"document_id": {"$ne": "nothing"}}')
        page.locator(f"#{side}-boosts").fill('{"documents": {"letter-01.txt": 2}}')
        page.locator(f"#{side}-history").fill("user: Who is Bob?\nassistant: A man.\nReally?")
        page.locator(f"#{side}-paths").check()
        page.locator(f"#{side}-token_budget").fill("")
    page.locator("#gold").fill("letter-01.txt")
    page.locator("#gold-answers").fill("Paris")
    page.locator("#question").fill("Where did Alice meet Bob?")
    page.locator("#ask").click()
    wait_for_answers(page)
    page.locator('[data-setting="B"] .hit').first.wait_for()


def wait_for_answers(page):
    """Wait for the answers to the last question."""
    expect(page.locator("#stale")).to_be_hidden()
    expect(page.locator('#answers[aria-busy="true"]')).to_have_count(0)
    expect(page.locator("#ask")).to_be_enabled()


def use_answers(page):
    page.locator("#gold").fill("")
    open_all(page, "#answers")
    button(page, "Read in the document").first.click()
    button(page, "Close").click()
    button(page, "Read in the document").first.click()
    page.locator("dialog a", has_text="Show the tree").click()
    page.locator('nav a[data-view="ask"]').click()
    button(page, "Mark as gold").first.click()
    button(page, "Gold ✓ (undo)").first.click()
    expect(button(page, "Gold ✓ (undo)")).to_have_count(0)
    button(page, "Mark as gold").first.click()
    button(page, "Gold ✓ (undo)").first.wait_for()
    open_all(page, "#answers")
    page.locator(".floor-slider").first.press("ArrowRight")
    button(page, "Copy the context").first.click()
    button(page, "Copied").click()
    assert "Alice met Bob" in page.evaluate("navigator.clipboard.readText()")
    button(page, "Copy in English").first.click()
    page.wait_for_function("navigator.clipboard.readText().then((text) => text.includes('why: '))")
    for selector in ("#answers a.entity", ".paths a", "text=Show in the tree"):
        page.locator(selector).first.click()
        page.locator('nav a[data-view="ask"]').click()
    for title in ("long.txt", "Letter"):
        page.locator(".hit-title a", has_text=title).first.click()
        page.locator('nav a[data-view="ask"]').click()


def use_question_set(page, tmp_path):
    button(page, "Save the question").click()
    with page.expect_download() as saved:
        button(page, "Export").click()
    path = tmp_path / "questions.jsonl"
    saved.value.save_as(path)
    with page.expect_file_chooser() as chooser:
        button(page, "Import").click()
    chooser.value.set_files(path)
    page.get_by_role("button", name="Load:").click()
    held = []

    def hold(route):
        held.append(route)

    page.route("**/jobs/*/events", hold)
    button(page, "Run the set").click()
    button(page, "Stop").click()
    held[0].continue_()
    page.unroute("**/jobs/*/events")
    expect(button(page, "Stop")).to_be_hidden()
    button(page, "Run the set").click()
    page.locator("#report").wait_for()
    report = page.locator("#report").inner_text()
    assert "Span recall" in report
    assert "B − A" in report
    for name, first in (
        ("Scores as CSV", "line,question,setting,arguments,"),
        ("Report as JSON", "{"),
    ):
        with page.expect_download() as scores:
            page.get_by_role("link", name=name).click()
        scores.value.save_as(tmp_path / "scores")
        assert (tmp_path / "scores").read_text(encoding="utf-8").startswith(first)
    button(page, "Remove all").click()
    button(page, "Cancel").click()
    page.locator("#question-set").get_by_role("button", name="Remove:").click()


def test_every_control_of_the_retrieval_test_works(open_recorded, long_chunks, tmp_path):
    with running_page(make_app(long_chunks)) as url:
        page = open_recorded(url, permissions=["clipboard-read", "clipboard-write"])
        page.locator("#question").wait_for()
        use_header(page)
        page.locator(".example").first.click()
        page.locator(".hit").first.wait_for()
        use_form(page)
        use_answers(page)
        use_question_set(page, tmp_path)
        assert page.evaluate("unusedControls('ask')") == []


def use_list(page):
    button(page, "Next").click()
    page.get_by_text("26–35 of 35").wait_for()
    button(page, "Previous").click()
    page.get_by_text("1–25 of 35").wait_for()
    page.get_by_role("button", name="Read").first.click()
    text = page.locator("dialog .document-text", has_text="Zoe")
    text.wait_for()
    button(page, "Show more").click()
    expect(button(page, "Show more")).to_be_hidden()
    assert len(text.inner_text()) > MAX_PART
    button(page, "Close").click()
    page.get_by_role("button", name="Read").first.click()
    page.locator("dialog").get_by_role("link").click()
    page.locator('nav a[data-view="documents"]').click()
    for column in ("Status", "Chunks", "Characters", "Document"):
        page.locator("th").get_by_role("button", name=column).click()
    page.locator("#view-documents [aria-busy]").wait_for(state="detached")
    page.locator("#select-page").check()
    button(page, "Clear selection").click()
    page.locator("tbody").get_by_role("checkbox").first.check()
    delete = page.locator("#delete-selected")
    delete.click()
    button(page, "Cancel").click()
    delete.click()
    page.locator("dialog").get_by_role("button", name="Delete").click()
    page.get_by_text("1–25 of 34").wait_for()


def use_jobs(page, extractor):
    close = page.locator("[data-job]").get_by_role("button", name="Close")
    note = {"name": "new.txt", "mimeType": "text/plain", "buffer": b"Zoe came back."}
    with page.expect_file_chooser():
        button(page, "Choose a folder").click()
    with page.expect_file_chooser() as chooser:
        button(page, "Choose files").click()
    chooser.value.set_files(note)
    button(page, "Cancel").click()
    page.locator("#upload").set_input_files(note)
    extractor.gate.clear()
    page.locator("#index").click()
    button(page, "Stop").click()
    extractor.gate.set()
    close.click()
    page.locator("#resume").click()
    close.click()
    page.locator("#reindex").click()
    page.locator("dialog").get_by_role("button", name="Extract").click()
    close.click()
    page.locator("#document-status").select_option("failed")
    page.locator("#document-search").fill("broken")
    expect(page.locator("#view-documents tbody tr")).to_have_count(1)
    page.get_by_role("button", name="Index again").click()
    close.click()


def test_every_control_of_the_documents_works(open_recorded, web_index, extractor, console):
    console.expected.add("status of 401")
    notes = [SourceDocument(f"{n:02}.txt", f"Zoe wrote note {n}.") for n in range(30)]
    long = SourceDocument("00-long.txt", "Zoe sat at the window, and waited. " * 700)
    web_index.add([long, *notes, SourceDocument("broken.txt", "Unreadable")])
    options = WebOptions(clients=[Client("writer", TOKEN, write=True)])
    with running_page(make_app(web_index, options)) as url:
        page = open_recorded(f"{url}#/documents")
        page.locator("#token").fill(TOKEN)
        button(page, "Log in").click()
        page.locator("#view-documents tbody tr").first.wait_for()
        use_header(page)
        page.locator('nav a[data-view="documents"]').click()
        page.locator(".kinds summary").click()
        use_list(page)
        use_jobs(page, extractor)
        unused = page.evaluate("unusedControls('documents')")
        page.locator("#log-out").click()
        page.locator("#token").wait_for()
        assert [one for one in unused if not one.startswith("button log-out")] == []
