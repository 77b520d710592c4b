"""A retriever over any reader of the core gives what the LlamaIndex index of its file gives."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Document, StorageContext
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers.base import BaseEventHandler
from llama_index.core.llms import MockLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.postprocessor import PrevNextNodePostprocessor, SimilarityPostprocessor
from llama_index.core.query_engine import CitationQueryEngine, RetrieverQueryEngine
from llama_index.core.retrievers import AutoMergingRetriever, QueryFusionRetriever
from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle
from llama_index.core.tools import RetrieverTool, ToolMetadata
from llama_index.core.vector_stores import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)

from e2graphrag_integrations import (
    E2GraphRAG,
    HybridStrategy,
    Models,
    PaperStrategy,
    SourceDocument,
)
from e2graphrag_integrations.errors import (
    InvalidInputError,
    NotAnIndexError,
    NotPicklableError,
    StoreError,
)
from e2graphrag_integrations.llama_index import (
    E2GraphRAGIndex,
    E2GraphRAGRetriever,
    E2RoutingEvent,
    GraphProximitySelector,
    pages_of,
)
from e2graphrag_integrations.options import grouped
from fakes import STORY, NameExtractor
from llama_fakes import OTHER
from llama_pages import page

PAGES = [(0, 90, {"page": 1}), (90, 170, {"page": 2, "odd": False}), (200, 230, {"page": 3})]
CALM = " ".join(f"The sea was calm for {days} days." for days in range(60))
DOCUMENTS = [
    SourceDocument("story", STORY, title="A Map", metadata={"kind": "tale", "year": 1890}),
    SourceDocument(
        "other", OTHER, metadata={"kind": "tale", "tags": ["mill", "sea"], "year": 1901}
    ),
    SourceDocument("copy", OTHER, title="Copy", metadata={"kind": "copy"}),
    SourceDocument("calm", CALM, metadata={"title": "of metadata"}),
    SourceDocument("empty", "", metadata={"kind": "nothing"}),
    SourceDocument("paged", STORY, "Pages", {"kind": "pdf", "page": 0}, PAGES),
]
QUESTIONS = (
    "What did Anna give Bert?",
    "Who built a mill with Fay and Hal?",
    "What is this about?",
)
SETTINGS: dict[str, Any] = {"chunk_size": 16, "chunk_overlap": 4, "group_size": 3}


def write(path: Path, documents: Any = DOCUMENTS, **options: Any) -> Path:
    """Write an index file with real spaCy; the embedder is a hash unless given."""
    with E2GraphRAG.open(path, **grouped({"embedder": "hashing"} | SETTINGS | options)) as rag:
        rag.add(list(documents))
        rag.set_tags(["Mill", "Map", "Sea"])
    return path


@dataclass(frozen=True)
class Faces:
    """The same index, read in several ways."""

    rag: E2GraphRAG
    index: E2GraphRAGIndex
    path: Path

    def retrievers(self, **options: Any) -> dict[str, E2GraphRAGRetriever]:
        whole = self.rag.scoped({"document_id": {"$ne": "-"}})
        return {
            "LlamaIndex": self.index.as_retriever(**options),
            "engine": E2GraphRAGRetriever(self.rag, **options),
            "scope": E2GraphRAGRetriever(whole, **options),
        }


@pytest.fixture(scope="module")
def faces(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = write(tmp_path_factory.mktemp("readers") / "i.e2g")
    with E2GraphRAG.open(path) as rag, E2GraphRAGIndex.open(path) as index:
        yield Faces(rag, index, path)


def plain(found: NodeWithScore) -> dict[str, Any]:
    """Return what a node shows, with an approximate score."""
    node: Any = found.node
    return {
        "class": type(node).__name__,
        "id": node.node_id,
        "text": node.text,
        "score": pytest.approx(found.score, abs=1e-6),
        "offsets": (node.start_char_idx, node.end_char_idx),
        "metadata": dict(node.metadata),
        "hidden": (node.excluded_embed_metadata_keys, node.excluded_llm_metadata_keys),
        "links": {
            kind: [one.node_id for one in (link if isinstance(link, list) else [link])]
            for kind, link in node.relationships.items()
        },
        "ref_doc_id": node.ref_doc_id,
    }


def assert_same(retrievers: dict[str, E2GraphRAGRetriever], questions: Any = QUESTIONS) -> int:
    """Check that all retrievers return equal nodes; return how many."""
    count = 0
    for question in questions:
        expected, *others = (list(map(plain, r.retrieve(question))) for r in retrievers.values())
        for name, found in zip(list(retrievers)[1:], others, strict=True):
            assert found == expected, (name, question)
        count += len(expected)
    return count


def equals(key: str, value: Any, operator: str = "==") -> MetadataFilters:
    one = MetadataFilter(key=key, value=value, operator=FilterOperator(operator))
    return MetadataFilters(filters=[one])


# The same nodes


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"similarity_top_k": 50},
        {"mode": "local", "similarity_top_k": 8},
        {"mode": "global", "similarity_top_k": 8},
        {"token_budget": 60},
        {"token_budget": 120, "similarity_top_k": 2},
        {"token_budget": None},
        {"expand": "children", "similarity_top_k": 9},
        {"expand": "leaves", "similarity_top_k": 9},
        {"strategy": PaperStrategy(), "similarity_top_k": 6},
        {"strategy": HybridStrategy(diversity=0.5)},
        {"tags": ["Mill"], "similarity_top_k": 9},
        {"boost": {"tag": {"Mill": 3.0}, "documents": {"other": 2.0}}, "similarity_top_k": 9},
        {"history": ["Anna met Bert in Oslo."], "similarity_top_k": 5},
        {"paths": True, "similarity_top_k": 5},
        {"doc_ids": ["other", "paged"], "similarity_top_k": 50},
    ],
    ids=str,
)
def test_the_nodes_are_those_of_the_llama_index_index(faces, options):
    assert assert_same(faces.retrievers(**options))


def test_a_path_and_a_narrow_scope_give_the_same_nodes(faces):
    options = {"similarity_top_k": 12}
    where = {"kind": "tale"}
    with E2GraphRAGRetriever(faces.path, **options) as of_path:
        assert assert_same({"engine": E2GraphRAGRetriever(faces.rag, **options), "path": of_path})
    scopes = {
        "LlamaIndex": faces.index.scoped(where).as_retriever(**options),
        "core": E2GraphRAGRetriever(faces.rag.scoped(where), **options),
    }
    assert assert_same(scopes)
    found = scopes["core"].retrieve("What did Anna give Bert?")
    assert {node.node.ref_doc_id for node in found} == {"story", "other"}


def test_a_partly_visible_document_links_to_no_hidden_node(faces):
    options = {"similarity_top_k": 50}
    where = {"page": 1}
    core = E2GraphRAGRetriever(faces.rag.scoped(where), **options)
    index = faces.index.scoped(where).as_retriever(**options)
    found = [list(map(plain, one.retrieve("Anna?"))) for one in (index, core)]
    assert found[0] == found[1]
    assert found[1]
    known = {node["id"] for node in found[1]}
    assert {id_ for n in found[1] for k, ids in n["links"].items() for id_ in ids} - known == {
        "paged"
    }


def test_shortened_and_repeated_texts_are_marked(faces):
    retriever = E2GraphRAGRetriever(faces.rag, token_budget=40)
    [first, *_] = retriever.retrieve("Who built a mill in Bergen?")
    node = first.node
    assert node.metadata["e2_also_in"] in ("copy", "other")
    assert {"e2_also_in", "e2_level"} <= set(node.excluded_llm_metadata_keys)
    document = faces.rag.document(node.ref_doc_id)
    spans = node.metadata.get("e2_spans", [f"{node.start_char_idx}-{node.end_char_idx}"])
    parts = [document.text[slice(*map(int, span.split("-")))] for span in spans]
    assert node.text == " … ".join(parts)


def test_nodes_own_their_metadata(faces):
    retriever = E2GraphRAGRetriever(faces.rag, filters=equals("year", 1901))
    [first, *_] = retriever.retrieve("Fay?")
    first.node.metadata["tags"].append("changed")
    assert retriever.retrieve("Fay?")[0].node.metadata["tags"] == ["mill", "sea"]


def with_pages(index_of: Callable[..., E2GraphRAGIndex]) -> E2GraphRAGIndex:
    """Return an index of two files with pages, the first of them blank, and of one text."""
    pages = [page(number, file=file) for file in ("a.pdf", "b.pdf") for number in range(1, 6)]
    pages[0].set_content("  \n")
    pages[7].set_content(" ")
    for one in pages:
        one.excluded_embed_metadata_keys = one.excluded_llm_metadata_keys = []
    story = Document(id_="story", text=STORY, metadata={"title": "A Map"})
    return index_of([*pages, story], chunk_size=60)


def test_pages_have_their_own_source_and_offsets(tmp_path, index_of):
    index = with_pages(index_of)
    index.rag.copy_to(tmp_path / "i.e2g")
    with E2GraphRAG.open(tmp_path / "i.e2g", models=Models(extractor=NameExtractor())) as rag:
        for options in ({"similarity_top_k": 99}, {"token_budget": 80}, {"mode": "global"}):
            retrievers = {
                "LlamaIndex": index.as_retriever(**options),
                "engine": E2GraphRAGRetriever(rag, **options),
            }
            questions = ("What did Anna tell Bert of port 2?", "Who told Hal of port 5-0-1?")
            for question in questions:
                expected, found = (r.retrieve(question) for r in retrievers.values())
                assert list(map(plain, found)) == list(map(plain, expected))
        whole = E2GraphRAGRetriever(rag, similarity_top_k=99).retrieve("Who told Hal?")
        chunk = next(n.node for n in whole if len(pages_of(n.node)) > 1)
        first = pages_of(chunk)[0]
        assert chunk.text[first.start : first.end].strip() in index_text(first.document_id)


def index_text(document_id: str) -> str:
    number = int(document_id.rsplit("_", 1)[1])
    return page(number).text


@pytest.mark.slow
def test_a_langchain_index_shows_the_users_metadata(tmp_path):
    langchain = pytest.importorskip("langchain_core.documents")
    from e2graphrag_integrations.langchain import E2GraphRAGIndex as LangChainIndex

    own = {"source": "a.txt", "document_id": "mine", "e2_chunk": "own"}
    documents = [
        langchain.Document(id="p1", page_content=STORY, metadata=own | {"page": 1}),
        langchain.Document(id="p2", page_content=OTHER, metadata=own | {"page": 2}),
        langchain.Document(id="b", page_content=CALM, metadata={"source": "b.txt"}),
    ]
    with LangChainIndex.from_documents(
        documents, **grouped({"path": tmp_path / "l.e2g", "embeddings": "hashing", **SETTINGS})
    ) as index:
        assert E2GraphRAGRetriever(index).searched_index is index.rag
        for reader in (index, index.scoped({"source": "a.txt"}), tmp_path / "l.e2g"):
            retriever = E2GraphRAGRetriever(reader, filters=equals("page", 1), similarity_top_k=9)
            found = retriever.retrieve("What did Anna give Bert?")
            nodes = [n.node for n in found if n.node.ref_doc_id == "p1"]
            assert nodes
            for node in nodes:
                assert node.text in STORY or node.metadata["e2_kind"] == "summary"
                shown = {k: v for k, v in node.metadata.items() if not k.startswith("e2_")}
                assert shown == {"source": "a.txt", "page": 1, "document_id": "mine"}
                assert node.metadata["e2_chunk"] == "own"
                if node.metadata["e2_kind"] == "chunk":
                    assert STORY[node.start_char_idx : node.end_char_idx] == node.text
            for key, value, expected in (
                ("document_id", "mine", {"p1", "p2"}),
                ("doc_id", "p2", {"p2"}),
                ("e2_source_id", nodes[0].metadata["e2_tree"], {"p1", "p2"}),
                ("e2_tree", nodes[0].metadata["e2_tree"], {"p1", "p2"}),
            ):
                filters = equals(key, value)
                chosen = E2GraphRAGRetriever(reader, filters=filters, similarity_top_k=50)
                found_ids = {node.node.ref_doc_id for node in chosen.retrieve("Fay?")}
                assert found_ids - {nodes[0].metadata["e2_tree"]} == expected, key
                chosen.close()
            retriever.close()


@pytest.mark.slow
def test_real_vectors_give_the_same_nodes(tmp_path, real_embedder):
    path = write(tmp_path / "i.e2g", embedder=real_embedder)
    with E2GraphRAG.open(path, embedder=real_embedder) as rag:
        with E2GraphRAGIndex.open(path, embed_model=real_embedder) as index:
            for options in ({}, {"min_relevance": 0.05}, {"filters": equals("kind", "tale")}):
                faces = Faces(rag, index, path)
                assert assert_same(faces.retrievers(**options))
        nothing = E2GraphRAGRetriever(rag, min_relevance=0.9)
        assert nothing.retrieve("How do I bake bread?") == []


# Filters


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize(
    ("key", "operator", "value"),
    [
        ("year", "==", 1890),
        ("year", "!=", 1890),
        ("year", "!=", None),
        ("year", "==", None),
        ("year", ">", 1895),
        ("year", "<=", 1890),
        ("kind", "in", ["tale", "pdf"]),
        ("kind", "nin", ["tale", "pdf"]),
        ("kind", "contains", "al"),
        ("tags", "contains", "mill"),
        ("tags", "any", ["sea", "fog"]),
        ("tags", "any", []),
        ("tags", "all", ["sea", "mill"]),
        ("tags", "all", ["sea", "fog"]),
        ("kind", "text_match", "TALE"),
        ("kind", "text_match_insensitive", "TALE"),
        ("tags", "is_empty", None),
        ("page", "==", 2),
        ("language", "==", "en"),
        ("doc_id", "==", "story"),
        ("ref_doc_id", "in", ["story", "paged"]),
        ("document_id", "!=", "calm"),
        ("e2_source_id", "==", "paged"),
        ("e2_tree", "==", "paged"),
        ("e2_level", ">", 0),
        ("e2_level", "in", [0, 2]),
        ("e2_kind", "==", "summary"),
        ("e2_kind", "!=", "summary"),
    ],
)
def test_filters_give_the_same_nodes(faces, key, operator, value):
    filters = equals(key, value, operator)
    assert_same(faces.retrievers(filters=filters, similarity_top_k=80), QUESTIONS[-1:])


@pytest.mark.slow
def test_groups_of_filters_give_the_same_nodes(faces):
    def group(condition, *parts):
        return MetadataFilters(filters=list(parts), condition=condition)

    tale, old = equals("kind", "tale"), equals("year", 1895, "<")
    chunk, page_two = equals("e2_level", 0), equals("page", 2)
    for filters, found in (
        (group(FilterCondition.AND, tale, old), {"story"}),
        (group(FilterCondition.OR, old, group(FilterCondition.AND, page_two, chunk)), None),
        (group(FilterCondition.NOT, tale, equals("kind", "pdf")), {"copy", "calm"}),
        (group(FilterCondition.NOT, group(FilterCondition.NOT, old)), {"story"}),
        (group(FilterCondition.OR), None),
    ):
        retrievers = faces.retrievers(filters=filters, similarity_top_k=90)
        assert assert_same(retrievers, QUESTIONS[-1:])
        if found is not None:
            nodes = retrievers["engine"].retrieve(QUESTIONS[-1])
            assert {node.node.ref_doc_id for node in nodes} == found


def test_node_ids_and_tags(faces):
    everything = E2GraphRAGRetriever(faces.rag, mode="global", similarity_top_k=50).retrieve("x")
    some = [node.node_id for node in everything[2:5]]
    found = E2GraphRAGRetriever(faces.rag, node_ids=some, similarity_top_k=9).retrieve("x")
    assert {node.node_id for node in found} == set(some)
    with pytest.raises(InvalidInputError):
        E2GraphRAGRetriever(faces.rag, tags=["Nowhere"]).retrieve("x")


# LlamaIndex


class Recorder(BaseEventHandler):
    """Records the events of retrievals."""

    events: list[Any] = []  # noqa: RUF012 - pydantic copies it

    @classmethod
    def class_name(cls) -> str:
        return "Recorder"

    def handle(self, event: Any, **kwargs: Any) -> None:
        if "Retriev" in event.class_name() or isinstance(event, E2RoutingEvent):
            self.events.append(event)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("is_async", [False, True])
async def test_events_explanations_and_core_results(faces, is_async):
    recorder, root = Recorder(), get_dispatcher()
    root.add_event_handler(recorder)
    try:
        retriever = E2GraphRAGRetriever(faces.rag, similarity_top_k=4, paths=True)
        question = "What did Anna give Bert?"
        nodes = await retriever.aretrieve(question) if is_async else retriever.retrieve(question)
    finally:
        root.event_handlers.remove(recorder)
    assert [event.class_name() for event in recorder.events] == [
        "RetrievalStartEvent",
        "E2RoutingEvent",
        "RetrievalEndEvent",
    ]
    routing = recorder.events[1]
    assert routing.node_ids == [node.node_id for node in nodes]
    assert routing.entities == ["anna", "bert"]
    assert routing.model_dump_json()
    assert [n.score for n in nodes] == sorted((n.score for n in nodes), reverse=True)
    trace = await retriever.aexplain(question) if is_async else retriever.explain(question)
    assert trace.route == routing.route
    result = await retriever.asearch(question) if is_async else retriever.search(question)
    assert [node.node_id for node in result.nodes] == routing.node_ids
    assert result.paths is not None
    assert trace.freshness is not None  # the engine says how old its answers are


async def test_engines_tools_and_postprocessors(faces):
    llm, question = MockLLM(max_tokens=8), "What did Anna give Bert?"
    retriever = E2GraphRAGRetriever(faces.rag, similarity_top_k=3)
    expected = [node.node_id for node in retriever.retrieve(question)]
    cut = SimilarityPostprocessor(similarity_cutoff=0.0)
    engine = RetrieverQueryEngine.from_args(retriever, llm=llm, node_postprocessors=[cut])
    memory = ChatMemoryBuffer.from_defaults(llm=llm)
    chat = ContextChatEngine.from_defaults(retriever=retriever, llm=llm, memory=memory)
    fusion = QueryFusionRetriever([retriever], llm=llm, num_queries=1, similarity_top_k=3)
    for sources in (
        (await engine.aquery(question)).source_nodes,
        engine.query(question).source_nodes,
        (await chat.achat(question)).source_nodes,
        await fusion.aretrieve(question),
    ):
        assert [node.node_id for node in sources] == expected
    cited = await CitationQueryEngine(retriever, llm=llm).aquery(question)
    assert cited.source_nodes
    tool = RetrieverTool.from_defaults(retriever)
    for output in (tool.call(input=question), await tool.acall(input=question)):
        assert retriever.retrieve(question)[0].node.text in str(output)
    selector = GraphProximitySelector(faces.rag)
    choices = [tool.metadata, tool.metadata]
    assert selector.select(choices, question).selections[0].index in (0, 1)


@pytest.mark.usefixtures("all_summaries")
def test_links_lead_to_parents_children_and_neighbors(faces):
    where = equals("kind", "copy")
    found = E2GraphRAGRetriever(
        faces.rag, mode="global", filters=where, similarity_top_k=99
    ).retrieve("sea")
    nodes = {node.node_id: node.node for node in found}
    links = 0
    for id_, node in nodes.items():
        if node.parent_node is not None:
            parent = nodes[node.parent_node.node_id]
            assert id_ in [child.node_id for child in parent.child_nodes]
            links += 1
        if node.next_node is not None:
            assert nodes[node.next_node.node_id].prev_node.node_id == id_
            links += 1
        assert node.source_node.node_id == node.metadata["e2_tree"]
    assert links > len(nodes)
    assert any(NodeRelationship.CHILD in node.relationships for node in nodes.values())


def test_the_docstore_serves_auto_merging_and_neighbors(faces):
    options = {"filters": equals("e2_level", 0), "similarity_top_k": 6, "mode": "global"}
    index = faces.index.as_retriever(**options)
    core = E2GraphRAGRetriever(faces.rag, **options)
    expected, merged = (
        AutoMergingRetriever(
            one, StorageContext.from_defaults(docstore=one.docstore), simple_ratio_thresh=0.3
        ).retrieve("The sea was calm for 3 days.")
        for one in (index, core)
    )
    assert list(map(plain, merged)) == list(map(plain, expected))
    assert any(node.metadata["e2_level"] for node in merged)
    found = core.retrieve("Who built a mill?")[:1]
    around = PrevNextNodePostprocessor(docstore=core.docstore, mode="next")
    nodes = around.postprocess_nodes(found)
    assert [node.node_id for node in nodes] == [
        found[0].node_id,
        found[0].node.next_node.node_id,
    ]
    scope = faces.index.scoped({"kind": "copy"}).as_retriever().docstore
    assert {node.ref_doc_id for node in scope.docs.values()} == {"copy"}


async def test_the_docstore_has_the_nodes_and_only_reads(faces):
    docstore = E2GraphRAGRetriever(faces.rag).docstore
    expected = faces.index.docstore
    assert docstore.docs.keys() == expected.docs.keys()
    for id_, node in docstore.docs.items():
        own = expected.get_node(id_)
        assert plain(NodeWithScore(node=node, score=0)) == plain(NodeWithScore(node=own, score=0))
    [one] = await docstore.aget_nodes([id_])
    assert one == docstore.get_node(id_) == docstore.get_document(id_)
    assert docstore.document_exists(id_)
    assert docstore.get_node("none", raise_error=False) is None
    info = docstore.get_all_ref_doc_info()
    assert {name: sorted(own.node_ids) for name, own in info.items()} == {
        name: sorted(own.node_ids) for name, own in expected.get_all_ref_doc_info().items()
    }
    assert docstore.get_ref_doc_info("story").node_ids == info["story"].node_ids
    assert docstore.get_all_document_hashes() == {}
    assert docstore.get_document_hash("story") is None
    scope = E2GraphRAGRetriever(faces.rag.scoped({"kind": "copy"})).docstore
    assert {node.ref_doc_id for node in scope.docs.values()} == {"copy"}
    assert scope.get_document(info["story"].node_ids[0], raise_error=False) is None
    for write in (
        lambda: docstore.add_documents([one]),
        lambda: docstore.delete_document(id_),
        lambda: docstore.delete_ref_doc("story"),
        lambda: docstore.set_document_hash("story", "x"),
    ):
        with pytest.raises(InvalidInputError, match="can only be read"):
            write()
    for write in (docstore.adelete_document(id_), docstore.async_add_documents([one])):
        with pytest.raises(InvalidInputError, match="can only be read"):
            await write


def test_the_embedding_of_a_query_is_used_if_it_fits(faces):
    question = "Who built a mill?"
    retriever = E2GraphRAGRetriever(faces.rag, mode="global", similarity_top_k=5)
    vector = [float(x) for x in faces.rag.embedder.embed_query("The sea was calm for 3 days.")]
    about_sea = retriever.retrieve(QueryBundle(question, embedding=vector))
    assert [n.node_id for n in about_sea] != [n.node_id for n in retriever.retrieve(question)]
    unused = retriever.retrieve(QueryBundle(question, embedding=vector[:3]))
    assert [n.node_id for n in unused] == [n.node_id for n in retriever.retrieve(question)]
    hyde = QueryBundle("How was it?", custom_embedding_strs=["The sea was calm for 3 days."])
    assert retriever.retrieve(hyde)[0].node.ref_doc_id == "calm"


def test_an_answer_contains_what_was_written_since(tmp_path):
    path = write(tmp_path / "i.e2g", DOCUMENTS[:1])
    with E2GraphRAG.open(path) as rag:
        retriever = E2GraphRAGRetriever(rag)
        assert retriever.retrieve("Who burned the mill in Bergen?")[0].node.ref_doc_id == "story"
        rag.add(DOCUMENTS[1])
        assert retriever.retrieve("Who burned the mill in Bergen?")[0].node.ref_doc_id == "other"


def test_readers_say_what_they_were_made_with(faces):
    assert faces.rag.made_with == dict(faces.index.rag.made_with)
    assert faces.rag.scoped({"kind": "tale"}).made_with == {"dimension": "256"}


def test_an_empty_index_gives_no_nodes():
    with E2GraphRAG.open(":memory:", embedder="hashing") as rag:
        assert rag.made_with == {}
        retriever = E2GraphRAGRetriever(rag, filters=equals("doc_id", "x"))
        assert retriever.retrieve("Anything?") == []
        assert retriever.retrieve(QueryBundle("Anything?", embedding=[1.0, 2.0])) == []


# Opening, closing and copying


def test_what_a_path_opened_is_closed(faces):
    with E2GraphRAGRetriever(str(faces.path)) as retriever:
        assert retriever.retrieve("Anna?")
    with pytest.raises(StoreError, match="closed"):
        retriever.retrieve("Anna?")
    retriever.close()
    open_reader = E2GraphRAGRetriever(faces.rag)
    open_reader.close()
    assert open_reader.retrieve("Anna?")
    choices = [ToolMetadata("names"), ToolMetadata("topics")]
    with GraphProximitySelector(faces.path) as selector:
        assert selector.select(choices, "Anna?").ind in (0, 1)
    with pytest.raises(StoreError, match="closed"):
        selector.select(choices, "Anna?")


@pytest.mark.parametrize("name", ["none.e2g", "", ":memory:", "."])
def test_a_path_without_an_index_creates_none(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    for constructor in (E2GraphRAGRetriever, GraphProximitySelector):
        with pytest.raises(InvalidInputError):
            constructor(name)
    assert not list(tmp_path.iterdir())
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(NotAnIndexError):
        E2GraphRAGRetriever(tmp_path / "mine.txt")


def test_copies_open_the_index_again(faces, monkeypatch, tmp_path):
    monkeypatch.chdir(faces.path.parent)
    of_path = E2GraphRAGRetriever(faces.path.name, similarity_top_k=3)
    monkeypatch.chdir(tmp_path)
    of_engine = E2GraphRAGRetriever(faces.rag, similarity_top_k=3)
    expected = [node.node_id for node in of_engine.retrieve("Anna?")]
    for retriever in (of_path, of_engine):
        for make in (copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))):  # noqa: S301
            again = make(retriever)
            assert [node.node_id for node in again.retrieve("Anna?")] == expected
            assert again.searched_index is not retriever.searched_index
            again.searched_index.close()
    of_path.close()
    scoped = E2GraphRAGRetriever(faces.rag.scoped({"kind": "tale"}))
    with pytest.raises(NotPicklableError, match="pickle its index"):
        pickle.dumps(scoped)


@pytest.mark.slow
def test_postgres_urls_and_open_schemas(postgres_url):
    with E2GraphRAG.open(postgres_url, **grouped({"embedder": "hashing", **SETTINGS})) as rag:
        rag.add(DOCUMENTS)
        with E2GraphRAGRetriever(postgres_url) as of_url:
            retrievers = {"schema": E2GraphRAGRetriever(rag), "URL": of_url}
            assert assert_same(retrievers)
        with E2GraphRAGRetriever(f"{postgres_url}&password=hunter2") as of_url:
            content = pickle.dumps(of_url)
            assert b"hunter2" not in content
            for again in (copy.deepcopy(of_url), pickle.loads(content)):  # noqa: S301
                with again:
                    assert again.retrieve("Anna?")
    with pytest.raises(InvalidInputError, match="not a file or a database with an index"):
        E2GraphRAGRetriever(f"{postgres_url}x")
