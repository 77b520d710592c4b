"""The command line, in this process where that is enough and in its own where it matters."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from e2graphrag_integrations.cli import commands
from e2graphrag_integrations.cli import main as cli
from e2graphrag_integrations.cli.where import read_where

TEXT = (
    "Alice met the Hatter in the garden. The Hatter gave Alice a cup of tea. "
    "Alice thanked the Hatter and walked to the river.\n\n"
    "The Queen of Hearts lived in a castle. The Queen played croquet with the King. "
    "Nobody in the castle had ever seen the sea.\n\n"
    "Far away a ship crossed the ocean. Its captain looked for an island of gold."
)
SMALL = ["--embedder", "hashing", "--chunk-size", "25", "--chunk-overlap", "5"]


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "book.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def made_index(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("made")
    (folder / "book.txt").write_text(TEXT, encoding="utf-8")
    out = folder / "book.e2g"
    assert cli.main(["index", str(folder / "book.txt"), "--out", str(out), *SMALL]) == 0
    return out.read_bytes()


@pytest.fixture
def index(tmp_path: Path, book: Path, made_index: bytes) -> Path:
    out = tmp_path / "book.e2g"
    out.write_bytes(made_index)
    return out


def run(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "e2graphrag_integrations.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def test_index_reports_what_it_made_as_json(tmp_path, book, capsys):
    out = tmp_path / "b.e2g"
    assert cli.main(["index", str(book), "--out", str(out), "--json", *SMALL]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["documents"] == 1
    assert report["chunks"] > 2
    assert report["llm_calls"] == 0
    assert report["file"] == str(out)


def test_an_index_made_here_answers_in_another_process(index):
    done = run("query", index, "What did the Hatter give to Alice?", "--json", "--explain")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    answer = json.loads(done.stdout)
    assert {"alice", "hatter"} <= set(answer["nodes"][0]["entities"])
    node = answer["nodes"][0]
    [[start, end]] = node["spans"]
    assert TEXT[start:end] == node["text"]
    assert [link["entity"] for link in answer["trace"]["links"]] == ["hatter", "alice"]
    paper = run(
        "query",
        index,
        "What did the Hatter give to Alice?",
        "--json",
        "--explain",
        "--strategy",
        "paper",
    )
    answer = json.loads(paper.stdout)
    assert answer["route"] == "local"
    assert answer["trace"]["pairs"][0]["hops"] == 1


def test_a_query_prints_route_spans_and_reasons(index, capsys):
    question = "What did the Hatter give to Alice?"
    assert cli.main(["query", str(index), question, "--explain"]) == 0
    printed = capsys.readouterr().out
    assert "why: its names are 0." in printed
    assert "list entities: " in printed
    assert re.search(r"reasons: relevance: rank \d; entities: rank 1", printed)
    assert cli.main(["query", str(index), question, "--explain", "--strategy", "paper"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("route: local\n")
    assert "1 hop(s)" in printed
    assert "span: " in printed
    assert "reasons: holds 2 entities" in printed


def test_a_question_without_known_entities_goes_global(index, capsys):
    assert cli.main(["query", str(index), "xyzzy?"]) == 0
    assert capsys.readouterr().out.startswith("route: global\n")


def test_context_prints_the_text_for_a_prompt_within_the_budget(index, capsys):
    question = "What did the Hatter give to Alice?"
    assert cli.main(["query", str(index), question, "--context", "--token-budget", "40"]) == 0
    context = capsys.readouterr().out
    assert "hatter" in context.lower()
    assert len(context.split()) <= 40


def test_nothing_found_exits_with_1(index, capsys):
    code = cli.main(["query", str(index), "Alice", "--where", "document_id=other.txt"])
    assert code == 1
    assert "nothing found" in capsys.readouterr().out


def test_where_takes_words_json_values_and_repeated_keys(index):
    for condition in (["document_id=book.txt"], ["document_id=book.txt", "document_id=x"]):
        arguments = [part for value in condition for part in ("--where", value)]
        assert cli.main(["query", str(index), "Alice", *arguments]) == 0
    assert read_where(["year=1895", "name=Wells", "name=Verne"]) == {
        "year": 1895,
        "name": {"$in": ["Wells", "Verne"]},
    }


def test_indexing_again_skips_what_is_unchanged_and_adds_what_is_new(tmp_path, book, index, capsys):
    (tmp_path / "new.txt").write_text("Bob met Carol in Paris.")
    code = cli.main(["index", str(book), str(tmp_path / "new.txt"), "--out", str(index), "--json"])
    report = json.loads(capsys.readouterr().out)
    assert (code, report["documents"], report["skipped"]) == (0, 1, ["book.txt"])


def test_a_changed_document_is_refused_and_replaced_on_demand(book, index, capsys):
    book.write_text(TEXT + " The End.", encoding="utf-8")
    assert cli.main(["index", str(book), "--out", str(index)]) == 2
    refused = capsys.readouterr().err
    assert "another content" in refused
    assert "--replace" in refused
    assert cli.main(["index", str(book), "--out", str(index), "--replace", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["documents"] == 1
    assert cli.main(["verify", str(index)]) == 0


def test_an_estimate_prints_the_counts_and_leaves_no_file(tmp_path, book, capsys):
    out = tmp_path / "none.e2g"
    code = cli.main(["index", str(book), "--out", str(out), "--estimate", "--json", *SMALL])
    estimate = json.loads(capsys.readouterr().out)
    assert code == 0
    assert not out.exists()
    assert estimate["llm_calls"] == sum(level["llm_calls"] for level in estimate["levels"]) > 0
    assert all(isinstance(estimate[key], int) for key in ("chunks", "llm_calls", "prompt_tokens"))


def test_stats_counts_what_is_there(index, capsys):
    assert cli.main(["stats", str(index), "--json"]) == 0
    stats = json.loads(capsys.readouterr().out)
    assert stats["documents"] == 1
    assert stats["chunks"] > stats["summaries"] > 0
    assert stats["entities"] > 5
    assert cli.main(["stats", str(index)]) == 0
    assert f"chunks: {stats['chunks']}" in capsys.readouterr().out


def test_verify_calls_a_whole_file_sound_and_a_damaged_one_damaged(index, capsys):
    assert cli.main(["verify", str(index)]) == 0
    assert "sound" in capsys.readouterr().out
    import sqlite3

    with sqlite3.connect(index) as db:
        db.execute("UPDATE nodes SET text = 'changed' WHERE level = 0 AND position = 1")
    db.close()
    assert cli.main(["verify", str(index), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["problems"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["query", "missing.e2g", "Q"], "there is no index missing.e2g"),
        (["index", "missing.txt", "--out", "x.e2g"], "missing.txt does not exist"),
        (["index", "{book}", "--out", "x.e2g", "--llm-base-url", "u"], "need --llm-model"),
        (["index", "{book}", "--out", "no/such/x.e2g"], "does not exist"),
        (["index", "{book}", "--out", "{index}.txt"], "is no e2graphrag index"),
        (["index", "{book}", "--out", "{book}"], "is one of the files to read"),
        (["index", ".", "--out", "{book}"], "is one of the files to read"),
        (["index", "{empty}", "--out", "{empty}"], "is one of the files to read"),
        (["index", "", "--out", "x.e2g"], "an empty path names no file"),
        (["index", "{book}", "--out", ""], "an empty path names no file"),
        (["index", "{book}", "--out", ":memory:"], "name a file"),
        (["index", "x\0y", "--out", "x.e2g"], "is no path"),
        (["index", "{book}", "--out", "x\0y"], "is no path"),
        (["query", "x\0y", "Q"], "is no path"),
        (["index", "{long}", "--out", "x.e2g"], "cannot be used: File name too long"),
        (["index", "{book}", "--out", "{long}"], "cannot be used: File name too long"),
        (["stats", "{long}"], "cannot be used: File name too long"),
        (["demo", "--out", "{long}"], "cannot be used: File name too long"),
        (["query", "{empty}", "Q"], "there is no index in it"),
        (["stats", "{empty}"], "there is no index in it"),
        (["verify", "{empty}"], "there is no index in it"),
        (["query", "{index}", "Q", "--where", "a={deep}"], "--where a: its value is nested"),
        (["index", "{book}", "--out", "x.e2g", "--chunk-size", "9" * 23], "chunk_size="),
        (["index", "{book}", "{book}", "--out", "x.e2g"], "would both be document 'book.txt'"),
        (["index", ".", ".", "--out", "x.e2g"], "would both be document"),
        (["index", "{book}", "--out", "x.e2g", "--chunk-size", "0"], "chunk_size=0"),
        (["index", "{book}", "--out", "x.e2g", "--spacy-model", "xx_no"], "spacy download xx_no"),
        (["query", "{index}", "  "], "the question is empty"),
        (["query", "{index}", "Q", "--where", "novalue"], "write KEY=VALUE"),
        (["query", "{index}", "Q", "-k", "0"], "k=0 must be"),
    ],
)
def test_bad_input_exits_with_2_and_says_why(
    arguments, message, tmp_path, book, index, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    empty = tmp_path / "empty.e2g"
    empty.touch()
    Path(f"{index}.txt").write_text("no index" * 50)
    names = {"book": book, "index": index, "empty": empty, "long": "n" * 300, "deep": "[" * 5000}
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    code = cli.main([a.format(**names) for a in arguments])
    printed = capsys.readouterr()
    assert code == 2
    assert {path: path.read_bytes() for path in before} == before
    assert printed.err.startswith("error: ")
    assert message in printed.err
    assert printed.out == ""


def test_a_missing_key_is_named_and_a_given_one_never_shown(book, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    arguments = ["index", str(book), "--out", str(tmp_path / "x.e2g"), "--llm-model", "m"]
    assert cli.main(arguments) == 2
    assert "OPENAI_API_KEY holds no API key" in capsys.readouterr().err
    monkeypatch.setenv("MY_KEY", "sk-secret")
    options = cli._parser().parse_args([*arguments, "--llm-api-key-env", "MY_KEY"])
    assert "sk-secret" not in repr(commands.summarizer(options))


def test_a_document_without_text_is_kept_with_a_warning(tmp_path, capsys):
    (tmp_path / "empty.txt").write_text(" \n")
    out = str(tmp_path / "e.e2g")
    assert cli.main(["index", str(tmp_path / "empty.txt"), "--out", out, *SMALL]) == 0
    assert "warning: empty.txt holds no text" in capsys.readouterr().err


def test_standard_input_is_indexed(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    out = str(tmp_path / "s.e2g")
    assert cli.main(["index", "-", "--out", out, "--json", *SMALL]) == 0
    assert json.loads(capsys.readouterr().out)["documents"] == 1


def test_a_pipe_sees_no_progress_bar(tmp_path, book):
    done = run("index", book, "--out", tmp_path / "p.e2g", *SMALL)
    assert done.returncode == 0
    assert done.stderr == ""
    assert "1 document(s) indexed" in done.stdout


def test_a_closed_pipe_is_no_error(index):
    command = f"{sys.executable} -m e2graphrag_integrations.cli.main stats {index} | true"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)  # noqa: S602 - a real pipe
    assert "Traceback" not in done.stderr


@pytest.fixture
def accented(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    (tmp_path / "a.txt").write_text("Bob met Carol, naïve in Zürich 😀.", encoding="utf-8")
    out = tmp_path / "a.e2g"
    assert cli.main(["index", str(tmp_path / "a.txt"), "--out", str(out), *SMALL]) == 0
    capsys.readouterr()
    return out


def printed_in(encoding: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        assert cli.main(arguments) == 0
    return stream.buffer.getvalue().decode(encoding)


def test_what_an_encoding_lacks_is_printed_as_escapes(accented, monkeypatch):
    query = ["query", str(accented), "Where did Bob meet Carol?"]
    assert r"na\xefve in Z\xfcrich \U0001f600." in printed_in("ascii", query, monkeypatch)
    assert r"naïve in Zürich \U0001f600." in printed_in("latin-1", query, monkeypatch)
    assert "naïve in Zürich 😀." in printed_in("utf-8", query, monkeypatch)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_json_stays_json_in_any_encoding(encoding, accented, monkeypatch):
    query = ["query", str(accented), "Where did Bob meet Carol?", "--json"]
    printed = printed_in(encoding, query, monkeypatch)
    assert json.loads(printed)["nodes"][0]["text"] == "Bob met Carol, naïve in Zürich 😀."
    assert ("naïve" in printed) == (encoding == "utf-8")


def test_a_plain_locale_can_read_every_answer(accented):
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = run("query", accented, "Bob", env=os.environ | plain)
    assert (done.returncode, done.stderr) == (0, "")
    assert r"na\xefve" in done.stdout


def test_a_full_disk_behind_the_output_is_told_in_one_line(index, monkeypatch, capsys):
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert cli.main(["stats", str(index)]) == 2
    assert capsys.readouterr().err == "error: [Errno 28] No space left on device\n"


def test_a_reader_that_leaves_early_is_no_error(index, monkeypatch, capsys):
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as pipe:  # noqa: PTH123 - a descriptor has no path
        monkeypatch.setattr(sys, "stdout", pipe)
        assert cli.main(["stats", str(index)]) == 0
    assert capsys.readouterr().err == ""


def test_closed_standard_streams_are_no_crash(tmp_path, book, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", None)
    assert cli.main(["index", "-", "--out", str(tmp_path / "x.e2g"), *SMALL]) == 2
    assert "there is no standard input" in capsys.readouterr().err
    assert not (tmp_path / "x.e2g").exists()
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert cli.main(["index", str(book), "--out", str(tmp_path / "x.e2g"), *SMALL]) == 0
    assert cli.main(["index", "missing", "--out", str(tmp_path / "x.e2g")]) == 2


def test_a_bar_is_drawn_on_a_terminal(tmp_path, book):
    import fcntl
    import pty
    import struct
    import termios

    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    out = tmp_path / "t.e2g"
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "e2graphrag_integrations.cli",
            "index",
            book,
            "--out",
            out,
            *SMALL,
        ],
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    seen = b""
    while True:
        try:
            part = os.read(master, 4096)
        except OSError:  # how Linux says that the other side is closed
            break
        if not part:
            break
        seen += part
    os.close(master)
    assert process.wait() == 0
    assert b"step" in seen


def test_an_estimate_for_a_model_needs_no_key(tmp_path, book, capsys, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    arguments = ["index", str(book), "--out", str(tmp_path / "x.e2g"), *SMALL]
    assert cli.main([*arguments, "--llm-model", "m", "--estimate", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["llm_calls"] > 0


def test_a_budget_that_nothing_fits_is_named(index, capsys):
    question = "What did the Hatter give to Alice?"
    assert cli.main(["query", str(index), question, "--token-budget", "1"]) == 1
    assert "nothing fits the token budget" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([], None),
        (['year={"$gte": 1890}'], {"year": {"$gte": 1890}}),
        (['{"$or": [{"year": 1895}, {"a=b": "c"}]}'], {"$or": [{"year": 1895}, {"a=b": "c"}]}),
        (["{}"], {}),
        (['{"year": 1895}', "a=1", "b=2"], {"$and": [{"year": 1895}, {"a": 1, "b": 2}]}),
        (["a=1", '{"a": 2}', '{"b": 3}'], {"$and": [{"a": 2}, {"b": 3}, {"a": 1}]}),
        (["a={}", 'a={"x": 1}'], {"a": {"$in": [{}, {"x": 1}]}}),
    ],
)
def test_where_takes_operators_and_whole_filters_which_must_all_hold(conditions, expected):
    assert read_where(conditions) == expected


@pytest.mark.parametrize(
    ("conditions", "code"),
    [
        (['document_id={"$gte": "book", "$lt": "bool"}'], 0),
        (['document_id={"$gt": "bool"}'], 1),
        (['{"$or": [{"document_id": "book.txt"}, {"document_id": "x"}]}'], 0),
        (['{"$not": {"document_id": "book.txt"}}'], 1),
        (['{"year": {"$exists": false}}', "document_id=book.txt"], 0),
        (['{"year": {"$exists": false}}', "document_id=x"], 1),
    ],
)
def test_where_reaches_the_filter(index, conditions, code):
    arguments = [part for condition in conditions for part in ("--where", condition)]
    assert cli.main(["query", str(index), "Alice", *arguments]) == code


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        (['{"year": '], "--where '{\"year\": ' is no JSON (Expecting value"),
        (["{year}=1895"], 'write KEY=VALUE or \'{"year": {"$gte": 1890}}\''),
        (['{"a": 1} {"b": 2}'], "is no JSON (Extra data"),
        (['{"a": ' * 5000], "--where {...}: it is nested too deep"),
        (['{"$not": ' * 60 + "{}" + "}" * 60], "where is nested more than 50 deep"),
        (['{"year": {"$like": "1%"}}'], "where['year']: '$like' is no operator"),
        (['year={"$gt": NaN}'], "where['year']: $gt needs a finite number"),
        (['year={"$gt": 1e999}'], "where['year']: $gt needs a finite number"),
        (['year={"$gte": 1890}', 'year={"$lt": 1900}'], "--where year: give its operators once"),
        (["year=1", 'year={"$lt": 1900}'], "--where year: give its operators once"),
        (['{"$or": {"a": 1}}'], "where['$or'] needs a list of filters"),
    ],
)
def test_a_bad_filter_exits_with_2_and_says_why(index, conditions, message, capsys):
    arguments = [part for condition in conditions for part in ("--where", condition)]
    assert cli.main(["query", str(index), "Alice", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("error: ")
    assert message in printed.err
    assert printed.out == ""
