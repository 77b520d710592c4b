"""The command line on a living index: update, delete, resume, status, compact, export, import."""

from __future__ import annotations

import functools
import io
import json
import re
import sqlite3
import sys
from contextlib import closing

import pytest

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, components
from e2graphrag_integrations.cli import commands as cli_commands
from e2graphrag_integrations.cli import main as cli
from e2graphrag_integrations.entities import spacy_extractor as extraction
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
SMALL = ["--embedder", "hashing", "--chunk-size", "25", "--chunk-overlap", "5"]


class Model:
    """Stands for a language model: no words for a prompt with the word that it cannot bear."""

    fingerprint = "fake:model"

    def __init__(self):
        self.calls = 0
        self.bears_all = False

    def summarize(self, texts, *, level, max_tokens):
        self.calls += 1
        if not self.bears_all and any("Jabberwock" in text for text in texts):
            raise ValueError("unspeakable")
        return f"Summary of {len(texts)} texts, {sum(map(len, texts))} letters, level {level}."


class QuickDefault(HashingEmbedder):
    """Stands for the default embedder where it should not be asked for at all."""

    def __init__(self, _model=None):
        super().__init__(32)


@pytest.fixture(scope="module", autouse=True)
def _loaded_once():
    """Load the pipeline once for all commands: most of the time of one is that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extraction, "_load", functools.cache(extraction._load))
        yield


@pytest.fixture
def model(monkeypatch):
    """Let every command summarize with the fake model."""
    made = Model()
    monkeypatch.setattr(cli_commands, "summarizer", lambda _: made)
    return made


@pytest.fixture
def folder(tmp_path):
    """Write three files, one of them in a folder below."""
    folder = tmp_path / "texts"
    (folder / "sub").mkdir(parents=True)
    (folder / "alice.txt").write_text(ALICE)
    (folder / "queen.md").write_text(QUEEN)
    (folder / "sub" / "ship.txt").write_text(SHIP)
    return folder


@pytest.fixture
def call(capsys):
    """Call a command in this process and return its exit code, what it printed, and its errors."""

    def run(*arguments):
        code = cli.main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture
def index(folder, tmp_path, call):
    """Index the folder."""
    path = tmp_path / "i.e2g"
    assert call("index", folder, "--out", path, *SMALL)[0] == 0
    return path


def change(folder):
    """Change one file, add one, remove one."""
    (folder / "alice.txt").write_text(ALICE + " The Dodo told the time.")
    (folder / "new.txt").write_text("Bill the Lizard lost his slate.")
    (folder / "queen.md").unlink()


def json_of(result, code=0):
    assert result[0] == code, result
    return json.loads(result[1])


def ids_of(index):
    with E2GraphRAG.open(index) as rag:
        assert rag.verify().ok
        return rag.document_ids


# Update and delete


def test_update_replaces_what_changed_and_adds_what_is_new(index, folder, call):
    change(folder)
    told = json_of(call("update", index, folder, "--json"))
    assert (told["replaced"], told["added"], told["deleted"]) == (["alice.txt"], ["new.txt"], [])
    assert told["skipped"] == ["sub/ship.txt"]
    assert (told["documents"], told["failed"], told["file"]) == (2, {}, str(index))
    assert ids_of(index) == ["alice.txt", "new.txt", "queen.md", "sub/ship.txt"]
    code, printed, _ = call("query", index, "What did the Dodo tell?", "-k", "1")
    assert code == 0
    assert "The Dodo told the time." in printed


def test_update_with_prune_deletes_what_is_no_longer_there(index, folder, call):
    change(folder)
    code, printed, errors = call("update", index, folder, "--prune")
    assert (code, errors) == (0, "")
    lines = printed.splitlines()
    assert lines[:3] == ["replaced: alice.txt", "added: new.txt", "deleted: queen.md"]
    assert lines[3].startswith(f"{index}: 2 document(s) indexed, 1 unchanged; ")
    assert ids_of(index) == ["alice.txt", "new.txt", "sub/ship.txt"]


def test_an_update_of_nothing_says_so_and_prune_alone_deletes(index, folder, call):
    code, printed, _ = call("update", index, folder)
    assert (code, printed) == (0, f"{index}: nothing new, 3 document(s) unchanged\n")
    (folder / "queen.md").unlink()
    code, printed, _ = call("update", index, folder, "--prune")
    assert code == 0
    assert printed.splitlines()[0] == "deleted: queen.md"
    assert ids_of(index) == ["alice.txt", "sub/ship.txt"]


def test_an_updated_index_equals_one_made_anew(index, folder, call, tmp_path):
    change(folder)
    assert call("update", index, folder, "--prune")[0] == 0
    fresh = tmp_path / "fresh.e2g"
    assert call("index", folder, "--out", fresh, *SMALL)[0] == 0
    with E2GraphRAG.open(index) as rag, E2GraphRAG.open(fresh) as other:
        assert list(rag.export()) == list(other.export())


def test_an_estimate_of_an_update_is_what_it_costs_and_changes_nothing(
    folder, tmp_path, call, model
):
    index = tmp_path / "m.e2g"
    assert call("index", folder, "--out", index, *SMALL)[0] == 0
    change(folder)
    before = index.read_bytes()
    estimate = json_of(call("update", index, folder, "--prune", "--estimate", "--json"))
    assert index.read_bytes() == before
    code, printed, _ = call("update", index, folder, "--estimate")
    assert code == 0
    assert f"LLM calls: {estimate['llm_calls']} " in printed
    model.calls = 0
    told = json_of(call("update", index, folder, "--prune", "--json"))
    assert told["llm_calls"] + told["saved_calls"] == estimate["llm_calls"] == model.calls > 0
    assert told["documents"] == estimate["documents"] == 2


def test_update_reads_standard_input(index, call, monkeypatch):
    for text, kind in (("Bill met Alice.", "added"), ("Bill left.", "replaced")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        assert json_of(call("update", index, "-", "--json"))[kind] == ["stdin"]


def test_update_warns_of_a_document_that_became_empty(index, folder, call):
    (folder / "queen.md").write_text(" \n")
    code, _, errors = call("update", index, folder)
    assert code == 0
    assert errors == "warning: queen.md holds no text\n"


def test_delete_removes_documents_and_tells_what_went(index, call):
    told = json_of(call("delete", index, "alice.txt", "sub/ship.txt", "alice.txt", "--json"))
    assert told["documents"] == 2
    assert told["chunks"] > told["summaries"] > 0
    assert ids_of(index) == ["queen.md"]
    code, printed, _ = call("delete", index, "queen.md")
    assert code == 0
    assert re.fullmatch(
        rf"{index}: 1 document\(s\) deleted with \d chunks and \d summaries\n", printed
    )
    code, printed, _ = call("query", index, "Alice")
    assert code == 1


def test_delete_of_what_is_not_there_deletes_nothing(index, call):
    code, printed, errors = call("delete", index, "alice.txt", "ghost.txt")
    assert (code, printed) == (2, "")
    assert errors == f"error: no document 'ghost.txt' in {index}\n"
    assert len(ids_of(index)) == 3


# Failures, resume, status


@pytest.fixture
def stuck(folder, tmp_path, call, model):
    """Index the folder with a model that fails on one file of it."""
    path = tmp_path / "s.e2g"
    (folder / "jabber.txt").write_text(f"{SHIP} Beware the Jabberwock, my son. {QUEEN} {SHIP}")
    code, printed, errors = call("index", folder, "--out", path, *SMALL)
    assert code == 3
    assert f"{path}: 3 document(s) indexed, 0 unchanged; " in printed
    assert errors.startswith("failed: jabber.txt: summary 0 of level 1 of document 'jabber.txt' ")
    assert "ValueError: unspeakable" in errors
    assert errors.endswith(f"`e2graphrag resume {path}` tries them again\n")
    return path


def test_status_tells_how_far_each_document_is(index, stuck, call):
    code, printed, _ = call("status", index)
    assert (code, printed) == (0, "done\talice.txt\ndone\tqueen.md\ndone\tsub/ship.txt\n")
    assert all(d["status"] == "done" for d in json_of(call("status", index, "--json"))["documents"])
    code, printed, _ = call("status", stuck)
    assert code == 3
    assert printed.splitlines()[0] == "done\talice.txt"
    assert printed.splitlines()[1].startswith("failed\tjabber.txt: summary 0 of level 1")
    documents = json_of(call("status", stuck, "--json"), 3)["documents"]
    [failed] = [document for document in documents if document["status"] == "failed"]
    assert (failed["id"], failed["indexed"]) == ("jabber.txt", False)
    assert "unspeakable" in failed["reason"]


def test_status_tells_that_an_older_version_answers(stuck, folder, call):
    (folder / "alice.txt").write_text(f"{ALICE} Beware the Jabberwock.")
    (folder / "queen.md").write_text(f"{QUEEN} The end.")
    told = json_of(call("update", stuck, folder, "--json"), 3)
    assert sorted(told["failed"]) == ["alice.txt", "jabber.txt"]
    assert (told["replaced"], told["added"]) == (["queen.md"], [])
    _, printed, _ = call("status", stuck)
    assert "failed\talice.txt (an older version answers): summary" in printed


def test_resume_takes_up_what_failed_and_pays_for_the_rest_alone(stuck, call, model):
    calls = model.calls
    code, printed, errors = call("resume", stuck)
    assert (code, printed) == (2, "")  # it was all there was to do
    assert "unspeakable" in errors
    model.bears_all = True
    tried = model.calls
    told = json_of(call("resume", stuck, "--json"))
    assert (told["documents"], told["skipped"]) == (1, [])
    assert told["llm_calls"] == model.calls - tried <= model.calls - calls
    assert call("status", stuck)[0] == 0
    code, printed, _ = call("resume", stuck)
    assert (code, printed) == (0, f"{stuck}: nothing new, 0 document(s) unchanged\n")
    assert "jabber.txt" in ids_of(stuck)


def test_a_resume_that_does_but_a_part_exits_with_3(stuck, folder, call, model):
    (folder / "alice.txt").write_text(f"{ALICE} Beware the Jabberwock.")
    assert call("update", stuck, folder / "alice.txt")[0] == 2
    (folder / "jabber.txt").write_text(f"{SHIP} Nothing to fear. {QUEEN} {SHIP}")
    assert call("index", folder / "jabber.txt", "--out", stuck)[0] == 0
    with E2GraphRAG.open(stuck, summarizer=model) as rag:
        enqueue(rag.store, [numbered(30)], {})
    told = json_of(call("resume", stuck, "--json"), 3)
    assert (told["documents"], list(told["failed"])) == (1, ["alice.txt"])


def test_what_waits_can_be_deleted(stuck, call):
    told = json_of(call("delete", stuck, "jabber.txt", "--json"))
    assert told == {"documents": 1, "chunks": 0, "summaries": 0}
    assert call("status", stuck)[0] == 0


def test_the_same_again_goes_on_too(stuck, folder, call, model):
    model.bears_all = True
    told = json_of(call("index", folder, "--out", stuck, "--json"))
    assert (told["documents"], len(told["skipped"])) == (1, 3)
    assert call("status", stuck)[0] == 0


def test_prune_forgets_what_waits_and_is_no_longer_there(stuck, folder, call):
    (folder / "jabber.txt").unlink()
    told = json_of(call("update", stuck, folder, "--prune", "--json"))
    assert told["deleted"] == ["jabber.txt"]
    assert call("status", stuck)[0] == 0


def test_resume_goes_on_with_the_settings_that_were_given(tmp_path, call, model, monkeypatch):
    (tmp_path / "j.txt").write_text(f"{SHIP} Beware the Jabberwock. {QUEEN} {SHIP}")
    out = tmp_path / "j.e2g"
    assert call("index", tmp_path / "j.txt", "--out", out, *SMALL, "--group-size", "3")[0] == 2
    model.bears_all = True
    monkeypatch.setattr(components, "SentenceTransformerEmbedder", QuickDefault)
    assert call("resume", out)[0] == 0
    with E2GraphRAG.open(out, summarizer=model) as rag:
        assert (rag.settings.chunk_size, rag.settings.group_size) == (25, 3)


def test_an_interrupted_index_says_how_to_go_on(folder, tmp_path, call, model, monkeypatch):
    def interrupted(texts, *, level, max_tokens):
        raise KeyboardInterrupt

    out = tmp_path / "x.e2g"
    with monkeypatch.context() as patch:
        patch.setattr(model, "summarize", interrupted)
        code, printed, errors = call("index", folder, "--out", out, *SMALL)
    assert (code, printed) == (130, "")
    assert "`e2graphrag resume`, or the same again" in errors
    assert call("status", out)[0] == 3
    assert call("index", folder, "--out", out, *SMALL)[0] == 0
    assert call("status", out)[0] == 0


# Compact, export, import


def test_compact_tells_what_it_gave_back(index, call):
    assert call("delete", index, "alice.txt", "queen.md")[0] == 0
    size = index.stat().st_size
    told = json_of(call("compact", index, "--json"))
    assert told["bytes_before"] == size
    assert told["bytes_after"] == index.stat().st_size <= size
    assert told["dropped"] == 0
    code, printed, _ = call("compact", index)
    assert code == 0
    size = index.stat().st_size
    assert printed == f"{index}: {size} to {size} bytes, 0 cached results dropped\n"
    assert call("verify", index)[0] == 0


def test_export_and_import_give_the_same_index(index, tmp_path, call):
    code, printed, _ = call("export", index, tmp_path / "out")
    assert (code, printed) == (0, f"wrote {tmp_path / 'out'}\n")
    assert json_of(call("export", index, tmp_path / "o2", "--json")) == {
        "folder": str(tmp_path / "o2")
    }
    code, printed, _ = call("import", tmp_path / "out", "--out", tmp_path / "b.e2g")
    assert (code, printed) == (0, f"wrote {tmp_path / 'b.e2g'}\n")
    told = json_of(call("import", tmp_path / "out", "--out", tmp_path / "c.e2g", "--json"))
    assert told == {"file": str(tmp_path / "c.e2g")}
    question = ["Who gave Alice a cup?", "--json"]
    assert call("query", index, *question) == call("query", tmp_path / "b.e2g", *question)
    assert call("verify", tmp_path / "b.e2g")[0] == 0


def test_index_cut_by_content_is_told_and_held_to(folder, tmp_path, call):
    out = tmp_path / "c.e2g"
    cut = ["--embedder", "hashing", "--chunk-size", "25"]
    assert call("index", folder, "--out", out, *cut, "--cut", "content")[0] == 0
    settings = json_of(call("stats", out, "--json"))["settings"]
    assert (settings["chunking"], settings["grouping"]) == ("content", "content")
    assert settings["chunk_overlap"] == "0"
    code, printed, errors = call("index", folder, "--out", out, "--cut", "fixed")
    assert (code, printed) == (2, "")
    assert "was made with chunking=content, not 'fixed'" in errors
    assert call("index", folder, "--out", out)[0] == 0  # as it was made
    code, _, errors = call(
        "index", folder, "--out", tmp_path / "d.e2g", "--cut", "content", "--chunk-overlap", "5"
    )
    assert code == 2
    assert "chunk_overlap=5: chunks cut by content share nothing" in errors
    assert not (tmp_path / "d.e2g").exists()


# Bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["update", "ghost.e2g", "{folder}"], "there is no index ghost.e2g"),
        (["delete", "ghost.e2g", "x"], "there is no index ghost.e2g"),
        (["resume", "ghost.e2g"], "there is no index ghost.e2g"),
        (["status", "ghost.e2g"], "there is no index ghost.e2g"),
        (["compact", "ghost.e2g"], "there is no index ghost.e2g"),
        (["export", "ghost.e2g", "out"], "there is no index ghost.e2g"),
        (["update", "{folder}", "{folder}"], "there is no index"),
        (["status", "{alice}"], "is no e2graphrag index"),
        (["update", "{index}", "ghost.txt"], "ghost.txt does not exist"),
        (["update", "{index}", "{folder}", "{folder}"], "would both be document"),
        (["update", "{index}", "{folder}", "--llm-base-url", "u"], "need --llm-model"),
        (["update", "{index}", "{folder}", "--concurrency", "0"], "concurrency=0"),
        (["resume", "{index}", "--llm-api-key-env", "X"], "need --llm-model"),
        (["update", "{index}", "{folder}", "--llm-model", "m"], "OPENAI_API_KEY holds no API key"),
        (["delete", "{index}", "ghost"], "no document 'ghost'"),
        (["delete", "{index}", ""], "no document ''"),
        (["export", "{index}", "{folder}"], "is there already: name a new folder"),
        (["export", "{index}", ""], "must name a file"),
        (["export", "{index}", "no/such/out"], "could not be written"),
        (["import", "{folder}", "--out", "x.e2g"], "cannot be read as an export"),
        (["import", "ghost", "--out", "x.e2g"], "cannot be read as an export"),
        (["import", "ghost", "--out", "{index}"], "is there already: name a new file"),
        (["import", "ghost", "--out", ":memory:"], "name a file"),
        (["import", "ghost", "--out", ""], "an empty path names no file"),
    ],
)
def test_bad_input_exits_with_2_and_says_why(
    arguments, message, index, folder, tmp_path, call, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    names = {"index": index, "folder": folder, "alice": folder / "alice.txt"}
    before = sorted((file, file.is_file() and file.read_bytes()) for file in tmp_path.rglob("*"))
    code, printed, errors = call(*(argument.format(**names) for argument in arguments))
    assert (code, printed) == (2, "")
    assert errors.startswith("error: ")
    assert message in errors
    assert "Traceback" not in errors
    assert before == sorted(
        (file, file.is_file() and file.read_bytes()) for file in tmp_path.rglob("*")
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["update", "i.e2g"],
        ["delete", "i.e2g"],
        ["export", "i.e2g"],
        ["import", "out"],
        ["resume"],
        ["status", "i.e2g", "--prune"],
        ["index", "t", "--out", "i.e2g", "--cut", "odd"],
    ],
)
def test_what_no_command_takes_is_told_with_the_usage(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2
    assert "usage: e2graphrag" in capsys.readouterr().err


def test_a_damaged_queue_is_told_and_exits_with_2(stuck, call, model):
    with closing(sqlite3.connect(stuck)) as db:
        db.execute("UPDATE queue SET document = '{}'")
        db.commit()
    model.bears_all = True
    code, printed, errors = call("resume", stuck)
    assert (code, printed) == (2, "")
    assert "waiting document 'jabber.txt' does not match its checksum" in errors
    assert call("verify", stuck)[0] == 2
    assert call("delete", stuck, "jabber.txt")[0] == 0
    assert call("verify", stuck)[0] == 0


def test_an_index_that_another_writes_is_told(index, call, monkeypatch):
    opened = E2GraphRAG.open
    monkeypatch.setattr(
        E2GraphRAG, "open", lambda path, **o: opened(path, **{**o, "lock_timeout": 0.1})
    )
    with IndexLock(str(index), 1).acquire():
        code, printed, errors = call("delete", index, "alice.txt")
        assert call("status", index)[0] == 0  # reading waits for nobody
    assert (code, printed) == (2, "")
    assert f"error: {index} is being written by process " in errors


# The whole of it


def test_the_defaults_from_the_first_index_to_the_last_delete(folder, tmp_path, call):
    """The real embedder and pipeline, none of them named after the first command."""
    index = tmp_path / "real.e2g"
    question = "Who told the time?"
    assert call("index", folder, "--out", index, "--cut", "content", "--chunk-size", "20")[0] == 0
    settings = json_of(call("stats", index, "--json"))["settings"]
    assert (settings["embedder_model"], settings["chunking"]) == ("all-MiniLM-L6-v2", "content")
    change(folder)
    told = json_of(call("update", index, folder, "--prune", "--json"))
    assert (told["replaced"], told["added"]) == (["alice.txt"], ["new.txt"])
    assert told["deleted"] == ["queen.md"]
    assert 0 < told["embedded"] < told["chunks"] + told["summaries"]  # what stayed is not paid
    best = json_of(call("query", index, question, "--json"))["nodes"][0]
    assert best["document_id"] == "alice.txt"
    assert "Dodo" in best["text"]
    assert call("delete", index, "alice.txt")[0] == 0
    nodes = json_of(call("query", index, question, "--json"))["nodes"]
    assert {node["document_id"] for node in nodes} == {"new.txt", "sub/ship.txt"}
    assert call("verify", index)[0] == 0
    assert call("status", index)[0] == 0


def test_a_profile_tells_the_time_of_every_stage(tmp_path, call):
    (tmp_path / "a.txt").write_text("Anna met Bert in Oslo.", encoding="utf-8")
    path = tmp_path / "p.e2g"
    code, printed, _ = call(
        "index", tmp_path / "a.txt", "--out", path, "--embedder", "hashing", "--profile"
    )
    assert code == 0
    table = printed[printed.index("stage ") :].splitlines()
    assert {line.split()[0] for line in table[1:]} >= {"chunk", "extract", "embed", "write", "wall"}
    shares = [float(line.split()[2].rstrip("%")) for line in table[1:-1]]
    assert sum(shares) == pytest.approx(100, abs=0.5)
    code, printed, _ = call("query", path, "Who met Bert?", "--profile")
    assert code == 0
    assert {"entities", "rank", "read", "sum"} <= {
        line.split(" ")[0] for line in printed.split("\n")
    }
    told = json_of(call("query", path, "Who met Bert?", "--profile", "--json"))
    assert {"entities", "rank", "read"} <= set(told["seconds"])
