"""`copy.deepcopy` and `pickle` of indexes and retrievers open the index again, without models."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from importlib.util import find_spec

import pytest

from e2graphrag_integrations import (
    CrossEncoderReranker,
    E2GraphRAG,
    HashingEmbedder,
    HybridStrategy,
    IndexSettings,
    OpenAISummarizer,
    SourceDocument,
    SpacyEntityExtractor,
)
from e2graphrag_integrations.errors import (
    InvalidInputError,
    NotPicklableError,
    SettingsMismatchError,
)
from e2graphrag_integrations.options import grouped
from fakes import STORY, AnonymousEmbedder

KEY = "sk-very-secret"
TEXT = "Anna met Bert in Oslo. Bert gave Anna a map."

needs_langchain = pytest.mark.skipif(not find_spec("langchain_core"), reason="needs langchain-core")
needs_llama = pytest.mark.skipif(not find_spec("llama_index"), reason="needs llama-index-core")


def loaded(value):
    """Pickle and unpickle with every protocol that Ray, joblib, Spark and multiprocessing use."""
    for protocol in (2, 4, pickle.HIGHEST_PROTOCOL):
        content = pickle.dumps(value, protocol)
        assert KEY.encode() not in content
    return pickle.loads(content)  # noqa: S301 - written by this test


class KeyedReranker:
    """Holds a key, like a client of a service."""

    def __init__(self):
        self.key = KEY

    def rerank(self, question, texts):
        return [float(len(text)) for text in texts]


# Core


@pytest.fixture
def index_file(tmp_path):
    path = tmp_path / "i.e2g"
    with E2GraphRAG.open(
        path,
        embedder=HashingEmbedder(32),
        settings=IndexSettings(group_size=3, chunk_size=16, chunk_overlap=4),
    ) as rag:
        rag.add(SourceDocument("story", STORY))
    return path


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("duplicate", [loaded, copy.deepcopy, copy.copy])
def test_copy_of_a_file_backed_index_is_a_second_handle_to_the_file(index_file, duplicate):
    with E2GraphRAG.open(index_file, embedder=HashingEmbedder(32)) as rag, duplicate(rag) as other:
        answer = rag.retrieve("Who met Anna?").nodes
        assert other.retrieve("Who met Anna?").nodes == answer
        assert other.settings == rag.settings
        other.add(SourceDocument("new", TEXT))
        assert rag.document_ids == ["new", "story"]
        rag.close()
        assert other.document_ids == ["new", "story"]


@pytest.mark.slow
def test_another_process_opens_the_pickled_index_from_another_folder(
    index_file, tmp_path, monkeypatch
):
    monkeypatch.chdir(index_file.parent)
    with E2GraphRAG.open(index_file.name, embedder=HashingEmbedder(32)) as rag:
        content = pickle.dumps(rag)
    other = tmp_path / "elsewhere"
    other.mkdir()
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer).document_ids)"
    done = subprocess.run(
        [sys.executable, "-c", code], input=content, capture_output=True, cwd=other, check=True
    )
    assert done.stdout == b"['story']\n"


@pytest.mark.parametrize("duplicate", [loaded, copy.deepcopy])
def test_copy_of_an_in_memory_index_is_independent(duplicate):
    with E2GraphRAG.open(
        ":memory:",
        embedder=HashingEmbedder(32),
        settings=IndexSettings(chunk_size=16, chunk_overlap=4),
    ) as rag:
        rag.add(SourceDocument("story", STORY))
        with duplicate(rag) as other:
            assert list(other.export()) == list(rag.export())
            assert other.settings == rag.settings
            other.add(SourceDocument("new", TEXT))
            rag.delete("story")
            assert (rag.document_ids, other.document_ids) == ([], ["new", "story"])
            assert other.verify().ok


def test_pickle_of_a_missing_file_does_not_create_it(index_file, tmp_path):
    with E2GraphRAG.open(index_file, embedder=HashingEmbedder(32)) as rag:
        content = pickle.dumps(rag)
    index_file.rename(tmp_path / "moved.e2g")
    with pytest.raises(InvalidInputError, match="does not exist here"):
        pickle.loads(content)  # noqa: S301 - written by this test
    assert not index_file.exists()


def test_a_summarizer_is_not_pickled_and_the_copy_only_reads(tmp_path):
    summarizer = OpenAISummarizer("gpt", base_url="http://localhost:9", api_key=KEY)
    options = {"embedder": HashingEmbedder(32), "summarizer": summarizer}
    with E2GraphRAG.open(tmp_path / "i.e2g", **grouped(options)) as rag:
        rag.add(SourceDocument("a", TEXT))  # too short for a summary
        for other in (loaded(rag), loaded(loaded(rag))):
            assert other.retrieve("Who met Anna?").nodes
            for write in (lambda o=other: o.add(SourceDocument("b", TEXT)), other.compact):
                with pytest.raises(SettingsMismatchError, match=r"summarizer \(OpenAISummarizer\)"):
                    write()
            other.close()
        with copy.deepcopy(rag) as other:
            assert other.add(SourceDocument("b", TEXT)).documents == 1


def test_parts_that_a_search_needs_and_that_cannot_be_pickled_are_all_named():
    options = {
        "embedder": AnonymousEmbedder(),
        "strategy": HybridStrategy(reranker=KeyedReranker()),
        "token_counter": type("LocalCounter", (), {"count": lambda *_: 1, "spans": None})(),
    }
    with E2GraphRAG.open(":memory:", **grouped(options)) as rag:
        with pytest.raises(NotPicklableError) as caught:
            pickle.dumps(rag)
        for part in (
            "embedder (AnonymousEmbedder)",
            "reranker (KeyedReranker)",
            "token_counter (LocalCounter)",
        ):
            assert part in str(caught.value)
        assert isinstance(caught.value, TypeError)
        copy.deepcopy(rag).close()


def test_models_of_this_package_are_pickled_as_their_names(real_embedder):
    """The index was built with real vectors; the copy loads the model again by its name."""
    content = pickle.dumps(real_embedder)
    assert len(content) < 1000
    other = pickle.loads(content)  # noqa: S301 - written by this test
    assert other._loaded is None
    assert other.fingerprint == real_embedder.fingerprint
    reranker = loaded(CrossEncoderReranker("some/model", batch_size=7))
    assert (reranker.model, reranker._batch_size) == ("some/model", 7)
    extractor = loaded(SpacyEntityExtractor(name_rules=False))
    assert not extractor.is_reproducible_by_name
    with pytest.raises(NotPicklableError, match="name or the path"):
        pickle.dumps(SpacyEntityExtractor(object()))


# LangChain


@needs_langchain
def test_langchain_index_and_retriever_are_copied_and_pickled(tmp_path):
    from langchain_core.documents import Document

    from e2graphrag_integrations.langchain import E2GraphRAGIndex

    for path in (":memory:", tmp_path / "i.e2g"):
        index = E2GraphRAGIndex.from_documents(
            [Document(TEXT, id="a")],
            path=path,
            embeddings="hashing",
            settings=IndexSettings(chunk_size=16, chunk_overlap=4),
        )
        index.upsert([Document("Cleo left for Rome.", id="pending")])
        retriever = index.as_retriever(k=2, filter={"document_id": {"$ne": "x"}}, tags=["t"])
        expected = retriever.invoke("Who met Anna?")
        for duplicate in (loaded, copy.deepcopy):
            other = duplicate(retriever)
            assert other.invoke("Who met Anna?") == expected
            assert (other.k, other.filter, other.tags) == (2, retriever.filter, ["t"])
            assert sorted(duplicate(index).ids()) == ["a", "pending"]
            other.index.add_documents([Document("Dora sold the map.", id="new")])
            assert ("new" in index.ids()) == (path != ":memory:")
            other.index.delete(["new"])
            other.index.close()
        index.close()


@pytest.mark.slow
@needs_langchain
def test_langchain_llm_and_vector_store_are_not_pickled():
    from langchain_core.documents import Document
    from langchain_core.embeddings import DeterministicFakeEmbedding
    from langchain_core.vectorstores import InMemoryVectorStore
    from langchain_openai import ChatOpenAI

    from e2graphrag_integrations.langchain import E2GraphRAGIndex

    llm = ChatOpenAI(model="gpt", api_key=KEY)
    options = {"llm": llm.with_config(metadata={"key": KEY})}
    with E2GraphRAGIndex.from_documents(
        [Document(TEXT)], **grouped({"embeddings": "hashing", **options})
    ) as index:
        with loaded(index.as_retriever()).index as other:
            assert other.similarity_search("Anna")
            with pytest.raises(SettingsMismatchError, match=r"llm \(RunnableBinding\)"):
                other.upsert([Document("Cleo left.")])
        with pytest.raises(NotPicklableError, match=r"filter \(.*lambda"):
            pickle.dumps(index.as_retriever(filter=lambda metadata: metadata == {}))
    vectors = DeterministicFakeEmbedding(size=8)
    parts = {"embeddings": vectors, "vector_store": InMemoryVectorStore(vectors)}
    with E2GraphRAGIndex.from_documents([Document(TEXT)], **grouped(parts)) as index:
        named = r"embeddings \(Determin.* vector_store \(InMemoryVectorStore\)"
        with pytest.raises(NotPicklableError, match=named):
            pickle.dumps(index)
        assert copy.deepcopy(index).similarity_search("Anna")


# LlamaIndex


@needs_llama
def test_llama_index_and_retriever_are_copied_and_pickled():
    """LlamaIndex's own `test_simple_pickle`, and the same for retrievers and copies."""
    from llama_index.core import Document
    from llama_index.core.vector_stores import ExactMatchFilter, MetadataFilters

    from e2graphrag_integrations.llama_index import E2GraphRAGIndex

    documents = [Document(text=TEXT, id_="a", metadata={"year": 1})]
    index = E2GraphRAGIndex.from_documents(
        documents, embed_model="hashing", settings=IndexSettings(chunk_size=16, chunk_overlap=4)
    )
    filters = MetadataFilters(filters=[ExactMatchFilter(key="year", value=1)])
    retriever = index.as_retriever(similarity_top_k=2, filters=filters)
    expected = retriever.retrieve("Who met Anna?")
    for duplicate in (loaded, copy.deepcopy):
        other = duplicate(index)
        assert isinstance(other, E2GraphRAGIndex)
        assert other.index_id == index.index_id
        assert other.ref_doc_info == index.ref_doc_info
        assert duplicate(retriever).retrieve("Who met Anna?") == expected
        other.insert(Document(text="Cleo left.", id_="c"))
        assert (set(other.ref_doc_info), set(index.ref_doc_info)) == ({"a", "c"}, {"a"})
        assert len(other.docstore.docs) > len(index.docstore.docs)


@pytest.mark.slow
@needs_llama
def test_llama_index_at_a_path_is_pickled_as_its_location(tmp_path):
    from llama_index.core import Document

    from e2graphrag_integrations.llama_index import E2GraphRAGIndex

    path = tmp_path / "i.e2g"
    documents = [Document(text=TEXT, id_="a")]
    with E2GraphRAGIndex.from_documents(documents, path=path, embed_model="hashing") as index:
        content = pickle.dumps(index)
        assert len(content) < 5000
        for duplicate in (loaded, copy.deepcopy):
            with duplicate(index) as other:
                other.insert(Document(text="Cleo left.", id_=duplicate.__name__))
        assert set(index.ref_doc_info) == {"a", "loaded", "deepcopy"}
    path.rename(tmp_path / "moved.e2g")
    with pytest.raises(InvalidInputError, match="does not exist here"):
        pickle.loads(content)  # noqa: S301 - written by this test
    assert not path.exists()


@needs_llama
def test_llama_index_models_and_vector_stores_are_not_pickled(tmp_path):
    from llama_index.core import Document, StorageContext
    from llama_index.core.schema import IndexNode
    from llama_index.core.vector_stores import SimpleVectorStore
    from llama_index.llms.openai import OpenAI

    from e2graphrag_integrations.llama_index import E2GraphRAGIndex
    from llama_stores import Plain

    documents = [Document(text=TEXT, id_="a")]
    options = {"embed_model": "hashing", "llm": OpenAI(model="gpt-4o", api_key=KEY)}
    index = E2GraphRAGIndex.from_documents(documents, **grouped(options))
    other = loaded(index)
    assert other.as_retriever().retrieve("Anna")
    assert loaded(index.as_retriever()).retrieve("Anna")
    with pytest.raises(SettingsMismatchError, match=r"llm \(OpenAI\)"):
        other.insert(Document(text="Cleo left.", id_="c"))
    other.persist(tmp_path / "persisted")
    linked = IndexNode(text="Cleo's map", index_id="x", obj=AnonymousEmbedder())
    with_object = E2GraphRAGIndex([], objects=[linked], embed_model="hashing")
    with pytest.raises(NotPicklableError, match=r"objects \(AnonymousEmbedder\)"):
        pickle.dumps(with_object)
    context = StorageContext.from_defaults(vector_store=Plain())
    index = E2GraphRAGIndex.from_documents(documents, context, embed_model="hashing")
    expected = [n.node_id for n in index.as_retriever("global").retrieve("Anna")]
    for duplicate in (loaded, copy.deepcopy):
        other = duplicate(index)
        assert type(other.vector_store) is SimpleVectorStore
        assert [n.node_id for n in other.as_retriever("global").retrieve("Anna")] == expected
