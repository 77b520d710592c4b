"""Import and export of index files: equal results, or an error that leaves no data."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import faiss
import pytest
from llama_index.core import Document, StorageContext
from llama_index.core.node_parser import TokenTextSplitter
from llama_index.core.schema import NodeRelationship, TextNode
from llama_index.core.vector_stores import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    SimpleVectorStore,
)
from llama_index.core.vector_stores.types import BasePydanticVectorStore
from llama_index.vector_stores.faiss import FaissVectorStore
from pydantic import PrivateAttr

from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    HybridStrategy,
    SourceDocument,
)
from e2graphrag_integrations.errors import (
    CorruptStoreError,
    InvalidInputError,
    NotAnIndexError,
    SettingsMismatchError,
)
from e2graphrag_integrations.llama_index import E2GraphRAGIndex
from e2graphrag_integrations.llama_index.filters import node_filter
from e2graphrag_integrations.retrieval.node_relevance import falling_relevance
from e2graphrag_integrations.retrieval.result import RetrievedNode
from e2graphrag_integrations.retrieval.strategy import Query
from fakes import STORY, CountingLLM, NameExtractor
from llama_fakes import OTHER, Digests

CHINESE = (
    "王华在北京遇见了李明。李明给了王华一张港口的地图。陈静从桥上看着他们。"
    "后来陈静跟着李明去了上海。她把地图卖给了赵磊。赵磊夜里从北京乘船离开。"
)
QUESTIONS = (
    "What did Anna give Bert?",
    "Did Cleo follow Bert to Rome, and did Emil see Dora?",
    "Who built a mill with Fay and Hal?",
    "what is this about?",
    "王华和李明做了什么？",
)
MODES = (("adaptive", "auto"), ("local", "local"), ("global", "global"))

PAGED = SourceDocument(
    "paged",
    STORY,
    title="Pages",
    metadata={"kind": "pdf", "page": 0},
    segments=[(0, 90, {"page": 1}), (90, 170, {"page": 2, "odd": False}), (200, 230, {"page": 3})],
)
DOCUMENTS = [
    SourceDocument("story", STORY, title="A Map", metadata={"kind": "tale", "year": 1890}),
    SourceDocument("other", OTHER, metadata={"kind": "tale", "list": [1, {"a": None}]}),
    SourceDocument("empty", "", metadata={"kind": "nothing"}),
    SourceDocument("blank", " \n", title="Blank"),
    SourceDocument("one", "Zoe sings.", metadata={"title": "of metadata"}),
    SourceDocument("中文", CHINESE, title="地图"),
    SourceDocument("twice", "Ivo ran. " * 60),
    PAGED,
]
PEOPLE = tuple(enumerate(("Kit", "Lea", "Max", "Ned", "Ola")))


class Withholding(BasePydanticVectorStore):
    """A vector store that can search but does not return vectors."""

    stores_text: bool = True
    is_embedding_query: bool = True
    _inner: SimpleVectorStore = PrivateAttr(default_factory=SimpleVectorStore)

    @property
    def client(self):
        return None

    def add(self, nodes, **kwargs):
        return self._inner.add(nodes)

    def delete(self, ref_doc_id, **kwargs):
        self._inner.delete(ref_doc_id)

    def delete_nodes(self, node_ids=None, filters=None, **kwargs):
        self._inner.delete_nodes(node_ids)

    def get_nodes(self, node_ids=None, filters=None):
        raise NotImplementedError

    def query(self, query, **kwargs):
        return self._inner.query(query)


def file_of(path: Path, documents=DOCUMENTS, **options) -> Path:
    defaults = {"embedder": "hashing", "extractor": NameExtractor(), "group_size": 3}
    sizes = {"chunk_size": 16, "chunk_overlap": 4}
    with E2GraphRAG.open(path, **(defaults | sizes | options)) as rag:
        rag.add(list(documents))
    return path


def without_id(node: RetrievedNode) -> RetrievedNode:
    """Remove the metadata key that index files reserve for the document id."""

    def stripped(metadata):
        assert metadata.get("document_id", node.document_id) == node.document_id
        return {key: value for key, value in metadata.items() if key != "document_id"}

    segments = tuple(s._replace(metadata=stripped(s.metadata)) for s in node.segments)
    return replace(node, metadata=stripped(node.metadata), segments=segments)


def assert_equal_results(path: Path, index: E2GraphRAGIndex, **options) -> None:
    parts = {"extractor": NameExtractor()} | options
    where = {None: None, "tale": {"kind": "tale"}, "page": {"page": {"$in": [1, 2]}}}
    filters = {
        None: None,
        "tale": MetadataFilters(filters=[MetadataFilter(key="kind", value="tale")]),
        "page": MetadataFilters(
            filters=[MetadataFilter(key="page", value=[1, 2], operator=FilterOperator.IN)]
        ),
    }
    with E2GraphRAG.open(path, **parts) as rag:
        assert rag.verify().ok, rag.verify().problems
        for question in QUESTIONS:
            for _, mode in MODES:
                for name, only in where.items():
                    expected = rag.retrieve(question, mode=mode, where=only, k=4)
                    nodes = node_filter(filters[name], None)
                    query = Query(question, 4, mode, nodes)
                    answer, found = index.answer(query, index.strategy)
                    assert tuple(map(without_id, answer.nodes)) == expected.nodes
                    same = replace(answer.trace, timings={}), replace(expected.trace, timings={})
                    assert same[0] == same[1]
                    for node in answer.nodes:
                        assert found[node.node_id].ref_doc_id == node.document_id


def lines(path: Path) -> list[str]:
    with E2GraphRAG.open(path, extractor=NameExtractor()) as rag:
        return list(rag.export())


def summary_keys(path: Path) -> set[bytes]:
    with closing(sqlite3.connect(path)) as db:
        return {key for (key,) in db.execute("SELECT key FROM content WHERE kind = 'summary'")}


def test_an_imported_index_returns_equal_results_and_exports_an_equal_file(tmp_path):
    path = file_of(tmp_path / "a.e2g")
    index = E2GraphRAGIndex.from_e2g(path, extractor=NameExtractor())
    assert_equal_results(path, index)
    index.to_e2g(tmp_path / "b.e2g")
    assert lines(tmp_path / "b.e2g") == lines(path)
    assert summary_keys(tmp_path / "b.e2g") == summary_keys(path)
    assert {p.name for p in tmp_path.iterdir() if p.suffix == ".e2g"} == {"a.e2g", "b.e2g"}
    with E2GraphRAG.open(tmp_path / "b.e2g", extractor=NameExtractor()) as rag:
        assert set(rag.add(DOCUMENTS).skipped) == {d.id for d in DOCUMENTS}
    assert set(index.ref_doc_info) == {d.id for d in DOCUMENTS}


def test_import_and_export_keep_llm_summaries(tmp_path, documents):
    llm = CountingLLM()
    made = {"summarizer": llm, "summarizer_id": "counting"}
    path = file_of(tmp_path / "a.e2g", DOCUMENTS, **made)
    index = E2GraphRAGIndex.from_e2g(path, extractor=NameExtractor())
    index.to_e2g(tmp_path / "b.e2g")
    assert lines(tmp_path / "b.e2g") == lines(path)
    with E2GraphRAG.open(tmp_path / "b.e2g", extractor=NameExtractor(), **made) as rag:
        before = llm.calls
        rag.delete("story")
        rag.add([replace(DOCUMENTS[1], id="new")])  # equal chunks have equal summaries
        assert llm.calls == before


@pytest.mark.parametrize("limit", [4, 9])
def test_import_and_export_keep_several_windows_per_node(tmp_path, limit):
    embedder = HashingEmbedder(64, max_tokens=limit)
    path = file_of(tmp_path / "a.e2g", embedder=embedder)
    index = E2GraphRAGIndex.from_e2g(path, extractor=NameExtractor(), embed_model=embedder)
    assert any(w.span.start for record in index.storage.struct.records() for w in record.windows)
    assert_equal_results(path, index, embedder=embedder)
    index.to_e2g(tmp_path / "b.e2g")
    assert lines(tmp_path / "b.e2g") == lines(path)


def test_an_exported_file_returns_equal_results(tmp_path, index_of, documents):
    documents += [Document(id_="empty", text=""), Document(id_="中文", text=CHINESE)]
    documents[0].metadata |= {"kind": "tale", "page": 2, "list": [1], "document_id": "story"}
    index = index_of(documents, llm=Digests())
    index.to_e2g(tmp_path / "a.e2g")
    assert_equal_results(tmp_path / "a.e2g", index)
    back = E2GraphRAGIndex.from_e2g(tmp_path / "a.e2g", extractor=NameExtractor())
    assert_equal_results(tmp_path / "a.e2g", back)
    with E2GraphRAG.open(tmp_path / "a.e2g", extractor=NameExtractor()) as rag:
        assert rag.document("story").text == STORY
        assert rag.document("story").metadata["year"] == 1890


def test_import_and_export_with_faiss(tmp_path):
    path = file_of(tmp_path / "a.e2g")
    context = StorageContext.from_defaults(vector_store=FaissVectorStore(faiss.IndexFlatIP(256)))
    index = E2GraphRAGIndex.from_e2g(path, context, extractor=NameExtractor())
    index.to_e2g(tmp_path / "b.e2g")
    assert lines(tmp_path / "b.e2g") == lines(path)
    few = StorageContext.from_defaults(vector_store=FaissVectorStore(faiss.IndexFlatIP(8)))
    with pytest.raises(InvalidInputError, match="256"):
        E2GraphRAGIndex.from_e2g(path, few)
    assert not few.index_store.index_structs()
    assert not few.docstore.docs


def test_export_embeds_again_if_the_store_returns_no_vectors(tmp_path):
    path = file_of(tmp_path / "a.e2g")
    context = StorageContext.from_defaults(vector_store=Withholding())
    index = E2GraphRAGIndex.from_e2g(path, context, extractor=NameExtractor())
    index.to_e2g(tmp_path / "b.e2g")
    assert lines(tmp_path / "b.e2g") == lines(path)


def test_export_does_not_embed_again_with_another_model(tmp_path):
    path = file_of(tmp_path / "a.e2g")
    context = StorageContext.from_defaults(vector_store=Withholding())
    other = HashingEmbedder(32)
    index = E2GraphRAGIndex.from_e2g(path, context, extractor=NameExtractor(), embed_model=other)
    with pytest.raises(SettingsMismatchError, match="hashing:1:32"):
        index.to_e2g(tmp_path / "b.e2g")
    assert [p.name for p in tmp_path.iterdir()] == ["a.e2g"]


def test_export_keeps_existing_files_and_import_rejects_other_files(tmp_path, index_of, documents):
    index = index_of(documents)
    target = tmp_path / "there.e2g"
    target.write_text("mine")
    with pytest.raises(InvalidInputError, match=r"there\.e2g exists"):
        index.to_e2g(target)
    assert target.read_text() == "mine"
    with pytest.raises(InvalidInputError, match=r"none\.e2g is not a file"):
        E2GraphRAGIndex.from_e2g(tmp_path / "none.e2g")
    with pytest.raises(NotAnIndexError):
        E2GraphRAGIndex.from_e2g(target)
    for not_a_path in ("", "  ", 3):
        with pytest.raises(InvalidInputError):
            index.to_e2g(not_a_path)


def test_a_failed_export_leaves_no_file(tmp_path, index_of, documents):
    index = index_of(documents)
    deleted = list(index.ref_doc_info["story"].node_ids)[1]
    index.storage.context.docstore.delete_document(deleted)
    with pytest.raises(CorruptStoreError, match=f"node {deleted} is not in the docstore"):
        index.to_e2g(tmp_path / "a.e2g")
    assert not list(tmp_path.iterdir())


def test_import_of_a_damaged_file_leaves_the_stores_empty(tmp_path):
    path = file_of(tmp_path / "a.e2g", [DOCUMENTS[0]])
    content = path.read_bytes()
    at = content.index(b"followed Bert")
    path.write_bytes(content[:at] + b"F" + content[at + 1 :])
    context = StorageContext.from_defaults()
    with pytest.raises(CorruptStoreError):
        E2GraphRAGIndex.from_e2g(path, context)
    assert not context.index_store.index_structs()
    assert not context.docstore.docs


def test_an_empty_index_exports_an_empty_file(tmp_path, index_of):
    index_of([]).to_e2g(tmp_path / "a.e2g")
    with E2GraphRAG.open(tmp_path / "a.e2g") as rag:
        assert rag.document_ids == []
        assert rag.verify().ok
    index = E2GraphRAGIndex.from_e2g(tmp_path / "a.e2g", embed_model="hashing")
    assert index.as_retriever().retrieve("Anything?") == []


def test_nodes_of_the_user_export_with_equal_texts(tmp_path, index_of):
    document = Document(id_="own", text=f"  {STORY}\n\n{OTHER} ", metadata={"title": "Both"})
    nodes = TokenTextSplitter(chunk_size=40, chunk_overlap=16).get_nodes_from_documents([document])
    assert any(a.end_char_idx > b.start_char_idx for a, b in pairwise(nodes))
    pages = [TextNode(text=f"Page {n} has {who}.", metadata={"page": n}) for n, who in PEOPLE]
    for page in pages:
        page.relationships[NodeRelationship.SOURCE] = nodes[0].source_node.model_copy(
            update={"node_id": "pages"}
        )
    nodes += [*pages, TextNode(id_="alone", text="Ivo is alone.", metadata={"title": 3})]
    index = E2GraphRAGIndex(
        nodes, embed_model="hashing", extractor=NameExtractor(), group_size=3, llm=Digests()
    )
    index.to_e2g(tmp_path / "a.e2g")
    back = E2GraphRAGIndex.from_e2g(tmp_path / "a.e2g", extractor=NameExtractor())
    assert_equal_results(tmp_path / "a.e2g", back)
    for question in (*QUESTIONS, "Lea?", "Max and Ivo?"):
        for mode, _ in MODES:
            retrieved = [
                [(n.text, n.score) for n in one.as_retriever(mode).retrieve(question)]
                for one in (index, back)
            ]
            assert retrieved[0] == retrieved[1]
    with E2GraphRAG.open(tmp_path / "a.e2g", extractor=NameExtractor()) as rag:
        assert rag.document("own").text.strip() == document.text.strip()
        only = rag.retrieve("Max?", where={"page": 2}).nodes
        assert [n.text for n in only if not n.level] == ["Page 2 has Max."]


def test_export_rejects_a_tree_with_deleted_nodes(tmp_path, index_of, documents):
    index = index_of(documents)
    index.delete_nodes([next(iter(index.ref_doc_info["story"].node_ids))])
    with pytest.raises(InvalidInputError, match="'story' had nodes deleted"):
        index.to_e2g(tmp_path / "a.e2g")
    assert not list(tmp_path.iterdir())
    index.delete_ref_doc("story")
    index.to_e2g(tmp_path / "a.e2g")
    with E2GraphRAG.open(tmp_path / "a.e2g", extractor=NameExtractor()) as rag:
        assert rag.document_ids == ["other"]


def test_a_blank_page_does_not_change_filter_results(tmp_path):
    text = "Anna met Bert. Bert met Cleo there.\n\n\n\nCleo met Dora. Dora met Emil there."
    pages = [(0, 35, {"page": 1}), (36, 38, {"page": 2}), (39, len(text), {"page": 1})]
    document = SourceDocument("blank page", text, segments=pages)
    path = file_of(tmp_path / "a.e2g", [document], chunk_size=12, chunk_overlap=0)
    index = E2GraphRAGIndex.from_e2g(path, extractor=NameExtractor())
    one = MetadataFilters(
        filters=[MetadataFilter(key="page", value=1)], condition=FilterCondition.AND
    )
    with E2GraphRAG.open(path, extractor=NameExtractor()) as rag:
        expected = rag.retrieve("what?", mode="global", where={"page": 1}).nodes
    found = index.as_retriever("global", similarity_top_k=10, filters=one).retrieve("what?")
    assert [n.node_id for n in found] == [n.node_id for n in expected]


def test_the_hybrid_strategy_returns_equal_results(tmp_path):
    path = file_of(tmp_path / "a.e2g")
    index = E2GraphRAGIndex.from_e2g(path, extractor=NameExtractor())
    strategy = HybridStrategy()
    with E2GraphRAG.open(path, extractor=NameExtractor()) as rag:
        for question in QUESTIONS:
            expected = rag.retrieve(question, strategy=strategy, k=6)
            found = index.as_retriever(strategy=strategy, similarity_top_k=6).retrieve(question)
            assert [node.node_id for node in found] == [node.node_id for node in expected.nodes]
            assert [node.score for node in found] == pytest.approx(
                falling_relevance(expected.nodes)
            )
