"""One client cannot take the streams, sessions and turns that others need."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import ClientDisconnect

from e2graphrag_integrations.server.web import Client, Limits, WebOptions, access
from e2graphrag_integrations.server.web.access import Caller
from e2graphrag_integrations.server.web.events import Streams, job_events
from e2graphrag_integrations.server.web.jobs import Job, Jobs
from e2graphrag_integrations.server.web.problems import Explainer, Problem

ANNA, BERT = (Client(name, f"{name}-0123456789abcdef") for name in ("anna", "bert"))


async def send_nothing(_):
    pass


async def receive_nothing():
    await asyncio.Event().wait()


async def test_a_client_has_half_of_the_streams_and_gives_them_back():
    streams, job = Streams(4, "yours", "all"), Job("upload", "anna")
    job.update(state="done")
    first, second = (streams.send(job_events(job), "anna") for _ in range(2))
    with pytest.raises(Problem) as refused:
        streams.send(job_events(job), "anna")
    assert refused.value.status == 429
    for _ in range(2):
        streams.send(job_events(job), "bert")
    with pytest.raises(Problem) as refused:
        streams.send(job_events(job), "carl")
    assert refused.value.status == 503
    scope = {"type": "http", "asgi": {"spec_version": "2.4"}}
    for one in (first, second):
        await one(scope, receive_nothing, send_nothing)
    assert streams.open == {"bert": 2}
    streams.send(job_events(job), "anna")


async def test_a_client_that_vanishes_gives_its_stream_back():
    streams = Streams(2, "yours", "all")
    stream = streams.send(job_events(Job("upload", "anna")), "anna")

    async def gone(_):
        raise OSError

    with pytest.raises(ClientDisconnect):
        await stream({"type": "http", "asgi": {"spec_version": "2.4"}}, receive_nothing, gone)
    assert streams.open == {}


def test_the_sessions_of_a_client_end_no_session_of_others(rag, serve, monkeypatch):
    monkeypatch.setattr(access, "_MAX_SESSIONS", 3)
    client = serve(rag, WebOptions([ANNA, BERT]))

    def session(token):
        client.cookies.clear()
        opened = client.post("/session", json={"token": token})
        return opened.headers["set-cookie"].split(";")[0]

    def status(cookie):
        client.cookies.clear()
        return client.get("/info", headers={"Cookie": cookie}).status_code

    of_bert = session(BERT.token)
    of_anna = [session(ANNA.token) for _ in range(5)]
    assert status(of_bert) == 200
    assert [status(one) for one in of_anna] == [401, 401, 200, 200, 200]


async def test_the_evaluations_of_a_client_do_not_hold_up_those_of_others():
    jobs = Jobs(Limits(), Explainer("index"))
    gate = asyncio.Event()

    async def long(_):
        await gate.wait()

    async def short(_):
        return {}

    of_anna = [jobs.start("evaluation", Caller("anna"), long) for _ in range(2)]
    of_bert = jobs.start("evaluation", Caller("bert"), short)
    await of_bert.task
    assert of_bert.view.state == "done"
    assert [job.view.state for job in of_anna] == ["running", "waiting"]
    gate.set()
    await asyncio.gather(*(job.task for job in of_anna))
    assert [job.view.state for job in of_anna] == ["done", "done"]
