"""A LlamaIndex index of another extractor is extracted again in one step."""

from __future__ import annotations

import copy

import pytest
from llama_index.core import Document, StorageContext
from llama_index.core.embeddings import MockEmbedding

from e2graphrag_integrations import E2GraphRAG, Models
from e2graphrag_integrations.errors import (
    ExtractionError,
    InvalidInputError,
    SettingsMismatchError,
    StoreError,
)
from e2graphrag_integrations.llama_index import E2GraphRAGIndex
from e2graphrag_integrations.options import grouped
from fakes import NameExtractor, OldExtractor
from llama_checks import SETTINGS, SYNC_AND_ASYNC, build, call, export
from llama_stores import Distinct, new_store

DOCUMENTS = [
    Document(id_="anna", text="Anna Berg\nAnna Berg was a pilot. Bert met Anna Berg in Oslo."),
    Document(id_="emil", text="Emil Dahl was a sailor. Emil Dahl left Oslo."),
]
NEW = Document(id_="new", text="Fay Lind was a miller. Fay Lind knew Anna Berg.")


OPEN = {key: SETTINGS[key] for key in ("embed_model", "extractor")}


class OtherExtractor(NameExtractor):
    fingerprint = "fake:other"


@pytest.fixture
def old():
    """An index that another extractor built, open with the current one."""
    return open_again(build(DOCUMENTS, extractor=OldExtractor()))


def is_current(index):
    return index.rag.made_with["extractor"].startswith("fake:names")


def open_again(index, **options):
    return E2GraphRAGIndex.from_storage(index.storage_context, **grouped(SETTINGS | options))


@SYNC_AND_ASYNC
async def test_a_reindexed_index_equals_a_new_one(old, is_async):
    events = []
    report = await call(is_async, old.rag, "reindex", progress=events.append)
    fresh = build(DOCUMENTS)
    assert is_current(old)
    assert old.rag.made_with == fresh.rag.made_with
    assert export(old) == export(fresh)
    assert (report.documents, report.chunks) == (2, fresh.report.chunks)
    assert report.entities == fresh.report.entities
    assert {event.stage: event.done for event in events} == {"extract": report.chunks, "write": 2}
    old.insert(NEW)
    fresh.insert(NEW)
    assert export(old) == export(fresh)
    assert (await call(is_async, old.rag, "reindex")).skipped == ("anna", "emil", "new")


def test_only_the_extractor_is_called(old):
    class Failing(Distinct):
        def embed(self, texts):
            raise RuntimeError("no memory")

    index = open_again(old, embed_model=Failing())
    assert index.rag.reindex().documents == 2


def test_a_failed_run_changes_nothing(old, monkeypatch):
    before = export(old)

    class Failing(NameExtractor):
        def extract(self, texts):
            raise RuntimeError("no memory")

    with pytest.raises(ExtractionError, match="no memory"):
        open_again(old, extractor=Failing()).rag.reindex()
    assert not is_current(open_again(old))
    assert export(open_again(old)) == before

    def fail(_):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(old.storage_context.index_store, "add_index_struct", fail)
        with pytest.raises(StoreError, match="disk full"):
            old.rag.reindex()
    old.rag.reindex()  # nothing to do, except to save
    assert is_current(open_again(old))


def test_another_handle_continues_with_the_new_rules(tmp_path):
    """Also if the new rules find nothing new, so that only the manifest changes."""
    documents = [Document(id_="d", text="Later Anna sang in Oslo.")]
    path = tmp_path / "i.e2g"
    first = build(documents, extractor=OldExtractor(), path=path)
    first = E2GraphRAGIndex.open(path, **grouped(OPEN))
    other = E2GraphRAGIndex.open(path, **grouped(OPEN))
    other.rag.reindex()
    assert export(other) == export(first)
    first.insert(NEW)
    assert is_current(first)
    fresh = build([*documents, NEW])
    assert export(first) == export(fresh)
    assert first.rag.made_with == fresh.rag.made_with


def test_another_extractor_can_replace_that_of_the_index(old):
    index = open_again(old, extractor=OtherExtractor())
    with pytest.raises(SettingsMismatchError, match=r"fake:old, not fake:other.*reindex\(\)"):
        index.as_retriever().retrieve("Anna Berg")
    index.rag.reindex()
    assert index.as_retriever().retrieve("Anna Berg")
    assert index.rag.made_with["extractor"].startswith("fake:other")


def test_a_copy_keeps_the_extractor(old, tmp_path):
    old.rag.copy_to(tmp_path / "i.e2g")
    options = {"embedder": SETTINGS["embed_model"], "extractor": OldExtractor()}
    with E2GraphRAG.open(tmp_path / "i.e2g", **grouped(options)) as rag:
        assert rag.retrieve("Anna Berg").nodes
        assert rag.verify().ok
    copy = E2GraphRAGIndex.open(tmp_path / "i.e2g", **grouped(OPEN))
    assert not is_current(copy)
    assert export(copy) == export(old)


def test_an_empty_index_has_nothing_to_reindex():
    assert build([]).rag.reindex().documents == 0


async def test_the_embedding_model_of_an_index_is_replaced(index_of, documents, tmp_path):
    index = index_of(documents)
    assert index.rag.reembed(MockEmbedding(24)).llm_calls == 0
    assert index.rag.stats().dimension == 24
    index.persist(tmp_path)
    loaded = E2GraphRAGIndex.from_persist_dir(
        tmp_path, embed_model=MockEmbedding(24), models=Models(extractor=NameExtractor())
    )
    assert loaded.as_retriever().retrieve("Anna")
    assert (await loaded.rag.areembed("hashing")).documents == len(documents)
    assert copy.deepcopy(loaded).as_retriever().retrieve("Anna")


def test_an_index_with_a_vector_store_keeps_its_embedding_model(index_of, documents):
    context = StorageContext.from_defaults(vector_store=new_store("faiss-map", None, None))
    index = index_of(documents, storage_context=context)
    with pytest.raises(InvalidInputError, match="without the vector store"):
        index.rag.reembed(MockEmbedding(24))
