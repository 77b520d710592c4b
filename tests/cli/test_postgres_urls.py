"""The command line accepts the URL of an index in Postgres, and shows no password."""

from __future__ import annotations

import os
import signal
import time

import pytest

from cli_helpers import SMALL_CHUNKS
from e2graphrag_integrations import E2GraphRAG
from e2graphrag_integrations.errors import SummaryError
from e2graphrag_integrations.store.location import index_exists
from fakes import start_in_thread

PASSWORD = "hunter2-canary"  # noqa: S105 - of a server on loopback


def test_commands_accept_a_url(postgres_url, tmp_path, call, book):
    url = postgres_url.replace("e2g@", f"e2g:{PASSWORD}@")
    copy = tmp_path / "copy.e2g"
    shown = []

    def run(*arguments, code=0):
        result = call(*arguments)
        assert result.code == code, result
        shown.extend([result.out, result.err])
        return result.out

    run("query", url, "Who met Alice?", code=2)
    assert not index_exists(url)
    run("index", book, "--out", url, *SMALL_CHUNKS)
    assert "Hatter" in run("query", url, "Who met Alice?")
    assert "sound" in run("indexes", "verify", url)
    run("documents", "update", url, book)
    run("indexes", "compact", url)
    schema = url.partition("schema=")[2]
    assert f"{schema}\t1\t" in run("indexes", "list", url)
    run("indexes", "copy", url, copy)
    run("indexes", "copy", url, copy, code=2)
    run("indexes", "drop", url)
    assert schema not in run("indexes", "list", url)
    run("indexes", "copy", copy, url)
    assert "Hatter" in run("query", url, "Who met Alice?")
    run("indexes", "list", copy, code=2)
    assert not [text for text in shown if PASSWORD in text]


def test_a_first_run_that_fails_leaves_no_index(postgres_url, call, book, monkeypatch):
    def fail(*_args, **_options):
        assert index_exists(postgres_url)
        raise SummaryError("no")

    monkeypatch.setattr(E2GraphRAG, "add", fail)
    assert call("index", book, "--out", postgres_url, *SMALL_CHUNKS).code == 2
    assert not index_exists(postgres_url)


def test_documents_are_queued_and_a_worker_indexes_them(postgres_url, call, book):
    assert (
        "1 document(s) added to the queue"
        in call("index", book, "--out", postgres_url, *SMALL_CHUNKS, "--no-wait").out
    )
    assert "pending" in call("documents", "list", postgres_url).out
    assert (
        call(
            "documents", "work", postgres_url, "--llm-model", "x", "--llm-base-url", "http://x"
        ).code
        == 2
    )
    worked = call("documents", "work", postgres_url, "--json").json()
    assert (worked["documents"], worked["failed"]) == (1, {})
    assert "Hatter" in call("query", postgres_url, "Who met Alice?").out
    book.write_text("Alice met the Queen.", encoding="utf-8")
    updated = call("documents", "update", postgres_url, book, "--no-wait", "--json").json()
    assert (updated["queued"], updated["replaced"]) == (["book.txt"], [])
    assert "1 document(s) indexed" in call("documents", "work", postgres_url).out
    assert "nothing new" in call("documents", "work", postgres_url).out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_a_worker_cleanly(tmp_path, call, book, number):
    index = tmp_path / "i.e2g"
    call("index", book, "--out", index, *SMALL_CHUNKS, "--no-wait")
    handler = signal.getsignal(number)

    def interrupt():
        while signal.getsignal(number) == handler:  # it would end the tests
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    sender, _ = start_in_thread(interrupt)
    result = call("documents", "work", index, "--forever")
    sender.join()
    assert (result.code, signal.getsignal(number)) == (0, handler)
    assert result.out.startswith(f"{index}: ")
