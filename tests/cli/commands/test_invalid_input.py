"""Invalid input of all commands."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["query", "missing.e2g", "Q"], "index missing.e2g does not exist"),
        (["index", "missing.txt", "--out", "x.e2g"], "missing.txt does not exist"),
        (["index", "{book}", "--out", "x.e2g", "--llm-base-url", "u"], "require --llm-model"),
        (["index", "{book}", "--out", "no/such/x.e2g"], "does not exist"),
        (["index", "{book}", "--out", "{text}"], "e2graphrag index"),
        (["index", "{book}", "--out", "{book}"], "is one of the files to index"),
        (["index", ".", "--out", "{book}"], "is one of the files to index"),
        (["index", "{empty}", "--out", "{empty}"], "is one of the files to index"),
        (["index", "", "--out", "x.e2g"], "the path is empty"),
        (["index", "{book}", "--out", ""], "the path is empty"),
        (["index", "{book}", "--out", ":memory:"], "name a file"),
        (["index", "x\0y", "--out", "x.e2g"], "is not a valid path"),
        (["index", "{book}", "--out", "x\0y"], "is not a valid path"),
        (["query", "x\0y", "Q"], "is not a valid path"),
        (["index", "{long}", "--out", "x.e2g"], "cannot be used: File name too long"),
        (["index", "{book}", "--out", "{long}"], "cannot be used: File name too long"),
        (["indexes", "stats", "{long}"], "cannot be used: File name too long"),
        (["demo", "--out", "{long}"], "cannot be used: File name too long"),
        (["query", "{empty}", "Q"], "is an empty file"),
        (["indexes", "stats", "{empty}"], "is an empty file"),
        (["indexes", "verify", "{empty}"], "is an empty file"),
        (["index", "{book}", "--out", "x.e2g", "--chunk-size", "9" * 23], "--chunk-size 9999"),
        (["index", "{book}", "--out", "x.e2g", "--chunk-size", "0"], "--chunk-size 0"),
        (["index", "{book}", "--out", "x.e2g", "--spacy-model", "xx_no"], "spacy download xx_no"),
        (["query", "{index}", "  "], "question"),
        (["query", "{index}", "Q", "-k", "0"], "-k 0 must be"),
    ],
    ids=str,
)
def test_invalid_input_of_readers_and_first_runs_changes_no_file(
    arguments, message, tmp_path, book, book_index, call, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    empty, text = tmp_path / "empty.e2g", tmp_path / "text.e2g"
    empty.touch()
    text.write_text("not an index" * 50)
    names = {
        "book": book, "index": book_index, "empty": empty, "text": text, "long": "n" * 300
    }  # fmt: skip
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    code, out, err = call(*(argument.format(**names) for argument in arguments))
    assert (code, out) == (2, "")
    assert {path: path.read_bytes() for path in before} == before
    assert err.startswith("error: ")
    assert message in err


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
def test_invalid_input_of_writers_and_exports_changes_no_file(
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
