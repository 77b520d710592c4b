"""`E2GraphRAGRetriever`: options, events, documents, filters, threads and event loops."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest
from blockbuster import BlockingError, blockbuster_ctx
from langchain_core.callbacks import (
    AsyncCallbackHandler,
    BaseCallbackHandler,
)
from langchain_core.documents import Document
from langchain_core.load import dumpd
from langchain_core.messages import HumanMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import ConfigurableField, RunnableLambda
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from e2graphrag_integrations import (
    E2GraphRAG,
    Models,
    PaperStrategy,
    SourceDocument,
    TreeTraversalStrategy,
)
from e2graphrag_integrations.errors import ClosedError, InvalidInputError
from e2graphrag_integrations.langchain import (
    E2GraphRAGIndex,
    E2GraphRAGRetriever,
    LangChainEmbedder,
    create_e2graphrag_tool,
)
from e2graphrag_integrations.options import grouped
from fakes import STORY, NameExtractor
from langchain_fakes import MILL, SMALL, DigestChatModel, split_into_pages, two_sources

pytestmark = pytest.mark.usefixtures("all_summaries")  # they count all nodes

QUERY = "How is Anna tied to Emil?"
QUERIES = [
    QUERY,
    "Who bought flour from Fay in Bergen?",
    "Did Bert and Cleo meet in Rome?",
    "What is it all about?",
    "Where did Gus go with the flour and who is Hal?",
    "map",
    "Zoltan?",
    "Anna Bert Cleo Dora Emil Fay Gus Hal Oslo Rome Bergen",
]
KEYS = {
    "e2_doc_id",
    "e2_doc_ids",
    "e2_node_id",
    "e2_source_id",
    "e2_level",
    "e2_position",
    "e2_start",
    "e2_end",
    "e2_spans",
    "e2_segments",
    "e2_parent",
    "e2_children",
    "e2_tags",
    "e2_language",
    "e2_also_in",
    "e2_superseded_by",
}
SCORE_KEYS = {"e2_relevance", "e2_score", "e2_found_by", "e2_entities", "e2_reasons"}
CALL_OPTIONS = [
    {},
    {"k": 1},
    {"mode": "local", "k": 4},
    {"mode": "global", "k": 4},
    {"max_hops": 1},
    {"filter": {"source": "mill.pdf"}},
    {"filter": lambda metadata: metadata["page"] > 1, "mode": "local"},
    {"expand": "leaves", "k": 5},
    {"expand": "children", "k": 3, "mode": "global"},
]


@pytest.fixture
def index(lc_index_of, pages) -> E2GraphRAGIndex:
    return lc_index_of(pages)


@pytest.fixture
def retriever(index) -> E2GraphRAGRetriever:
    return E2GraphRAGRetriever(index=index, k=3)


@pytest.fixture
def novel(lc_index_of) -> E2GraphRAGIndex:
    """Two sources with ten pages each, in four levels."""
    return lc_index_of(
        [
            *split_into_pages(f"{STORY} " * 4, "map.pdf", author="Ann", tags=["sea", "map"]),
            *split_into_pages(f"{MILL} " * 5, "mill.pdf", author="Bob", tags=["mill"]),
        ]
    )


class EventRecorder(BaseCallbackHandler):
    """Records the events of a run in order."""

    def __init__(self) -> None:
        self.events: list[tuple[str, object]] = []

    def on_retriever_start(self, serialized, query, **kwargs):
        self.events.append(("start", kwargs["metadata"]))

    def on_custom_event(self, name, data, **kwargs):
        self.events.append((name, data))

    def on_retriever_end(self, documents, **kwargs):
        self.events.append(("end", [document.id for document in documents]))


class AsyncEventRecorder(AsyncCallbackHandler):
    def __init__(self) -> None:
        self.names: list[str] = []

    async def on_custom_event(self, name, data, **kwargs):
        self.names.append(name)


# Options


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("options", CALL_OPTIONS)
async def test_call_options_equal_fields_in_sync_and_async(index, options):
    retriever = E2GraphRAGRetriever(index=index)
    for query in QUERIES:
        documents = retriever.invoke(query, **options)
        assert documents == await retriever.ainvoke(query, **options)
        assert documents == E2GraphRAGRetriever(index=index, **options).invoke(query)
        assert len(documents) == options.get("k", len(documents))


def test_every_option_has_an_effect(index):
    retriever = E2GraphRAGRetriever(index=index, k=4)
    everything = retriever.invoke(QUERY, k=99)
    sources = {d.metadata["source"] for d in retriever.invoke(QUERY, filter={"author": "Bob"})}
    assert sources == {"mill.pdf"}
    assert {d.metadata["e2_level"] for d in everything} == {0, 1}
    leaves = retriever.invoke(QUERY, k=99, expand="leaves")
    assert {d.id for d in leaves} == {d.id for d in everything if d.metadata["e2_level"] == 0}
    scored = retriever.model_copy(update={"include_scores": True})
    found_by = {
        mode: scored.invoke(QUERY, mode=mode)[0].metadata["e2_found_by"]
        for mode in ("local", "global")
    }
    assert found_by == {"local": "entities", "global": "relevance"}
    near, far = (
        index.as_retriever(max_hops=hops, mode="local").search("Anna and Hal").trace
        for hops in (1, 4)
    )
    assert (near.pairs[0].hops, far.pairs[0].hops) == (None, 4)


@pytest.mark.parametrize("typo", [{"top_k": 3}, {"filters": {}}, {"Mode": "local"}])
async def test_a_misspelled_option_is_rejected_everywhere(index, retriever, typo):
    allowed = rf"unknown argument '{next(iter(typo))}': .*he arguments are .*\bk\b"
    for call in (retriever.invoke, index.as_retriever().invoke, index.invoke):
        with pytest.raises(InvalidInputError, match=allowed):
            call(QUERY, **typo)
    with pytest.raises(InvalidInputError, match=allowed):
        await retriever.ainvoke(QUERY, **typo)
    with pytest.raises(InvalidInputError, match=allowed):
        E2GraphRAGRetriever(index=index, **typo)
    for call in (index.as_retriever, index.scoped({"author": "Ann"}).as_retriever):
        with pytest.raises(InvalidInputError, match=allowed):
            call(**typo)
    with pytest.raises(InvalidInputError, match=allowed):
        index.similarity_search(QUERY, **typo)
    with pytest.raises(InvalidInputError, match=allowed.replace("argument", "search_kwargs key")):
        index.as_retriever(search_kwargs=typo)
    with pytest.raises(InvalidInputError, match=allowed):
        create_e2graphrag_tool(retriever, **typo)
    message = create_e2graphrag_tool(retriever).invoke({"query": QUERY, **typo})
    assert "the arguments are query, mode" in message.lower()


@pytest.mark.fast_cases(5)
@pytest.mark.parametrize(
    "options",
    [
        {"k": 0},
        {"k": "many"},
        {"mode": "both"},
        {"max_hops": 0},
        {"max_hops": 101},
        {"expand": "parents"},
        {"filter": 5},
        {"filter": {"page": {"$like": 3}}},
        {"strategy": PaperStrategy},
        {"strategy": object(), "max_hops": 2},
        {"lambda_mult": 0.5},
        {"search_type": "similarity_score_threshold"},
    ],
)
def test_an_invalid_field_is_rejected_on_construction_and_assignment(index, options):
    with pytest.raises(InvalidInputError):
        E2GraphRAGRetriever(index=index, **options)
    retriever = E2GraphRAGRetriever(index=index, k=3)
    name, value = next(iter(options.items()))
    with pytest.raises(InvalidInputError):
        setattr(retriever, name, value)
    assert getattr(retriever, name) == E2GraphRAGRetriever(index=index, k=3).__dict__[name]
    assert len(retriever.invoke(QUERY)) == 3


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"k": 0}, InvalidInputError),
        ({"mode": "both"}, InvalidInputError),
        ({"max_hops": 0}, InvalidInputError),
        ({"expand": "parents"}, InvalidInputError),
        ({"filter": {"page": {"$like": 3}}}, InvalidInputError),
    ],
)
async def test_an_invalid_call_option_is_rejected(retriever, options, error):
    with pytest.raises(error):
        retriever.invoke(QUERY, **options)
    with pytest.raises(error):
        await retriever.ainvoke(QUERY, **options)


@pytest.mark.parametrize("value", [None, E2GraphRAGIndex, object()])
def test_only_indexes_are_accepted(value):
    for arguments, fields in (((), {"index": value}), ((value,), {})):
        with pytest.raises(InvalidInputError, match="is not an index: pass"):
            E2GraphRAGRetriever(*arguments, **fields)
    with pytest.raises(InvalidInputError, match=r"retriever is .*pass index\.as_retriever"):
        create_e2graphrag_tool(value)
    with pytest.raises(InvalidInputError, match=r"embeddings is .*pass an object such as"):
        LangChainEmbedder(value)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "story.e2g"
    with E2GraphRAG.open(path, embedder="hashing") as rag:
        rag.add(SourceDocument("story", STORY))
    return path


@pytest.mark.slow
def test_a_path_is_opened_and_closed_by_the_retriever(file, monkeypatch):
    with E2GraphRAG.open(file) as rag:
        expected = E2GraphRAGRetriever(rag, k=1).invoke(QUERY)
    monkeypatch.chdir(file.parent)
    for given in (file, str(file), file.name):
        with E2GraphRAGRetriever(given, k=1) as retriever:
            assert retriever.invoke(QUERY) == expected
            monkeypatch.chdir("/")  # the path is absolute
            with pickle.loads(pickle.dumps(retriever)) as other:  # noqa: S301 - our own
                assert other.invoke(QUERY) == expected
            with pytest.raises(ClosedError):
                other.invoke(QUERY)
            copied = copy.deepcopy(retriever)
            configurable = retriever.configurable_fields(k=ConfigurableField(id="k"))
            assert configurable.invoke(QUERY, {"configurable": {"k": 1}}) == expected
            assert retriever.invoke(QUERY) == copied.invoke(QUERY) == expected
        with pytest.raises(ClosedError):
            retriever.invoke(QUERY)
        copied.close()
        monkeypatch.chdir(file.parent)
    with E2GraphRAG.open(file) as rag:
        E2GraphRAGRetriever(rag).close()
        assert rag.stats().documents == 1


def test_a_pickle_keeps_search_kwargs_that_were_changed_in_place(file):
    with E2GraphRAGRetriever(file) as retriever:
        retriever.search_kwargs["k"] = 1
        with pickle.loads(pickle.dumps(retriever)) as other:  # noqa: S301 - our own
            assert other.search_kwargs == {"k": 1}


def test_a_path_must_lead_to_an_index_and_is_closed_after_an_error(file, tmp_path):
    for missing in (tmp_path / "no.e2g", "no.e2g"):
        with pytest.raises(InvalidInputError, match=r"no\.e2g is not a file"):
            E2GraphRAGRetriever(missing)
    assert not (tmp_path / "no.e2g").exists()
    with pytest.raises(InvalidInputError, match="is a folder: pass the path of an index file"):
        E2GraphRAGRetriever(tmp_path)
    with pytest.raises(InvalidInputError, match="k=0"):
        E2GraphRAGRetriever(file, k=0)
    with E2GraphRAGRetriever(file) as retriever:
        with pytest.raises(InvalidInputError, match="cannot be assigned: create another"):
            retriever.index = str(file)
        assert retriever.invoke(QUERY)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": "2"}, r"^k='2' must be a whole number from 1"),
        ({"k": True}, "^k=True must be"),
        ({"search_kwargs": {"k": 0}}, "^k=0 must be"),
        ({"token_budget": "many"}, "^token_budget='many' must be"),
        ({"min_relevance": 3}, "^min_relevance=3 must be a number from 0 to 1"),
        ({"mode": "both"}, "^mode='both': input should be 'auto', 'local' or 'global'$"),
        ({"tags": "x"}, "^tags='x': input should be a valid list$"),
        ({"filter": {"page": {"$like": 3}}}, r"^filter\['page'\]: '\$like' is not an operator"),
    ],
)
def test_the_message_about_a_field_is_one_sentence(index, options, message):
    with pytest.raises(InvalidInputError, match=message) as raised:
        E2GraphRAGRetriever(index, **options)
    assert raised.value.__cause__ is None  # not the report of pydantic


def test_numpy_numbers_are_fields(index):
    retriever = E2GraphRAGRetriever(index, k=np.int64(2), min_relevance=np.float32(0))
    assert (retriever.k, retriever.min_relevance) == (2, 0.0)


def test_the_index_may_be_positional(index):
    assert E2GraphRAGRetriever(index, k=2).invoke(QUERY) == index.as_retriever(k=2).invoke(QUERY)
    with pytest.raises(InvalidInputError, match="only the index is positional"):
        E2GraphRAGRetriever(index, 2)


def test_search_kwargs_must_be_a_mapping(index):
    for wrong in (5, "k", ["k"]):
        with pytest.raises(InvalidInputError, match=r"search_kwargs=.* must map options"):
            index.as_retriever(search_kwargs=wrong)


@pytest.mark.parametrize(
    ("name", "here"), [("top_k", "k"), ("where", "filter"), ("similarity_cutoff", "min_relevance")]
)
def test_names_of_other_retrievers_lead_to_those_here(retriever, name, here):
    with pytest.raises(InvalidInputError, match=f"did you mean '{here}'\\? The arguments are"):
        retriever.invoke(QUERY, **{name: 1})


def test_fields_can_be_assigned(retriever):
    retriever.k = 2
    retriever.mode = "global"
    assert len(retriever.invoke(QUERY)) == 2
    retriever.k = 1
    retriever.strategy = PaperStrategy(max_hops=2)
    assert len(retriever.invoke(QUERY)) == 1


@pytest.mark.parametrize("query", [None, 5, {"input": QUERY}, HumanMessage(QUERY), [QUERY]])
async def test_a_query_that_is_not_text_raises_with_advice(index, query):
    for retriever in (index, index.as_retriever()):
        with pytest.raises(InvalidInputError, match="RunnableLambda"):
            retriever.invoke(query)
        with pytest.raises(InvalidInputError, match="RunnableLambda"):
            await retriever.ainvoke(query)


async def test_an_empty_query_is_rejected(retriever):
    with pytest.raises(InvalidInputError, match="empty"):
        retriever.invoke("  ")
    with pytest.raises(InvalidInputError, match="empty"):
        await retriever.ainvoke("")


# Runnable methods of LangChain


async def test_configurable_fields_work(retriever):
    configurable = retriever.configurable_fields(
        k=ConfigurableField(id="k"), mode=ConfigurableField(id="mode")
    )
    config = {"configurable": {"k": 1, "mode": "global"}}
    expected = retriever.invoke(QUERY, k=1, mode="global")
    assert configurable.invoke(QUERY) == retriever.invoke(QUERY)
    assert configurable.invoke(QUERY, config) == expected
    assert await configurable.ainvoke(QUERY, config) == expected
    with pytest.raises(InvalidInputError):
        configurable.invoke(QUERY, {"configurable": {"k": 0}})


async def test_wrapped_retrievers_return_the_same_documents(retriever):
    expected = retriever.invoke(QUERY)
    recorder = EventRecorder()
    configured = retriever.with_config(tags=["mine"], callbacks=[recorder])
    for wrapper in (configured, retriever.with_retry(), retriever.with_fallbacks([retriever])):
        assert wrapper.invoke(QUERY) == await wrapper.ainvoke(QUERY) == expected
        assert len(wrapper.invoke(QUERY, k=1)) == 1
    assert recorder.events
    assert len(retriever.bind(k=2).invoke(QUERY)) == 2
    assert [d async for d in retriever.astream(QUERY)] == [expected]
    assert list(retriever.stream(QUERY)) == [expected]


async def test_a_fallback_answers_if_the_retriever_fails(index, retriever):
    closed = E2GraphRAGIndex.open(embeddings="hashing", models=Models(extractor=NameExtractor()))
    closed.close()
    failing = closed.as_retriever().with_fallbacks([retriever])
    assert failing.invoke(QUERY) == retriever.invoke(QUERY)
    assert await failing.ainvoke(QUERY) == retriever.invoke(QUERY)
    backup = RunnableLambda(lambda _: [Document("nothing")])
    assert retriever.with_fallbacks([backup]).invoke(" ")[0].page_content == "nothing"


async def test_batches_equal_single_calls(retriever):
    expected = [retriever.invoke(query) for query in QUERIES]
    assert retriever.batch(QUERIES) == expected
    assert await retriever.abatch(QUERIES) == expected
    assert retriever.batch(QUERIES, {"max_concurrency": 2}) == expected
    outcomes = retriever.batch([QUERY, ""], return_exceptions=True)
    assert (outcomes[0], type(outcomes[1])) == (expected[0], InvalidInputError)


def test_model_copy_shares_the_index(index, retriever):
    copy = retriever.model_copy(update={"mode": "global", "k": 2})
    assert isinstance(copy, BaseRetriever)
    assert copy.index is index is retriever.index
    assert (len(copy.invoke(QUERY)), retriever.mode) == (2, "auto")


def test_repr_and_serialization_omit_the_index(retriever):
    dumped = dumpd(retriever)
    assert dumped["type"] == "not_implemented"
    assert dumped["repr"] == repr(retriever)
    assert len(repr(retriever)) < 200
    assert "Anna" not in json.dumps(dumped)


# Events


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(
    ("options", "query", "route", "entities"),
    [
        ({}, "Who followed Bert to Rome?", "local", ["bert", "rome"]),  # one chunk mentions Rome
        ({}, "What is it all about?", "global", []),
        ({"mode": "local"}, QUERY, "local", ["anna", "emil"]),
        ({"mode": "global"}, QUERY, "global", []),
        ({"strategy": PaperStrategy()}, QUERY, "local", ["anna", "emil"]),
        ({"strategy": TreeTraversalStrategy()}, QUERY, "global", ["anna", "emil"]),
    ],
)
async def test_a_custom_event_reports_the_route(retriever, options, query, route, entities):
    retriever = retriever.model_copy(update=options)
    events = [e async for e in retriever.astream_events(query, version="v2")]
    kinds = [event["event"] for event in events]
    assert kinds == ["on_retriever_start", "on_custom_event", "on_retriever_end"]
    assert events[1]["name"] == "e2graphrag.route"
    data = events[1]["data"]
    assert json.loads(json.dumps(data))["route"] == route
    assert data["entities"] == entities
    assert data["reason"] == data["trace"]["reason"]
    assert data["node_ids"] == [document.id for document in events[2]["data"]["output"]]


async def test_callback_handlers_receive_the_route(retriever):
    for documents, recorder in [
        (retriever.invoke(QUERY, {"callbacks": [r := EventRecorder()]}), r),
        (await retriever.ainvoke(QUERY, {"callbacks": [a := EventRecorder()]}), a),
    ]:
        names = [name for name, _ in recorder.events]
        assert names == ["start", "e2graphrag.route", "end"]
        metadata, data, ids = (value for _, value in recorder.events)
        assert metadata["ls_retriever_name"] == "e2graphrag"
        assert data["node_ids"] == ids == [document.id for document in documents]
    async_recorder = AsyncEventRecorder()
    await retriever.ainvoke(QUERY, {"callbacks": [async_recorder]})
    assert async_recorder.names == ["e2graphrag.route"]


async def test_the_index_sends_the_route_event(index):
    events = [e["event"] async for e in index.astream_events(QUERY, version="v2")]
    assert events == ["on_retriever_start", "on_custom_event", "on_retriever_end"]


# Documents


def all_ids(index: E2GraphRAGIndex, where, expand: str) -> set[str]:
    """Return the ids that a search without limit finds."""
    found = index.as_retriever(k=1000, mode="global", filter=where, expand=expand).invoke("All?")
    return {document.id for document in found}


FILTERS = [
    None,
    {"author": "Ann"},
    {"source": {"$in": ["mill.pdf"]}},
    lambda metadata: metadata["page"] % 2 == 1,
    {"tags": ["mill"], "page": {"$in": [1, 2, 3]}},
]


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("expand", ["none", "children", "leaves"])
@pytest.mark.parametrize("mode", ["auto", "local", "global"])
@pytest.mark.parametrize("where", FILTERS)
def test_exactly_k_documents_are_returned_if_available(novel, where, mode, expand):
    available = all_ids(novel, where, expand)
    assert len(available) > 2
    retriever = novel.as_retriever(mode=mode, filter=where, expand=expand)
    for query in QUERIES:
        for k in (1, 2, 3, 7, 12, 40):
            ids = [document.id for document in retriever.invoke(query, k=k)]
            assert len(ids) == min(k, len(available))
            assert len(set(ids)) == len(ids)
            assert set(ids) <= available


async def test_nothing_is_found_if_the_index_is_empty_or_nothing_passes_the_filter(
    lc_index_of, retriever
):
    empty = lc_index_of([]).as_retriever()
    assert empty.invoke(QUERY) == await empty.ainvoke(QUERY) == []
    assert retriever.invoke(QUERY, filter={"author": "Zoe"}) == []


@pytest.mark.parametrize("scores", [False, True])
def test_every_document_has_the_same_json_metadata_keys(lc_index_of, scores, caplog):
    pages = [
        *split_into_pages(STORY, "map.pdf", author="Ann", tags=["a", {"b": [1, None]}], ratio=0.5),
        *split_into_pages(MILL, "mill.pdf", author="Bob", tags=[], ratio=2),
    ]
    retriever = lc_index_of(pages).as_retriever(k=50, include_scores=scores)
    serde = JsonPlusSerializer()
    for mode in ("auto", "local", "global"):
        found = retriever.invoke(QUERY, mode=mode)
        assert {d.metadata["e2_level"] for d in found} >= {0, 1}
        for document in found:
            keys = {"source", "page", "pages", "author", "tags", "ratio"} | KEYS
            assert set(document.metadata) == keys | (SCORE_KEYS if scores else set())
            assert document.id == document.metadata["e2_node_id"]
            assert json.loads(json.dumps(document.metadata, allow_nan=False)) == document.metadata
        caplog.clear()  # of the search above
        with caplog.at_level(logging.WARNING):
            assert serde.loads_typed(serde.dumps_typed(found)) == found
        assert not caplog.records


def test_a_summary_has_the_metadata_that_its_chunks_share(index):
    found = {d.id: d for d in index.as_retriever(k=50).invoke(QUERY)}
    summaries = [d for d in found.values() if d.metadata["e2_level"] == 1]
    assert len(summaries) == 3
    for summary in summaries:
        leaves = [found[child] for child in summary.metadata["e2_children"].split(", ")]
        for key in ("source", "author", "e2_doc_id"):
            values = {leaf.metadata[key] for leaf in leaves}
            assert summary.metadata[key] == (values.pop() if len(values) == 1 else "")
        assert summary.metadata["pages"] == sorted({p for d in leaves for p in d.metadata["pages"]})
        assert summary.metadata["page"] == summary.metadata["pages"][0]
        assert all(leaf.metadata["e2_parent"] == summary.id for leaf in leaves)


def test_a_chunk_across_two_pages_lists_both_and_is_found_by_either(lc_index_of, pages):
    index = lc_index_of(pages[:3], chunk_size=60)
    retriever = index.as_retriever(k=50)
    for document in retriever.invoke(QUERY):
        touched = {
            page.metadata["page"]
            for page in pages[:3]
            if any(
                page.id == segment["e2_doc_id"]
                for segment in json.loads(document.metadata["e2_segments"])
            )
        }
        assert document.metadata["pages"] == sorted(touched)
        assert document.metadata["page"] == min(touched)
        found = {
            page: {hit.id for hit in retriever.invoke(QUERY, filter={"page": page})}
            for page in (1, 2, 3)
        }
        assert touched == {page for page, ids in found.items() if document.id in ids}


def test_segments_say_which_part_of_a_passage_lies_on_which_page(index, pages):
    texts = {page.id: page.page_content for page in pages}
    source = "\n\n".join(page.page_content for page in pages[:3])
    for document in index.as_retriever(k=50, filter={"source": "map.pdf"}).invoke(QUERY):
        for segment in json.loads(document.metadata["e2_segments"]):
            part = source[segment["start"] : segment["end"]]
            assert part.strip() in texts[segment["e2_doc_id"]]
            assert segment["e2_doc_id"] == f"map.pdf-{segment['page']}"


def test_page_filters_still_keep_tenants_apart(lc_index_of):
    pages = [
        Document(f"Anna met Bert on {n}.", metadata={"source": "s", "page": n, "tenant": who})
        for n, who in ((1, "a"), (2, "a"), (3, "b"))
    ]
    for tree_per in ("source", "corpus"):
        retriever = lc_index_of(pages, chunk_size=1000, tree_per=tree_per).as_retriever(k=9)
        assert retriever.invoke(QUERY, filter={"page": 1})
        for who, numbers in (("a", "12"), ("b", "3")):
            found = retriever.invoke(QUERY, filter={"tenant": who})
            assert [hit.page_content.count("Anna") for hit in found] == [len(numbers)]
        assert retriever.invoke(QUERY, filter={"page": 1, "tenant": "b"}) == []


def test_offsets_locate_a_chunk_in_its_source(index, pages):
    text = "\n\n".join(page.page_content for page in pages[:3])
    where = {"source": "map.pdf"}
    for document in index.as_retriever(k=50, filter=where).invoke(QUERY):
        start, end = document.metadata["e2_start"], document.metadata["e2_end"]
        if document.metadata["e2_level"] == 0:
            assert document.page_content == text[start:end]


def test_scores_decrease_and_have_reasons(retriever):
    scored = retriever.model_copy(update={"include_scores": True})
    for mode in ("auto", "local", "global"):
        metadata = [d.metadata for d in scored.invoke(QUERY, mode=mode, k=8)]
        scores = [m["e2_score"] for m in metadata]
        assert all(type(score) is float for score in scores)
        assert scores == sorted(scores, reverse=True)
        assert all(m["e2_reasons"] for m in metadata)
    assert metadata[0]["e2_entities"] == ""
    assert set(scored.invoke(QUERY, mode="local")[0].metadata["e2_entities"].split(", ")) <= {
        "anna",
        "emil",
    }


def test_without_scores_a_node_is_equal_in_all_results(retriever):
    found = [d for query in QUERIES for d in retriever.invoke(query, k=10)]
    assert len({d.id for d in found}) == len({d.model_dump_json() for d in found})


def test_mutating_a_document_does_not_change_the_index(lc_index_of):
    pages = [
        page.model_copy(update={"metadata": {**page.metadata, "tags": [{"places": ["sea"]}]}})
        for page in two_sources()
    ]
    retriever = lc_index_of(pages).as_retriever(k=10)
    before = [d.model_dump_json() for d in retriever.invoke(QUERY)]
    for document in retriever.invoke(QUERY):
        document.page_content = "gone"
        document.metadata["tags"][0]["places"].append("mud")
        document.metadata["e2_doc_ids"].append("nobody")
        document.metadata["source"] = None
    assert [d.model_dump_json() for d in retriever.invoke(QUERY)] == before


def test_numpy_integers_are_valid_options(retriever):
    assert len(retriever.invoke(QUERY, k=np.int64(2))) == 2
    where = {"page": np.int64(1)}
    assert {d.metadata["page"] for d in retriever.invoke(QUERY, filter=where)} == {1}


# Filters


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("mode", ["auto", "local", "global"])
@pytest.mark.parametrize(
    ("where", "passes"),
    [
        ({"page": 1}, lambda m: m["page"] == 1),
        ({"page": {"$in": [1, 2]}, "author": "Bob"}, lambda m: m["author"] == "Bob"),
        ({"author": "Ann", "page": 2}, lambda m: m["page"] == 2 and m["source"] == "map.pdf"),
    ],
)
async def test_a_summary_passes_a_filter_only_if_all_its_chunks_pass(
    lc_index_of, where, passes, mode
):
    pages = [
        *split_into_pages(STORY, "map.pdf", 4, author="Ann"),
        *split_into_pages(MILL, "mill.pdf", 4, author="Bob"),
    ]
    index = lc_index_of(pages, group_size=2)
    everything = {d.id: d for d in index.as_retriever(k=1000).invoke(QUERY)}
    children = {
        id_: d.metadata["e2_children"].split(", ") if d.metadata["e2_children"] else []
        for id_, d in everything.items()
    }

    def leaves(id_):
        if not children[id_]:
            return [id_]
        return [leaf for child in children[id_] for leaf in leaves(child)]

    expected = {
        id_ for id_ in everything if all(passes(everything[leaf].metadata) for leaf in leaves(id_))
    }
    assert {everything[id_].metadata["e2_level"] for id_ in expected} >= {0, 1}
    assert len(expected) < len(everything)
    retriever = index.as_retriever(k=1000, mode=mode)
    for query in QUERIES:
        for filter_ in (where, passes):
            assert {d.id for d in retriever.invoke(query, filter=filter_)} == expected
        assert {d.id for d in await retriever.ainvoke(query, filter=where)} == expected


def test_a_user_key_named_document_id_can_be_filtered(lc_index_of):
    pages = [
        page.model_copy(update={"metadata": {**page.metadata, "document_id": f"user-{number}"}})
        for number, page in enumerate(two_sources())
    ]
    index = lc_index_of(pages)
    assert index.get([pages[0].id]) == [pages[0]]
    for where in ({"document_id": "user-1"}, lambda m: m["document_id"] == "user-1"):
        found = index.invoke(QUERY, filter=where)
        assert found
        assert {d.metadata["document_id"] for d in found} == {"user-1"}
        assert {d.metadata["page"] for d in found} == {2}


def test_an_empty_call_filter_replaces_the_retrievers_filter(index):
    retriever = index.as_retriever(k=50, filter={"author": "Ann"})
    assert len(retriever.invoke(QUERY, filter={})) > len(retriever.invoke(QUERY))


# Threads and event loops


@pytest.mark.slow
async def test_concurrent_sync_and_async_queries_agree(novel):
    retriever = novel.as_retriever(k=6, include_scores=True)
    queries = [f"{a} {b}" for a in QUERIES for b in QUERIES]
    sync = [retriever.invoke(query) for query in queries]
    assert await asyncio.gather(*(retriever.ainvoke(query) for query in queries)) == sync
    found: dict[int, list[Document]] = {}

    def ask(number: int) -> None:
        found[number] = retriever.invoke(queries[number])

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(len(queries))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[n] for n in range(len(queries))] == sync


@pytest.fixture
def no_blocking():
    """Raise for blocking calls in an event loop."""
    with blockbuster_ctx() as blockbuster:
        yield blockbuster


async def test_no_async_method_blocks_the_event_loop(no_blocking, pages, tmp_path):
    with pytest.raises(BlockingError):
        Path(tmp_path / "x").write_text("text")  # noqa: ASYNC240 - proves that the fixture works
    options = SMALL | {"llm": DigestChatModel().with_config(tags=["build"])}
    index = await E2GraphRAGIndex.afrom_documents(
        pages[:2], **grouped({"path": tmp_path / "novel.e2g", **options})
    )
    assert await index.aadd_documents(pages[2:3])
    assert (await index.aupsert(pages[3:]))["failed"] == []
    assert (await index.abuild()).documents == 0  # upserts build
    await index.aupsert([Document("Zoe went to Lima.", id="late")])
    retriever = index.as_retriever(include_scores=True)
    found = await retriever.ainvoke(QUERY, mode="local", filter={"author": "Ann"}, max_hops=2)
    assert found
    assert await retriever.abatch(QUERIES)
    assert [e async for e in retriever.astream_events(QUERY, version="v2")]
    assert await index.ainvoke("Who went to Lima?")
    assert await index.aget(["late", found[0].id])
    assert (await index.adelete(["late"]))["num_deleted"] == 1
    await asyncio.to_thread(index.close)


def test_filters_see_the_same_keys_as_the_documents(lc_index_of, pages, open_index, story):
    retriever = lc_index_of(pages).as_retriever(k=50)
    [first, *_] = sources = sorted({page.metadata["source"] for page in pages})
    assert len(sources) > 1
    tree = retriever.invoke("Anna?", filter={"source": first})[0].metadata["e2_source_id"]
    found = retriever.invoke("Anna?", filter={"e2_source_id": tree})
    assert {document.metadata["source"] for document in found} == {first}
    assert found == retriever.invoke("Anna?", filter=lambda m: m["e2_source_id"] == tree)
    [page] = [page for page in pages if page.metadata == pages[0].metadata]
    by_page = retriever.invoke("Anna?", filter=lambda m: m["e2_doc_id"] == page.id)
    assert {document.metadata["e2_doc_id"] for document in by_page} == {page.id}
    rag = open_index()
    rag.add(story)
    engine_retriever = E2GraphRAGRetriever(index=rag, filter={"document_id": "story"})
    assert engine_retriever.invoke("Anna?")
    assert not engine_retriever.invoke("Anna?", filter={"document_id": "other"})


async def test_the_index_accepts_the_retrievers_call_options(lc_index_of, pages):
    index = lc_index_of(pages)
    options = {
        "k": 2,
        "mode": "local",
        "max_hops": 1,
        "filter": {"author": "Ann"},
        "expand": "leaves",
        "strategy": PaperStrategy(2),
        "include_scores": True,
    }
    query = "Who gave Anna the map?"
    expected = index.as_retriever(**options).invoke(query)
    assert expected
    assert expected[0].metadata["e2_score"]
    for runnable in (index, index.as_retriever()):
        assert runnable.invoke(query, **options) == expected
        assert await runnable.ainvoke(query, **options) == expected
    assert index.similarity_search(query, 2) == index.invoke(query, k=2)


@pytest.mark.parametrize(
    ("where", "levels"),
    [
        ({"e2_level": 0}, {0}),
        ({"e2_kind": "summary"}, {1}),
        ({"$not": {"e2_kind": "summary"}}, {0}),
    ],
)
def test_a_filter_can_select_chunks_or_summaries(lc_index_of, pages, where, levels):
    index = lc_index_of(pages)
    retriever = index.as_retriever(k=50, mode="global", filter=where)
    assert {document.metadata["e2_level"] for document in retriever.invoke(QUERY)} == levels
    index.rag.add(SourceDocument("other", "Ida met Joe in Lima. " * 8))  # without LangChain
    found = retriever.invoke(QUERY)
    assert {document.metadata["e2_level"] for document in found} == levels
    assert "other" in {document.metadata["e2_source_id"] for document in found}


def test_a_filter_finds_a_chunk_of_two_pages_beside_documents_of_the_engine(lc_index_of, pages):
    index = lc_index_of(pages[:2], chunk_size=60)
    index.rag.add(SourceDocument("other", "Ida met Joe in Lima."))
    for page in pages[:2]:
        where = {"e2_doc_id": page.id, "source": page.metadata["source"]}
        [found] = index.as_retriever(k=9, filter=where).invoke(QUERY)
        assert found.metadata["e2_doc_ids"] == [pages[0].id, pages[1].id]
    [found] = index.as_retriever(k=9, filter={"e2_doc_id": "other"}).invoke(QUERY)
    assert found.metadata["source"] == "other"
