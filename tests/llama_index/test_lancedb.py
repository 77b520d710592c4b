"""LanceDB as the vector store; `make test-lancedb` installs it (700 MB) and runs these tests."""

from __future__ import annotations

import pytest
from llama_index.core import Document, StorageContext
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters

from e2graphrag_integrations.llama_index import E2GraphRAGIndex
from e2graphrag_integrations.options import grouped
from fakes import NameExtractor
from llama_stores import Distinct

lancedb = pytest.importorskip("llama_index.vector_stores.lancedb")
IvfFlat = pytest.importorskip("lancedb.index").IvfFlat

pytestmark = pytest.mark.filterwarnings("ignore:table_names:DeprecationWarning")

QUESTIONS = ("What did Anna give Bert?", "How did the winter at sea end?", "Who built a mill?")


@pytest.fixture
def new_store(tmp_path):
    return lambda: lancedb.LanceDBVectorStore(uri=str(tmp_path / "lance"))


def over(store):
    return StorageContext.from_defaults(vector_store=store)


def answers(index, **options):
    found = [
        index.as_retriever(mode, similarity_top_k=20, **options).retrieve(question)
        for mode in ("local", "global", "adaptive")
        for question in QUESTIONS
    ]
    return [[(n.node_id, n.text) for n in nodes] for nodes in found], [
        n.score for nodes in found for n in nodes
    ]


def assert_equal(index, other, **options):
    ids, scores = answers(index, **options)
    expected_ids, expected_scores = answers(other, **options)
    assert scores == pytest.approx(expected_scores, abs=1e-5)
    assert ids == expected_ids


def vectors(index):
    """Return the number of vectors of an index with one window per node."""
    return len(index.docstore.docs)


@pytest.fixture
def pair(index_of, documents, new_store):
    """An index over LanceDB, and one without a vector store."""
    options = {"embed_model": Distinct()}
    lance = index_of(documents, storage_context=over(new_store()), **options)
    return lance, index_of(documents, **options)


def test_results_equal_those_without_a_vector_store(pair):
    assert_equal(*pair)
    old = MetadataFilters(filters=[MetadataFilter(key="year", value=1890)])
    assert_equal(*pair, filters=old)
    assert_equal(*pair, doc_ids=["other"])


@pytest.mark.parametrize("metric", ["cosine", "dot", "l2"])
def test_a_vector_index_of_any_metric_gives_the_same_scores(pair, metric):
    lance, _ = pair
    config = IvfFlat(distance_type=metric, num_partitions=1)
    lance.vector_store.table.create_index("vector", config=config)
    assert_equal(*pair)


def test_deletes_and_refreshes_remove_the_vectors(pair, documents):
    """The integration quotes ids as column names, so its own deletion fails."""
    story, other = documents
    for index in pair:
        refreshed = Document(
            id_="story", text=f"{story.text} Kit met Lea.", metadata=story.metadata
        )
        assert index.refresh_ref_docs([refreshed, other]) == [True, False]
    lance, simple = pair
    table = lance.vector_store.table
    assert_equal(lance, simple)
    assert table.count_rows() == vectors(simple)
    for index in pair:
        index.delete_ref_doc("story")
    assert_equal(lance, simple)
    assert table.count_rows() == vectors(simple) > 0
    lance.delete_ref_doc("other")
    assert table.count_rows() == 0
    assert lance.as_retriever("global").retrieve(QUESTIONS[0]) == []


def test_documents_may_have_different_metadata(pair):
    """A table has the columns of its first row; another key must not fail the insert."""
    for index in pair:
        index.insert(Document(id_="it's", text="Kit met Lea.", metadata={"author": "Wells"}))
        index.insert(Document(id_="later", text="Max met Ned.", metadata={"year": "1890"}))
    assert_equal(*pair)
    by_wells = MetadataFilters(filters=[MetadataFilter(key="author", value="Wells")])
    assert_equal(*pair, filters=by_wells)


def test_an_index_opens_over_an_existing_table(pair, new_store, tmp_path):
    lance, simple = pair
    lance.persist(tmp_path / "stored")
    options = {"extractor": NameExtractor(), "embed_model": Distinct()}
    again = E2GraphRAGIndex.from_persist_dir(
        tmp_path / "stored", **grouped({"vector_store": new_store(), **options})
    )
    assert_equal(again, simple)
    for index in (again, simple):
        index.delete_ref_doc("other")
    assert_equal(again, simple)


def test_a_missing_table_is_filled(pair, tmp_path):
    lance, simple = pair
    lance.persist(tmp_path / "stored")
    empty = lancedb.LanceDBVectorStore(uri=str(tmp_path / "empty"))
    options = {"extractor": NameExtractor(), "embed_model": Distinct()}
    index = E2GraphRAGIndex.from_persist_dir(
        tmp_path / "stored", **grouped({"vector_store": empty, **options})
    )
    assert_equal(index, simple)
    assert empty.table.count_rows() == vectors(simple)
