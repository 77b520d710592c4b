"""`/health`: whether the server answers and can read its index."""

from __future__ import annotations

import asyncio
import threading
import time

import httpx
import pytest

from e2graphrag_integrations.errors import StoreError
from e2graphrag_integrations.server.web import WebOptions
from e2graphrag_integrations.server.web import service as service_module
from e2graphrag_integrations.server.web.service import Service


@pytest.fixture(autouse=True)
def _always_checked(monkeypatch):
    monkeypatch.setattr(service_module, "_CHECK_SECONDS", 0.0)


def test_a_missing_index_file_makes_the_server_unhealthy(tmp_path, open_index, story, serve):
    path = tmp_path / "private.e2g"
    rag = open_index(path)
    rag.add(story)
    client = serve(rag)
    assert client.get("/health").json()["status"] == "ok"
    path.rename(tmp_path / "moved.e2g")
    answer = client.get("/health")
    assert answer.status_code == 503
    assert answer.json()["error"]["type"] == "StoreError"
    assert "private" not in answer.text
    (tmp_path / "moved.e2g").rename(path)
    assert client.get("/health").status_code == 200


def test_many_health_checks_read_the_index_in_one_thread(rag, monkeypatch):
    service, threads, ended = Service(rag, WebOptions()), [], threading.Event()

    def read():
        threads.append(threading.current_thread())
        ended.wait(10)
        raise StoreError("the disk is gone")

    monkeypatch.setattr(service, "_read_generation", read)

    async def check():
        checks = [asyncio.ensure_future(service.check_index()) for _ in range(50)]
        await asyncio.sleep(0)
        checks[0].cancel()  # a client that leaves does not end the check of the others
        ended.set()
        return await asyncio.gather(*checks, return_exceptions=True)

    results = asyncio.run(check())
    assert isinstance(results[0], asyncio.CancelledError)
    assert {str(one) for one in results[1:]} == {"the disk is gone"}
    assert len(threads) == 1


@pytest.mark.slow
def test_health_is_known_while_all_threads_answer_questions(rag, live, monkeypatch):
    asked, ended = threading.Event(), threading.Event()

    def stall(*_, **__):
        asked.set()
        ended.wait(30)
        raise StoreError("enough")

    monkeypatch.setattr(type(rag), "retrieve", stall)
    url = live(rag)
    threads = [
        threading.Thread(
            target=httpx.post, args=(f"{url}/retrieve",), kwargs={"json": {"question": "?"}}
        )
        for _ in range(8)
    ]
    try:
        for one in threads:
            one.start()
        assert asked.wait(30)
        began = time.monotonic()
        assert httpx.get(f"{url}/health", timeout=10).status_code == 200
        assert time.monotonic() - began < 10
    finally:
        ended.set()
        for one in threads:
            one.join()
