"""Messages name the options and commands, not the parameters and methods of Python."""

from __future__ import annotations

import logging
from inspect import signature

import pytest

from cli_helpers import SMALL_CHUNKS, all_commands
from e2graphrag_integrations import E2GraphRAG
from e2graphrag_integrations.cli import wording
from e2graphrag_integrations.cli.main import main
from e2graphrag_integrations.cli.wording import on_command_line

TRANSLATED = """
wait for it, or increase lock_timeout=
wait for it, or increase --lock-timeout

chunk_overlap=9 must be less than chunk_size=5
--chunk-overlap 9 must be less than --chunk-size 5

chunking='content' takes none; omit chunk_overlap, or omit chunking
--cut 'content' takes none; omit --chunk-overlap, or omit --cut

or pass embedder= with another model
or pass --embedder with another model

SettingsMismatchError ... pass summarizer=
SettingsMismatchError ... pass --llm-model

list fewer communities (top=).
list fewer communities (--top).

use update(), pass on_duplicate=, or choose another id
use `e2graphrag documents update`, pass --on-duplicate, or choose another id

call resume() or add() to continue
run `e2graphrag documents resume` or `e2graphrag index` to continue

a.e2g is damaged; run verify()
a.e2g is damaged; run `e2graphrag indexes verify`

call update_vectors(replace=True) to
run `e2graphrag export vectors --replace` to

r.html exists: pass replace=True to
r.html exists: pass --replace to

entities(prefix=) lists the names
`e2graphrag entities list --prefix` lists the names

call reindex() or run `e2graphrag entities reindex a.e2g`
run `e2graphrag entities reindex a.e2g`

pass models=Models(extractor=...) with what it was built with
pass --spacy-model with what it was built with

pass models=Models(extractor={"de": "de_core_news_sm"}), and reindex()
pass --spacy-model de=de_core_news_sm, and run `e2graphrag entities reindex`

split it, or pass a larger LoaderLimits(seconds=...) if you trust it
split it
"""
"""Messages, each with what the command line says instead."""

NOT_OURS = (
    "model.embed() failed with k_1=2",
    "document 'k=5, lock_timeout=' of /data/k=5/a.txt",
    "no answer from http://h/?k=5&top=3 (host='h', port=1)",
)


@pytest.mark.parametrize(
    ("message", "words"),
    [pair.split("\n") for pair in TRANSLATED.strip().split("\n\n")]
    + [(one, one) for one in NOT_OURS],
)
def test_parameters_and_methods_become_options_and_commands(message, words):
    assert on_command_line(message) == words


@pytest.mark.fast_cases(6)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["query", "{index}", "Alice", "-k", "0"], "-k 0 must be"),
        (["query", "{index}", "Alice", "--min-relevance", "7"], "--min-relevance 7.0 must be"),
        (["query", "{index}", "Alice", "--min-relevance", ".5"], "leave --min-relevance out\n"),
        (["query", "{index}", "Alice", "--token-budget", "-2"], "--token-budget -2 must be"),
        (["query", "{index}", "Alice", "--scope", "{{}}"], "--scope {{}} contains an empty filter"),
        (["index", "{book}", "--out", "{index}", "--chunk-size", "9"], "--chunk-size"),
        (["index", "{book}", "--out", "n.e2g", "--concurrency", "0"], "--concurrency 0 must be"),
        (
            ["documents", "update", "{index}", "{book}", "--lock-timeout", "-1"],
            "--lock-timeout -1.0 must be",
        ),
        (["entities", "communities", "{index}", "--level", "9"], "--level 9 does not exist"),
        (["entities", "communities", "{index}", "--top", "-1"], "--top -1 must be"),
        (
            ["entities", "edit", "{index}", "--undo", "abc"],
            "`e2graphrag entities edit` lists the ids",
        ),
        (
            ["entities", "show", "{index}", "Nobody"],
            "`e2graphrag entities list --prefix` lists the names",
        ),
        (["export", "graph", "{index}", "g", "--min-weight", "-1"], "--min-weight -1.0 must be"),
        (
            ["export", "report", "{index}", "--out", "r.html", "--max-mb", "-1"],
            "--max-mb -1.0 must be",
        ),
        (["export", "vectors", "{index}", "pgvector"], "copy it with `e2graphrag indexes copy`"),
        (["documents", "work", "{index}", "--lease", "0"], "--lease 0.0 must be"),
        (
            ["indexes", "import", "x", "--out", "n.e2g", "--lock-timeout", "-1"],
            "--lock-timeout -1.0 must be",
        ),
        (
            ["indexes", "copy", "{index}", "n.e2g", "--lock-timeout", "-1"],
            "--lock-timeout -1.0 must be",
        ),
        (
            ["indexes", "drop", "postgresql://h/d?schema=s", "--lock-timeout", "-1"],
            "--lock-timeout -1.0 must",
        ),
    ],
    ids=str,
)
def test_errors_of_commands_name_their_options(
    arguments, message, book, book_index, call, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    code, _, err = call(*(one.format(book=book, index=book_index) for one in arguments))
    assert code == 2
    assert message.format() in err


def test_a_locked_index_says_who_writes_and_names_the_option(book, book_index, call):
    book.write_text("Changed.", encoding="utf-8")
    commands = (
        ("index", book, "--out", book_index),
        ("documents", "update", book_index, book),
        ("documents", "delete", book_index, "book.txt"),
        ("entities", "edit", book_index, "--stop", "Alice"),
        ("documents", "tag", book_index, "travel"),
        ("indexes", "compact", book_index),
        ("entities", "reindex", book_index),
        ("documents", "resume", book_index),
    )
    with E2GraphRAG.open(book_index) as rag, rag.write_lock():
        for command in commands:
            code, _, err = call(*command, "--lock-timeout", "0")
            assert code == 2
            assert "is being written by process" in err
            assert "or increase --lock-timeout\n" in err


def test_logged_warnings_name_options_too(capsys, monkeypatch, book, tmp_path):
    monkeypatch.setattr(
        "e2graphrag_integrations.cli.inputs.read_sources",
        lambda *_: (
            logging.getLogger("e2graphrag_integrations.x").warning("pass embedder=") or 1 / 0
        ),
    )
    assert main(["index", str(book), "--out", str(tmp_path / "x.e2g"), *SMALL_CHUNKS]) == 2
    assert "warning: pass --embedder\n" in capsys.readouterr().err


def test_every_option_that_is_a_parameter_has_its_words():
    commands = all_commands()
    options = {
        option: parameter.name
        for name, command in commands.items()
        if name not in {"serve", "mcp"}  # `host=` and `port=` are words of other libraries
        for parameter in command.params
        if parameter.param_type_name == "option"
        for option in parameter.opts
    }
    words = wording._OPTIONS
    assert set(words.values()) <= set(options)
    methods = [getattr(E2GraphRAG, name) for name in dir(E2GraphRAG) if not name.startswith("_")]
    parameters = {
        name for method in methods if callable(method) for name in signature(method).parameters
    }
    shared = parameters.intersection(options.values()) - {"question", "format", "settings"}
    assert shared <= set(words)
    assert set(wording._COMMANDS.values()) <= set(commands)


def test_a_pipeline_for_one_language_leaves_the_others(tmp_path, call, monkeypatch):
    given = {}
    opened = E2GraphRAG.open
    monkeypatch.setattr(
        E2GraphRAG,
        "open",
        lambda path, **o: opened(path, **(given.update(o) or {**o, "models": None})),
    )
    (tmp_path / "a.txt").write_text("Anna met Bert.", encoding="utf-8")
    command = ("index", tmp_path / "a.txt", "--out", tmp_path / "a.e2g", "--embedder", "hashing")
    assert call(*command, "--spacy-model", "de=de_x", "--spacy-model", "fr=fr_x").code == 0
    assert given["models"].extractor == {"de": "de_x", "fr": "fr_x"}
    assert call(*command, "--spacy-model", "folder/a=b").code == 0
    assert given["models"].extractor == "folder/a=b"
    code, _, err = call(*command, "--spacy-model", "de=de_x", "--spacy-model", "en_x")
    assert (code, "--spacy-model" in err) == (2, True)
