"""The page's API on an index in Postgres."""

from __future__ import annotations

import pytest

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, SourceDocument
from e2graphrag_integrations.server.web import Client, WebOptions
from e2graphrag_integrations.server.web import service as service_module
from postgres_server import running_postgres
from web_jobs import finished

TENANTS = [
    SourceDocument("a", "Anna met Bert in Oslo.", metadata={"tenant": "a"}),
    SourceDocument("b", "Carla met Quibblefox in Rome.", metadata={"tenant": "b"}),
]


@pytest.fixture
def rag(postgres_url, open_index):
    """An index in Postgres with one document of each of two tenants."""
    index = open_index(postgres_url)
    index.add(TENANTS)
    return index


def ask(client, question, **arguments):
    answer = client.post("/retrieve", json={"question": question}, **arguments)
    assert answer.status_code == 200, answer.text
    return answer


def test_questions_uploads_and_deletions_work_in_postgres(rag, serve):
    client = serve(rag)
    assert ask(client, "Whom did Anna meet?").json()["nodes"][0]["document_id"] == "a"
    upload = [("files", ("c.txt", b"Dora met Emil in Bern."))]
    job = finished(client, client.post("/documents", files=upload))
    assert (job["state"], job["result"]["documents"]) == ("done", 1)
    assert ask(client, "Whom did Dora meet?").json()["nodes"][0]["document_id"] == "c.txt"
    assert client.delete("/documents/c.txt").json()["documents"] == 1
    assert [one["id"] for one in client.get("/documents").json()["items"]] == ["a", "b"]
    names = [one["name"] for one in client.get("/entities").json()["items"]]
    assert {"anna", "carla"} <= set(names)
    assert client.get("/info").json()["name"].startswith("s")


def test_a_token_sees_its_scope_alone_in_postgres(rag, serve):
    clients = (Client("a", "token-of-a" * 4, where={"tenant": "a"}),)
    client = serve(rag, WebOptions(clients=clients))
    headers = {"Authorization": f"Bearer {'token-of-a' * 4}"}
    answers = [
        ask(client, "Whom did Bert meet in Rome?", headers=headers),
        client.get("/documents", headers=headers),
        client.get("/entities", headers=headers),
        client.get("/info", headers=headers),
    ]
    for one in answers:
        assert one.status_code == 200
        assert not any(name in one.text for name in ("Carla", "Quibblefox", '"b"'))


def test_writers_of_a_database_are_named_but_block_nothing(rag, postgres_url, serve):
    client = serve(rag)
    rag.add(SourceDocument("c", "Dora met Emil in Bern."), wait=False)
    assert client.get("/state").json()["action"] == "Index 1 document"
    with E2GraphRAG.open(postgres_url) as other, other.write_lock():
        state = client.get("/state").json()
        assert state["writing"].startswith("The index is being written by ")
        assert " since 20" in state["writing"]
        assert state["lack"] == "Answers lack 1 document that is not indexed yet."
        assert (state["blocked"], state["blocked_deletion"]) == ("", "")  # a write waits for it
    assert client.get("/state").json()["writing"] == ""


@pytest.mark.slow
def test_the_server_survives_a_restart_of_the_database(tmp_path, monkeypatch, serve):
    monkeypatch.setenv("E2GRAPHRAG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(service_module, "_CHECK_SECONDS", 0.0)
    with (
        running_postgres() as server,
        E2GraphRAG.open(f"{server.url}?schema=restarted", embedder=HashingEmbedder()) as rag,
    ):
        rag.add(TENANTS)
        client = serve(rag)
        ask(client, "Whom did Anna meet?")
        server.stop()
        for answer in (
            client.get("/health"),
            client.post("/retrieve", json={"question": "Whom did Anna meet?"}),
        ):
            assert answer.status_code == 503
            assert "the database server cannot be reached" in answer.text
            assert str(server.port) not in answer.text
        server.start()
        assert client.get("/health").status_code == 200
        assert ask(client, "Whom did Anna meet?").json()["nodes"][0]["document_id"] == "a"
