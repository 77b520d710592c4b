"""The documents in Chromium: search and pages, upload with its cost, jobs, and removal."""

from __future__ import annotations

import unicodedata
from contextlib import contextmanager

import pytest

pytest.importorskip("playwright")
from playwright.sync_api import expect

from chromium import running_page
from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.server.web import Limits, WebOptions, make_app
from e2graphrag_integrations.views.documents import document_page

BROKEN = SourceDocument("broken.txt", "Unreadable <b>text</b>")


@contextmanager
def documents_page(open_page, rag, **options):
    with running_page(make_app(rag, WebOptions(**options))) as url:
        page = open_page(f"{url}#/documents")
        page.locator("#view-documents .table-box:not([aria-busy])").wait_for()
        yield page


DROP_FOLDER = """
() => {
  const file = (name) => ({
    name, isFile: true, file: (resolve) => resolve(new File([`Zoe wrote ${name}.`], name)),
  });
  const parts = [[file("b 10.txt"), file("b 2.txt"), file(".hidden.txt")], []];
  const reader = () => ({ readEntries: (resolve) => resolve(parts.shift()) });
  const folder = { name: "papers", isDirectory: true, createReader: reader };
  const event = new Event("drop", { bubbles: true, cancelable: true });
  event.dataTransfer = { items: [{ webkitGetAsEntry: () => folder }], files: [] };
  document.querySelector(".drop").dispatchEvent(event);
}
"""
"""Drops a folder with three files on the box for uploads."""


def upload(page, name, text):
    file = {"name": name, "mimeType": "text/plain", "buffer": text.encode()}
    page.locator("#upload").set_input_files(file)


def select(page, *ids):
    for one in ids:
        page.locator(f'tr[data-document="{one}"]').get_by_role("checkbox").check()


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
def test_failed_skipped_and_doubtful_files_are_named_with_their_reasons(open_page, web_index):
    files = {
        "good.txt": "Zoë painted the lighthouse in Köln.".encode("cp1252"),
        unicodedata.normalize("NFD", "Bär.pdf"): b"no PDF",  # as on a Mac
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
        "Bär.pdf is not a readable PDF",
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
        doubt = (
            "good.txt is not in UTF-8. It was read in the encoding that fits its letters, cp1252"
        )
        page.locator(".drop + div", has_text=doubt).wait_for()
        check()
        page.get_by_role("button", name="Index 1 file").click()
        job = page.locator("[data-job]", has_text="Done: 1 document indexed, 1 to check")
        job.get_by_text(doubt).wait_for()
        page.get_by_role("button", name="Close").click()
        check()
        page.reload()
        check()
        upload(page, "blank.txt", "Zoe came back.")
        page.locator("#unindexed h2", has_text="Not indexed: 5 files").wait_for()
        page.get_by_role("button", name="Clear the list").click()
        expect(page.locator("#unindexed")).to_be_hidden()


@pytest.mark.slow
def test_a_folder_is_chosen_or_dropped_without_its_hidden_files(open_page, web_index, tmp_path):
    folder = tmp_path / "papers"
    for name in ("a 10.txt", "a 2.txt", "deep/b.txt", "deep/a 2.txt", ".git/x.txt", ".DS_Store"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"Zoe wrote {name}.")
    (folder / "bad.pdf").write_bytes(b"no PDF")
    with documents_page(open_page, web_index) as page:
        page.locator("#upload-folder").set_input_files(folder)
        page.get_by_role("button", name="Index 4 files").wait_for()
        assert "deep/a 2.txt" in page.locator(".drop + div .files").first.inner_text()
        told = page.locator("#unindexed").inner_text()
        assert "Not indexed: 1 file" in told
        assert "bad.pdf is not a readable PDF" in told
        page.evaluate(DROP_FOLDER)
        page.get_by_role("button", name="Index 2 files").wait_for()
        names = page.locator(".drop + div .files").first.inner_text()
        assert names.index("b 2.txt") < names.index("b 10.txt")
        assert ".hidden" not in names


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
        with page.expect_event("requestfailed"):  # the server need not read the first file
            upload(page, "second.md", "Zoe sold the lighthouse.")
        page.get_by_role("button", name="Index 1 file").wait_for()
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


def listed(page):
    return page.locator("tbody tr").evaluate_all("rows => rows.map((one) => one.dataset.document)")


def test_documents_are_deleted_together_only_after_one_confirmation(
    open_page, web_index, monkeypatch
):
    writes = []
    delete = web_index.store.delete_documents
    monkeypatch.setattr(
        web_index.store,
        "delete_documents",
        lambda ids, **options: writes.append(ids) or delete(ids, **options),
    )
    with documents_page(open_page, web_index) as page:
        expect(page.locator("#delete-selected")).to_be_hidden()
        select(page, "letter-02.txt")
        select(page, "letter-03.txt")
        assert page.locator(".selection strong").inner_text() == "2 selected"
        expect(page.locator("#index-selected")).to_be_hidden()  # both are indexed
        page.locator("#delete-selected").focus()
        page.keyboard.press("Enter")
        dialog = page.locator("dialog")
        chunks = sum(
            one.chunks
            for one in document_page(web_index).items
            if one.id in {"letter-02.txt", "letter-03.txt"}
        )
        told = dialog.inner_text()
        assert "Delete 2 documents?" in told
        assert f"Letter 2, Letter 3: {chunks} chunks and their summaries" in told
        assert "No language model is called." in told
        dialog.get_by_role("button", name="Cancel").click()
        expect(page.locator("#delete-selected")).to_be_focused()
        assert len(listed(page)) == 3
        page.keyboard.press("Enter")
        dialog.get_by_role("button", name="Delete 2 documents").click()
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(page.locator("#select-page")).to_be_focused()
        expect(page.locator("#delete-selected")).to_be_hidden()
    assert [sorted(one) for one in writes] == [["letter-02.txt", "letter-03.txt"]]
    assert [one.id for one in web_index.status()] == ["letter-01.txt"]


@pytest.mark.slow
def test_shift_selects_a_range(open_page, web_index):
    web_index.add([SourceDocument(f"note-{n:02}", f"Zoe {n}.") for n in range(12)])
    with documents_page(open_page, web_index) as page:
        first, last = (page.get_by_label(f"Select note-{n}", exact=True) for n in ("01", "10"))
        first.click()
        last.click(modifiers=["Shift"])
        page.locator(".selection", has_text="10 selected").wait_for()
        page.get_by_label("Select note-04", exact=True).click(modifiers=["Shift"])
        page.locator(".selection", has_text="3 selected").wait_for()


@pytest.mark.slow
def test_a_selection_spans_pages_and_a_refusal_deletes_nothing(open_page, web_index, console):
    console.expected.add("status of 404")
    web_index.add([SourceDocument(f"{n}.txt", f"Zoe wrote note {n}.") for n in range(30)])
    with documents_page(open_page, web_index) as page:
        page.locator("#select-page").check()
        count = page.locator(".selection strong")
        assert count.inner_text() == "25 selected"
        page.get_by_role("button", name="Next").click()
        page.get_by_text("26–33 of 33").wait_for()
        assert count.inner_text() == "25 selected (25 not on this page)"
        expect(page.locator("#select-page")).not_to_be_checked()
        select(page, "29.txt")
        assert page.locator("#select-page").evaluate("one => one.indeterminate")
        web_index.delete("29.txt")  # by somebody else, meanwhile
        page.locator("#delete-selected").click()
        page.locator("dialog").get_by_role("button", name="Delete 26 documents").click()
        page.locator("[role=alert]", has_text="no document “29.txt”").wait_for()
        assert len(web_index.status()) == 32
        page.get_by_role("button", name="Clear selection").click()
        expect(count).to_have_text("")
        expect(page.locator("#select-page")).to_be_focused()


@pytest.mark.slow
def test_the_server_sorts_and_the_order_is_kept(open_page, web_index):
    web_index.add(
        [
            SourceDocument("Page 10", "Zoe sat at the window. " * 60),
            SourceDocument("page 2", "Zoe left."),
        ]
    )
    with documents_page(open_page, web_index) as page:
        title, chunks = (page.locator("th", has_text=one) for one in ("Document", "Chunks"))
        letters = ["letter-01.txt", "letter-02.txt", "letter-03.txt"]
        assert listed(page) == [*letters, "page 2", "Page 10"]
        assert title.get_attribute("aria-sort") == "ascending"
        chunks.get_by_role("button").focus()
        page.keyboard.press("Enter")
        expect(chunks).to_have_attribute("aria-sort", "descending")
        expect(chunks.get_by_role("button")).to_be_focused()
        assert title.get_attribute("aria-sort") is None
        assert (listed(page)[0], listed(page)[-1]) == ("Page 10", "page 2")
        page.keyboard.press("Enter")
        expect(chunks).to_have_attribute("aria-sort", "ascending")
        assert (listed(page)[0], listed(page)[-1]) == ("page 2", "Page 10")
        page.locator('nav a[data-view="ask"]').click()
        page.locator('nav a[data-view="documents"]').click()
        expect(chunks).to_have_attribute("aria-sort", "ascending")
        page.set_viewport_size({"width": 390, "height": 800})
        assert page.locator("#document-order").input_value() == "chunks"
        page.locator("#document-order").select_option("-title")
        expect(page.locator("tbody tr").first).to_have_attribute("data-document", "Page 10")


@pytest.mark.slow
def test_selected_documents_are_indexed_after_their_cost_was_confirmed(open_page, web_index):
    web_index.add([SourceDocument(f"{n}.txt", f"Zoe left {n}.") for n in range(3)], wait=False)
    with documents_page(open_page, web_index) as page:
        select(page, "0.txt", "1.txt", "letter-01.txt")
        page.locator("#index-selected").click()
        dialog = page.locator("dialog")
        told = dialog.inner_text()
        assert "Index 2 documents again?" in told
        assert "0.txt, 1.txt: 2 chunks and 0 summaries are created." in told
        assert "1 selected document is indexed already" in told
        assert "No language model is called." in told
        dialog.get_by_role("button", name="Index again").click()
        page.locator("[data-job]", has_text="Done: 2 documents indexed").wait_for()
        expect(page.locator("#index-selected")).to_be_hidden()
    states = {one.id: one.status for one in web_index.status()}
    assert (states["0.txt"], states["1.txt"], states["2.txt"]) == ("done", "done", "pending")


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
        select(page, "new.txt")
        page.locator("#delete-selected").click()
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


def scripting(page, address, ready):
    """Return the seconds of scripting with which a view opens."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")

    def spent():
        metrics = session.send("Performance.getMetrics")["metrics"]
        return {one["name"]: one["value"] for one in metrics}["ScriptDuration"]

    before = spent()
    page.goto(address)
    page.locator(ready).first.wait_for()
    page.locator("[aria-busy]").first.wait_for(state="detached")
    return spent() - before


@pytest.mark.slow
def test_five_thousand_documents_open_in_less_than_300_ms_of_scripting(open_page, web_index):
    texts = (f"Alice met Person{n} in room {n}." for n in range(5_000))
    web_index.add([SourceDocument(f"note-{n}.txt", text) for n, text in enumerate(texts)])
    with running_page(make_app(web_index)) as url:
        page = open_page(f"{url}#/ask")
        page.locator("#index-facts").wait_for()
        documents = scripting(page, f"{url}#/documents", "#view-documents tbody tr")
        assert page.locator("#view-documents tbody tr").count() == 25
        assert page.get_by_text("1–25 of 5,003").is_visible()
        graph = scripting(page, f"{url}#/graph", "#view-graph .graph-members li")
        assert documents < 0.3
        assert graph < 0.3  # with the library that draws
