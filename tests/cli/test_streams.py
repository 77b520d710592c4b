"""Output to pipes, terminals, other encodings, and streams that fail."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from cli_helpers import SMALL_CHUNKS, document_ids
from e2graphrag_integrations.cli.main import main
from e2graphrag_integrations.cli.output import progress, terminal
from e2graphrag_integrations.reports import Progress

PROGRAM = [sys.executable, "-m", "e2graphrag_integrations.cli"]
TEXT = "Bob met Carol, naïve in Zürich 😀."


def run_in_pipes(*arguments, **options):
    command = [*PROGRAM, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def run_in_terminal(*arguments, env=None):
    """Run a command in a pseudo-terminal of 100 columns and return the exit code and the output."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    process = subprocess.Popen(
        [*PROGRAM, *map(str, arguments)],
        stdout=child,
        stderr=child,
        env=environment | {"TERM": "xterm-256color"} | (env or {}),
    )
    os.close(child)
    printed = b""
    while True:
        try:
            part = os.read(parent, 4096)
        except OSError:  # Linux reports a closed terminal as an input/output error
            break
        if not part:
            break
        printed += part
    os.close(parent)
    return process.wait(), printed.decode()


def numbers(printed):
    """Return the integers in a text; decimals and percentages are timings, which vary."""
    return set(re.findall(r"(?<![\w.])\d+(?![\w.%])", printed))


def without_styles(printed):
    return re.sub(r"\x1b\[[\d;]*m", "", printed)


# Pipes


@pytest.mark.slow
def test_pipe_gets_plain_text_without_a_progress_bar(tmp_path, book, without_torch):
    out = tmp_path / "p.e2g"
    done = run_in_pipes("index", book, "--out", out, *SMALL_CHUNKS, env=without_torch)
    assert done.returncode == 0
    lines = done.stderr.splitlines()  # a busy machine needs more than five seconds
    assert all(line.startswith("progress: ") for line in lines)
    assert "1 document(s) indexed" in done.stdout
    assert "\x1b" not in done.stdout


def test_plain_text_is_not_wrapped(book_index, call):
    _, out, _ = call("query", book_index, "What did the Hatter give to Alice?")
    text_lines = [line for line in out.splitlines() if line.startswith("   ") and ": " not in line]
    assert max(map(len, text_lines)) > 80
    assert out.isascii()


@pytest.mark.slow
def test_pipe_closed_by_its_reader_is_not_an_error(book_index):
    command = f"{' '.join(PROGRAM)} indexes stats {book_index} | true"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)  # noqa: S602 - needs a real pipe
    assert done.stderr == ""


def test_broken_pipe_exits_with_0(book_index, monkeypatch, capsys):
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as pipe:  # noqa: PTH123 - a descriptor has no path
        monkeypatch.setattr(sys, "stdout", pipe)
        assert main(["indexes", "stats", str(book_index)]) == 0
    assert capsys.readouterr().err == ""


def test_work_goes_on_without_standard_error(tmp_path, monkeypatch):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("Anna met Bert.")
    (tmp_path / "notes" / "skipped.xyz").touch()
    reading, writing = os.pipe()
    os.close(reading)
    closed = os.fdopen(writing, "w", buffering=1)
    monkeypatch.setattr(sys, "stderr", closed)
    out = tmp_path / "x.e2g"
    assert main(["index", str(tmp_path / "notes"), "--out", str(out), *SMALL_CHUNKS]) == 0
    with contextlib.suppress(BrokenPipeError):
        closed.close()
    assert document_ids(out) == ["a.txt"]


def test_full_disk_is_reported_in_one_line(book_index, monkeypatch, capsys):
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["indexes", "stats", str(book_index)]) == 2
    assert capsys.readouterr().err == "error: [Errno 28] No space left on device\n"


def test_closed_standard_streams_do_not_crash(tmp_path, book, monkeypatch, capsys):
    out = tmp_path / "x.e2g"
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["index", "-", "--out", str(out), *SMALL_CHUNKS]) == 2
    assert "standard input is closed" in capsys.readouterr().err
    assert not out.exists()
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["index", str(book), "--out", str(out), *SMALL_CHUNKS]) == 0
    assert main(["index", "missing", "--out", str(out)]) == 2
    assert main(["indexes", "stats"]) == 2
    assert main(["--help"]) == 0


# Encodings


@pytest.fixture
def accented_index(tmp_path, call):
    (tmp_path / "a.txt").write_text(TEXT, encoding="utf-8")
    out = tmp_path / "a.e2g"
    assert call("index", tmp_path / "a.txt", "--out", out, *SMALL_CHUNKS).code == 0
    return out


def output_in(encoding, arguments, monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        assert main(arguments) == 0
    return stream.buffer.getvalue().decode(encoding)


def test_characters_outside_the_encoding_are_printed_as_escapes(accented_index, monkeypatch):
    query = ["query", str(accented_index), "Where did Bob meet Carol?"]
    assert r"na\xefve in Z\xfcrich \U0001f600." in output_in("ascii", query, monkeypatch)
    assert r"naïve in Zürich \U0001f600." in output_in("latin-1", query, monkeypatch)
    assert "naïve in Zürich 😀." in output_in("utf-8", query, monkeypatch)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_json_is_valid_in_every_encoding(encoding, accented_index, monkeypatch):
    query = ["query", str(accented_index), "Where did Bob meet Carol?", "--json"]
    printed = output_in(encoding, query, monkeypatch)
    assert json.loads(printed)["nodes"][0]["text"] == TEXT
    assert ("naïve" in printed) == (encoding == "utf-8")


@pytest.mark.slow
def test_c_locale_prints_every_answer(accented_index, without_torch):
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = run_in_pipes("query", accented_index, "Bob", env=without_torch | locale)
    assert (done.returncode, done.stderr) == (0, "")
    assert r"na\xefve" in done.stdout


# Terminals


@pytest.mark.slow
def test_terminal_shows_progress_bars_by_stage(tmp_path, book, without_torch):
    out = tmp_path / "t.e2g"
    code, printed = run_in_terminal("index", book, "--out", out, *SMALL_CHUNKS, env=without_torch)
    assert code == 0
    assert re.search(r"embed.*\d+/\d+", printed)
    assert "1 document(s) indexed" in printed


def test_a_pipe_gets_a_line_of_progress_every_few_seconds(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with progress.progress_bar() as show:
        show(Progress("embed", 0, 0, note="summaries: 5 LLM calls"))
        for second in range(1, 13):
            now[0] = float(second)
            show(Progress("embed", second * 100, 2000, seconds=second))
            show(Progress("write", second, 20, seconds=second))
    assert capsys.readouterr().err.splitlines() == [
        "summaries: 5 LLM calls",
        "progress: embed 500/2,000, write 4/20, about 16 s left",
        "progress: embed 1,000/2,000, write 9/20, about 11 s left",
    ]


@pytest.mark.slow
def test_terminal_shows_tables_and_colors_unless_no_color_is_set(book_index):
    code, printed = run_in_terminal("documents", "list", book_index)
    assert code == 0
    assert "───" in printed
    assert "\x1b[32mdone" in printed
    code, printed = run_in_terminal("documents", "list", book_index, env={"NO_COLOR": "1"})
    assert code == 0
    assert "───" in printed
    assert "\x1b[32m" not in printed


@pytest.mark.slow
def test_dumb_terminal_gets_plain_text(book_index):
    code, printed = run_in_terminal("documents", "list", book_index, env={"TERM": "dumb"})
    assert (code, printed) == (0, f"{book_index}: 1 document(s): 1 done\r\ndone\tbook.txt\r\n")


@pytest.mark.slow
def test_terminal_shows_help_and_usage_errors_in_boxes():
    code, printed = run_in_terminal("documents", "delete", "--help")
    assert code == 0
    assert "╭─ Arguments" in without_styles(printed)
    assert "e2graphrag documents delete novels.e2g the_time_machine.txt" in without_styles(printed)
    code, printed = run_in_terminal("documents", "delete")
    assert code == 2
    assert "╭─ Error" in without_styles(printed)


@pytest.mark.parametrize(
    "arguments",
    [
        ["indexes", "stats", "{index}"],
        ["documents", "list", "{index}"],
        ["indexes", "verify", "{index}"],
        ["query", "{index}", "Who gave Alice a cup?", "--profile"],
        ["index", "{book}", "--out", "new.e2g", "--estimate", *SMALL_CHUNKS],
    ],
    ids=" ".join,
)
def test_every_table_has_the_numbers_of_the_plain_text(
    arguments, book, book_index, call, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    arguments = [argument.format(index=book_index, book=book) for argument in arguments]
    plain = call(*arguments)
    monkeypatch.setattr(terminal, "is_terminal", lambda _: True)
    monkeypatch.setenv("COLUMNS", "200")
    table = call(*arguments)
    assert table.code == plain.code == 0
    assert numbers(plain.out) <= numbers(table.out)
