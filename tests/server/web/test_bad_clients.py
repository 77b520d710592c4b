"""Many, slow and vanishing clients, and an index that another process writes: uvicorn for real."""

from __future__ import annotations

import asyncio
import contextlib
import json
import select
import socket
import threading
import time
from collections import Counter
from types import SimpleNamespace

import h11
import httpx
import pytest
from filelock import FileLock

from e2graphrag_integrations import E2GraphRAG, Models, SourceDocument
from e2graphrag_integrations.server.listening import CONNECTIONS, HttpOptions, server_config
from e2graphrag_integrations.server.protocol import TimedProtocol
from e2graphrag_integrations.server.web import Client, Limits, WebOptions
from e2graphrag_integrations.server.web.limits import Rate, Turns
from e2graphrag_integrations.server.web.problems import Problem
from running_server import connection, received

QUESTION = {"question": "Who gave Anna a map?", "settings": {"k": 3}}


async def ask_at_once(url, count, headers=None, statuses=None):
    """Ask questions at the same time; count the statuses as they come, and return the counts."""
    statuses = Counter() if statuses is None else statuses
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=60) as client:

        async def ask():
            answer = await client.post("/retrieve", json=QUESTION, headers=headers)
            statuses[answer.status_code] += 1

        await asyncio.gather(*(ask() for _ in range(count)))
    return statuses


@pytest.mark.slow
async def test_a_hundred_questions_at_once_are_answered(rag, live):
    assert await ask_at_once(live(rag), 100) == {200: 100}


class Gate:
    """Makes retrieval wait, and counts how many wait."""

    def __init__(self, rag):
        self.released = threading.Event()
        self.running = 0
        self._retrieve = rag.retrieve
        rag.retrieve = self

    def __call__(self, *arguments, **options):
        self.running += 1
        assert self.released.wait(30)
        self.running -= 1
        return self._retrieve(*arguments, **options)


async def until(condition):
    for _ in range(2_000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not happen")


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("limits", "status"),
    [({"waiting": 10}, 503), ({"per_client": 10}, 429), ({"per_minute": 10}, 429)],
    ids=["in total", "per client", "per minute"],
)
async def test_more_requests_than_allowed_are_refused_and_others_answered(
    rag, live, limits, status
):
    gate, statuses = Gate(rag), Counter()
    url = live(rag, WebOptions(limits=Limits(**limits)))
    asking = asyncio.create_task(ask_at_once(url, 30, statuses=statuses))
    await until(lambda: statuses[status] == 20)
    gate.released.set()
    assert await asking == {200: 10, status: 20}


async def test_clients_have_limits_of_their_own(rag, live):
    clients = [Client(name, f"{name}-0123456789abcdef") for name in ("anna", "bert")]
    url = live(rag, WebOptions(clients, limits=Limits(per_client=2)))
    gate, statuses = Gate(rag), [Counter(), Counter()]
    tokens = [{"Authorization": f"Bearer {one.token}"} for one in clients]
    asked = asyncio.gather(
        *(ask_at_once(url, 5, token, own) for token, own in zip(tokens, statuses, strict=True))
    )
    await until(lambda: [own[429] for own in statuses] == [3, 3])
    gate.released.set()
    assert await asked == [{200: 2, 429: 3}, {200: 2, 429: 3}]


async def test_a_question_that_takes_too_long_is_refused_and_reading_goes_on(rag, live):
    gate = Gate(rag)
    url = live(rag, WebOptions(limits=Limits(seconds=0.2, parallel=2)))
    async with httpx.AsyncClient(base_url=url) as client:
        answer = await client.post("/retrieve", json=QUESTION)
        assert (answer.status_code, answer.json()["error"]["type"]) == (503, "OverloadedError")
        assert (await client.get("/health")).status_code == 200
        gate.released.set()
        await until(lambda: not gate.running)
        assert (await client.post("/retrieve", json=QUESTION)).status_code == 200


async def test_clients_that_vanish_give_their_places_back(rag, live):
    gate = Gate(rag)
    url = live(rag, WebOptions(limits=Limits(parallel=1, per_client=20)))
    waiting = [connection(url) for _ in range(20)]
    body = json.dumps(QUESTION).encode()
    for one in waiting:
        one.sendall(head("POST", f"Content-Type: application/json\r\nContent-Length: {len(body)}"))
        one.sendall(body)
    async with httpx.AsyncClient(base_url=url) as client:

        async def in_progress():
            lines = (await client.get("/metrics")).text.splitlines()
            [line] = [one for one in lines if one.startswith("e2graphrag_requests_in_progress ")]
            return float(line.split()[1])

        gate_opener = asyncio.get_running_loop().call_later(20, gate.released.set)
        for one in waiting:
            one.close()
        await until(lambda: gate.running)
        gate.released.set()
        gate_opener.cancel()
        assert (await client.post("/retrieve", json=QUESTION)).status_code == 200
        assert await in_progress() == 0


def head(method="GET", *more, path="/retrieve"):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *more]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def test_slow_clients_lose_their_connection(rag, live):
    url = live(rag, WebOptions(limits=Limits(body_seconds=0.3)))
    with (
        connection(url) as silent,
        connection(url) as no_headers,
        connection(url) as no_body,
        connection(url) as no_file,
        connection(url) as refused,
    ):
        no_headers.sendall(b"GET /health HTTP/1.1\r\nHost: loc")
        no_body.sendall(head("POST", "Content-Type: application/json", "Content-Length: 100"))
        form = "Content-Type: multipart/form-data; boundary=x"
        no_file.sendall(head("POST", form, "Content-Length: 100", path="/documents"))
        refused.sendall(head("POST", "Content-Length: 1000", path="/nowhere"))
        refused.sendall(b"x")
        assert received(refused).startswith(b"HTTP/1.1 404")
        assert received(silent) == received(no_headers) == b""
        for one in (no_body, no_file):
            answer = received(one)
            assert answer.startswith(b"HTTP/1.1 408")
            assert b"SlowRequestError" in answer
    assert httpx.get(f"{url}/health").status_code == 200


def test_a_request_that_will_be_refused_is_not_received(rag, live):
    clients = [Client("anna", "anna-0123456789abcdef")]
    url = live(rag, WebOptions(clients, limits=Limits(body_bytes=10_000)))
    json_type = "Content-Type: application/json"
    for token, length, status in (
        ("Accept: */*", 1_000, b"401"),
        (f"Authorization: Bearer {clients[0].token}", 10_001, b"413"),
    ):
        with connection(url) as sock:
            sock.sendall(head("POST", json_type, token, f"Content-Length: {length}"))
            assert sock.recv(65_536).split()[1] == status


@pytest.mark.parametrize("is_next", [False, True], ids=["the same request", "the next one"])
def test_the_deadline_of_a_refused_request_does_not_end_the_next_one(is_next):
    closed = []
    protocol = object.__new__(TimedProtocol)
    protocol.conn = SimpleNamespace(their_state=h11.SEND_BODY)
    protocol.transport = SimpleNamespace(close=lambda: closed.append(True))
    protocol.cycle = refused = object()
    if is_next:
        protocol.cycle = object()
    protocol._close_unfinished(refused)
    assert closed == ([] if is_next else [True])


def test_a_burst_of_connections_leaves_descriptors_for_files():
    config = server_config(None, HttpOptions())
    # asyncio accepts `backlog` connections, and closes those beyond the limit two rounds later.
    assert CONNECTIONS + 3 * config.backlog < 1_024 - 100


def test_a_client_that_does_not_read_its_answers_loses_its_connection(open_index, live):
    rag = open_index(chunk_size=20_000)
    rag.add([SourceDocument("long", "word " * 5_000)])
    url = live(rag, WebOptions(limits=Limits(body_seconds=0.3)))
    with connection(url) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        with pytest.raises(ConnectionError):
            send_for_ever(sock, head("GET", path="/documents/long") * 20)
    assert httpx.get(f"{url}/health").status_code == 200


def test_connections_beyond_the_limit_are_closed(rag, live):
    url = live(rag, WebOptions(limits=Limits(connections=3)))
    with contextlib.ExitStack() as stack:
        for _ in range(23):
            stack.enter_context(connection(url))
        with connection(url) as one_more:
            assert received(one_more) == b""


@pytest.mark.parametrize(
    "body",
    [
        {"questions": [[]] * 1_000_000, "settings": {"A": {}}},
        {"questions": [{"question": "?"}], "settings": {"A": {"x": [[]] * 1_000_000}}},
        {"questions": [{}] * 1_000_000, "settings": {"A": {}}},
        {"questions": [{"question": "?", "answer": "a b " * 900_000}], "settings": {"A": {}}},
        {"questions": [{"question": "?", "answer": "a"}], "settings": {"A": {"x" * 10**6: 1}}},
        {"questions": [{"question": "?", "answer": "a"}], "settings": {"A" * 10**6: {}}},
    ],
    ids=["lists", "lists in a setting", "objects", "answer", "parameter", "name"],
)
def test_large_requests_are_refused_briefly(rag, serve, body):
    answer = serve(rag).post("/evaluations", json=body)
    assert answer.status_code in (400, 413)
    assert len(answer.content) < 3_000


def test_a_request_with_too_many_objects_is_refused_before_it_is_parsed(rag, serve):
    body = {"question": "?", "settings": {"boosts": [[]] * 100_001}}
    answer = serve(rag).post("/retrieve", json=body)
    assert answer.status_code == 400
    assert "more than 100,000 lists and objects" in answer.json()["error"]["message"]


def test_an_object_with_too_many_fields_is_refused_before_each_is_named(rag, serve):
    body = {"question": "?", "settings": {f"field{n}": n for n in range(1_001)}}
    answer = serve(rag).post("/retrieve", json=body)
    assert answer.status_code == 400
    assert "more than 1,000 fields" in answer.json()["error"]["message"]


async def test_estimates_that_wait_too_long_are_refused(rag, serve):
    client = serve(rag, WebOptions(limits=Limits(seconds=0.1)))
    service = client.app.state.service
    async with service.estimating_turn():
        with pytest.raises(Problem) as refused:
            async with service.estimating_turn():
                pass
    assert refused.value.status == 503


def send_for_ever(sock, data):
    for _ in range(500):
        sock.sendall(data)
        time.sleep(0.02)


def test_connections_are_limited(rag, live):
    url = live(rag, WebOptions(limits=Limits(connections=5)))
    with contextlib.ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(connection(url))
        assert httpx.get(f"{url}/health").status_code == 503
    for _ in range(200):
        if httpx.get(f"{url}/health").status_code == 200:
            return
    raise AssertionError("the server did not recover")


def test_requests_that_are_not_valid_are_refused(rag, live):
    url = live(rag)
    for data in (
        b"nonsense\r\n\r\n",
        head("POST", "Content-Type: application/json", "Content-Length: 5") + b"{\xff\xff}}",
        head("POST", "Content-Type: application/json", "Content-Length: 9") + b'{"a":NaN}',
        head("POST", "Content-Type: application/json", "Content-Length: 20000") + b"[" * 20_000,
        head("POST", "Content-Type: application/json", "Content-Length: -1"),
        head("POST", "Content-Type: text/plain", "Content-Length: 2") + b"{}",
        head("POST", "Content-Type: application/json", "Content-Length: 9999999"),
        head("GET", path="/documents/%00%ff%2f..%2f?offset=%ff"),
        head("GET", path="/documents/" + "x" * 5_000),
        head("GET", "Connection: Upgrade", "Upgrade: websocket"),
    ):
        with connection(url) as sock:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            answer = received(sock)
        assert not answer or 400 <= int(answer.split()[1]) < 500, data[:200]
        assert httpx.post(f"{url}/retrieve", json=QUESTION).status_code == 200, data[:200]


def test_readers_go_on_while_another_process_writes(open_index, story, tmp_path, serve):
    path = tmp_path / "story.e2g"
    rag = open_index(path, lock_timeout=0.1)
    rag.add([story])
    client = serve(rag)
    upload = [("files", ("a.txt", b"Anna met Bert."))]
    assert client.post("/retrieve", json=QUESTION).status_code == 200
    with FileLock(f"{path}.lock"):
        answers = [
            client.delete("/documents/story"),
            client.post("/documents", files=upload),
            client.post("/documents/resume"),
        ]
        assert [one.status_code for one in answers] == [409] * 3
        assert str(tmp_path) not in "".join(one.text for one in answers)
        assert client.post("/retrieve", json=QUESTION).status_code == 200
        assert client.get("/documents").json()["total"] == 1
    assert client.post("/documents", files=upload).status_code == 202


async def test_clients_that_wait_are_served_in_turn():
    turns, served = Turns(1), []

    async def ask(name):
        await turns.acquire(name)
        served.append(name)
        await asyncio.sleep(0)
        turns.release()

    await turns.acquire("first")
    tasks = [asyncio.create_task(ask(name)) for name in "aaaabbc"]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.sleep(0)
    turns.release()
    await asyncio.wait(tasks)
    assert "".join(served) == "abcaba"
    await asyncio.wait_for(turns.acquire("free again"), 5)


async def test_large_requests_at_once_are_limited(rag, live):
    url = live(rag)
    start = head("POST", "Content-Type: application/json", "Content-Length: 1000000")
    with contextlib.ExitStack() as stack:
        large = [stack.enter_context(connection(url)) for _ in range(5)]
        for one in large:
            one.sendall(start + b" " * 200_000)
        [refused], _, _ = select.select(large, [], [], 30)  # the first four wait for the rest
        assert received(refused).startswith(b"HTTP/1.1 503")
        assert (await ask_at_once(url, 1)) == {200: 1}


def test_the_rate_is_refilled_and_the_memory_for_it_bounded():
    now = [0.0]
    rate = Rate(60, now=lambda: now[0])
    for _ in range(60):
        rate.check("anna")
    with pytest.raises(Problem) as refused:
        rate.check("anna")
    assert refused.value.headers == {"Retry-After": "1"}
    rate.check("bert")
    now[0] = 2.0
    rate.check("anna")
    for number in range(20_000):
        rate.check(str(number))
    assert len(rate._left) == 10_000


def test_answers_come_from_real_vectors(tmp_path, story, live, real_embedder, real_extractor):
    with E2GraphRAG.open(
        tmp_path / "story.e2g", embedder=real_embedder, models=Models(extractor=real_extractor)
    ) as rag:
        rag.add([story])
        answer = httpx.post(f"{live(rag)}/retrieve", json=QUESTION).json()
        direct = rag.retrieve(QUESTION["question"], k=3)
        assert [one["node_id"] for one in answer["nodes"]] == [one.node_id for one in direct.nodes]
        assert answer["nodes"][0]["relevance"] == pytest.approx(direct.nodes[0].relevance)
        assert answer["context"] == direct.context()
