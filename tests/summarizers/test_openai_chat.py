"""`OpenAISummarizer` against a small local server and the project's stub server."""

from __future__ import annotations

import json
import socket
import sys
import threading
import traceback
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from e2graphrag_integrations import OpenAISummarizer, Prompts, RetryPolicy, SourceDocument
from e2graphrag_integrations.errors import MissingDependencyError, SummaryError
from fakes import numbered
from stub_server import running_stub, stub_stats

FOUR = {"chunk_size": 4, "chunk_overlap": 0}
KEY = "sk-very-secret-0123456789"
SHARED = Path(__file__).parents[2].parent / "shared"
QUICK = RetryPolicy(attempts=3, first_wait=0.001, longest_wait=0.002)


class ChatServer(ThreadingHTTPServer):
    """A chat server that sends the statuses in `failures` first, then numbered answers."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[dict] = []
        self.authorizations: set[str] = set()
        self.failures: list[tuple[int, dict[str, str]]] = []
        self.answer: str | None = "Summary"
        self.lock = threading.Lock()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.requests.append(body)
            self.server.authorizations.add(self.headers["Authorization"])
            number = len(self.server.requests)
            failure = self.server.failures.pop(0) if self.server.failures else None
        if failure:
            status, headers = failure
            self.reply(status, {"error": {"message": "try later"}}, headers)
            return
        text = self.server.answer
        content = f"{text} {number}." if text else text
        message = {"role": "assistant", "content": content}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        reply = {"id": "x", "object": "chat.completion", "created": 1, "model": "m"}
        choices = [] if text == "no choice" else [choice]
        self.reply(200, {**reply, "choices": choices}, {})

    def reply(self, status, value, headers):
        data = json.dumps(value).encode()
        self.send_response(status)
        for name, header in headers.items():
            self.send_header(name, header)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        """Suppress the request log."""


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def chat(server):
    """Create summarizers for the server, and close their connections."""
    summarizers = []

    def make(**options):
        summarizers.append(
            OpenAISummarizer("tiny", **({"base_url": server.url, "api_key": KEY} | options))
        )
        return summarizers[-1]

    yield make
    for summarizer in summarizers:
        summarizer._clients.close()


def test_calls_match_the_estimate_and_include_prompt_and_limits(open_index, server, chat):
    rag = open_index(summarizer=chat(), summary_tokens=50, **FOUR)
    estimate = rag.estimate(numbered(30))
    assert server.requests == []
    report = rag.add(numbered(30))
    assert len(server.requests) == report.llm_calls == estimate.llm_calls == 8
    assert server.authorizations == {f"Bearer {KEY}"}
    for request in server.requests:
        assert request["model"] == "tiny"
        assert request["max_tokens"] == 50
        assert request["temperature"] == 0
        [message] = request["messages"]
        assert "at most 30 words" in message["content"]
    assert sum("Item" in r["messages"][0]["content"] for r in server.requests) == 6
    tops = [n.text for n in rag.retrieve("x", k=99, mode="global").nodes if n.level]
    assert all(text.startswith("Summary ") for text in tops)


def test_request_fields_can_be_added_and_omitted(open_index, server, chat):
    wanted = {"max_tokens": None, "temperature": None, "max_completion_tokens": 77, "seed": 3}
    open_index(summarizer=chat(request=wanted), **FOUR).add(numbered(2))
    [request] = server.requests
    assert "max_tokens" not in request
    assert "temperature" not in request
    assert (request["max_completion_tokens"], request["seed"]) == (77, 3)


def test_transient_http_errors_are_retried_by_the_index_only(open_index, server, chat):
    server.failures = [(429, {"Retry-After": "0.05"}), (503, {})]
    report = open_index(summarizer=chat(), retry=QUICK, **FOUR).add(numbered(2))
    assert (report.llm_calls, report.retries) == (3, 2)
    assert len(server.requests) == 3  # the client itself does not retry


def test_retry_after_header_sets_the_wait(open_index, server, chat, monkeypatch):
    waits = []
    monkeypatch.setattr("tenacity.sleep_using_event", lambda _: waits.append)
    server.failures = [(429, {"Retry-After": "7"})]
    patient = RetryPolicy(attempts=2, first_wait=0.001, longest_wait=30)
    open_index(summarizer=chat(), retry=patient, **FOUR).add(numbered(2))
    assert waits == [7.0]


@pytest.mark.parametrize("status", [400, 401, 404])
def test_client_error_is_not_retried_and_never_shows_the_key(open_index, server, chat, status):
    server.failures = [(status, {})]
    summarizer = chat()
    rag = open_index(summarizer=summarizer, retry=QUICK, **FOUR)
    with pytest.raises(SummaryError, match="numbered") as caught:
        rag.add(numbered(2))
    assert len(server.requests) == 1
    report = "".join(traceback.format_exception(caught.value))
    assert str(status) in report
    for text in (report, repr(summarizer), repr(caught.value), summarizer.fingerprint, repr(rag)):
        assert KEY not in text


def test_api_key_is_never_written_to_the_index(tmp_path, open_index, chat):
    path = tmp_path / "i.e2g"
    with open_index(path, summarizer=chat(), **FOUR) as rag:
        rag.add(numbered(6))
        rag.retrieve("Item")
        assert KEY not in "".join(rag.export())
    for file in tmp_path.rglob("*"):
        assert file.is_dir() or KEY.encode() not in file.read_bytes()


@pytest.mark.parametrize("answer", ["", None, "no choice"])
def test_empty_answer_is_an_error(open_index, server, chat, answer):
    server.answer = answer
    rag = open_index(summarizer=chat(), **FOUR)
    with pytest.raises(SummaryError, match="empty summary"):
        rag.add(numbered(2))


def test_unreachable_server_is_retried_then_reported(open_index):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    summarizer = OpenAISummarizer("tiny", base_url=f"http://127.0.0.1:{port}/v1", api_key=KEY)
    rag = open_index(summarizer=summarizer, retry=QUICK, concurrency=1, **FOUR)
    with pytest.raises(SummaryError, match="APIConnectionError"):
        rag.add(numbered(2))
    summarizer._clients.close()


def test_same_model_on_another_server_shares_the_cache(tmp_path, open_index, server, chat):
    path = tmp_path / "i.e2g"
    with open_index(path, summarizer=chat(), **FOUR) as rag:
        rag.add(numbered(10))
    moved = chat(base_url=server.url.replace("127.0.0.1", "localhost"))
    with open_index(path, summarizer=moved, **FOUR) as rag:
        assert rag.add(numbered(10, "again")).llm_calls == 0
    assert chat(prompts=Prompts(chunks="x {text}")).fingerprint != moved.fingerprint


def test_missing_openai_client_error_names_the_extra(open_index, monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    rag = open_index(summarizer=OpenAISummarizer("tiny"), **FOUR)
    with pytest.raises(SummaryError, match=r"e2graphrag-integrations\[openai\]") as caught:
        rag.add(numbered(2))
    assert isinstance(caught.value.__cause__, MissingDependencyError)


@pytest.fixture(scope="module")
def stub() -> Iterator[str]:
    with running_stub(summary_tokens=40) as url:
        yield url


@pytest.mark.slow
@pytest.mark.shared
def test_calls_to_the_stub_server_match_the_estimate(open_index, stub):
    novel = (SHARED / "data" / "novels" / "the_time_machine.txt").read_text(encoding="utf-8")
    summarizer = OpenAISummarizer("stub", base_url=f"{stub}/v1", api_key=KEY)
    rag = open_index(
        summarizer=summarizer, chunk_size=120, chunk_overlap=10, summary_tokens=60, concurrency=4
    )
    document = SourceDocument("time machine", novel[:20_000])
    before, estimate = stub_stats(stub), rag.estimate(document)
    report = rag.add(document)
    after = stub_stats(stub)
    summarizer._clients.close()
    assert estimate.llm_calls > 8
    assert after["llm_calls"] - before["llm_calls"] == report.llm_calls == estimate.llm_calls
    assert after["max_inflight"] <= 4
    assert report.prompt_tokens <= estimate.prompt_tokens
    assert report.completion_tokens <= estimate.completion_tokens
    assert rag.verify().ok
    assert rag.retrieve("What did the Time Traveller say?", k=5).nodes
