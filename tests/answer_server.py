"""A local server that speaks the streaming protocol of OpenAI, with failures on request."""

from __future__ import annotations

import json
import select
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Script:
    """What the server does with a request.

    Attributes:
        parts: The parts of the answer.
        status: An HTTP status to refuse the request with.
        is_paused: Whether it waits after the first part, until the client goes away.
        is_cut: Whether it closes the connection after the first part.
        finish: Why the model stopped.
        usage: The tokens that it reports; None reports none.
        is_broken: Whether it sends something else than JSON.
    """

    parts: Sequence[str] = ("Bert gave Anna ", "a map [1].")
    status: int = 200
    is_paused: bool = False
    is_cut: bool = False
    finish: str = "stop"
    usage: tuple[int, int] | None = (210, 7)
    is_broken: bool = False


class AnswerServer(ThreadingHTTPServer):
    """The server.

    Attributes:
        script: What it does.
        requests: The bodies of the requests.
        gone: Set when a client goes away before the end of its answer.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = Script()
        self.requests: list[dict[str, Any]] = []
        self.gone = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: AnswerServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        script = self.server.script
        self.server.requests.append(json.loads(body))
        if script.status != 200:
            key = self.headers["Authorization"]
            data = json.dumps({"error": {"message": f"refused {key}"}}).encode()
            self.send_response(script.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        if script.is_broken:
            self.wfile.write(b"data: this is not JSON\n\n")
            return
        for part in script.parts:
            self._send({"choices": [self._choice({"content": part}, None)]})
            if script.is_cut:
                return
            if script.is_paused:
                self._wait_until_gone()
                return
        self._send({"choices": [self._choice({}, script.finish)]})
        if script.usage is not None:
            read, written = script.usage
            usage = {"prompt_tokens": read, "completion_tokens": written}
            self._send({"choices": [], "usage": {**usage, "total_tokens": read + written}})
        self.wfile.write(b"data: [DONE]\n\n")

    @staticmethod
    def _choice(delta: dict[str, str], finish: str | None) -> dict[str, Any]:
        return {"index": 0, "delta": delta, "finish_reason": finish}

    def _send(self, values: dict[str, Any]) -> None:
        base = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "tiny"}
        self.wfile.write(b"data: " + json.dumps({**base, **values}).encode() + b"\n\n")
        self.wfile.flush()

    def _wait_until_gone(self) -> None:
        for _ in range(2_000):
            if select.select([self.connection], [], [], 0.01)[0]:
                try:
                    is_open = bool(self.connection.recv(1, socket.MSG_PEEK))
                except ConnectionError:
                    is_open = False
                if not is_open:
                    self.server.gone.set()
                    return

    def log_message(self, *_: Any) -> None:
        """Suppress the request log."""


@contextmanager
def running_answers() -> Iterator[AnswerServer]:
    """Run a server in a thread."""
    with AnswerServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
