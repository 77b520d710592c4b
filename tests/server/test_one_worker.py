"""A second worker of a server is refused: workers of uvicorn, and forks that share a socket."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, Models, SourceDocument
from e2graphrag_integrations.server import one_worker
from e2graphrag_integrations.server.one_worker import OneWorker, bound_addresses
from fakes import NameExtractor

pytestmark = pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="lists no open files")  # noqa: PTH112

MODULE = """
from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, Models
from e2graphrag_integrations.server.web import make_app
from fakes import NameExtractor

models = Models(extractor=NameExtractor())
rag = E2GraphRAG.open({path!r}, embedder=HashingEmbedder(), models=models)
app = make_app(rag)
"""

FORKS = """
import os, sys, uvicorn
from served import app

sockets = [uvicorn.Config(app, port=int(sys.argv[1])).bind_socket()]
for _ in range(2):
    if not os.fork():
        server = uvicorn.Server(uvicorn.Config(app))
        server.run(sockets=sockets)
        os._exit(0 if server.started else 3)
print(sorted(os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(2)), flush=True)
"""


@pytest.fixture
def port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture
def run(tmp_path):
    """Return a function that starts Python with a module `served`, and ends its whole group."""
    path = tmp_path / "served.e2g"
    with E2GraphRAG.open(
        path, embedder=HashingEmbedder(), models=Models(extractor=NameExtractor())
    ) as rag:
        rag.add(SourceDocument("a", "Anna met Bert in Oslo."))
    (tmp_path / "served.py").write_text(MODULE.format(path=str(path)))
    log = tmp_path / "log"
    started = []

    def run_(*arguments, **environment):
        paths = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[1])])
        own = {**os.environ, "PYTHONPATH": paths, "TMPDIR": str(tmp_path), **environment}
        with log.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=tmp_path,
                env=own,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        started.append(process)
        return log.read_text

    yield run_
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def until(condition, seconds=180):
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it did not happen"
        time.sleep(0.1)


def answers(port):
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", timeout=60).status_code
    except httpx.TransportError:
        return 0


@pytest.mark.slow
@pytest.mark.parametrize("way", ["--workers", "WEB_CONCURRENCY"])
def test_a_second_worker_of_uvicorn_does_not_start(run, port, way):
    command = ["-m", "uvicorn", "served:app", "--port", str(port)]
    workers = {"WEB_CONCURRENCY": "2"} if way == "WEB_CONCURRENCY" else {}
    log = run(*command, *([] if workers else ["--workers", "2"]), **workers)
    until(lambda: one_worker.MESSAGE in log())
    until(lambda: answers(port) == 200)
    # uvicorn starts the second worker again and again. It may accept a request before it ends.
    found = {answers(port) for _ in range(20)}
    assert 200 in found
    assert found <= {200, 503, 0}


@pytest.mark.slow
def test_one_worker_of_uvicorn_starts_and_answers(run, port):
    command = ["-m", "uvicorn", "served:app", "--port", str(port), "--workers", "1"]
    log = run(*command)
    until(lambda: answers(port) == 200)
    assert {answers(port) for _ in range(20)} == {200}
    assert one_worker.MESSAGE not in log()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_second_fork_of_a_loaded_application_does_not_start(run, port, tmp_path):
    (tmp_path / "forks.py").write_text(FORKS)
    log = run("forks.py", str(port))
    until(lambda: one_worker.MESSAGE in log())
    until(lambda: answers(port) == 200)


@pytest.fixture
def bound():
    """The address of a socket of this process that waits for connections."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        yield f"127.0.0.1 {one.getsockname()[1]}"


def test_only_sockets_that_accept_connections_have_an_address(bound):
    host, port = bound.split()
    with socket.create_connection((host, int(port))) as connection:
        local = "{} {}".format(*connection.getsockname())
        with socket.socket() as unbound:
            assert unbound.fileno() >= 0
            assert bound in bound_addresses()
            assert local not in bound_addresses()


def test_looking_at_the_open_files_opens_none(bound):
    before = sorted(os.listdir("/dev/fd"))  # noqa: PTH208 - numbers, not files
    for _ in range(20):
        bound_addresses()
    assert sorted(os.listdir("/dev/fd")) == before  # noqa: PTH208


async def test_another_process_at_the_address_is_noticed_until_it_ends(
    bound, tmp_path, monkeypatch
):
    monkeypatch.setattr(one_worker, "_WAIT", 0.0)
    monkeypatch.setattr(one_worker, "bound_addresses", lambda: {bound})
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    first, other, elsewhere = OneWorker("a.e2g"), OneWorker("a.e2g"), OneWorker("b.e2g")
    assert await first.is_only()
    assert await other.is_only()  # another application of this process
    for file in tmp_path.glob("*.pid"):
        file.write_text("1")
    second = OneWorker("a.e2g")
    assert not await second.is_only()
    assert await elsewhere.is_only()  # another index
    first.close()
    assert await second.is_only()
    second.close()


async def test_a_process_that_ends_meanwhile_is_waited_for(bound, tmp_path, monkeypatch):
    monkeypatch.setattr(one_worker, "bound_addresses", lambda: {bound})
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    first, second = OneWorker("a.e2g"), OneWorker("a.e2g")
    assert await first.is_only()
    next(tmp_path.glob("*.pid")).write_text("1")
    asyncio.get_running_loop().call_later(0.3, first.close)
    assert await second.is_only()
    second.close()
