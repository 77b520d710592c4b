"""Entity edits of a LlamaIndex index: persisted, and copied to files."""

from __future__ import annotations

import pytest
from llama_index.core import Document
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters

from e2graphrag_integrations import E2GraphRAG, Models
from e2graphrag_integrations.errors import InvalidInputError, UnknownEntityError
from e2graphrag_integrations.llama_index import E2GraphRAGIndex, where_of
from e2graphrag_integrations.options import grouped
from fakes import NameExtractor
from llama_checks import SYNC_AND_ASYNC, call

DOCUMENTS = [
    Document(id_="a", text="Robert met Anna in Oslo. Bob gave Anna a map.", metadata={"year": 1}),
    Document(id_="b", text="Bob wrote to Cleo. Rome was far away.", metadata={"year": 2}),
]
EDITS = {"alias": {"Bob": "Robert"}, "separate": [("Rob", "Robert")], "stop": ["Rome"]}
MODELS = {"embed_model": "hashing", "extractor": NameExtractor()}
SECOND_YEAR = MetadataFilters(filters=[MetadataFilter(key="year", value=2)])


@pytest.fixture
def index(index_of):
    return index_of(DOCUMENTS)


def names(index):
    return [one.name for one in index.rag.entities()]


@SYNC_AND_ASYNC
async def test_edits_apply_to_the_graph_and_are_undone(index, is_async):
    before = names(index), index.rag.edits()
    edits = await call(is_async, index.rag, "edit_entities", **EDITS)
    assert edits == index.rag.edits()
    assert "bob" not in names(index)
    assert "rome" not in names(index)
    trace = index.as_retriever().explain("Where is Bob?")
    assert [one.entity for one in trace.links] == ["robert"]
    index.rag.edit_entities(undo=edits)
    assert (names(index), index.rag.edits()) == before


@SYNC_AND_ASYNC
async def test_an_entity_has_its_evidence(index, is_async):
    index.rag.edit_entities(**EDITS)
    details = await call(is_async, index.rag, "entity", "Bob")
    assert [one.text for one in details.mentions] == ["Robert", "Bob", "Bob"]
    for one in details.mentions:
        [document] = [d for d in DOCUMENTS if d.node_id == one.document_id]
        assert document.text[one.start : one.end] == one.text
        assert document.text[one.sentence_start : one.sentence_end] == one.sentence
    assert details.documents == ("a", "b")
    [info] = await call(is_async, index.rag, "entities", prefix="bo", top=1)
    assert info == details.info


def test_filters_hide_other_evidence(index):
    index.rag.edit_entities(**EDITS)
    for where in (where_of(SECOND_YEAR), where_of(doc_ids=["b"])):
        details = index.rag.entity("Robert", where=where)
        assert [one.sentence for one in details.mentions] == ["Bob wrote to Cleo."]
        assert [one.name for one in details.neighbors] == ["cleo"]
        assert details.info.aliases == ()
        assert "anna" not in [one.name for one in index.rag.entities(where=where)]
        with pytest.raises(UnknownEntityError, match="match the filter"):
            index.rag.entity("Anna", where=where)


def test_rejected_edits_change_nothing(index):
    before = names(index), index.rag.edits()
    with pytest.raises(UnknownEntityError, match="no entity 'Zoe'"):
        index.rag.edit_entities(alias={"Bob": "Zoe"}, stop="Anna")
    with pytest.raises(InvalidInputError, match="is a cycle"):
        index.rag.edit_entities(alias={"Bob": "Anna", "Anna": "Bob"})
    assert (names(index), index.rag.edits()) == before


def test_edits_are_persisted_and_converted(index, tmp_path):
    edits = index.rag.edit_entities(**EDITS)
    index.insert(Document(id_="c", text="Rob met Emil. Bob met Emil."))
    index.persist(tmp_path / "folder")
    loaded = E2GraphRAGIndex.from_persist_dir(tmp_path / "folder", **grouped(MODELS))
    assert (loaded.rag.edits(), names(loaded)) == (edits, names(index))
    loaded.rag.copy_to(tmp_path / "i.e2g")
    with E2GraphRAG.open(tmp_path / "i.e2g", models=Models(extractor=NameExtractor())) as rag:
        assert rag.edits() == edits
        assert rag.verify().problems == ()
        assert rag.entities() == index.rag.entities()
    with E2GraphRAGIndex.open(tmp_path / "i.e2g", **grouped(MODELS)) as again:
        assert again.rag.edits() == edits
        assert names(again) == names(index)


def test_another_handle_of_a_file_sees_edits_at_once(index_of, tmp_path):
    path = tmp_path / "i.e2g"
    with (
        index_of(DOCUMENTS, path=path) as index,
        E2GraphRAGIndex.open(path, **grouped(MODELS)) as other,
    ):
        edits = index.rag.edit_entities(stop="Rome")
        assert other.rag.edits() == edits
        assert "rome" not in names(other)


def test_edits_of_an_index_in_memory_are_saved_at_once(index):
    edits = index.rag.edit_entities(stop="Rome")
    other = E2GraphRAGIndex.from_storage(index.storage_context, **grouped(MODELS))
    assert other.rag.edits() == edits
