"""A LlamaIndex index of older extraction rules keeps them until it is extracted again."""

from __future__ import annotations

import logging

import pytest
from llama_index.core import Document

from e2graphrag_integrations import E2GraphRAG
from e2graphrag_integrations.errors import ExtractionError, SettingsMismatchError, StoreError
from e2graphrag_integrations.llama_index import E2GraphRAGIndex
from fakes import FailingEmbedder, NameExtractor, first_extraction_rules
from llama_checks import SETTINGS, SYNC_AND_ASYNC, build, call

DOCUMENTS = [
    Document(id_="anna", text="Anna Berg\nAnna Berg was a pilot. Bert met Anna Berg in Oslo."),
    Document(id_="emil", text="Emil Dahl was a sailor. Emil Dahl left Oslo."),
]
NEW = Document(id_="new", text="Fay Lind was a miller. Fay Lind knew Anna Berg.")


class OtherExtractor(NameExtractor):
    fingerprint = "fake:other"


@pytest.fixture
def outdated():
    with first_extraction_rules():
        return build(DOCUMENTS)


def payloads(index):
    return index.storage.struct.payloads


def mentions(index):
    return [record.mentions for record in index.storage.struct.records()]


def open_again(index, **options):
    return E2GraphRAGIndex.from_storage(index.storage_context, **(SETTINGS | options))


def test_an_outdated_index_keeps_its_rules_and_warns_once(outdated, caplog):
    for _ in range(2):
        outdated.as_retriever().retrieve("Who was a pilot?")
    outdated.insert(NEW)
    with first_extraction_rules():
        expected = build([*DOCUMENTS, NEW])
    assert mentions(outdated) == mentions(expected)
    assert outdated.made_with["extractor"] == "fake:names"
    [record] = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert "reindex()" in record.getMessage()


@SYNC_AND_ASYNC
async def test_a_reindexed_index_equals_a_new_one(outdated, is_async):
    events = []
    report = await call(is_async, outdated, "reindex", events.append)
    fresh = build(DOCUMENTS)
    assert not outdated.is_outdated
    assert outdated.made_with == fresh.made_with
    assert payloads(outdated) == payloads(fresh)
    assert (report.documents, report.chunks) == (2, fresh.last_report.chunks)
    assert report.entities == fresh.last_report.entities
    assert outdated.last_report == report
    assert {event.stage: event.done for event in events} == {"extract": report.chunks, "write": 2}
    outdated.insert(NEW)
    fresh.insert(NEW)
    assert payloads(outdated) == payloads(fresh)
    assert (await call(is_async, outdated, "reindex")).skipped == ("anna", "emil", "new")


def test_only_the_extractor_is_called(outdated):
    index = open_again(outdated, embed_model=FailingEmbedder())
    assert index.reindex().documents == 2


def test_a_failed_run_changes_nothing(outdated, monkeypatch):
    before = dict(payloads(outdated))

    class Failing(NameExtractor):
        def extract(self, texts):
            raise RuntimeError("no memory")

    with pytest.raises(ExtractionError, match="no memory"):
        open_again(outdated, extractor=Failing()).reindex()
    assert open_again(outdated).is_outdated
    assert payloads(open_again(outdated)) == before

    def fail(_):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(outdated.storage_context.index_store, "add_index_struct", fail)
        with pytest.raises(StoreError, match="the next write saves it"):
            outdated.reindex()
    outdated.reindex()  # nothing to do, except to save
    assert not open_again(outdated).is_outdated


def test_another_handle_continues_with_the_new_rules():
    """Also if the new rules find nothing new, so that only the manifest changes."""
    documents = [Document(id_="d", text="Later Anna sang in Oslo.")]
    with first_extraction_rules():
        first = build(documents)
    other = open_again(first)
    other.reindex()
    assert payloads(other) == payloads(first)
    first.insert(NEW)
    assert not first.is_outdated
    fresh = build([*documents, NEW])
    assert payloads(first) == payloads(fresh)
    assert first.made_with == fresh.made_with


def test_another_extractor_can_replace_that_of_the_index(outdated):
    index = open_again(outdated, extractor=OtherExtractor())
    with pytest.raises(SettingsMismatchError, match=r"fake:names, not fake:other.*reindex\(\)"):
        index.as_retriever().retrieve("Anna Berg")
    index.reindex()
    assert index.as_retriever().retrieve("Anna Berg")
    assert index.made_with["extractor"].startswith("fake:other")


@pytest.mark.parametrize("is_new", [False, True], ids=["outdated", "current"])
def test_conversions_keep_the_rules(outdated, tmp_path, is_new):
    if is_new:
        outdated.reindex()
    outdated.to_e2g(tmp_path / "i.e2g")
    options = {"embedder": SETTINGS["embed_model"], "extractor": NameExtractor()}
    with E2GraphRAG.open(tmp_path / "i.e2g", **options) as rag:
        assert rag.is_outdated is not is_new
        assert rag.verify().ok
    back = E2GraphRAGIndex.from_e2g(tmp_path / "i.e2g", **SETTINGS)
    assert back.is_outdated is not is_new
    assert mentions(back) == mentions(outdated)


def test_an_empty_index_has_nothing_to_reindex():
    assert build([]).reindex().documents == 0
