"""Corrections of entities over HTTP: their effects, undoing them, and who may not make them."""

from __future__ import annotations

import json

import pytest

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.server.web import Client, WebOptions
from fakes import STORY

OWNER = "owner-0123456789abcdef"
READER = "reader-0123456789abcdef"
TENANT = "tenant-0123456789abcdef"
CLIENTS = (
    Client("owner", OWNER, write=True),
    Client("reader", READER),
    Client("tenant", TENANT, {"kind": "tale"}),
)


@pytest.fixture
def rag(open_index):
    index = open_index()
    index.add(SourceDocument("story", STORY, metadata={"kind": "tale"}))
    return index


def names(client):
    return {one["name"] for one in client.get("/entities").json()["items"]}


@pytest.mark.parametrize(
    ("change", "text", "gone"),
    [
        ({"alias": {"Cleo": "Anna"}}, "'Cleo' means 'Anna'", {"cleo"}),
        ({"alias": {"Annie": "Anna"}}, "'Annie' means 'Anna'", set()),
        ({"separate": [["Emil", "Emily"]]}, "'Emil' is not 'Emily'", set()),
        (
            {"homonym": [{"name": "Anna", "meaning": "Anna B", "document_ids": ["story"]}]},
            "'Anna' means 'Anna B' in 1 document",
            {"anna"},
        ),
        ({"stop": ["Oslo"]}, "'Oslo' is stopped", {"oslo"}),
    ],
)
def test_an_edit_applies_is_listed_and_undone(rag, serve, change, text, gone):
    client = serve(rag)
    before = names(client)
    assert client.get("/edits").json() == {"items": []}
    [edit] = client.post("/edits", json=change).json()["items"]
    assert (edit["text"], edit["kind"]) == (text, next(iter(change)))
    assert client.get("/edits").json()["items"] == [edit]
    assert before - names(client) == gone
    assert [one.id for one in rag.edits()] == [edit["id"]]
    assert client.post("/edits", json={"undo": [edit["id"]]}).json() == {"items": []}
    assert names(client) == before


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize(
    ("change", "status", "kind", "message"),
    [
        ({"alias": {"Bob": "Xenia"}}, 404, "UnknownEntityError", "Xenia"),
        ({"alias": {"Anna": "Bert", "Bert": "Anna"}}, 400, "InvalidInputError", "Anna"),
        ({"alias": {"Cleo": " "}}, 400, "InvalidInputError", "alias"),
        ({"stop": [3]}, 400, "InvalidInputError", "stop"),
        ({"stop": ["x"] * 101}, 400, "InvalidInputError", "stop"),
        ({"stop": ["x" * 4_001]}, 400, "InvalidInputError", "stop"),
        ({"separate": [["Anna"]]}, 400, "InvalidInputError", "separate"),
        ({"homonym": [{"name": "Anna"}]}, 400, "InvalidInputError", "homonym"),
        ({"undo": ["nothing"]}, 400, "InvalidInputError", "nothing"),
        ({"merge": ["Anna"]}, 400, "InvalidInputError", "merge"),
    ],
)
def test_invalid_edits_change_nothing(rag, serve, change, status, kind, message):
    client = serve(rag)
    answer = client.post("/edits", json=change)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"]) == (status, kind)
    assert message in error["message"]
    assert client.get("/edits").json() == {"items": []}


def test_proposed_homonyms_are_accepted(rag, serve):
    for id_, text in (("x", "Ada is a runner from Rome."), ("y", "Ada is the bank of Oslo.")):
        rag.add(SourceDocument(id_, text, title="Ada"))
    client = serve(rag)
    proposals = client.get("/homonyms").json()["items"]
    assert proposals == json.loads(json.dumps([one.to_dict() for one in rag.propose_homonyms()]))
    tokens = {"Authorization": f"Bearer {TENANT}"}
    scoped = serve(rag, WebOptions(CLIENTS))
    assert scoped.get("/homonyms", headers=tokens).status_code == 403


def test_only_writers_of_the_whole_index_edit_it(rag, serve):
    def edit(client, token):
        headers = {"Authorization": f"Bearer {token}"}
        answer = client.post("/edits", json={"stop": ["Oslo"]}, headers=headers)
        return answer.status_code, answer.json().get("error", {}).get("type")

    def read(client, token):
        return client.get("/edits", headers={"Authorization": f"Bearer {token}"}).status_code

    client = serve(rag, WebOptions(CLIENTS))
    assert client.post("/edits", json={"stop": ["Oslo"]}).status_code == 401
    assert edit(client, READER) == (403, "ReadOnlyError")
    assert edit(client, TENANT) == (403, "ScopeError")
    assert (read(client, READER), read(client, TENANT)) == (200, 403)
    assert edit(serve(rag, WebOptions(CLIENTS, read_only=True)), OWNER) == (403, "ReadOnlyError")
    scoped = serve(rag, WebOptions(where={"kind": "tale"}))
    assert scoped.post("/edits", json={"stop": ["Oslo"]}).status_code == 403
    foreign = {"Authorization": f"Bearer {OWNER}", "Origin": "https://evil.example"}
    assert client.post("/edits", json={"stop": ["Oslo"]}, headers=foreign).status_code == 403
    assert len(rag.edits()) == 0
    assert edit(client, OWNER) == (200, None)
    assert len(rag.edits()) == 1


def test_no_edit_while_a_job_writes(rag, serve, monkeypatch):
    client = serve(rag)
    jobs = type(client.app.state.service.jobs)
    monkeypatch.setattr(jobs, "writing_since", property(lambda _: 1.0))
    answer = client.post("/edits", json={"stop": ["Oslo"]})
    assert (answer.status_code, answer.json()["error"]["type"]) == (409, "ConflictError")
    assert len(rag.edits()) == 0
