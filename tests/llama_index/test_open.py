"""One file for all: what any part of the package writes, LlamaIndex opens, and the other way."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from llama_index.core import Document, StorageContext

import llama_fakes
from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, Models, SourceDocument
from e2graphrag_integrations.cli.main import main
from e2graphrag_integrations.errors import (
    SettingsMismatchError,
)
from e2graphrag_integrations.llama_index import E2GraphRAGIndex, E2GraphRAGRetriever
from e2graphrag_integrations.options import grouped
from e2graphrag_integrations.retrieval.hydrate import falling_relevance
from fakes import STORY, NameExtractor
from llama_fakes import MODES, OTHER

needs_langchain = pytest.mark.skipif(not find_spec("langchain_core"), reason="needs langchain-core")

QUESTIONS = ("What did Anna give Bert?", "Who built a mill with Fay?", "what is this about?")
SIZES = {"chunk_size": 16, "chunk_overlap": 4, "group_size": 3}
CORE = {"embedder": "hashing", "extractor": NameExtractor()}
MODELS = {"embed_model": "hashing", "extractor": NameExtractor()}
DOCUMENTS = [
    *llama_fakes.DOCUMENTS,
    SourceDocument("中文", "王华在北京遇见了李明。李明给了王华一张港口的地图。"),
]


@pytest.fixture
def core_file(tmp_path):
    path = tmp_path / "core.e2g"
    with E2GraphRAG.open(path, **grouped({**CORE, **SIZES})) as rag:
        rag.add(DOCUMENTS)
    return path


def assert_equals_core(index, rag):
    """Check that an index gives the answers of the core."""
    for question in QUESTIONS:
        for mode, mode_of_core in MODES:
            expected = rag.retrieve(question, mode=mode_of_core, k=5).nodes
            found = index.as_retriever(mode, similarity_top_k=5).retrieve(question)
            assert [one.node_id for one in found] == [node.node_id for node in expected]
            assert [one.text for one in found] == [node.text for node in expected]
            assert [one.score for one in found] == pytest.approx(falling_relevance(expected))


@pytest.mark.slow
def test_a_file_of_the_core_opens_and_is_not_copied(core_file, tmp_path):
    with (
        E2GraphRAG.open(core_file, **grouped(CORE)) as rag,
        E2GraphRAGIndex.open(core_file, **grouped(MODELS)) as own,
    ):
        assert_equals_core(own, rag)
        assert list(own.rag.export()) == list(rag.export())
        assert set(own.ref_doc_info) == {"story", "other", "中文", "paged"}
        assert own.ref_doc_info["story"].metadata == {"kind": "tale", "year": 1890}
    assert {path.suffix for path in tmp_path.iterdir() if path.is_file()} == {".e2g"}


@pytest.mark.slow
def test_vectors_of_one_byte_give_the_answers_of_the_core(core_file):
    with (
        E2GraphRAG.open(core_file, **grouped(CORE)) as rag,
        E2GraphRAGIndex.open(core_file, vectors="int8", **grouped(MODELS)) as index,
    ):
        assert_equals_core(index, rag)
        index.insert(Document(id_="new", text="Kit met Lea."))
        assert index.as_retriever("local").retrieve("Kit and Lea?")


def test_a_file_keeps_the_models_and_settings_that_it_records(core_file):
    with E2GraphRAGIndex.open(core_file, models=Models(extractor=NameExtractor())) as index:
        assert index.rag.made_with["chunk_size"] == "16"
        index.insert(Document(id_="new", text="Kit met Lea."))
        assert "new" in index.ref_doc_info
    with pytest.raises(SettingsMismatchError, match="was built with chunk_size=16"):
        E2GraphRAGIndex.open(core_file, **grouped({"chunk_size": 17, "chunk_overlap": 4, **MODELS}))
    with pytest.raises(SettingsMismatchError, match="was built with the embedder hashing"):
        E2GraphRAGIndex.open(
            core_file, embed_model=HashingEmbedder(8), models=Models(extractor=NameExtractor())
        )


def test_handles_see_the_writes_of_each_other(core_file):
    with (
        E2GraphRAG.open(core_file, **grouped(CORE)) as rag,
        E2GraphRAGIndex.open(core_file, **grouped({"max_staleness": 0, **MODELS})) as one,
        E2GraphRAGIndex.open(core_file, **grouped({"max_staleness": 0, **MODELS})) as two,
    ):
        retriever = two.as_retriever("local")
        assert retriever.retrieve("Kit and Lea?") == []
        one.insert(Document(id_="new", text="Kit met Lea in Turku."))
        assert [n.text for n in retriever.retrieve("Kit and Lea?")] == ["Kit met Lea in Turku."]
        rag.update(SourceDocument("new", "Kit left Lea in Turku."))
        assert [n.text for n in retriever.retrieve("Kit and Lea?")] == ["Kit left Lea in Turku."]
        assert "Kit left Lea in Turku." in [n.text for n in one.docstore.docs.values()]
        two.delete_ref_doc("new")
        assert retriever.retrieve("Kit and Lea?") == []
        assert "new" not in one.ref_doc_info
        assert "new" not in rag.document_ids
        assert_equals_core(one, rag)
        assert_equals_core(two, rag)


def test_documents_of_the_core_are_replaced_and_deleted(core_file):
    with E2GraphRAGIndex.open(core_file, **grouped(MODELS)) as index:
        index.update_ref_doc(Document(id_="story", text="Kit met Lea in Turku."))
        index.delete_ref_doc("paged")
        assert set(index.ref_doc_info) == {"story", "other", "中文"}
        assert index.rag.document("story").text == "Kit met Lea in Turku."
        assert index.rag.verify().ok


def test_a_file_of_the_command_line_opens(tmp_path, capsys):
    book, path = tmp_path / "book.txt", tmp_path / "book.e2g"
    book.write_text(f"{STORY}\n\n{OTHER}")
    sizes = ["--chunk-size", "30", "--chunk-overlap", "5"]
    assert main(["index", str(book), "--out", str(path), "--embedder", "hashing", *sizes]) == 0
    with E2GraphRAGIndex.open(path) as index, E2GraphRAG.open(path) as rag:
        assert_equals_core(index, rag)
        index.insert(Document(id_="new", text="Kit met Lea in Turku."))
    capsys.readouterr()
    assert main(["query", str(path), "Where did Kit meet Lea?"]) == 0
    assert "Turku" in capsys.readouterr().out


@pytest.mark.slow
@needs_langchain
def test_a_file_of_langchain_opens(tmp_path):
    from langchain_core.documents import Document as LangChainDocument

    from e2graphrag_integrations.langchain import E2GraphRAGIndex as LangChainIndex

    path = tmp_path / "i.e2g"
    documents = [
        LangChainDocument(STORY, id="story", metadata={"source": "a.txt"}),
        LangChainDocument(OTHER, id="other", metadata={"source": "b.txt"}),
    ]
    options = {"embeddings": "hashing", "extractor": NameExtractor()}
    with (
        LangChainIndex.from_documents(
            documents, **grouped({"path": path, **options, **SIZES})
        ) as theirs,
        E2GraphRAGIndex.open(path, **grouped(MODELS)) as index,
    ):
        assert set(index.ref_doc_info) == {"story", "other"}
        assert index.ref_doc_info["story"].metadata == {"source": "a.txt"}
        for question in QUESTIONS:
            expected = theirs.as_retriever(k=5).invoke(question)
            found = index.as_retriever(similarity_top_k=5).retrieve(question)
            assert [one.text for one in found] == [one.page_content for one in expected]
        index.insert(Document(id_="new", text="Kit met Lea.", metadata={"source": "c.txt"}))
        assert set(theirs.ids()) == {"story", "other", "new"}
        assert theirs.get_by_ids(["new"])[0].page_content == "Kit met Lea."
        theirs.delete(["story"])
        assert set(index.ref_doc_info) == {"other", "new"}


@needs_langchain
def test_what_llama_index_writes_is_read_by_all(tmp_path, index_of, documents):
    from e2graphrag_integrations.langchain import E2GraphRAGIndex as LangChainIndex
    from e2graphrag_integrations.langchain import E2GraphRAGRetriever as LangChainRetriever

    path = tmp_path / "i.e2g"
    with (
        index_of(documents, path=path) as index,
        E2GraphRAG.open(path, **grouped(CORE)) as rag,
        LangChainIndex.open(
            path, embeddings="hashing", models=Models(extractor=NameExtractor())
        ) as theirs,
    ):
        assert_equals_core(index, rag)
        assert rag.document_ids == ["other", "story"]
        assert rag.document("story").text == STORY
        assert sorted(theirs.ids()) == ["other", "story"]
        [story] = theirs.get_by_ids(["story"])
        assert (story.page_content, story.metadata["year"]) == (STORY, 1890)
        for question in QUESTIONS:
            nodes = index.as_retriever(similarity_top_k=4).retrieve(question)
            texts = [one.text for one in nodes]
            for reader in (rag, index.rag, theirs):
                own = E2GraphRAGRetriever(reader, similarity_top_k=4).retrieve(question)
                assert [one.text for one in own] == texts
                lang = LangChainRetriever(index=reader, k=4).invoke(question)
                assert [one.page_content for one in lang] == texts
        theirs.delete(["story"])
        assert set(index.ref_doc_info) == {"other"}


def test_an_opened_file_is_mirrored_and_persisted_as_its_location(core_file, tmp_path):
    from llama_stores import Plain, stored_entries

    context = StorageContext.from_defaults(vector_store=Plain())
    with E2GraphRAGIndex.open(core_file, **grouped(MODELS)) as plain:
        expected = [n.node_id for n in plain.as_retriever().retrieve(QUESTIONS[0])]
        plain.persist(tmp_path / "folder")
    options = {"vector_store": context.vector_store} | MODELS
    with E2GraphRAGIndex.from_persist_dir(tmp_path / "folder", **grouped(options)) as index:
        assert [n.node_id for n in index.as_retriever().retrieve(QUESTIONS[0])] == expected
        assert stored_entries(index.vector_store)
        assert index.index_struct.location == str(core_file)
