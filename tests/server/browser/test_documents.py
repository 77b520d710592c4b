"""The documents in Chromium: search and pages, upload with its cost, jobs, and removal."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

pytest.importorskip("playwright")
from playwright.sync_api import expect

from chromium import running_page
from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.server.web import Limits, WebOptions, make_app

BROKEN = SourceDocument("broken.txt", "Unreadable <b>text</b>")


@contextmanager
def documents_page(open_page, rag, **options):
    with running_page(make_app(rag, WebOptions(**options))) as url:
        page = open_page(f"{url}#/documents")
        page.locator("#view-documents .table-box:not([aria-busy])").wait_for()
        yield page


def upload(page, name, text):
    file = {"name": name, "mimeType": "text/plain", "buffer": text.encode()}
    page.locator("#upload").set_input_files(file)


def test_documents_are_listed_by_page_searched_and_filtered(open_page, page_url):
    page = open_page(f"{page_url}#/documents")
    rows = page.locator("#view-documents tbody tr")
    expect(rows).to_have_count(25)
    assert page.get_by_text("1–25 of 34").is_visible()
    assert page.get_by_role("button", name="Previous").is_disabled()
    page.get_by_role("button", name="Next").click()
    expect(rows).to_have_count(9)
    assert page.get_by_role("button", name="Next").is_disabled()
    page.locator("#document-search").fill("LETTER 3")  # the titles of letters 3, 30 and 31
    expect(rows).to_have_count(3)
    page.locator("#document-search").fill("")
    page.locator("#document-status").select_option("failed")
    expect(rows).to_have_count(1)
    reason = page.locator(".reason").inner_text()
    assert "cannot read" in reason
    page.locator("#document-search").fill("no such document")
    page.get_by_text("No document matches.").wait_for()
    page.locator("#document-status").select_option("")
    page.locator("#document-search").fill("treasure")
    page.get_by_role("button", name="Read treasure.pdf").click()
    page.locator("dialog", has_text="Nobody saw Emil again").wait_for()
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)


def test_a_file_is_indexed_after_its_cost_was_shown(open_page, web_index):
    with documents_page(open_page, web_index) as page:
        upload(page, "notes.md", "# Zoe\n\nZoe painted the lighthouse. She lives in Bergen.")
        cost = page.locator("dl", has_text="LLM calls")
        cost.wait_for()
        assert "Chunks" in cost.inner_text()
        assert web_index.status()[-1].id != "notes.md"
        page.get_by_role("button", name="Cancel").click()
        upload(page, "notes.md", "# Zoe\n\nZoe painted the lighthouse. She lives in Bergen.")
        page.get_by_role("button", name="Index 1 file").click()
        page.locator("[data-job]", has_text="Done: 1 document indexed").wait_for()
        expect(page.locator('tr[data-document="notes.md"] .status')).to_have_text("done")
        page.get_by_role("button", name="Close").click()
        page.locator('nav a[data-view="ask"]').click()
        page.locator("#question").fill("Who painted the lighthouse?")
        page.locator("#ask").click()
        assert "Zoe" in page.locator(".hit").first.inner_text()


@pytest.mark.slow
def test_failed_and_skipped_files_stay_with_their_reasons(open_page, web_index, extractor):
    files = {
        "good.txt": b"Zoe painted the lighthouse.",
        "bad.pdf": b"no PDF",
        "letter-02.txt": web_index.document("letter-02.txt").text.encode(),
        "blank.txt": b" \n",
        ".hidden.txt": b"Zoe.",
        "photo.jpg": b"x",
        "film.mp4": b"x",
    }
    chosen = [
        {"name": name, "mimeType": "text/plain", "buffer": content}
        for name, content in files.items()
    ]
    kept = [
        "bad.pdf is not a readable PDF",
        "letter-02.txt: the index already has this file, unchanged",
        "blank.txt: the file contains no text",
        ".hidden.txt: the name begins or ends with white space or a dot",
        "2 files: files of this kind cannot be read",
        "photo.jpg",
        "film.mp4",
    ]

    def check():
        page.locator("#unindexed h2", has_text="Not indexed: 6 files").wait_for()
        told = page.locator("#unindexed").inner_text()
        assert [one for one in kept if one not in told] == []
        assert "good.txt" not in told

    with documents_page(open_page, web_index) as page:
        page.locator("#upload").set_input_files(chosen)
        page.get_by_role("button", name="Index 1 file").wait_for()
        assert page.locator("dl", has_text="Documents to index").inner_text().split()[:6] == [
            *("Documents", "to", "index", "1", "Chunks", "1")
        ]
        assert page.locator(".drop + div .files").first.inner_text().startswith("good.txt")
        check()
        page.get_by_role("button", name="Index 1 file").click()
        page.locator("[data-job]", has_text="Done: 1 document indexed").wait_for()
        page.get_by_role("button", name="Close").click()
        check()
        page.reload()
        check()
        upload(page, "blank.txt", "Zoe came back.")
        page.locator("#unindexed h2", has_text="Not indexed: 5 files").wait_for()
        page.get_by_role("button", name="Clear the list").click()
        expect(page.locator("#unindexed")).to_be_hidden()


@pytest.mark.slow
def test_files_of_a_failed_job_stay_with_the_reason(open_page, web_index, extractor):
    with documents_page(open_page, web_index) as page:
        upload(page, "broken.txt", BROKEN.text)
        page.get_by_role("button", name="Index 1 file").click()
        page.locator("[data-job] [role=alert]", has_text="ExtractionError").wait_for()
        page.get_by_role("button", name="Close").click()
        row = page.locator('tr[data-document="broken.txt"]')
        assert row.locator(".status").inner_text() == "failed"  # so it is in the queue
        assert (
            page.locator("#state").inner_text().startswith("3 documents are indexed and 1 failed.")
        )
        expect(page.locator("#unindexed")).to_be_hidden()
        upload(page, "other.txt", "Zoe came back.")
        page.get_by_role("button", name="Index 1 file").wait_for()
        page.route(
            "**/documents",
            lambda route: route.continue_(
                post_data=route.request.post_data_buffer.replace(b"replace", b"error")
            ),
        )
        web_index.add(SourceDocument("other.txt", "Zoe left."))  # by somebody else, meanwhile
        page.get_by_role("button", name="Index 1 file").click()
        page.locator("[data-job] [role=alert]").wait_for()
        page.get_by_role("button", name="Close").click()
        assert (
            "other.txt: the index already has a document" in page.locator("#unindexed").inner_text()
        )


@pytest.mark.slow
def test_a_late_estimate_does_not_replace_that_of_files_chosen_later(open_page, web_index):
    with documents_page(open_page, web_index) as page:
        late = []

        def hold(route):
            late.append(route)

        page.route("**/documents/estimate", hold, times=1)
        upload(page, "first.md", "Zoe painted the lighthouse.")
        while not late:
            page.wait_for_timeout(10)
        upload(page, "second.md", "Zoe sold the lighthouse.")
        page.get_by_role("button", name="Index 1 file").wait_for()
        with page.expect_response("**/documents/estimate"):
            late[0].continue_()
        page.wait_for_timeout(200)
        expect(page.locator(".files li")).to_contain_text(["second.md"])


@pytest.mark.slow
def test_dropped_files_of_unknown_kind_or_size_are_refused_before_they_are_sent(
    open_page, web_index
):
    with documents_page(open_page, web_index, limits=Limits(upload_bytes=100)) as page:
        page.evaluate(
            """() => {
              const data = new DataTransfer();
              data.items.add(new File(["x"], "virus.exe"));
              data.items.add(new File(["x".repeat(200)], "long.txt"));
              data.items.add(new File([""], "<b>empty.txt"));
              const options = { dataTransfer: data, cancelable: true };
              for (const name of ["dragover", "drop"]) {
                document.querySelector(".drop").dispatchEvent(new DragEvent(name, options));
              }
            }"""
        )
        assert page.locator("#unindexed li").all_inner_texts() == [
            "virus.exe: files of this kind cannot be read",
            "long.txt: the file has 0.2 kB, but at most 0.1 kB are allowed at a time",
            "<b>empty.txt: the file is empty",
        ]


def test_a_document_is_deleted_only_after_confirmation(open_page, web_index):
    with documents_page(open_page, web_index) as page:
        row = page.locator('tr[data-document="letter-02.txt"]')
        row.get_by_role("button", name="Delete").click()
        page.locator("dialog").get_by_role("button", name="Cancel").click()
        assert row.is_visible()
        row.get_by_role("button", name="Delete").click()
        page.locator("dialog").get_by_role("button", name="Delete").click()
        expect(row).to_have_count(0)
    assert [one.id for one in web_index.status()] == ["letter-01.txt", "letter-03.txt"]


@pytest.mark.slow
def test_replaced_documents_are_named_first_and_old_results_disappear(open_page, web_index):
    with documents_page(open_page, web_index) as page:
        finished = page.locator("[data-job]", has_text="Done: 1 document indexed")
        upload(page, "letter-02.txt", "Zoe painted the lighthouse.")
        page.locator(".replaces", has_text="Replaces 1 document").get_by_text(
            "letter-02.txt"
        ).wait_for()
        page.get_by_role("button", name="Index 1 file").click()
        finished.wait_for()
        upload(page, "virus.exe", "x")
        page.get_by_text("files of this kind cannot be read").wait_for()
        expect(finished).to_have_count(0)
        upload(page, "letter-02.txt", "Zoe painted the lighthouse.")
        page.get_by_text("letter-02.txt: the index already has this file").wait_for()
        page.get_by_text("None of these files will be indexed").wait_for()
        expect(page.locator("#index")).to_have_count(0)
        expect(page.locator(".replaces")).to_have_count(0)
        upload(page, "new.txt", "Zoe came back.")
        page.get_by_role("button", name="Index 1 file").click()
        finished.wait_for()
        row = page.locator('tr[data-document="new.txt"]')
        row.get_by_role("button", name="Delete").click()
        page.locator("dialog").get_by_role("button", name="Delete").click()
        expect(row).to_have_count(0)
        expect(finished).to_have_count(0)


@pytest.mark.slow
def test_failed_documents_are_indexed_again_on_request(open_page, web_index, extractor):
    web_index.add([BROKEN, SourceDocument("other.txt", "Zoe came back.")])
    with documents_page(open_page, web_index) as page:
        page.locator("#resume").click()
        alert = page.locator("[data-job] [role=alert]").inner_text()
        assert "ExtractionError" in alert
        extractor.is_broken = False
        page.get_by_role("button", name="Index again: broken.txt").click()
        page.locator("[data-job]", has_text="Done: 1 document indexed").wait_for()
        expect(page.locator('tr[data-document="broken.txt"] .status')).to_have_text("done")


@pytest.mark.slow
def test_a_running_job_is_followed_after_a_reload_and_stopped(open_page, web_index, extractor):
    extractor.gate.clear()
    try:
        with documents_page(open_page, web_index) as page:
            upload(page, "notes.txt", "Zoe painted the lighthouse.")
            page.get_by_role("button", name="Index 1 file").click()
            page.locator("[data-job] progress").first.wait_for()
            page.reload()
            page.locator("[data-job] progress").first.wait_for()
            page.get_by_role("button", name="Stop").click()
            extractor.gate.set()
            page.locator("[data-job]", has_text="Stopped.").wait_for()
    finally:
        extractor.gate.set()
