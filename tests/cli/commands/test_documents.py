"""The group `documents`: their states, updates and deletions, and unfinished work."""

from __future__ import annotations

import io
import re
import sqlite3
import sys
from contextlib import closing

import pytest

from cli_helpers import (
    ALICE,
    FORBIDDEN,
    QUEEN,
    SHIP,
    SMALL_CHUNKS,
    FakeDefaultEmbedder,
    document_ids,
    edit_texts,
)
from e2graphrag_integrations import E2GraphRAG, WriteOptions, components
from e2graphrag_integrations.store.lock import IndexLock
from e2graphrag_integrations.store.queue import enqueue, note_pace, set_queue_status
from fakes import numbered


def test_update_replaces_changed_documents_and_adds_new_ones(index, folder, call):
    edit_texts(folder)
    report = call("documents", "update", index, folder, "--json").json()
    assert (report["replaced"], report["added"]) == (["alice.txt"], ["new.txt"])
    assert report["deleted"] == []
    assert report["skipped"] == ["sub/ship.txt"]
    assert (report["documents"], report["failed"], report["file"]) == (2, {}, str(index))
    assert document_ids(index) == ["alice.txt", "new.txt", "queen.md", "sub/ship.txt"]
    code, out, _ = call("query", index, "What did the Dodo tell?", "-k", "1")
    assert code == 0
    assert "The Dodo told the time." in out


def test_update_with_prune_deletes_documents_without_a_file(index, folder, call):
    edit_texts(folder)
    code, out, err = call("documents", "update", index, folder, "--prune")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[:3] == ["replaced: alice.txt", "added: new.txt", "deleted: queen.md"]
    assert lines[3].startswith(f"{index}: 2 document(s) indexed, 1 unchanged; ")
    assert document_ids(index) == ["alice.txt", "new.txt", "sub/ship.txt"]


def test_update_without_changes_says_so_and_can_still_prune(index, folder, call):
    expected = f"{index}: nothing new, 3 document(s) unchanged\n"
    assert call("documents", "update", index, folder) == (0, expected, "")
    (folder / "queen.md").unlink()
    code, out, _ = call("documents", "update", index, folder, "--prune")
    assert code == 0
    assert out.splitlines()[0] == "deleted: queen.md"
    assert document_ids(index) == ["alice.txt", "sub/ship.txt"]


def test_updated_index_equals_a_new_index(index, folder, call, tmp_path):
    edit_texts(folder)
    assert call("documents", "update", index, folder, "--prune").code == 0
    fresh = tmp_path / "fresh.e2g"
    assert call("index", folder, "--out", fresh, *SMALL_CHUNKS).code == 0
    with E2GraphRAG.open(index) as rag, E2GraphRAG.open(fresh) as other:
        assert list(rag.export()) == list(other.export())


def test_estimate_of_an_update_equals_its_cost_and_changes_nothing(
    folder, tmp_path, call, summarizer
):
    index = tmp_path / "m.e2g"
    assert call("index", folder, "--out", index, *SMALL_CHUNKS).code == 0
    edit_texts(folder)
    before = index.read_bytes()
    estimate = call("documents", "update", index, folder, "--prune", "--estimate", "--json").json()
    assert index.read_bytes() == before
    code, out, _ = call("documents", "update", index, folder, "--estimate")
    assert code == 0
    assert f"LLM calls: {estimate['llm_calls']} " in out
    summarizer.calls = 0
    report = call("documents", "update", index, folder, "--prune", "--json").json()
    cost = report["llm_calls"] + report["saved_calls"]
    assert cost == estimate["llm_calls"] == summarizer.calls > 0
    assert report["documents"] == estimate["documents"] == 2


def test_update_reads_standard_input(index, call, monkeypatch):
    for text, change in (("Bill met Alice.", "added"), ("Bill left.", "replaced")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        assert call("documents", "update", index, "-", "--json").json()[change] == ["stdin"]


def test_update_warns_about_a_document_that_became_empty(index, folder, call):
    (folder / "queen.md").write_text(" \n")
    code, _, err = call("documents", "update", index, folder)
    assert (code, err) == (0, "warning: queen.md contains no text\n")


def test_delete_removes_documents_and_reports_the_counts(index, call):
    report = call(
        "documents", "delete", index, "alice.txt", "sub/ship.txt", "alice.txt", "--json"
    ).json()
    assert report["documents"] == 2
    assert report["chunks"] > report["summaries"] > 0
    assert document_ids(index) == ["queen.md"]
    code, out, _ = call("documents", "delete", index, "queen.md")
    assert code == 0
    assert re.fullmatch(rf"{index}: 1 document\(s\) deleted with \d chunks and \d summaries\n", out)
    assert call("query", index, "Alice").code == 1


def test_delete_takes_ids_with_control_characters_as_they_are_listed(tmp_path, call):
    (tmp_path / "b\x1b[31m.txt").write_text("Carol met Dan.")
    out = tmp_path / "x.e2g"
    assert call("index", tmp_path, "--out", out, *SMALL_CHUNKS).code == 0
    assert r"b\x1b[31m.txt" in call("documents", "list", out, "--all").out
    assert call("documents", "delete", out, r"b\x1b[31m.txt").code == 0
    assert document_ids(out) == []


def test_delete_with_an_unknown_id_deletes_nothing(index, call):
    code, out, err = call("documents", "delete", index, "alice.txt", "ghost.txt")
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert "'ghost.txt'" in err
    assert len(document_ids(index)) == 3


def test_list_prints_the_state_of_each_document(index, failed_index, call):
    rows = "done\talice.txt\ndone\tqueen.md\ndone\tsub/ship.txt\n"
    expected = f"{index}: 3 document(s): 3 done\n{rows}"
    assert call("documents", "list", index) == (0, expected, "")
    documents = call("documents", "list", index, "--json").json()["documents"]
    assert all(document["status"] == "done" for document in documents)
    code, out, err = call("documents", "list", failed_index)
    assert code == 3
    assert out.splitlines()[0] == f"{failed_index}: 4 document(s): 3 done, 1 failed"
    assert out.splitlines()[1].startswith("failed\tjabber.txt: ")
    assert out.splitlines()[2] == "done\talice.txt"
    assert err == f"run `e2graphrag documents resume {failed_index}` to index what is not done\n"
    documents = call("documents", "list", failed_index, "--json").json(3)["documents"]
    [failed] = [document for document in documents if document["status"] == "failed"]
    assert (failed["id"], failed["indexed"]) == ("jabber.txt", False)
    assert "content filter" in failed["reason"]


def test_pending_documents_are_told_with_a_way_to_go_on(tmp_path, call):
    folder, index = tmp_path / "many", tmp_path / "m.e2g"
    folder.mkdir()
    for number in range(30):
        (folder / f"{number:02}.txt").write_text(f"Anna{number} met Bert in Oslo.")
    call("index", folder, "--out", index, "--embedder", "hashing", "--no-wait")
    code, out, err = call("query", index, "Who met Bert?")
    assert code == 1
    assert "Answers lack 30 documents that are not indexed yet." in out
    assert f"run `e2graphrag documents resume {index}`" in err
    code, out, err = call("documents", "list", index)
    assert code == 3
    first, *rows, last = out.splitlines()
    assert first == f"{index}: 30 document(s): 30 pending"
    assert rows == [f"pending\t{number:02}.txt" for number in range(20)]
    assert last == "... and 10 more: --all lists them"
    assert f"run `e2graphrag documents resume {index}`" in err
    assert len(call("documents", "list", index, "--all").out.splitlines()) == 31
    states = call("documents", "list", index, "--json").json(3)
    assert (states["counts"], len(states["documents"])) == ({"pending": 30}, 30)
    with E2GraphRAG.open(index) as writer, writer.write_lock():
        told = re.compile(rf"{re.escape(str(index))} is being written by process \d+ .* since 20")
        status, query = (
            call("documents", "list", index).err,
            call("query", index, "Who met Bert?").err,
        )
        assert told.search(status)
        assert told.search(query)
        assert "resume" not in status  # it would wait for the writer
        assert call("documents", "list", index, "--json").json(3)["writer"].startswith("process ")
        set_queue_status(writer.store, {"00.txt": ("processing", None)})
        note_pace(writer.store, 20, 2.0)
        pace = "10 documents per second, about 3 s left."
        assert pace in call("documents", "list", index).err
        told = call("documents", "list", index, "--json").json(3)
        assert (told["documents_per_second"], told["seconds_left"]) == (10, 3)
    assert call("documents", "resume", index).code == 0
    assert call("query", index, "Who met Bert?").err == ""


def test_list_says_that_the_previous_version_is_searchable(failed_index, folder, call):
    (folder / "alice.txt").write_text(f"{ALICE} {FORBIDDEN}")
    (folder / "queen.md").write_text(f"{QUEEN} The end.")
    report = call("documents", "update", failed_index, folder, "--json").json(3)
    assert sorted(report["failed"]) == ["alice.txt", "jabber.txt"]
    assert (report["replaced"], report["added"]) == (["queen.md"], [])
    _, out, _ = call("documents", "list", failed_index)
    assert "failed\talice.txt (the previous version is searchable): " in out


def test_resume_retries_failed_documents_and_reuses_finished_summaries(
    failed_index, call, summarizer
):
    calls = summarizer.calls
    code, out, err = call("documents", "resume", failed_index)
    assert (code, out) == (2, "")  # the only document failed again
    assert "content filter" in err
    summarizer.rejects = False
    calls_before = summarizer.calls
    report = call("documents", "resume", failed_index, "--json").json()
    assert (report["documents"], report["skipped"]) == (1, [])
    assert report["llm_calls"] == summarizer.calls - calls_before <= summarizer.calls - calls
    assert call("documents", "list", failed_index).code == 0
    expected = f"{failed_index}: nothing new\n"
    assert call("documents", "resume", failed_index) == (0, expected, "")
    assert "jabber.txt" in document_ids(failed_index)


def test_resume_exits_with_3_if_some_documents_fail_again(failed_index, folder, call, summarizer):
    (folder / "alice.txt").write_text(f"{ALICE} {FORBIDDEN}")
    assert call("documents", "update", failed_index, folder / "alice.txt").code == 2
    (folder / "jabber.txt").write_text(f"{SHIP} Nothing to fear. {QUEEN} {SHIP}")
    assert call("index", folder / "jabber.txt", "--out", failed_index).code == 0
    with E2GraphRAG.open(failed_index, summarizer=summarizer) as rag:
        enqueue(rag.store, [numbered(30)], {})
    report = call("documents", "resume", failed_index, "--json").json(3)
    assert (report["documents"], list(report["failed"])) == (1, ["alice.txt"])


def test_failed_document_can_be_deleted(failed_index, call):
    report = call("documents", "delete", failed_index, "jabber.txt", "--json").json()
    assert report == {"documents": 1, "chunks": 0, "summaries": 0}
    assert call("documents", "list", failed_index).code == 0


def test_prune_deletes_failed_documents_without_a_file(failed_index, folder, call):
    (folder / "jabber.txt").unlink()
    report = call("documents", "update", failed_index, folder, "--prune", "--json").json()
    assert report["deleted"] == ["jabber.txt"]
    assert call("documents", "list", failed_index).code == 0


def test_resume_uses_the_settings_of_the_first_index_command(
    tmp_path, call, summarizer, monkeypatch
):
    (tmp_path / "j.txt").write_text(f"{ALICE} {QUEEN} {SHIP} {ALICE} {QUEEN} {FORBIDDEN}")
    out = tmp_path / "j.e2g"
    command = ["index", tmp_path / "j.txt", "--out", out, *SMALL_CHUNKS, "--group-size", "3"]
    assert call(*command, "--concurrency", "1").code == 2
    assert summarizer.calls > 1  # so that the file contains a paid summary
    summarizer.rejects = False
    monkeypatch.setattr(components, "SentenceTransformerEmbedder", FakeDefaultEmbedder)
    assert call("documents", "resume", out).code == 0
    with E2GraphRAG.open(out, summarizer=summarizer) as rag:
        assert (rag.settings.chunk_size, rag.settings.group_size) == (25, 3)


def test_damaged_queue_exits_with_2(failed_index, call, summarizer):
    with closing(sqlite3.connect(failed_index)) as db, db:
        db.execute("UPDATE queue SET document = '{}'")
    summarizer.rejects = False
    code, out, err = call("documents", "resume", failed_index)
    assert (code, out) == (2, "")
    assert "'jabber.txt'" in err
    assert "checksum" in err
    assert call("indexes", "verify", failed_index).code == 2
    assert call("documents", "delete", failed_index, "jabber.txt").code == 0
    assert call("indexes", "verify", failed_index).code == 0


def test_index_locked_by_another_writer_can_be_read_but_not_changed(index, call, monkeypatch):
    opened = E2GraphRAG.open
    monkeypatch.setattr(
        E2GraphRAG,
        "open",
        lambda path, **o: opened(path, **{**o, "writes": WriteOptions(lock_timeout=0.1)}),
    )
    with IndexLock(str(index), 1).acquire():
        code, out, err = call("documents", "delete", index, "alice.txt")
        assert call("documents", "list", index).code == 0
    assert (code, out) == (2, "")
    assert f"error: {index} is being written by process " in err


@pytest.mark.slow
def test_default_models_serve_an_index_from_creation_to_deletion(folder, tmp_path, call):
    """Only the first command names settings; the models are the real defaults."""
    index = tmp_path / "real.e2g"
    question = "Who told the time?"
    command = ["index", folder, "--out", index, "--cut", "content", "--chunk-size", "20"]
    assert call(*command).code == 0
    settings = call("indexes", "stats", index, "--json").json()["settings"]
    assert (settings["embedder_model"], settings["chunking"]) == ("all-MiniLM-L6-v2", "content")
    edit_texts(folder)
    report = call("documents", "update", index, folder, "--prune", "--json").json()
    assert (report["replaced"], report["added"]) == (["alice.txt"], ["new.txt"])
    assert report["deleted"] == ["queen.md"]
    assert 0 < report["embedded"] < report["chunks"] + report["summaries"]  # the rest is cached
    best = call("query", index, question, "--json").json()["nodes"][0]
    assert best["document_id"] == "alice.txt"
    assert "Dodo" in best["text"]
    assert call("documents", "delete", index, "alice.txt").code == 0
    nodes = call("query", index, question, "--json").json()["nodes"]
    assert {node["document_id"] for node in nodes} == {"new.txt", "sub/ship.txt"}
    assert call("indexes", "verify", index).code == 0
    assert call("documents", "list", index).code == 0
