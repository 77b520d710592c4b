"""The state of the index: `/state`, and what it says to readers, scopes and while others write."""

from __future__ import annotations

import re

import pytest

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, SourceDocument, WriteOptions
from e2graphrag_integrations.errors import EmbeddingError
from e2graphrag_integrations.server.web import Client, WebOptions, service
from e2graphrag_integrations.store.queue import note_pace
from fakes import NameExtractor
from web_jobs import finished

READER = "the-token-of-a-reader"
TENANT = "the-token-of-a-tenant"
WRITER = "the-token-of-a-writer"


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def test_pending_documents_are_counted_and_indexed_by_the_button(open_index, serve):
    rag = open_index()
    client = serve(rag)
    assert client.get("/state").json()["description"] == "The index has no documents."
    rag.add([SourceDocument("a", "Anna met Bert.")])
    rag.add([SourceDocument("b", "Cleo met Dora."), SourceDocument("c", "Emil.")], wait=False)
    state = client.get("/state").json()
    assert (state["indexed"], state["pending"], state["failed"]) == (1, 2, 0)
    assert (state["stored"], state["resumable"], state["writer"], state["since"]) == (0, 2, "", "")
    assert state["description"] == "1 document is indexed and 2 are pending."
    assert state["lack"].startswith("Answers lack 2 documents that are not indexed yet")
    assert (state["action"], state["way_on"]) == (
        "Index 2 documents",
        "Press “Index 2 documents”.",
    )
    assert (state["writing"], state["blocked"], state["blocked_deletion"]) == ("", "", "")
    assert finished(client, client.post("/documents/resume"))["state"] == "done"
    state = client.get("/state").json()
    assert (state["lack"], state["action"]) == ("", "")


def test_a_reader_gets_the_command_and_a_scope_learns_nothing(open_index, serve):
    rag = open_index()
    rag.add([SourceDocument("a", "Anna met Bert.", metadata={"tenant": "a"})])
    rag.add([SourceDocument("b", "Cleo met Dora.", metadata={"tenant": "a"})], wait=False)
    clients = [
        Client("reader", READER),
        Client("tenant", TENANT, where={"tenant": "a"}),
        Client("writer", WRITER, write=True),
    ]
    client = serve(rag, WebOptions(clients=clients))
    state = client.get("/state", headers=bearer(READER)).json()
    assert (state["action"], state["way_on"]) == (
        "",
        "Run `e2graphrag documents resume` to index it.",
    )
    assert client.get("/state", headers=bearer(WRITER)).json()["action"] == "Index 1 document"
    state = client.get("/state", headers=bearer(TENANT)).json()
    assert state["description"] == "1 document is indexed."
    assert not any(state[name] for name in ("pending", "lack", "writing", "way_on", "blocked"))
    assert client.get("/state").status_code == 401


def test_a_writer_is_named_and_what_would_be_refused_is_blocked(open_index, serve, tmp_path):
    rag = open_index(tmp_path / "a.e2g")
    rag.add([SourceDocument("a", "Anna met Bert.")])
    rag.add([SourceDocument("b", "Cleo met Dora.")], wait=False)
    client = serve(rag)
    with (
        E2GraphRAG.open(tmp_path / "a.e2g", writes=WriteOptions(lock_timeout=0)) as other,
        other.write_lock(),
    ):
        state = client.get("/state").json()
        told = r"The index is being written by process \d+ \(.+\) on .+ since 20.+\."
        assert re.fullmatch(told, state["writing"])
        assert state["way_on"] == "Ask again when it has finished."
        assert state["action"] == ""
        for answer, reason in (
            (client.post("/documents/resume"), state["blocked"]),
            (client.delete("/documents/a"), state["blocked_deletion"]),
        ):
            assert answer.status_code == 409
            told = "the index is being written by process "
            assert answer.json()["error"]["message"].startswith(told)
            assert reason == "Documents can be added and deleted again when it has finished."
    assert client.get("/state").json()["writing"] == ""


def test_the_pace_of_the_queue_is_told(open_index, serve, monkeypatch):
    rag = open_index()
    rag.add([SourceDocument(name, f"Anna met {name}.") for name in "abcd"], wait=False)
    client, seen = serve(rag), []
    metrics = client.get("/metrics").text
    assert 'e2graphrag_documents{state="pending"} 4.0' in metrics
    assert "e2graphrag_queue_documents_per_second NaN" in metrics
    state = client.get("/state").json()
    assert (state["documents_per_second"], state["seconds_left"], state["pace"]) == (None, None, "")
    extract = NameExtractor.extract

    def ask(self, texts):
        note_pace(rag.store, 8, 4.0, is_first=True)
        seen.append(client.get("/state").json())
        monkeypatch.setattr(service, "_CHECK_SECONDS", 0)
        seen.append(client.get("/metrics").text)
        return extract(self, texts)

    monkeypatch.setattr(NameExtractor, "extract", ask)
    assert finished(client, client.post("/documents/resume"))["state"] == "done"
    state, metrics, *_ = seen
    assert (state["documents_per_second"], state["seconds_left"]) == (2, 2)
    assert state["pace"] == "2 documents per second, about 2 s left."
    assert "e2graphrag_queue_documents_per_second 2.0" in metrics
    assert "e2graphrag_queue_seconds_left 2.0" in metrics


def test_a_job_of_the_server_blocks_only_deletion(open_index, serve, monkeypatch):
    seen = []
    extract = NameExtractor.extract

    def ask(self, texts):
        seen.append(client.get("/state").json())
        seen.append(client.delete("/documents/a").status_code)
        return extract(self, texts)

    rag = open_index()
    rag.add([SourceDocument("a", "Anna met Bert.")])
    rag.add([SourceDocument("b", "Cleo met Dora.")], wait=False)
    client = serve(rag)
    monkeypatch.setattr(NameExtractor, "extract", ask)
    assert finished(client, client.post("/documents/resume"))["state"] == "done"
    state, status, *_ = seen
    assert status == 409
    assert re.fullmatch(r"This server has been indexing since 20\d\d-.+\.", state["writing"])
    assert state["blocked_deletion"] == "Documents can be deleted again when it has finished."
    assert (state["blocked"], state["action"]) == ("", "")
    assert state["way_on"] == "Ask again when it has finished."


class Asking(HashingEmbedder):
    """Asks for the state while it embeds."""

    def __init__(self, ask):
        super().__init__(96)
        self.ask = ask

    def embed(self, texts):
        self.ask()
        return super().embed(texts)


def test_new_vectors_are_told_while_they_are_computed_and_after_a_stop(open_index, serve):
    rag = open_index(embedder=HashingEmbedder(64))
    rag.add([SourceDocument("a", "Anna met Bert.")])
    client, seen = serve(rag), []
    assert client.get("/state").json()["new_vectors"] is None

    def fail():
        seen.append(client.get("/state").json()["new_vectors"])
        raise ValueError("no power")

    with pytest.raises(EmbeddingError):
        rag.reembed(Asking(fail))
    stopped = client.get("/state").json()["new_vectors"]
    assert [one["running"] for one in (*seen[-1:], stopped)] == [True, False]
    assert (stopped["done"], stopped["total"], stopped["seconds_left"]) == (0, 1, None)
    assert stopped["embedder"]
    assert stopped["old"]
    rag.reembed(HashingEmbedder(96))
    assert client.get("/state").json()["new_vectors"] is None
