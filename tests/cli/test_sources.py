"""Files of all kinds on the command line: which are read, skipped or reported as failed."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys

import pytest

from cli_helpers import SMALL_CHUNKS, FakeSummarizer
from e2graphrag_integrations import E2GraphRAG
from e2graphrag_integrations.cli import inputs, models
from e2graphrag_integrations.errors import SummaryError
from e2graphrag_integrations.store.lock import IndexLock
from file_makers import make_bookmarked_pdf, make_pdf


@pytest.fixture
def folder(tmp_path):
    """A folder with texts, records, source code, an image and broken files."""
    path = tmp_path / "texts"
    path.mkdir()
    for name in ("a.txt", "b.csv", "c.json", "d.py", "e.jpg", "LICENSE"):
        (path / name).write_text(f"Alice met Bob in {name}.")
    (path / "page.html").write_text("<p>Alice met Carol.")
    (path / "broken.docx").write_bytes(b"no such format")
    (path / "image.txt").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    return path


def test_unknown_kinds_are_listed_and_unreadable_files_do_not_stop_the_others(
    folder, tmp_path, call
):
    out = tmp_path / "x.e2g"
    code, printed, err = call("index", folder, "--out", out, *SMALL_CHUNKS)
    assert code == 3
    assert f"{out}: 5 document(s) indexed" in printed
    lines = err.splitlines()
    assert [line.split(": ")[:2] for line in lines] == [
        ["failed", "broken.docx"],
        ["failed", "image.txt"],
        ["skipped", "LICENSE"],
        ["skipped", "e.jpg"],
    ]
    assert lines[-1] == "skipped: e.jpg: unknown kind of file: .jpg"
    with E2GraphRAG.open(out) as rag:
        assert rag.document_ids == ["a.txt", "b.csv", "c.json", "d.py", "page.html"]
    unread = call("index", folder, "--out", out, "--json").json(3)["unread_files"]
    assert set(unread) == {"broken.docx", "image.txt", "e.jpg", "LICENSE"}


def test_headings_of_files_are_metadata_and_name_sections(tmp_path, call):
    (tmp_path / "a.html").write_text("<h1>Weena</h1><p>Weena is a friend who swims in the river.")
    page = "Eloi\nEloi are people who sing."
    (tmp_path / "b.pdf").write_bytes(make_bookmarked_pdf([page], [(1, "Eloi", 0)]))
    out = tmp_path / "x.e2g"
    assert call("index", tmp_path / "a.html", tmp_path / "b.pdf", "--out", out)[0] == 0
    nodes = call("query", out, "Who are Weena and the Eloi?", "--json").json()["nodes"]
    assert {node["document_id"]: node["metadata"] for node in nodes} == {
        "a.html": {"headings": ["Weena"]},
        "b.pdf": {"headings": ["Eloi"], "page": 1},
    }
    stats = call("indexes", "stats", out, "--json").json()
    assert (stats["sections"], stats["trusted_sources"]) == (2, ["definition", "section"])


def test_many_files_of_unknown_kinds_are_summed_up(tmp_path, call):
    for number in range(30):
        (tmp_path / f"{number}.jpg").touch()
    (tmp_path / "a.txt").write_text("Alice met Bob.")
    code, _, err = call("index", tmp_path, "--out", tmp_path / "x.e2g", *SMALL_CHUNKS)
    assert code == 0
    assert len(err.splitlines()) == 21
    assert err.endswith("skipped: 10 more files of unknown kinds\n")


def test_a_missing_extra_skips_its_files_with_one_line_each(folder, tmp_path, call, monkeypatch):
    monkeypatch.setitem(sys.modules, "lxml", None)
    monkeypatch.setitem(sys.modules, "pypdf", None)
    for name in ("x.pdf", "y.pdf"):
        (folder / name).write_bytes(make_pdf(["Page."]))
    command = ["--out", tmp_path / "x.e2g", *SMALL_CHUNKS]
    code, printed, err = call("index", folder, *command)
    assert code == 3
    assert "4 document(s) indexed" in printed
    missing = [line for line in err.splitlines() if "e2graphrag-integrations[files]" in line]
    assert [line.split(": ")[1] for line in missing] == [
        "broken.docx",
        "page.html",
        "x.pdf",
        "y.pdf",
    ]
    code, _, err = call("index", folder / "x.pdf", *command)
    assert (code, err.count("\n")) == (2, 1)
    assert "needs the package pypdf" in err


def test_prune_keeps_the_document_of_a_file_that_cannot_be_read(folder, tmp_path, call):
    out = tmp_path / "x.e2g"
    assert call("index", folder, "--out", out, *SMALL_CHUNKS).code == 3
    (folder / "page.html").unlink()
    (folder / "a.txt").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    report = call("documents", "update", out, folder, "--prune", "--json").json(3)
    assert report["deleted"] == ["page.html"]
    assert "a.txt" in report["unread_files"]
    with E2GraphRAG.open(out) as rag:
        assert "a.txt" in rag.document_ids


def test_prune_keeps_the_documents_of_a_folder_that_cannot_be_read(tmp_path, call, monkeypatch):
    folder, out = tmp_path / "texts", tmp_path / "x.e2g"
    for name in ("a.txt", "b.txt", "locked/c.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("Alice met Bob.")
    assert call("index", folder, "--out", out, *SMALL_CHUNKS).code == 0
    (folder / "b.txt").unlink()
    (folder / "locked" / "c.txt").unlink()  # as `rglob` finds nothing in it
    locked, access = str(folder / "locked"), os.access
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != locked and access(path, mode))
    report = call("documents", "update", out, folder, "--prune", "--json").json(3)
    assert (report["deleted"], list(report["unread_files"])) == (["b.txt"], ["locked"])
    with E2GraphRAG.open(out) as rag:
        assert rag.document_ids == ["a.txt", "locked/c.txt"]


def test_prune_keeps_documents_whose_ids_do_not_name_the_folder_that_cannot_be_read(
    tmp_path, call, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for name in ("one/sub/x.txt", "two/sub/x.txt", "two/y.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"Alice met Bob in {name}.")
    for folder in ("one", "two"):
        assert call("index", folder, "--out", "x.e2g", *SMALL_CHUNKS).code == 0
    locked, access = str(tmp_path / "two" / "sub"), os.access
    (tmp_path / "two" / "sub" / "x.txt").unlink()  # as `rglob` finds nothing in it
    monkeypatch.setattr(
        os, "access", lambda path, mode: not locked.endswith(str(path)) and access(path, mode)
    )
    report = call("documents", "update", "x.e2g", "one", "two", "--prune", "--json").json(3)
    assert report["deleted"] == []


def test_prune_keeps_the_document_of_a_broken_link(tmp_path, call):
    folder, out = tmp_path / "texts", tmp_path / "x.e2g"
    folder.mkdir()
    (folder / "a.txt").write_text("Alice met Bob.")
    (tmp_path / "shared.txt").write_text("Gina lives in Lima.")
    (folder / "link.txt").symlink_to("../shared.txt")
    assert call("index", folder, "--out", out, *SMALL_CHUNKS).code == 0
    (tmp_path / "shared.txt").unlink()
    report = call("documents", "update", out, folder, "--prune", "--json").json(3)
    assert (report["deleted"], list(report["unread_files"])) == ([], ["link.txt"])


@pytest.mark.parametrize("name", ["novel.e2g", "novel.txt"])
def test_an_index_in_its_own_folder_is_not_indexed(tmp_path, call, name):
    (tmp_path / "a.txt").write_text("Alice met Bob.")
    command = ["index", tmp_path, "--out", tmp_path / name]
    assert call(*command, *SMALL_CHUNKS).code == 0
    call("query", tmp_path / name, "Who met Bob?")  # writes the snapshot beside the index
    if name == "novel.e2g":
        code, printed, err = call(*command)
        assert (code, err) == (0, "")
        assert "nothing new, 1 document(s) unchanged" in printed
    code, printed, err = call("documents", "update", tmp_path / name, tmp_path)
    assert (code, err) == (0, "")
    assert "nothing new, 1 document(s) unchanged" in printed


def test_encodings_are_found_and_a_given_one_overrides(tmp_path, call):
    (tmp_path / "a.txt").write_text("Anna wohnt in Köln. Müller traf Anna.", encoding="cp1252")
    out = tmp_path / "x.e2g"
    code, _, err = call("index", tmp_path, "--out", out, *SMALL_CHUNKS)
    assert code == 0
    assert "read in the encoding that fits their letters: cp1252 (a.txt)" in err
    code, _, err = call("documents", "update", out, tmp_path, "--encoding", "cp1251")
    assert (code, err) == (0, "")
    with E2GraphRAG.open(out) as rag:
        assert "Mьller" in rag.document("a.txt").text
    code, _, err = call("documents", "update", out, tmp_path, "--encoding", "klingon")
    assert (code, err.count("\n")) == (2, 1)


def test_a_file_name_that_is_not_utf_8_is_indexed_found_and_reported(tmp_path, call):
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_text("Carol met Dan.")
    try:
        (folder / os.fsdecode(b"caf\xe9.txt")).write_text("Alice met Bob.")
    except OSError:
        pytest.skip("this file system has only names in UTF-8")
    (folder / os.fsdecode(b"caf\xe9.pdf")).write_text("no PDF")
    out = tmp_path / "x.e2g"
    code, printed, err = call("index", folder, folder / "a.txt", "--out", out, *SMALL_CHUNKS)
    assert (code, "2 document(s) indexed" in printed) == (3, True)
    assert r"failed: caf\xe9.pdf" in err
    assert call("query", out, "Alice", "-k", "1", "--json").json()["nodes"][0]["document_id"] == (
        r"caf\xe9.txt"
    )
    assert call("documents", "list", out).code == 0
    report = tmp_path / "r.html"
    assert call("export", "report", out, "--question", "Who is Alice?", "--out", report).code == 0
    assert report.stat().st_size


# A failed first run


def test_missing_openai_package_is_reported_before_work_starts(tmp_path, call, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "openai" else find_spec(name)
    )
    monkeypatch.setattr(inputs, "read_documents", lambda *_, **__: pytest.fail("work started"))
    (tmp_path / "a.txt").write_text("Alice met Bob.")
    out = tmp_path / "x.e2g"
    code, _, err = call("index", tmp_path / "a.txt", "--out", out, "--llm-model", "m")
    assert code == 2
    assert "pip install 'e2graphrag-integrations[openai]'" in err
    assert not out.exists()


def test_failed_first_run_leaves_no_file(tmp_path, call, monkeypatch):
    summarizer = FakeSummarizer()
    monkeypatch.setattr(models, "make_summarizer", lambda *_, **__: summarizer)
    (tmp_path / "a.txt").write_text(f"{summarizer.forbidden} met Bob. " * 40)
    command = ["index", tmp_path / "a.txt", "--out", tmp_path / "x.e2g"]
    assert call(*command, *SMALL_CHUNKS).code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    # so that other settings work in the next run
    summarizer.rejects = False
    options = ["--embedder", "hashing", "--chunk-size", "30", "--chunk-overlap", "0"]
    assert call(*command, *options).code == 0


def test_failed_later_run_and_paid_summaries_keep_the_file(tmp_path, call, monkeypatch):
    summarizer = FakeSummarizer()
    monkeypatch.setattr(models, "make_summarizer", lambda *_, **__: summarizer)
    (tmp_path / "a.txt").write_text("Alice met Bob. " * 40 + f"{summarizer.forbidden}. " * 5)
    out = tmp_path / "x.e2g"
    command = ["index", tmp_path / "a.txt", "--out", out, *SMALL_CHUNKS, "--concurrency", "1"]
    assert call(*command).code == 2
    assert out.exists()  # with the summaries of the first chunks
    summarizer.rejects = False
    assert call(*command).code == 0
    (tmp_path / "a.txt").write_text("changed")
    assert call(*command, "--on-duplicate", "error").code == 2
    assert call("documents", "list", out).code == 0


def test_an_unexpected_error_in_the_first_run_leaves_no_file(tmp_path, call, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise SummaryError("no")

    monkeypatch.setattr(E2GraphRAG, "add", fail)
    (tmp_path / "a.txt").write_text("Alice met Bob.")
    command = ["index", tmp_path / "a.txt", "--out", tmp_path / "x.e2g", *SMALL_CHUNKS]
    assert call(*command).code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_file_that_another_process_has_begun_to_write_is_kept(tmp_path, call, monkeypatch):
    out = tmp_path / "x.e2g"
    lock = IndexLock(str(out), 1)

    def fail(*_: object, **__: object) -> None:
        locked.enter_context(lock.acquire())
        raise SummaryError("no")

    monkeypatch.setattr(E2GraphRAG, "add", fail)
    (tmp_path / "a.txt").write_text("Alice met Bob.")
    with contextlib.ExitStack() as locked:
        code = call("index", tmp_path / "a.txt", "--out", out, *SMALL_CHUNKS).code
        assert (code, out.exists()) == (2, True)
