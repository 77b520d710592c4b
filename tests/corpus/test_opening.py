"""`index.rag` of both faces: the same open index, whose writes keep what the face owes."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.documents import Document as Page
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import Document, StorageContext
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters

from e2graphrag_integrations import E2GraphRAG, Models, SourceDocument
from e2graphrag_integrations.errors import (
    ExtractionError,
    InvalidInputError,
    SettingsMismatchError,
    StoreError,
    UnknownEntityError,
)
from e2graphrag_integrations.langchain import E2GraphRAGIndex as LangChainIndex
from e2graphrag_integrations.langchain import LangChainEmbedder
from e2graphrag_integrations.llama_index import E2GraphRAGIndex as LlamaIndex
from e2graphrag_integrations.llama_index import EmbedModel, where_of
from e2graphrag_integrations.options import grouped
from fakes import FailingEmbedder, NameExtractor, OldExtractor
from llama_checks import SYNC_AND_ASYNC, call
from llama_stores import new_store

TEXTS = {
    "a": "Robert met Anna in Oslo. Bob gave Anna a map.",
    "b": "Bob wrote to Cleo. Rome was far away.",
}
EDITS: dict[str, Any] = {"alias": {"Bob": "Robert"}, "stop": ["Rome"]}


@dataclass(frozen=True)
class Face:
    """What the tests need to know of a framework."""

    index: Any
    document: Any
    embeddings: Any
    adapter: Any
    model_name: str

    def options(self, **options):
        return grouped({self.model_name: "hashing", "extractor": NameExtractor(), **options})

    def documents(self, texts=TEXTS):
        return [self.document(id_, text) for id_, text in texts.items()]

    def build(self, texts=TEXTS, **options):
        return self.index.from_documents(self.documents(texts), **self.options(**options))


FACES = {
    "llama-index": Face(
        LlamaIndex,
        lambda id_, text: Document(id_=id_, text=text, metadata={"year": ord(id_[0])}),
        MockEmbedding(24),
        EmbedModel,
        "embed_model",
    ),
    "langchain": Face(
        LangChainIndex,
        lambda id_, text: Page(text, id=id_, metadata={"source": id_, "year": ord(id_[0])}),
        DeterministicFakeEmbedding(size=24),
        LangChainEmbedder,
        "embeddings",
    ),
}


@pytest.fixture(params=FACES.values(), ids=FACES.keys())
def face(request):
    return request.param


def corpus_of(index):
    return index._corpus if isinstance(index, LlamaIndex) else index.corpus


def names(index):
    return [one.name for one in index.rag.entities()]


def exported(index):
    return list(index.rag.export())


@SYNC_AND_ASYNC
async def test_edits_apply_to_questions_and_are_undone(face, is_async):
    with face.build() as index:
        before = names(index)
        edits = await call(is_async, index.rag, "edit_entities", **EDITS)
        assert edits == index.rag.edits()
        assert not {"bob", "rome"} & {*names(index)}
        trace = index.as_retriever().search("Where is Bob?").trace
        assert [one.entity for one in trace.links] == ["robert"]
        details = await call(is_async, index.rag, "entity", "Bob")
        assert details.documents == ("a", "b")
        for one in details.mentions:
            assert TEXTS[one.document_id][one.start : one.end] == one.text
        with pytest.raises(UnknownEntityError, match="Zoe"):
            index.rag.edit_entities(alias={"Cleo": "Zoe"}, stop="Anna")
        assert index.rag.edits() == edits
        index.rag.edit_entities(undo=edits)
        assert names(index) == before


@pytest.mark.fast_cases(1)
def test_another_handle_of_a_file_sees_writes_of_the_engine_at_once(face, tmp_path):
    path = tmp_path / "i.e2g"
    with face.build(path=path) as index, face.index.open(path, **face.options()) as other:
        edits = index.rag.edit_entities(**EDITS)
        assert other.rag.edits() == edits
        index.rag.set_tags(["map", "Rome"])
        assert other.rag.tag_counts() == index.rag.tag_counts() != {}
        index.rag.add(SourceDocument("c", "Dora left Oslo."))
        assert "dora" in names(other)
        index.rag.copy_to(tmp_path / "copy.e2g")
    with E2GraphRAG.open(tmp_path / "copy.e2g", models=Models(extractor=NameExtractor())) as rag:
        assert rag.edits() == edits
        assert rag.verify().ok


@pytest.mark.fast_cases(1)
@SYNC_AND_ASYNC
async def test_a_reindexed_index_equals_a_new_one(face, tmp_path, is_async):
    path, events = tmp_path / "i.e2g", []
    face.build(path=path, extractor=OldExtractor()).close()
    models = face.options(**{face.model_name: FailingEmbedder()})  # nothing is embedded
    new = face.document("c", "Dora left Oslo. Bob met Dora.")
    with face.index.open(path, **models) as index, face.index.open(path, **models) as other:
        with pytest.raises(SettingsMismatchError, match=r"fake:old.*reindex\(\)"):
            index.as_retriever().search("Who was Bob?")
        report = await call(is_async, index.rag, "reindex", progress=events.append)
        assert report.documents == 2
        assert {event.stage for event in events} == {"extract", "write"}
        assert (await call(is_async, index.rag, "reindex")).skipped == ("a", "b")
        corpus_of(other).store([new])
        assert corpus_of(index).is_dirty  # pending documents remain pending
        assert other.rag.reindex().skipped == ("a", "b")
    with face.index.open(path, **face.options()) as index, face.build() as fresh:
        assert exported(index) == exported(fresh)
        index.build()
        corpus_of(fresh).upsert([new])
        assert exported(index) == exported(fresh)
    with face.build({}) as empty:
        assert empty.rag.reindex().documents == 0


@pytest.mark.fast_cases(1)
async def test_the_engine_embeds_with_a_model_of_the_framework(face):
    with face.build() as index:
        assert index.rag.reembed(face.embeddings).llm_calls == 0
        assert index.rag.stats().dimension == 24
        assert index.as_retriever().search("Anna?").nodes
        windows = index.rag.stats().windows
        small = face.adapter(face.embeddings, 4)
        assert index.rag.estimate_reembed(small).windows > windows
        assert (await index.rag.areembed(small)).embedded > 0
        with copy.deepcopy(index) as other:
            assert other.rag.embedder.max_tokens == 4
        assert index.rag.reembed("hashing").documents == 2
        with copy.deepcopy(index) as other:
            assert other.rag.stats().dimension == 256
            assert other.as_retriever().search("Anna?").nodes
        with pytest.raises(InvalidInputError, match="embed"):
            index.rag.reembed(None)


def test_an_index_with_a_vector_store_keeps_its_embeddings():
    context = StorageContext.from_defaults(vector_store=new_store("faiss-map", None, None))
    llama, chain = FACES.values()
    store = InMemoryVectorStore(chain.embeddings)
    documents = llama.documents()
    indexes = (
        LlamaIndex.from_documents(documents, storage_context=context, **llama.options()),
        chain.build(embeddings=chain.embeddings, vector_store=store),
    )
    copied = dict(store.store)
    for index in indexes:
        with pytest.raises(InvalidInputError, match="without the vector store"):
            index.rag.reembed("hashing")
        index.rag.reindex()
        index.rag.edit_entities(stop="Rome")
        assert index.as_retriever().search("Anna?").nodes
    assert store.store == copied


def test_the_engine_forgets_pending_documents_that_workers_have_indexed(tmp_path):
    """LlamaIndex finds them in a file of LangChain."""
    llama, chain = FACES.values()
    path = tmp_path / "i.e2g"
    with chain.build({}, path=path) as index:
        index.add_documents(chain.documents(), wait=False)
        with llama.index.open(path, **llama.options()) as other:
            assert other.rag.freshness().pending == index.rag.freshness().pending == 2
            assert other.rag.work().documents == 2
            assert other.rag.freshness().pending == 0
        assert index.rag.freshness().pending == 0
        assert index.rag.work().documents == 0


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda index, document: index.add_documents([document("a", "Anna left Rome.")]), "left"),
        (lambda index, _: index.delete(["a"]), None),
    ],
    ids=["update", "delete"],
)
def test_a_version_that_another_process_has_replaced_is_not_queued(
    tmp_path, monkeypatch, change, text
):
    chain, path = FACES["langchain"], tmp_path / "i.e2g"
    with (
        chain.build({}, path=path) as mine,
        chain.index.open(path, **chain.options()) as other,
    ):
        mine.add_documents([chain.document("a", "Anna met Bert in Rome.")], wait=False)
        enqueue = other.rag.enqueue

        def change_first(documents, wanted):
            change(mine, chain.document)
            return enqueue(documents, wanted)

        monkeypatch.setattr(other.rag, "enqueue", change_first)
        other.add_documents([chain.document("b", "Bert left Oslo.")], wait=False)
        assert "a" not in other.rag.queued_ids()
        other.rag.work()
        assert mine.rag.document_ids == (["b"] if text is None else ["a", "b"])
        assert text is None or text in mine.rag.document("a").text


def test_a_document_that_the_core_deletes_does_not_come_back(tmp_path):
    chain, path = FACES["langchain"], tmp_path / "i.e2g"
    with chain.build({}, path=path) as index:
        index.add_documents([chain.document("a", "Anna met Bert.")], wait=False)
    with E2GraphRAG.open(path, models=Models(extractor=NameExtractor())) as core:
        core.work()
        core.delete("a")
    with chain.index.open(path, **chain.options()) as index:
        index.add_documents([chain.document("b", "Bert left Oslo.")])
        assert index.rag.document_ids == ["b"]


def test_an_estimate_is_that_of_the_build(face):
    with face.build({}) as index:
        cost = index.estimate(face.documents())
        assert (cost.documents, cost.llm_calls) == (2, 0)
        assert index.rag.document_ids == []
        with pytest.raises(InvalidInputError):
            index.estimate(5)


# An index of LlamaIndex in memory is saved in its index store


def reloaded(index, **options):
    return LlamaIndex.from_storage(index.storage_context, **FACES["llama-index"].options(**options))


def test_writes_of_the_engine_are_saved_in_the_index_store(tmp_path):
    index = FACES["llama-index"].build()
    edits = index.rag.edit_entities(**EDITS)
    assert reloaded(index).rag.edits() == edits
    index.rag.set_tags(["map"])
    assert reloaded(index).rag.tag_counts() == index.rag.tag_counts()
    index.rag.add(SourceDocument("c", "Dora left Oslo."), wait=False)
    assert reloaded(index).rag.queued_ids() == {"c"}
    index.rag.work()
    assert "dora" in names(reloaded(index))
    index.rag.delete("c")
    assert exported(reloaded(index)) == exported(index)
    index.persist(tmp_path)
    loaded = LlamaIndex.from_persist_dir(tmp_path, **FACES["llama-index"].options())
    assert (loaded.rag.edits(), names(loaded)) == (edits, names(index))


def test_a_write_of_the_engine_does_not_replace_what_another_object_saved():
    index = FACES["llama-index"].build()
    other = reloaded(index)
    other.rag.set_tags(["map"])
    for write in (
        index.rag.reindex,
        lambda: index.rag.set_tags(None),
        lambda: index.rag.add(SourceDocument("c", "Dora left."), wait=False),
        index.rag.work,
        lambda: index.rag.delete("a"),
    ):
        with pytest.raises(StoreError, match=r"another object has changed .* load it again"):
            write()
    assert reloaded(index).rag.tag_counts() == other.rag.tag_counts() != {}


def test_a_write_that_failed_is_saved_if_it_changed_documents(monkeypatch):
    index = FACES["llama-index"].build(extractor=OldExtractor())

    class Failing(NameExtractor):
        def extract(self, texts):
            raise RuntimeError("no memory")

    revision = reloaded(index).index_struct.revision
    with pytest.raises(ExtractionError, match="no memory"):
        reloaded(index, extractor=Failing()).rag.reindex()
    assert reloaded(index).index_struct.revision == revision

    def fail(_):
        raise OSError("disk full")

    new = reloaded(index)
    with monkeypatch.context() as patch:
        patch.setattr(new.storage_context.index_store, "add_index_struct", fail)
        with pytest.raises(StoreError, match="disk full"):
            new.rag.reindex()
    new.rag.reindex()  # nothing to do, except to save
    assert reloaded(new).rag.made_with["extractor"].startswith("fake:names")


def test_filters_of_llama_index_are_a_where_of_the_engine():
    with FACES["llama-index"].build() as index:
        index.rag.edit_entities(**EDITS)
        second = MetadataFilters(filters=[MetadataFilter(key="year", value=ord("b"))])
        node = next(iter(index.ref_doc_info["b"].node_ids))
        scope = index.scoped({"year": {"$gt": 0}})
        for where in (where_of(second), where_of(doc_ids=["b"]), where_of(node_ids=[node])):
            for reader in (index.rag, scope):
                details = reader.entity("Robert", where=where)
                assert [one.sentence for one in details.mentions] == ["Bob wrote to Cleo."]
                assert "anna" not in [one.name for one in reader.entities(where=where)]
                with pytest.raises(UnknownEntityError, match="match the filter"):
                    reader.entity("Anna", where=where)
        with pytest.raises(InvalidInputError, match="needs a condition"):
            where_of()
