"""Texts, titles, ids, file names and errors that try to control the terminal or forge a line."""

from __future__ import annotations

import json
import logging
import re
import sqlite3
import sys
import warnings
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from cli_helpers import FakeSummarizer, Result, all_commands
from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, SourceDocument
from e2graphrag_integrations.cli import index_files, models
from e2graphrag_integrations.cli.main import main
from e2graphrag_integrations.cli.output import progress
from e2graphrag_integrations.cli.output import terminal as terminal_output

CONTROLS = "\x1b]0;owned\x07\x1b[31m\x9b2J\x7f\x85\u2028\u202e\r"
FORGED = "1. forged.txt, characters 0-5, relevance 0.99"
NAME = f"a{CONTROLS}[red]\n{FORGED}\n[link=http:e.vil].txt"
TEXT = (
    f"Alice met the Hatter.{CONTROLS}\n{FORGED}\n[bold]The Hatter[/bold] gave Alice a cup of tea. "
    f"{FakeSummarizer.forbidden} was there."
)
UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


@pytest.fixture
def terminal(monkeypatch):
    """Draw tables as on a terminal, but without colors, whose codes the check would find."""
    for module in (terminal_output, progress):
        monkeypatch.setattr(module, "is_terminal", lambda _: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "400")


@pytest.fixture(params=["pipe", pytest.param("terminal", marks=pytest.mark.slow)])
def check(request, call) -> Callable[..., Result]:
    """Run a command and check that nothing hostile arrives in its output."""
    if request.param == "terminal":
        request.getfixturevalue("terminal")

    def run(*arguments: object) -> Result:
        result = call(*arguments)
        printed = result.out + result.err
        assert not UNSAFE.search(printed), printed
        if "--context" not in arguments:  # its output is the text, with the line breaks
            assert not any(line.startswith(FORGED) for line in printed.splitlines())
        return result

    return run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A file with a hostile name and a hostile text."""
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / NAME).write_text(TEXT)
    return tmp_path / "texts"


@pytest.fixture
def hostile_index(tmp_path: Path) -> Path:
    """An index with a hostile id, title, text and metadata, and a failed document."""
    path = tmp_path / f"i{CONTROLS}\n{FORGED}.e2g"
    metadata = {f"k{CONTROLS}": f"v{CONTROLS}"}
    documents = [SourceDocument(NAME, TEXT, f"T{CONTROLS}\n{FORGED}", metadata)]
    with E2GraphRAG.open(str(path), embedder=HashingEmbedder()) as rag:
        rag.add(documents)
    return path


def test_every_command_is_swept():
    """Add a new command to the sweeps below, and then to this list."""
    assert set(all_commands()) == {
        *("index", "query", "serve", "mcp", "evaluate", "demo"),
        *(f"documents {name}" for name in ("list", "update", "delete", "tag", "resume", "work")),
        *(f"entities {name}" for name in ("list", "show", "edit", "homonyms")),
        *(f"entities {name}" for name in ("communities", "reindex")),
        *(f"export {name}" for name in ("folder", "graph", "report", "vectors")),
        *(f"indexes {name}" for name in ("list", "stats", "verify", "compact", "copy")),
        *("indexes reembed", "indexes enrich", "indexes import", "indexes drop"),
        *(f"indexes {name}" for name in ("create-shards", "add-to-shards", "list-shards")),
        "indexes rebalance-shards",
    }


def test_commands_about_shards_escape_what_they_name(hostile_index, tmp_path, check):
    shards = tmp_path / f"s{CONTROLS}\n{FORGED}.shards.json"
    copy = tmp_path / f"c{CONTROLS}\n{FORGED}.shards.json"
    assert check("indexes", "create-shards", shards, 2, "--embedder", "hashing").code == 0
    check("indexes", "add-to-shards", shards, tmp_path / f"none{CONTROLS}.txt")
    assert check("indexes", "list-shards", shards).code == 0
    assert check("indexes", "rebalance-shards", shards, copy, 3).code == 0
    assert check("indexes", "list-shards", hostile_index).code == 2


def test_enriching_escapes_the_names_of_models_and_files(hostile_index, check):
    estimate = ["--estimate", "--enrich-model", CONTROLS]
    for options in (estimate, ["--remove", "--json"], ["--remove"]):
        assert check("indexes", "enrich", hostile_index, *options).code == 0


@pytest.mark.slow
def test_commands_that_read_an_index_escape_what_it_contains(hostile_index, tmp_path, check):
    question = f"Who met the Hatter?{CONTROLS}"
    assert check("indexes", "copy", hostile_index, tmp_path / f"copy{CONTROLS}.e2g").code == 0
    for vectors in (f"faiss{CONTROLS}", f"http://127.0.0.1:9/c{CONTROLS}"):
        assert check("export", "vectors", hostile_index, vectors).code == 2
    for name in ("list", "drop"):  # they need a URL
        assert check("indexes", name, hostile_index).code == 2
    for options in (
        [],
        ["--explain"],
        ["--paths"],
        ["--context"],
        ["--profile"],
        ["--strategy", "paper"],
    ):
        result = check("query", hostile_index, question, *options)
        assert (result.code, r"\x1b[31m\x9b2J" in result.out) == (0, True)
    for command in ("documents list", "indexes stats", "indexes verify", "indexes compact"):
        assert check(*command.split(), hostile_index).code == 0
        check(*command.split(), hostile_index, "--json")
    alias = f"Al{CONTROLS}\n{FORGED}=Alice"
    assert check("entities", "edit", hostile_index, "--alias", alias, "--stop", NAME).code == 0
    assert check("entities", "edit", hostile_index, "--alias", f"Al=Zoe{CONTROLS}").code == 2
    tag = f"tea{CONTROLS}\n{FORGED}"
    assert check("documents", "tag", hostile_index, tag, "cup").code == 0
    check("query", hostile_index, question, "--explain", "--boost-document", f"{NAME}=2")
    assert check("query", hostile_index, question, "--boost-tag", f"{tag}=2").code == 2
    assert check("query", hostile_index, question, "--boost-field", f"k{CONTROLS}").code == 2
    assert check("entities", "show", hostile_index, "Alice").code == 0
    check("entities", "show", hostile_index, "Alice", "--json")
    for name in ("list", "edit", "homonyms", "communities", "reindex"):
        assert check("entities", name, hostile_index).code == 0
        check("entities", name, hostile_index, "--json")
    assert check("indexes", "reembed", hostile_index, f"x{CONTROLS}").code == 2
    for options in (["--estimate"], ["--json"], []):
        assert check("indexes", "reembed", hostile_index, "hashing", *options).code == 0
    assert check("documents", "tag", hostile_index).code == 0
    check("documents", "tag", hostile_index, "--json")
    asked, settings = tmp_path / f"q{CONTROLS}.jsonl", tmp_path / "settings.json"
    asked.write_text(json.dumps({"question": question, "gold_ids": [NAME], "id": CONTROLS}))
    settings.write_text(json.dumps({f"s{CONTROLS}\n{FORGED}": {}, "one": {"k": 1}}))
    assert check("evaluate", hostile_index, asked, "--settings", settings).code == 0
    check("evaluate", hostile_index, asked, "--settings", settings, "--json")
    asked.write_text(json.dumps({"question": question, "gold_ids": [f"x{CONTROLS}"]}))
    assert check("evaluate", hostile_index, asked).code == 2
    assert check("mcp", hostile_index, "--max-tokens", 1).code == 2
    assert check("serve", hostile_index, "--host", f"0.0.0.0{CONTROLS}").code == 2  # noqa: S104
    page = tmp_path / f"report{CONTROLS}.html"
    assert check("export", "report", hostile_index, "--question", question, "--out", page).code == 0
    check("documents", "work", hostile_index)
    [state] = check("documents", "list", hostile_index, "--json").json()["documents"]
    assert state["id"] == NAME
    nodes = json.loads(check("query", hostile_index, question, "--json", "--explain").out)["nodes"]
    assert any(node["text"] in TEXT and CONTROLS[:8] in node["text"] for node in nodes)
    exported = tmp_path / f"out{CONTROLS}"
    assert check("export", "folder", hostile_index, exported).code == 0
    for format_ in ("neo4j-csv", "graphml"):
        graph = tmp_path / f"{format_}{CONTROLS}"
        assert check("export", "graph", hostile_index, graph, "--format", format_).code == 0
    assert check("indexes", "import", exported, "--out", tmp_path / f"b{CONTROLS}.e2g").code == 0
    with closing(sqlite3.connect(hostile_index)) as db, db:
        db.execute("UPDATE nodes SET text = 'changed'")
    assert check("indexes", "verify", hostile_index).code == 2
    assert check("query", hostile_index, question).code == 2
    assert check("documents", "delete", hostile_index, NAME).code == 0


def test_commands_that_read_files_escape_their_names(folder, tmp_path, check):
    out = tmp_path / f"o{CONTROLS}.e2g"
    command = ["index", folder, "--out", out, "--embedder", "hashing"]
    assert check(*command, "--estimate").code == 0
    assert check(*command).code == 0
    (folder / NAME).write_text(f"{TEXT} The end.")
    assert check(*command, "--on-duplicate", "error").code == 2
    (folder / f"b{NAME}").write_text(" ")
    assert check("documents", "update", out, folder, "--json").code == 0
    assert check("documents", "update", out, folder).code == 0
    (folder / NAME).unlink()
    assert check("documents", "update", out, folder, "--prune").code == 0
    (folder / f"c{CONTROLS}.html").write_bytes(b"")
    (folder / f"c{NAME}").write_bytes(b"\xff\xff\xff")
    check("documents", "update", out, folder)
    check("index", folder, folder, "--out", out)


def test_failed_documents_and_their_errors_are_escaped(folder, tmp_path, check, monkeypatch):
    def fail(*_: object, **__: object) -> str:
        raise ValueError(f"server says {CONTROLS}\n{FORGED}")

    summarizer = FakeSummarizer()
    monkeypatch.setattr(summarizer, "summarize", fail)
    monkeypatch.setattr(models, "make_summarizer", lambda *_, **__: summarizer)
    out = tmp_path / "f.e2g"
    (folder / "short.txt").write_text("Bob.")
    command = ["--embedder", "hashing", "--chunk-size", "12", "--chunk-overlap", "2"]
    assert check("index", folder, "--out", out, *command).code == 3
    for name in ("list", "resume"):
        check("documents", name, out)
    check("documents", "list", out, "--json")
    check("indexes", "verify", out)


@pytest.mark.parametrize(
    "arguments",
    [
        [f"nothing{CONTROLS}"],
        [f"--{CONTROLS}"],
        ["documents", "list", f"--{CONTROLS}"],
        ["documents", "list", f"{NAME}"],
        ["query", "i.e2g", "Q", "-k", CONTROLS],
        ["query", "i.e2g", "Q", NAME],
        ["query", "i.e2g", "Q", "--where", NAME],
        ["index", NAME, "--out", "o.e2g"],
        ["index", "x", "--out", "o.e2g", "--embedder", NAME],
        ["index", "x", "--out", "o.e2g", "--llm-model", "m", "--llm-api-key-env", CONTROLS],
        ["index", "x", "--out", "o.e2g", "--spacy-model", CONTROLS],
    ],
    ids=repr,
)
def test_errors_about_arguments_are_escaped(arguments, check, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").write_text("Bob.")
    with closing(sqlite3.connect("i.e2g")):
        pass
    assert check(*arguments).code == 2


def test_internal_errors_warnings_and_log_records_are_escaped(check, tmp_path, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        warnings.warn(f"warning {CONTROLS}\n{FORGED}", UserWarning, stacklevel=1)
        logging.getLogger("parser").warning("log %s\n%s", CONTROLS, FORGED)
        raise RuntimeError(f"bug {CONTROLS}\n{FORGED}")

    monkeypatch.setattr(index_files, "open_index", fail)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        result = check("indexes", "stats", "i.e2g")
    assert result.code == 2
    assert "Traceback" not in result.out
    for kind in ("warning: ", "log ", r"internal error: RuntimeError: bug \x1b"):
        assert kind in result.err


def test_closed_standard_error_does_not_redirect_messages_to_the_output(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["indexes", "stats", "missing.e2g"]) == 2
    assert capsys.readouterr().out == ""


def test_question_from_a_document_cannot_forge_a_line_of_the_trace():
    with E2GraphRAG.open(":memory:", embedder=HashingEmbedder()) as rag:
        rag.add(SourceDocument("a", "Alice met Bob."))
        trace = rag.retrieve(f'Who is "Zed\n{FORGED}\nYan"?').trace.explain()
    assert FORGED not in trace.splitlines()
