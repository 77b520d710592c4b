"""Index files: `open`, `path=` and `copy_to` give equal results in LlamaIndex and in the core."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from llama_index.core import Document
from llama_index.core.node_parser import TokenTextSplitter
from llama_index.core.schema import NodeRelationship, TextNode
from llama_index.core.vector_stores import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)

import llama_fakes
from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    HybridStrategy,
    IndexSettings,
    Models,
    SourceDocument,
)
from e2graphrag_integrations.errors import (
    CorruptStoreError,
    InvalidInputError,
    NotAnIndexError,
)
from e2graphrag_integrations.llama_index import E2GraphRAGIndex
from e2graphrag_integrations.options import grouped
from e2graphrag_integrations.retrieval.hydrate import falling_relevance
from fakes import STORY, NameExtractor
from llama_fakes import MODES, OTHER, Digests

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

DOCUMENTS = [
    *llama_fakes.DOCUMENTS,
    SourceDocument("blank", " \n", title="Blank"),
    SourceDocument("one", "Zoe sings.", metadata={"title": "of metadata"}),
    SourceDocument("中文", CHINESE, title="地图"),
    SourceDocument("twice", "Ivo ran. " * 60),
]
SIZES = {
    "embed_model": "hashing",
    "extractor": NameExtractor(),
    "chunk_size": 16,
    "chunk_overlap": 4,
    "group_size": 3,
}
PEOPLE = tuple(enumerate(("Kit", "Lea", "Max", "Ned", "Ola")))


def file_of(path: Path, documents=DOCUMENTS, **options) -> Path:
    defaults = {"embedder": "hashing", "extractor": NameExtractor(), "group_size": 3}
    sizes = {"chunk_size": 16, "chunk_overlap": 4}
    with E2GraphRAG.open(path, **grouped(defaults | sizes | options)) as rag:
        rag.add(list(documents))
    return path


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
    with E2GraphRAG.open(path, **grouped(parts)) as rag:
        assert rag.verify().ok, rag.verify().problems
        for question in QUESTIONS:
            for mode, mode_of_core in MODES:
                for name, only in where.items():
                    expected = rag.retrieve(question, mode=mode_of_core, where=only, k=4)
                    retriever = index.as_retriever(mode, filters=filters[name], similarity_top_k=4)
                    found = retriever.search(question)
                    assert found.nodes == expected.nodes
                    traces = [replace(one.trace, timings={}) for one in (found, expected)]
                    assert replace(traces[0], freshness=None) == replace(traces[1], freshness=None)


def lines(path: Path) -> list[str]:
    with E2GraphRAG.open(path, models=Models(extractor=NameExtractor())) as rag:
        return list(rag.export())


def test_an_opened_index_returns_equal_results_and_copies_an_equal_file(tmp_path):
    path, copy = file_of(tmp_path / "a.e2g"), tmp_path / "b.e2g"
    with E2GraphRAGIndex.open(path, models=Models(extractor=NameExtractor())) as index:
        assert_equal_results(path, index)
        index.rag.copy_to(copy)
        assert lines(copy) == lines(path)
        assert set(index.ref_doc_info) == {d.id for d in DOCUMENTS if d.text.strip()}
    with E2GraphRAG.open(copy, models=Models(extractor=NameExtractor())) as rag:
        assert set(rag.add(DOCUMENTS).skipped) == {d.id for d in DOCUMENTS}


def test_a_write_to_an_opened_file_keeps_its_summaries(tmp_path):
    llm = Digests()
    with E2GraphRAGIndex.from_documents(
        [Document(id_="story", text=STORY), Document(id_="other", text=OTHER)],
        **grouped({"path": tmp_path / "a.e2g", "llm": llm, **SIZES}),
    ):
        before = len(llm.prompts)
    with E2GraphRAGIndex.open(
        tmp_path / "a.e2g", llm=llm, models=Models(extractor=NameExtractor())
    ) as index:
        index.delete_ref_doc("story")
        index.insert(Document(id_="new", text=OTHER))  # equal chunks have equal summaries
        assert set(index.ref_doc_info) == {"other", "new"}
    assert len(llm.prompts) == before > 0


@pytest.mark.slow
@pytest.mark.parametrize("limit", [4, 9])
def test_an_opened_index_finds_nodes_with_several_windows(tmp_path, limit):
    embedder = HashingEmbedder(64, max_tokens=limit)
    path = file_of(tmp_path / "a.e2g", embedder=embedder)
    options = {"extractor": NameExtractor(), "embed_model": embedder}
    with E2GraphRAGIndex.open(path, **grouped(options)) as index:
        stats = index.rag.stats()
        assert stats.windows > stats.chunks + stats.summaries
        assert_equal_results(path, index, embedder=embedder)


@pytest.mark.slow
def test_a_copy_returns_equal_results(tmp_path, index_of, documents):
    documents += [Document(id_="empty", text=""), Document(id_="中文", text=CHINESE)]
    documents[0].metadata |= {"kind": "tale", "page": 2, "list": [1], "document_id": "story"}
    index = index_of(documents, llm=Digests())
    index.rag.copy_to(tmp_path / "a.e2g")
    assert_equal_results(tmp_path / "a.e2g", index)
    with E2GraphRAGIndex.open(tmp_path / "a.e2g", models=Models(extractor=NameExtractor())) as back:
        assert_equal_results(tmp_path / "a.e2g", back)
    with E2GraphRAG.open(tmp_path / "a.e2g", models=Models(extractor=NameExtractor())) as rag:
        assert rag.document("story").text == STORY
        assert rag.document("story").segments[0].metadata["year"] == 1890


def test_only_index_files_are_opened_and_replaced(tmp_path, index_of, documents):
    index = index_of(documents)
    target = tmp_path / "there.e2g"
    target.write_text("mine")
    with pytest.raises(NotAnIndexError):
        index.rag.copy_to(target)
    assert target.read_text() == "mine"
    with pytest.raises(InvalidInputError, match=r"none\.e2g.*is not a file"):
        E2GraphRAGIndex.open(tmp_path / "none.e2g")
    with pytest.raises(NotAnIndexError):
        E2GraphRAGIndex.open(target)
    for not_a_path in ("", "  ", 3):
        with pytest.raises(InvalidInputError):
            index.rag.copy_to(not_a_path)
        with pytest.raises(InvalidInputError):
            E2GraphRAGIndex.open(not_a_path)


def test_a_damaged_file_raises_at_the_first_question(tmp_path):
    path = file_of(tmp_path / "a.e2g", [DOCUMENTS[0]])
    content = path.read_bytes()
    at = content.index(b"followed Bert")
    path.write_bytes(content[:at] + b"F" + content[at + 1 :])
    with (
        E2GraphRAGIndex.open(path, models=Models(extractor=NameExtractor())) as index,
        pytest.raises(CorruptStoreError),
    ):
        index.as_retriever(similarity_top_k=50).retrieve("Who followed Bert?")


def test_an_empty_index_is_copied_to_an_empty_file(tmp_path, index_of):
    index_of([]).rag.copy_to(tmp_path / "a.e2g")
    with E2GraphRAG.open(tmp_path / "a.e2g") as rag:
        assert rag.document_ids == []
        assert rag.verify().ok
    with E2GraphRAGIndex.open(tmp_path / "a.e2g", embed_model="hashing") as index:
        assert index.as_retriever().retrieve("Anything?") == []


def test_nodes_of_the_user_are_copied_with_equal_texts(tmp_path, index_of):
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
        nodes,
        embed_model="hashing",
        models=Models(extractor=NameExtractor()),
        settings=IndexSettings(group_size=3),
        llm=Digests(),
    )
    index.rag.copy_to(tmp_path / "a.e2g")
    with E2GraphRAGIndex.open(tmp_path / "a.e2g", models=Models(extractor=NameExtractor())) as back:
        assert_equal_results(tmp_path / "a.e2g", back)
        for question in (*QUESTIONS, "Lea?", "Max and Ivo?"):
            for mode, _ in MODES:
                retrieved = [
                    [
                        (n.node_id, n.text, n.score)
                        for n in one.as_retriever(mode).retrieve(question)
                    ]
                    for one in (index, back)
                ]
                assert retrieved[0] == retrieved[1]
        assert back.docstore.get_node("alone").text == "Ivo is alone."
    with E2GraphRAG.open(tmp_path / "a.e2g", models=Models(extractor=NameExtractor())) as rag:
        assert rag.document("own").text.strip() == document.text.strip()
        only = rag.retrieve("Max?", where={"page": 2}).nodes
        assert [n.text for n in only if not n.level] == ["Page 2 has Max."]


def test_a_blank_page_does_not_change_filter_results(tmp_path):
    text = "Anna met Bert. Bert met Cleo there.\n\n\n\nCleo met Dora. Dora met Emil there."
    pages = [(0, 35, {"page": 1}), (36, 38, {"page": 2}), (39, len(text), {"page": 1})]
    document = SourceDocument("blank page", text, segments=pages)
    path = file_of(tmp_path / "a.e2g", [document], chunk_size=12, chunk_overlap=0)
    one = MetadataFilters(
        filters=[MetadataFilter(key="page", value=1)], condition=FilterCondition.AND
    )
    with E2GraphRAG.open(path, models=Models(extractor=NameExtractor())) as rag:
        expected = rag.retrieve("what?", mode="global", where={"page": 1}).nodes
    with E2GraphRAGIndex.open(path, models=Models(extractor=NameExtractor())) as index:
        found = index.as_retriever("global", similarity_top_k=10, filters=one).retrieve("what?")
    assert [n.node_id for n in found] == [n.node_id for n in expected]


def test_the_hybrid_strategy_returns_equal_results(tmp_path):
    path = file_of(tmp_path / "a.e2g")
    strategy = HybridStrategy()
    with (
        E2GraphRAG.open(path, models=Models(extractor=NameExtractor())) as rag,
        E2GraphRAGIndex.open(path, models=Models(extractor=NameExtractor())) as index,
    ):
        for question in QUESTIONS:
            expected = rag.retrieve(question, strategy=strategy, k=6)
            found = index.as_retriever(strategy=strategy, similarity_top_k=6).retrieve(question)
            assert [node.node_id for node in found] == [node.node_id for node in expected.nodes]
            assert [node.score for node in found] == pytest.approx(
                falling_relevance(expected.nodes)
            )
