"""The commands that change an index: update, delete, resume, compact, export and import."""

from __future__ import annotations

import io
import re
import sqlite3
import sys
from contextlib import closing

import pytest
import spacy

from cli_helpers import SMALL_CHUNKS, FakeDefaultEmbedder, FakeSummarizer
from e2graphrag_integrations import E2GraphRAG, ExtractiveSummarizer, SourceDocument, components
from e2graphrag_integrations.cli import inputs
from e2graphrag_integrations.cli.main import main
from e2graphrag_integrations.store.lock import IndexLock
from e2graphrag_integrations.store.queue import enqueue
from fakes import numbered

ALICE = (
    "Alice met the Hatter in the garden. The Hatter gave Alice a cup of tea. "
    "Alice thanked the Hatter and walked to the river. The river was wide and cold. "
    "A boat with the Walrus came by. The Walrus sang of cabbages and kings."
)
QUEEN = "The Queen of Hearts lived in a castle. The Queen played croquet with the King."
SHIP = "A ship crossed the ocean. Its captain looked for an island of gold."
FORBIDDEN = f"Beware the {FakeSummarizer.forbidden}, my son."


def write_texts(folder):
    (folder / "sub").mkdir(parents=True)
    (folder / "alice.txt").write_text(ALICE)
    (folder / "queen.md").write_text(QUEEN)
    (folder / "sub" / "ship.txt").write_text(SHIP)
    return folder


def edit_texts(folder):
    """Change one file, add one and remove one."""
    (folder / "alice.txt").write_text(ALICE + " The Dodo told the time.")
    (folder / "new.txt").write_text("Bill the Lizard lost his slate.")
    (folder / "queen.md").unlink()


def document_ids(index):
    with E2GraphRAG.open(index) as rag:
        assert rag.verify().ok
        return rag.document_ids


@pytest.fixture
def folder(tmp_path):
    """Three files, one of them in a subfolder."""
    return write_texts(tmp_path / "texts")


@pytest.fixture(scope="module")
def index_bytes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("index")
    texts, path = write_texts(folder / "texts"), folder / "i.e2g"
    assert main(["index", str(texts), "--out", str(path), *SMALL_CHUNKS]) == 0
    return path.read_bytes()


@pytest.fixture
def index(tmp_path, index_bytes):
    """An index of the three files."""
    path = tmp_path / "i.e2g"
    path.write_bytes(index_bytes)
    return path


@pytest.fixture
def summarizer(monkeypatch):
    """Let every command summarize with the fake language model."""
    fake = FakeSummarizer()
    monkeypatch.setattr(inputs, "make_summarizer", lambda *_, **__: fake)
    return fake


@pytest.fixture
def failed_index(folder, tmp_path, call, summarizer):
    """An index of the folder in which one document failed."""
    path = tmp_path / "s.e2g"
    (folder / "jabber.txt").write_text(f"{SHIP} {FORBIDDEN} {QUEEN} {SHIP}")
    code, out, err = call("index", folder, "--out", path, *SMALL_CHUNKS)
    assert code == 3
    assert f"{path}: 3 document(s) indexed, 0 unchanged; " in out
    announced, failure, hint = err.splitlines()
    assert re.fullmatch(r"summaries: \d+ LLM call\(s\) to FakeSummarizer, with at .*", announced)
    assert failure.startswith("failed: jabber.txt: ")
    assert "ValueError: content filter" in failure
    assert hint == f"run `e2graphrag documents resume {path}` to try again"
    return path


@pytest.mark.parametrize("command", ["index", "update"])
def test_max_llm_calls_stops_before_the_first_call(index, folder, call, monkeypatch, command):
    fake = FakeSummarizer()
    monkeypatch.setattr(fake, "fingerprint", ExtractiveSummarizer().fingerprint, raising=False)
    monkeypatch.setattr(inputs, "make_summarizer", lambda *_, **__: fake)
    edit_texts(folder)
    index_command = ["index", folder, "--out", index]
    arguments = index_command if command == "index" else ["documents", "update", index, folder]
    before = index.read_bytes()
    code, out, err = call(*arguments, "--max-llm-calls", "0")
    assert (code, out, fake.calls) == (2, "", 0)
    assert "but --max-llm-calls 0" in err
    assert index.read_bytes() == before
    assert call(*arguments, "--max-llm-calls", "50")[0] == 0
    assert fake.calls


# Update and delete


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


def test_delete_with_an_unknown_id_deletes_nothing(index, call):
    code, out, err = call("documents", "delete", index, "alice.txt", "ghost.txt")
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert "'ghost.txt'" in err
    assert len(document_ids(index)) == 3


# Failures, resume and status


def test_status_prints_the_state_of_each_document(index, failed_index, call):
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
    assert call("documents", "resume", index).code == 0
    assert call("query", index, "Who met Bert?").err == ""


def test_status_says_that_the_previous_version_is_searchable(failed_index, folder, call):
    (folder / "alice.txt").write_text(f"{ALICE} {FORBIDDEN}")
    (folder / "queen.md").write_text(f"{QUEEN} The end.")
    report = call("documents", "update", failed_index, folder, "--json").json(3)
    assert sorted(report["failed"]) == ["alice.txt", "jabber.txt"]
    assert (report["replaced"], report["added"]) == (["queen.md"], [])
    _, out, _ = call("documents", "list", failed_index)
    assert "failed\talice.txt (the previous version is searchable): " in out


def test_reindex_extracts_an_index_of_another_extractor_again(folder, tmp_path, call):
    index = tmp_path / "my index.e2g"
    call("index", folder, "--out", index, "--embedder", "hashing")
    blank = tmp_path / "blank"
    spacy.blank("en").to_disk(blank)
    code, out, err = call("entities", "reindex", index, "--spacy-model", blank)
    assert (code, err) == (0, "")
    assert out.startswith(f"{index}: 3 document(s) with 3 chunks extracted again; ")
    again = call("entities", "reindex", index, "--spacy-model", blank)
    assert again.out == f"{index}: nothing to do, 3 document(s) are current\n"
    report = call("entities", "reindex", index, "--json").json()
    assert (report["documents"], len(report["skipped"])) == (0, 3)
    assert call("indexes", "verify", index).code == 0
    assert call("entities", "reindex", tmp_path / "missing.e2g").code == 2


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
    expected = f"{failed_index}: nothing new, 0 document(s) unchanged\n"
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


def test_repeating_the_index_command_also_resumes(failed_index, folder, call, summarizer):
    summarizer.rejects = False
    report = call("index", folder, "--out", failed_index, "--json").json()
    assert (report["documents"], len(report["skipped"])) == (1, 3)
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


def test_interrupted_index_exits_with_130_and_can_be_resumed(
    folder, tmp_path, call, summarizer, monkeypatch
):
    def interrupt(texts, *, level, max_tokens):
        raise KeyboardInterrupt

    out = tmp_path / "x.e2g"
    with monkeypatch.context() as patch:
        patch.setattr(summarizer, "summarize", interrupt)
        code, printed, err = call("index", folder, "--out", out, *SMALL_CHUNKS)
    assert (code, printed) == (130, "")
    assert err.endswith(
        "interrupted: repeat the command or run `e2graphrag documents resume` to continue\n"
    )
    assert call("documents", "list", out).code == 3
    assert call("index", folder, "--out", out, *SMALL_CHUNKS).code == 0
    assert call("documents", "list", out).code == 0


# Compact, export and import


def test_compact_reports_the_size_before_and_after(index, call):
    assert call("documents", "delete", index, "alice.txt", "queen.md").code == 0
    size = index.stat().st_size
    report = call("indexes", "compact", index, "--json").json()
    assert report["bytes_before"] == size
    assert report["bytes_after"] == index.stat().st_size <= size
    assert report["dropped"] == 0
    code, out, _ = call("indexes", "compact", index)
    size = index.stat().st_size
    assert (code, out) == (0, f"{index}: {size} to {size} bytes, 0 cached results dropped\n")
    assert call("indexes", "verify", index).code == 0


def test_imported_export_equals_the_index(index, tmp_path, call):
    exported, copy = tmp_path / "out", tmp_path / "b.e2g"
    assert call("export", "folder", index, exported) == (0, f"wrote {exported}\n", "")
    folder = str(tmp_path / "o2")
    assert call("export", "folder", index, folder, "--json").json() == {"folder": folder}
    assert call("indexes", "import", exported, "--out", copy) == (0, f"wrote {copy}\n", "")
    other = str(tmp_path / "c.e2g")
    assert call("indexes", "import", exported, "--out", other, "--json").json() == {"file": other}
    question = ["Who gave Alice a cup?", "--json"]
    assert call("query", index, *question) == call("query", copy, *question)
    assert call("indexes", "verify", copy).code == 0


def test_exported_graph_has_all_nodes_and_relations(index, tmp_path, call):
    folder = tmp_path / "graph"
    code, out, err = call("export", "graph", index, folder)
    assert (code, err) == (0, "")
    assert out.startswith(f"wrote {folder}: 3 Document, ")
    options = ("--no-texts", "--no-communities", "--json")
    found = call("export", "graph", index, tmp_path / "g.graphml", *options).json()
    assert found["path"] == str(tmp_path / "g.graphml")
    assert found["counts"]["Entity"] == len((folder / "entity.csv").read_bytes().splitlines()) - 1
    assert found["counts"]["Community"] == 0
    assert 'attr.name="text"' not in (tmp_path / "g.graphml").read_text(encoding="utf-8")
    code, out, err = call("export", "graph", index, tmp_path / "g.gml")
    assert (code, out) == (2, "")
    assert ".graphml, .gexf, .json" in err
    code, out, err = call("export", "folder", index, tmp_path / "g.gexf")
    assert (code, out) == (2, "")
    assert "e2graphrag export graph" in err


# Invalid input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["documents", "update", "ghost.e2g", "{folder}"], "index ghost.e2g does not exist"),
        (["documents", "delete", "ghost.e2g", "x"], "index ghost.e2g does not exist"),
        (["documents", "resume", "ghost.e2g"], "index ghost.e2g does not exist"),
        (["documents", "list", "ghost.e2g"], "index ghost.e2g does not exist"),
        (["indexes", "compact", "ghost.e2g"], "index ghost.e2g does not exist"),
        (["export", "folder", "ghost.e2g", "out"], "index ghost.e2g does not exist"),
        (["documents", "update", "{folder}", "{folder}"], "is a folder: name an index file"),
        (["documents", "list", "{alice}"], "e2graphrag index"),
        (["documents", "update", "{index}", "ghost.txt"], "ghost.txt does not exist"),
        (
            ["documents", "update", "{index}", "{folder}", "--llm-base-url", "u"],
            "require --llm-model",
        ),
        (["documents", "update", "{index}", "{folder}", "--concurrency", "0"], "--concurrency 0"),
        (["documents", "resume", "{index}", "--llm-api-key-env", "X"], "require --llm-model"),
        (
            ["documents", "update", "{index}", "{folder}", "--llm-model", "m"],
            "OPENAI_API_KEY contains no API",
        ),
        (["documents", "delete", "{index}", "ghost"], "'ghost'"),
        (["documents", "delete", "{index}", ""], "''"),
        (["export", "folder", "{index}", "{folder}"], "{folder}"),
        (["export", "folder", "{index}", ""], "must name a file"),
        (["export", "folder", "{index}", "no/such/out"], "no/such/out"),
        (["export", "graph", "ghost.e2g", "out"], "index ghost.e2g does not exist"),
        (["export", "graph", "{index}", "{folder}"], "{folder} already exists"),
        (["export", "graph", "{index}", "g", "--min-weight", "-1"], "--min-weight -1.0"),
        (["indexes", "import", "{folder}", "--out", "x.e2g"], "export"),
        (["indexes", "import", "ghost", "--out", "x.e2g"], "ghost"),
        (["indexes", "import", "ghost", "--out", "{index}"], "{index}"),
        (["indexes", "import", "ghost", "--out", ":memory:"], "name a file"),
        (["indexes", "import", "ghost", "--out", ""], "the path is empty"),
    ],
    ids=str,
)
def test_invalid_input_exits_with_2_and_changes_no_file(
    arguments, message, index, folder, tmp_path, call, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    names = {"index": index, "folder": folder, "alice": folder / "alice.txt"}

    def snapshot():
        return sorted((file, file.is_file() and file.read_bytes()) for file in tmp_path.rglob("*"))

    before = snapshot()
    code, out, err = call(*(argument.format(**names) for argument in arguments))
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert message.format(**names) in err
    assert "Traceback" not in err
    assert snapshot() == before


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
        E2GraphRAG, "open", lambda path, **o: opened(path, **{**o, "lock_timeout": 0.1})
    )
    with IndexLock(str(index), 1).acquire():
        code, out, err = call("documents", "delete", index, "alice.txt")
        assert call("documents", "list", index).code == 0
    assert (code, out) == (2, "")
    assert f"error: {index} is being written by process " in err


# The default models


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


# Metadata


def metadata_of(index):
    with E2GraphRAG.open(index) as rag:
        return {id_: dict(rag.document(id_).metadata) for id_ in rag.document_ids}


def test_metadata_is_given_to_all_files_of_a_call_and_can_be_filtered(index, tmp_path, call):
    more = tmp_path / "more.txt"
    more.write_text("The Duchess nursed a baby that sneezed.")
    given = ("--metadata", "tenant=b", "--metadata", "year=1865", "--metadata", 'tags=["x", "y"]')
    assert call("index", more, "--out", index, *given)[0] == 0
    expected = {"tenant": "b", "year": 1865, "tags": ["x", "y"]}
    assert metadata_of(index)["more.txt"] == expected
    assert metadata_of(index)["queen.md"] == {}
    found = call(
        "query", index, "Who nursed a baby?", "--scope", '{"tenant": "b"}', "--json"
    ).json()
    assert {node["document_id"] for node in found["nodes"]} == {"more.txt"}


def test_a_file_that_is_read_again_keeps_the_title_and_metadata_of_its_document(
    folder, tmp_path, call
):
    path = tmp_path / "t.e2g"
    with E2GraphRAG.open(path) as rag:
        given = {"tenant": "a", "year": 1865}
        rag.add(SourceDocument("alice.txt", ALICE, title="Wonderland", metadata=given))
    edit_texts(folder)
    assert call("documents", "update", path, folder, "--metadata", "year=1872")[0] == 0
    with E2GraphRAG.open(path) as rag:
        alice = rag.document("alice.txt")
        assert "The Dodo" in alice.text
        assert (alice.title, dict(alice.metadata)) == ("Wonderland", {"tenant": "a", "year": 1872})
        assert dict(rag.document("new.txt").metadata) == {"year": 1872}
    report = call("index", folder, "--out", path, "--json").json()
    assert report["documents"] == 0  # so unchanged files need no `--metadata`


def test_a_failed_document_keeps_its_metadata_when_its_file_is_read_again(
    folder, tmp_path, call, summarizer
):
    path = tmp_path / "f.e2g"
    (folder / "jabber.txt").write_text(f"{SHIP} {FORBIDDEN} {QUEEN} {SHIP}")
    command = ("index", folder, "--out", path)
    assert call(*command, "--metadata", "tenant=a", *SMALL_CHUNKS)[0] == 3
    (folder / "jabber.txt").write_text(f"{SHIP} {QUEEN} {SHIP}")
    assert call(*command)[0] == 0
    assert metadata_of(path)["jabber.txt"] == {"tenant": "a"}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (["tenant"], "--metadata 'tenant' must be KEY=VALUE"),
        (["=a"], "--metadata '=a' must be KEY=VALUE"),
        (["tenant=a", "tenant=b"], "--metadata 'tenant=b': 'tenant' is given twice"),
        (["a=" + "[" * 100_000], "--metadata a: the value is nested too deeply"),
        (["score=NaN"], "metadata"),
        (["document_id=x"], "document_id"),
    ],
)
def test_invalid_metadata_is_refused_before_anything_is_written(
    index, folder, call, given, problem
):
    before = index.read_bytes()
    options = [part for one in given for part in ("--metadata", one)]
    for command in (("index", folder, "--out", index), ("documents", "update", index, folder)):
        code, out, err = call(*command, *options)
        assert (code, out) == (2, "")
        assert problem in err
    assert index.read_bytes() == before
