"""`E2GraphRAGRetriever`: results, routes, filters, arguments and concurrency."""

from __future__ import annotations

import asyncio
import copy
import inspect
import re
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from llama_index.core import (
    Document,
    Settings,
    StorageContext,
    get_response_synthesizer,
    load_index_from_storage,
)
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    CondenseQuestionChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events.base import BaseEvent
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import TokenTextSplitter
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, TextNode
from llama_index.core.vector_stores import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)

from e2graphrag_integrations import E2GraphRAG, IndexSettings, Models, SourceDocument
from e2graphrag_integrations.errors import InvalidInputError, SettingsMismatchError
from e2graphrag_integrations.llama_index import (
    E2GraphRAGIndex,
    E2GraphRAGRetriever,
    E2RoutingEvent,
    GraphProximitySelector,
    RetrieverMode,
)
from e2graphrag_integrations.llama_index.options import EngineOptions
from e2graphrag_integrations.retrieval.strategies.hybrid import HybridStrategy
from e2graphrag_integrations.retrieval.strategies.paper import PaperStrategy
from e2graphrag_integrations.retrieval.strategies.tree_traversal import TreeTraversalStrategy
from fakes import AnonymousEmbedder, NameExtractor

pytestmark = pytest.mark.usefixtures("all_summaries")  # they count all nodes

LOCAL, GLOBAL, LONE = "What did Anna give Bert?", "What is it all about?", "Who is Anna?"
QUESTIONS = [
    LOCAL,
    GLOBAL,
    LONE,
    "Anna, Bert, Cleo, Dora and Emil?",
    "Who took flour from Fay to Oslo?",
    "Anna and Fay?",
    "Zoe met Yan?",
    "?",
    "Ω — ナ \ud800",
    "Oslo. " * 500,
]


@pytest.fixture
def index(index_of, documents):
    return index_of(documents, llm="extractive")


def with_scores(nodes: list[NodeWithScore]) -> list[tuple[str, float | None]]:
    return [(node.node.node_id, node.score) for node in nodes]


def documents_of(nodes: list[NodeWithScore]) -> set[str | None]:
    return {node.node.ref_doc_id for node in nodes}


# Nodes and scores


@pytest.mark.parametrize("method", ["_retrieve", "_aretrieve"])
def test_the_retrieve_hooks_use_llama_index_parameter_names(method):
    assert list(inspect.signature(getattr(E2GraphRAGRetriever, method)).parameters) == [
        "self",
        "query_bundle",
    ]


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("mode", ["adaptive", "local", "global"])
@pytest.mark.parametrize(
    "strategy",
    [None, PaperStrategy(), TreeTraversalStrategy()],
    ids=["default", "paper", "tree traversal"],
)
async def test_results_are_sorted_copies_of_docstore_nodes_with_new_scores(
    index, question, mode, strategy
):
    retriever = index.as_retriever(mode, similarity_top_k=6, strategy=strategy)
    nodes = retriever.retrieve(question)
    assert all(type(node.score) is float for node in nodes)
    scores = [node.score for node in nodes]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert strategy is not None or mode != "adaptive" or len(nodes) == 6
    again = retriever.retrieve(question)
    assert (
        with_scores(again) == with_scores(nodes) == with_scores(await retriever.aretrieve(question))
    )
    for one, other in zip(nodes, again, strict=True):
        assert one is not other
        assert one.node is not other.node
        stored = index.docstore.get_node(one.node.node_id)
        assert (one.node.hash, one.node.metadata) == (stored.hash, stored.metadata)
        assert set(one.node.metadata) == {"title", "year", "e2_level", "e2_kind", "e2_tree"}


SUMMARIES = MetadataFilters(filters=[MetadataFilter(key="e2_kind", value="summary")])


@pytest.mark.parametrize("expand", ["none", "children", "leaves"])
def test_expansion_keeps_to_the_number_of_nodes(index, expand):
    for k in (1, 2):
        options = {"filters": SUMMARIES, "similarity_top_k": k, "expand": expand}
        assert len(index.as_retriever("global", **options).retrieve(GLOBAL)) == k


def test_expansion_replaces_summaries_by_the_nodes_below(index):
    def found(expand: str) -> list[NodeWithScore]:
        return index.as_retriever(
            "global", filters=SUMMARIES, similarity_top_k=50, expand=expand
        ).retrieve(GLOBAL)

    def below(node_id: str) -> list[str]:
        children = index.docstore.get_node(node_id).child_nodes
        return [child.node_id for child in children or ()]

    def ids(nodes: list[NodeWithScore]) -> list[str]:
        return [node.node.node_id for node in nodes]

    plain = found("none")
    assert {node.metadata["e2_kind"] for node in plain} == {"summary"}
    children = [child for node_id in ids(plain) for child in below(node_id)]
    assert ids(found("children")) == list(dict.fromkeys(children))
    leaves = found("leaves")
    assert {node.metadata["e2_level"] for node in leaves} == {0}
    assert len(leaves) == len(set(ids(leaves))) == index.report.chunks


# Modes, strategy, trace

AUTO: list[list[str]] = [[], ["auto"]]


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("mode", "question", "route", "paper_route"),
    [
        ("adaptive", LOCAL, "local", "local"),
        ("adaptive", GLOBAL, "global", "global"),
        ("adaptive", LONE, "local", "global"),  # one rare name, so there is no pair to measure
        ("local", LONE, "local", "local"),
        ("local", GLOBAL, "local", "local"),
        ("global", LOCAL, "global", "global"),
    ],
)
def test_the_mode_decides_the_route(index_with_rare_names, mode, question, route, paper_route):
    for options, expected_route in (({}, route), ({"strategy": PaperStrategy()}, paper_route)):
        by_position = index_with_rare_names.as_retriever(mode, **options)
        assert by_position.explain(question).route == expected_route
        expected = with_scores(by_position.retrieve(question))
        for retriever in (
            index_with_rare_names.as_retriever(RetrieverMode(mode), **options),
            index_with_rare_names.as_retriever(mode=mode, **options),
            E2GraphRAGRetriever(index_with_rare_names, mode=RetrieverMode(mode), **options),
            *(
                index_with_rare_names.as_retriever(*auto, **options)
                for auto in AUTO
                if mode == "adaptive"
            ),
        ):
            assert with_scores(retriever.retrieve(question)) == expected


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("mode", "question", "lists"),
    [
        ("adaptive", LOCAL, {"dense", "bm25", "relevance", "entities", "bridges"}),
        ("adaptive", GLOBAL, {"dense", "bm25", "relevance"}),
        ("local", LOCAL, {"entities"}),
        ("local", GLOBAL, set()),
        ("global", LOCAL, {"dense", "bm25", "relevance"}),
    ],
)
def test_the_mode_decides_which_lists_are_ranked(index_with_rare_names, mode, question, lists):
    retriever = index_with_rare_names.as_retriever(mode, similarity_top_k=100)
    trace, nodes = retriever.explain(question), retriever.retrieve(question)
    assert set(trace.lists) == lists
    assert {link.entity for link in trace.links} == (
        {"anna", "bert"} if "entities" in lists else set()
    )
    assert bool(nodes) == bool(lists)
    if mode == "local":
        assert {node.metadata["e2_level"] for node in nodes} <= {0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "locale"}, "mode='locale' must be one of adaptive, local, global"),
        ({"mode": None}, "mode=None must be"),
        ({"similarity_top_k": 0}, "k=0"),
        ({"similarity_top_k": 2.5}, "k=2.5"),
        ({"expand": "all"}, "expand='all' must be one of none, children, leaves"),
        ({"strategy": PaperStrategy}, "no method rank"),
        ({"filters": {"year": 1890}}, "must be MetadataFilters"),
        ({"doc_ids": "story"}, "doc_ids='story' must be a list"),
        ({"doc_ids": 5}, "doc_ids=5 must be a list"),
    ],
)
def test_invalid_arguments_raise_in_the_constructor(index, options, message):
    for make in (index.as_retriever, lambda **given: E2GraphRAGRetriever(index, **given)):
        with pytest.raises(InvalidInputError, match=message.replace("(", r"\(")):
            make(**options)
    with pytest.raises(InvalidInputError):
        GraphProximitySelector(index, **options)


def test_a_retriever_can_have_its_own_strategy(index_of):
    text = "Anna met Bert. Cleo met Bert. Anna slept well. Cleo ate alone."
    index = index_of([Document(id_="d", text=text)], llm="extractive", chunk_size=8)
    far, near = (index.as_retriever(strategy=PaperStrategy(max_hops=hops)) for hops in (2, 1))
    question = "Anna and Cleo?"  # two edges apart, in one chunk
    assert [one.explain(question).route for one in (far, near)] == ["local", "global"]
    assert [pair.hops for pair in far.explain(question).pairs] == [2]
    assert len(far.retrieve(question)) < len(near.retrieve(question))
    selectors = [
        GraphProximitySelector(index, strategy=PaperStrategy(max_hops=hops)) for hops in (2, 1)
    ]
    assert [one.select(["a", "b"], question).ind for one in selectors] == [0, 1]


async def test_explain_describes_the_retrieval(index):
    retriever = index.as_retriever()
    for question in (LOCAL, GLOBAL, QueryBundle(LONE)):
        trace, later = retriever.explain(question), await retriever.aexplain(question)
        assert (trace.route, trace.reason, trace.links) == (later.route, later.reason, later.links)
        nodes = retriever.retrieve(question)
        listed = {ranked.node_id for one in trace.lists.values() for ranked in one}
        assert {node.node.node_id for node in nodes} <= listed
        assert trace.explain().startswith(f"route: {trace.route}\nwhy: ")


class EventRecorder(BaseEventHandler):
    """Records the retrieval events of the instrumentation."""

    events: list[Any] = []  # noqa: RUF012 - pydantic copies it
    threads: set[int] = set()  # noqa: RUF012 - as above

    @classmethod
    def class_name(cls) -> str:
        return "EventRecorder"

    def handle(self, event: BaseEvent, **kwargs: Any) -> None:
        if "Retriev" in event.class_name() or isinstance(event, E2RoutingEvent):
            self.events.append(event)
            self.threads.add(threading.get_ident())


@pytest.fixture
def recorder() -> Iterator[EventRecorder]:
    handler, root = EventRecorder(), get_dispatcher()
    root.add_event_handler(handler)
    yield handler
    root.event_handlers.remove(handler)


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("strategy", [None, PaperStrategy()], ids=["default", "paper"])
async def test_the_routing_event_is_sent_within_the_retrieval(
    index_with_rare_names, recorder, is_async, strategy
):
    retriever = index_with_rare_names.as_retriever(strategy=strategy)
    nodes = await retriever.aretrieve(LOCAL) if is_async else retriever.retrieve(LOCAL)
    assert [event.class_name() for event in recorder.events] == [
        "RetrievalStartEvent",
        "E2RoutingEvent",
        "RetrievalEndEvent",
    ]
    assert recorder.threads == {threading.get_ident()}
    routing = recorder.events[1]
    assert routing.route == "local"
    assert routing.entities == ["anna", "bert"]
    assert routing.node_ids == [node.node.node_id for node in nodes]
    assert (routing.reason, routing.trace.reason) == (retriever.explain(LOCAL).reason,) * 2
    assert routing.model_dump_json()


def test_scores_are_relevances_that_keep_the_ranking(index, recorder):
    strategy = HybridStrategy(entity_weight=100)  # ranks nodes above others with a higher cosine
    nodes = index.as_retriever(strategy=strategy, similarity_top_k=8).retrieve(LOCAL)
    event = recorder.events[1]
    relevance = [event.relevance[node.node.node_id] for node in nodes]
    assert relevance != sorted(relevance, reverse=True)
    assert [node.score for node in nodes] == [max(relevance[i:]) for i in range(len(nodes))]
    scores = [event.scores[node.node.node_id] for node in nodes]
    assert scores == sorted(set(scores), reverse=True)
    assert scores[0] > 1


# Filters


def matching_documents(
    index: E2GraphRAGIndex, filters: MetadataFilters, **options: Any
) -> set[str | None]:
    """Return the documents that pass, after checking that both routes agree."""
    found = [
        index.as_retriever(mode, filters=filters, similarity_top_k=50, **options).retrieve(question)
        for mode, question in (("local", "Anna, Bert, Fay and Gus?"), ("global", GLOBAL))
    ]
    assert documents_of(found[0]) == documents_of(found[1])
    return documents_of(found[1])


def one(key: str, operator: FilterOperator, value: Any) -> MetadataFilters:
    return MetadataFilters(filters=[MetadataFilter(key=key, operator=operator, value=value)])


STORY, OTHER, BOTH, NONE = {"story"}, {"other"}, {"story", "other"}, set[str]()


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize(
    ("key", "operator", "value", "expected"),
    [
        ("year", "==", 1890, STORY),
        ("year", "==", 1890.0, STORY),
        ("year", "==", "1890", NONE),
        ("year", "!=", 1890, OTHER),
        ("year", "!=", "1890", BOTH),
        ("year", ">", "1880", NONE),
        ("year", "<=", "1901", NONE),
        ("year", "in", ["1890"], NONE),
        ("year", "nin", ["1890"], BOTH),
        ("year", "contains", 1890, NONE),
        ("year", "any", [1890], NONE),
        ("title", "<", 5, NONE),
        ("title", "contains", 1, NONE),
        ("title", "all", [1], NONE),
        ("year", ">", 1890, OTHER),
        ("year", ">=", 1890, BOTH),
        ("year", "<", 1901, STORY),
        ("year", "<=", 1890, STORY),
        ("year", "in", [1890, 7], STORY),
        ("year", "in", [], NONE),
        ("year", "nin", [1890, 7], OTHER),
        ("title", "contains", "Map", STORY),
        ("title", "contains", "map", NONE),
        ("title", "any", ["Map", "Sea"], STORY),
        ("title", "all", ["A", "Mill"], OTHER),
        ("title", "text_match", "Mill", OTHER),
        ("title", "text_match", "mill", NONE),
        ("title", "text_match_insensitive", "mill", OTHER),
        ("title", "is_empty", None, NONE),
        ("author", "is_empty", None, BOTH),
        ("author", "==", "Wells", NONE),
        ("author", "!=", "Wells", BOTH),
        ("author", "nin", ["Wells"], BOTH),
        ("author", ">", 3, NONE),
        ("doc_id", "==", "story", STORY),
        ("ref_doc_id", "in", ["other"], OTHER),
        ("document_id", "!=", "other", STORY),
        ("e2_tree", "==", "other", OTHER),
    ],
)
def test_every_operator_filters_both_routes(index, key, operator, value, expected):
    assert matching_documents(index, one(key, FilterOperator(operator), value)) == expected


def test_documents_whose_values_differ_in_type_can_be_compared(index_of, documents, open_index):
    """One document with another type must not fail the query; the core's filter agrees."""
    values = [1890, "1890", 1901.5, True, ["1890"], None]
    texts = [f"Anna met Bert in {name}." for name in ("Oslo", "Rome", "Bonn", "Turku", "Paris")]
    given = [
        Document(id_=str(number), text=text, metadata={} if value is None else {"year": value})
        for number, (text, value) in enumerate(zip([*texts, "Cleo left."], values, strict=True))
    ]
    index, core = index_of(given), open_index()
    core.add([SourceDocument(d.node_id, d.text, metadata=dict(d.metadata)) for d in given])
    scalars, lists = (1890, "1890", 2, 2000.5), ([1890], ["1890"], [2])
    names = {"==": "$eq", "!=": "$ne", ">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte"}
    pairs = [(*pair, value) for pair in names.items() for value in scalars]
    pairs += [(name, f"${name}", value) for name in ("in", "nin") for value in lists]
    for operator, name, value in pairs:
        expected = core.retrieve(GLOBAL, mode="global", where={"year": {name: value}}).nodes
        filters = one("year", FilterOperator(operator), value)
        found = index.as_retriever("global", filters=filters).retrieve(GLOBAL)
        assert documents_of(found) == {node.document_id for node in expected}, (name, value)


def test_one_and_zero_also_mean_true_and_false(index_of, documents):
    """LlamaIndex's filters cannot contain a bool; in its own store, 1 equals True as well."""
    documents[0].metadata |= {"read": True, "marks": [True, "x"], "copies": 1}
    documents[1].metadata |= {"read": False, "marks": [False], "copies": 0}
    index = index_of(documents)
    for key, operator, value, expected in (
        ("read", "==", 1, STORY),
        ("read", "==", 0.0, OTHER),
        ("read", "!=", 1, OTHER),
        ("read", "in", [1, 5], STORY),
        ("read", "nin", [0], STORY),
        ("marks", "contains", 1, STORY),
        ("marks", "any", [0, 7], OTHER),
        ("marks", "all", [1], STORY),
        ("copies", "==", 1, STORY),
        ("read", "==", "1", NONE),
        ("read", ">", 0, NONE),
    ):
        assert matching_documents(index, one(key, FilterOperator(operator), value)) == expected


def test_every_llama_index_operator_is_supported(index):
    lists = ("in", "nin", "any", "all")
    for operator in FilterOperator:
        value = ["1"] if operator.value in lists else "1"
        assert index.as_retriever(filters=one("year", operator, value))


def test_lists_in_metadata_can_be_filtered(index_of, documents):
    documents[0].metadata["tags"] = ["sea", "map"]
    documents[1].metadata["tags"] = ["mill"]
    index = index_of(documents, llm="extractive")
    for operator, value, expected in (
        ("contains", "sea", STORY),
        ("contains", "se", NONE),
        ("any", ["sea", "mill"], BOTH),
        ("all", ["sea", "map"], STORY),
        ("all", ["sea", "mill"], NONE),
    ):
        assert matching_documents(index, one("tags", FilterOperator(operator), value)) == expected


def test_conditions_nest(index):
    old = MetadataFilter(key="year", operator=FilterOperator.LT, value=1900)
    mill = MetadataFilter(key="title", value="A Mill")

    def joined(condition: FilterCondition | None, *filters: Any) -> MetadataFilters:
        return MetadataFilters(filters=list(filters), condition=condition)

    both = joined(FilterCondition.AND, old, mill)
    either = joined(FilterCondition.OR, old, mill)
    neither = joined(FilterCondition.NOT, old, mill)
    for filters, expected in (
        (both, NONE),
        (joined(None, old, mill), NONE),
        (either, BOTH),
        (neither, NONE),
        (joined(FilterCondition.NOT, old), OTHER),
        (joined(FilterCondition.AND, either, joined(FilterCondition.NOT, mill)), STORY),
        (joined(FilterCondition.OR, both, joined(FilterCondition.AND, mill)), OTHER),
        (joined(FilterCondition.NOT, joined(FilterCondition.NOT, old)), STORY),
        (joined(FilterCondition.AND), BOTH),
        (joined(FilterCondition.OR), BOTH),
        (joined(FilterCondition.NOT), BOTH),
    ):
        assert matching_documents(index, filters) == expected


@pytest.mark.parametrize(
    ("operator", "value", "levels"),
    [("==", 0, {0}), (">", 0, {1, 2}), ("in", [0, 2], {0, 2}), ("!=", 1, {0, 2}), ("==", 9, set())],
)
def test_a_filter_can_select_levels(index, operator, value, levels):
    filters = one("e2_level", FilterOperator(operator), value)
    nodes = index.as_retriever("global", filters=filters, similarity_top_k=50).retrieve(GLOBAL)
    there = {node.metadata["e2_level"] for node in index.docstore.docs.values()}
    assert {node.metadata["e2_level"] for node in nodes} == levels & there
    if 0 not in levels:
        local = index.as_retriever("local", filters=filters)
        assert local.retrieve(LOCAL) == []


def test_a_filter_can_select_chunks_or_summaries(index):
    for kind in ("chunk", "summary"):
        filters = one("e2_kind", FilterOperator.EQ, kind)
        nodes = index.as_retriever("global", filters=filters).retrieve(GLOBAL)
        assert {node.metadata["e2_kind"] for node in nodes} == {kind}


@pytest.mark.parametrize(
    ("key", "operator", "value"),
    [
        ("year", "<=", [1]),
        ("year", "in", 1890),
        ("title", "in", "A Map and more"),
        ("title", "nin", "A Map and more"),
        ("title", "any", "Map"),
        ("title", "all", "Map"),
        ("year", ">", None),
        ("author", ">", [1]),
    ],
)
def test_filter_values_of_the_wrong_type_raise(index, key, operator, value):
    with pytest.raises(InvalidInputError, match=f"filters: {key} {operator} "):
        index.as_retriever("global", filters=one(key, FilterOperator(operator), value)).retrieve(
            GLOBAL
        )


@pytest.mark.slow
def test_filters_are_bounded(index):
    def retrieve(filters):
        return index.as_retriever("global", filters=filters).retrieve(GLOBAL)

    old = MetadataFilter(key="year", operator=FilterOperator.LT, value=1900)
    many = MetadataFilters(filters=[old] * 9_999, condition=FilterCondition.OR)
    assert matching_documents(index, many) == STORY
    with pytest.raises(
        InvalidInputError, match=r"more than 10,000 conditions: use FilterOperator\.IN"
    ):
        retrieve(MetadataFilters(filters=[old] * 10_000))  # a group counts as a condition
    deep = MetadataFilters(filters=[old])
    for _ in range(50):
        deep = MetadataFilters(filters=[deep])
    assert matching_documents(index, deep) == STORY
    with pytest.raises(InvalidInputError, match="nested more than 50 deep"):
        retrieve(MetadataFilters(filters=[deep]))
    doubled = MetadataFilters(filters=[old])
    for _ in range(40):
        doubled = MetadataFilters(filters=[doubled, doubled])
    with pytest.raises(InvalidInputError, match="more than 10,000 conditions"):
        retrieve(doubled)


def test_values_of_in_are_looked_up_in_a_set(index):
    compared = []

    class Counted(str):
        __slots__ = ()

        def __eq__(self, other):
            compared.append(other)
            return super().__eq__(other)

        __hash__ = str.__hash__

    values = [Counted(f"title {n}") for n in range(1000)]
    for operator, expected in ((FilterOperator.IN, STORY), (FilterOperator.NIN, OTHER)):
        condition = MetadataFilter.model_construct(
            key="title", operator=operator, value=[*values, "A Map"]
        )
        assert matching_documents(index, MetadataFilters(filters=[condition])) == expected
    assert len(compared) < 100
    unhashable = MetadataFilter.model_construct(
        key="title", operator=FilterOperator.IN, value=[["A Map"]]
    )
    with pytest.raises(InvalidInputError, match="must be a list of numbers and strings"):
        matching_documents(index, MetadataFilters(filters=[unhashable]))
    tags = one("tags", FilterOperator.IN, ["sea"])
    assert matching_documents(index, tags) == NONE  # a list is not in a set of strings


def test_doc_ids_select_documents(index):
    everything = MetadataFilters(filters=[])
    assert matching_documents(index, everything, doc_ids=["story"]) == STORY
    assert matching_documents(index, everything, doc_ids=["story", "unknown", "other"]) == BOTH
    assert matching_documents(index, everything, doc_ids=("unknown",)) == NONE
    assert matching_documents(index, everything, doc_ids=[]) == NONE
    old = one("year", FilterOperator.LT, 1900)
    assert matching_documents(index, old, doc_ids=["other"]) == NONE
    assert matching_documents(index, old, doc_ids=["other", "story"]) == STORY


# Questions


@pytest.mark.parametrize("question", ["", "  \n", "\ninput is  \n", QueryBundle("")])
async def test_an_empty_question_raises(index, question):
    retriever = index.as_retriever()
    for call in (retriever.retrieve, retriever.explain):
        with pytest.raises(InvalidInputError, match="question is empty"):
            call(question)
    with pytest.raises(InvalidInputError, match="question is empty"):
        await retriever.aretrieve(question)


def test_a_name_at_the_start_of_a_later_line_is_linked(index):
    question = "Tell me.\nAnna is a friend of Bert\nCleo is far."
    links = index.as_retriever().explain(question).links
    assert [link.entity for link in links] == ["anna", "bert", "cleo"]


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("strategy", [None, PaperStrategy()], ids=["default", "paper"])
def test_the_query_embedding_is_used_if_its_dimension_matches(index, strategy):
    retriever = index.as_retriever(strategy=strategy)
    plain = with_scores(retriever.retrieve(GLOBAL))
    last = retriever.explain(GLOBAL).lists["dense"][-1]
    top = index.docstore.get_node(last.node_id)
    embedding = [float(x) for x in index_vector(index, top.node_id)]

    def asked(vector: list[float] | None) -> list[tuple[str, float | None]]:
        bundle = QueryBundle(GLOBAL, embedding=vector)
        found = with_scores(retriever.retrieve(bundle))
        assert bundle.embedding is vector  # unchanged for other retrievers
        assert bundle.custom_embedding_strs is None
        return found

    def nearest(vector: list[float]) -> tuple[str, float]:
        best = retriever.explain(QueryBundle(GLOBAL, embedding=vector)).lists["dense"][0]
        return best.node_id, best.figures["cosine"]

    assert asked(None) == plain
    assert last.figures["cosine"] < 0.9
    for usable in (embedding, [3 * x for x in embedding]):
        assert nearest(usable) == (top.node_id, pytest.approx(1.0))
        assert asked(usable) != plain
        if strategy is not None:
            assert asked(usable)[0] == (top.node_id, pytest.approx(1.0))
    for unusable in ([1.0, 0.0], [], [0.0] * 256, [float("nan")] * 256, [float("inf")] * 256):
        assert asked(unusable) == plain
    assert asked([1e300] * 256) == plain  # too large for single precision


def index_vector(index: E2GraphRAGIndex, node_id: str) -> list[float]:
    """Return the vector of a node, which has only one window."""

    def read(snapshot, _):
        dense, node = snapshot.dense, snapshot.nodes.row_of[node_id]
        return dense.vectors[dense.window_nodes.tolist().index(node)].tolist()

    return index.rag.read_snapshot(read)


# Unknown arguments


def test_as_retriever_ignores_the_options_of_engines(index):
    options = dict.fromkeys(EngineOptions.__annotations__)
    options |= {"response_mode": "compact", "streaming": True, "chat_history": []}
    assert with_scores(index.as_retriever(**options).retrieve(LOCAL)) == with_scores(
        index.as_retriever().retrieve(LOCAL)
    )


@pytest.mark.parametrize(
    "method",
    [
        RetrieverQueryEngine.from_args,
        get_response_synthesizer,
        CondensePlusContextChatEngine.from_defaults,
        CondenseQuestionChatEngine.from_defaults,
        ContextChatEngine.from_defaults,
        SimpleChatEngine.from_defaults,
    ],
)
def test_every_option_of_the_installed_engines_is_accepted(method):
    names = {
        p.name for p in inspect.signature(method).parameters.values() if p.kind != p.VAR_KEYWORD
    }
    accepted = {*EngineOptions.__annotations__, *inspect.signature(E2GraphRAGRetriever).parameters}
    # LlamaIndex passes these as arguments of their own, not in the options of the engine.
    assert names - accepted <= {"llm", "retriever", "query_engine"}


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("similarity_topk", "similarity_top_k"),
        ("k", "similarity_top_k"),
        ("kk", "similarity_top_k"),
        ("top_k", "similarity_top_k"),
        ("retriever_mode", "mode"),
        ("filterss", "filters"),
        ("doc_id", "doc_ids"),
        ("vector_store_query_mode", "strategy"),
        ("vector_store_kwargs", "strategy"),
        ("color", None),
        ("llm", None),
    ],
)
def test_unknown_options_raise_with_a_suggestion(index, name, suggestion):
    hint = f"did you mean '{suggestion}'? The" if suggestion else "the"
    allowed = f"{hint} arguments are similarity_top_k, token_budget"
    message = re.escape(f"unknown argument '{name}': {allowed}")
    with pytest.raises(InvalidInputError, match=message):
        index.as_retriever(**{name: 3})
    if name != "llm":
        with pytest.raises(InvalidInputError, match=message):
            index.as_query_engine(**{name: 3})
    for constructor in (E2GraphRAGRetriever, GraphProximitySelector):
        with pytest.raises(InvalidInputError, match=message):
            constructor(index, **{name: 3})


@pytest.mark.parametrize("engine", ["as_query_engine", "as_chat_engine"])
def test_engines_reject_what_neither_they_nor_the_retriever_know(index, engine):
    for part in (index, index.scoped({"author": "Ann"})):
        if not hasattr(part, engine):
            continue
        create = getattr(part, engine)
        with pytest.raises(
            InvalidInputError, match=r"the arguments are similarity_top_k, .*response_mode"
        ):
            create(llm=MockLLM(), colour=1)
        with pytest.raises(InvalidInputError, match="did you mean 'response_mode'"):
            create(llm=MockLLM(), response_mod="compact")
        for wrong in (5, "gpt", object()):
            with pytest.raises(InvalidInputError, match="not a LlamaIndex LLM: pass an object"):
                create(llm=wrong)
    if engine == "as_chat_engine":
        with pytest.raises(InvalidInputError, match=r"chat_mode='contxt': choose one of .*context"):
            index.as_chat_engine(chat_mode="contxt", llm=MockLLM())


@pytest.mark.parametrize("wrong", [None, 5, [1], E2GraphRAGIndex, E2GraphRAG, object()])
def test_wrong_objects_are_refused_with_what_is_expected(index, wrong):
    for constructor in (E2GraphRAGRetriever, GraphProximitySelector):
        with pytest.raises(
            InvalidInputError, match=r"is not an index: pass an E2GraphRAGIndex.*or the path"
        ):
            constructor(wrong)
    for ask in (index.as_retriever().search, index.as_retriever().explain):
        with pytest.raises(InvalidInputError, match=r"query is .*pass a question as a str"):
            ask(wrong)


def test_the_error_for_mmr_names_the_setting_for_diverse_nodes(index):
    with pytest.raises(InvalidInputError, match=re.escape("HybridStrategy(diversity=0.5)")):
        index.as_retriever(vector_store_query_mode="mmr", vector_store_kwargs={"mmr_threshold": 1})


# Empty indexes


async def test_an_empty_index_returns_no_nodes(index_of, documents):
    emptied = index_of(documents, llm="extractive")
    for document in documents:
        emptied.delete_ref_doc(document.id_)
    blank = index_of([Document(text="  ")], llm="extractive")
    for index in (index_of([], llm="extractive"), emptied, blank):
        for mode in RetrieverMode:
            retriever = index.as_retriever(mode)
            for question in (LOCAL, GLOBAL, QueryBundle(GLOBAL, embedding=[1.0])):
                assert retriever.retrieve(question) == []
                assert await retriever.aretrieve(question) == []
        assert GraphProximitySelector(index).select(["a", "b"], GLOBAL).ind == 1


# Models


@pytest.fixture
def no_models(monkeypatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a model was loaded")

    for module in ("llms", "embeddings"):
        for name in ("resolve_llm", "resolve_embed_model"):
            for where in (f"llama_index.core.{module}.utils", "llama_index.core.settings"):
                monkeypatch.setattr(sys.modules[where], name, fail, raising=False)
    monkeypatch.setattr("e2graphrag_integrations.components.embedder_from_name", fail)


async def test_loading_and_local_retrieval_load_no_model(
    index_of, documents, tmp_path, monkeypatch, request
):
    built = index_of(documents, llm=MockLLM(5), embed_model=MockEmbedding(8))
    built.persist(tmp_path)
    paper = PaperStrategy()
    cases = [("local", None), ("local", paper), ("adaptive", paper)]
    expected = [
        with_scores(built.as_retriever(mode, strategy=strategy).retrieve(LOCAL))
        for mode, strategy in cases
    ]
    assert all(expected)
    request.getfixturevalue("no_models")
    with pytest.raises(AssertionError, match="a model was loaded"):
        _ = Settings.llm
    extractor = NameExtractor()
    context = StorageContext.from_defaults(persist_dir=str(tmp_path))
    for index in (
        load_index_from_storage(context, models=Models(extractor=extractor)),
        E2GraphRAGIndex.from_persist_dir(tmp_path, models=Models(extractor=extractor)),
    ):
        for (mode, strategy), found in zip(cases, expected, strict=True):
            retriever = index.as_retriever(mode, strategy=strategy)
            assert with_scores(retriever.retrieve(LOCAL)) == found
            assert with_scores(await retriever.aretrieve(LOCAL)) == found
            selector = GraphProximitySelector(index, mode=mode, strategy=strategy)
            assert selector.select(["a", "b"], LOCAL).ind == 0
            assert index.as_retriever("local", strategy=strategy).retrieve(LONE)
        with pytest.raises(SettingsMismatchError, match="pass embed_model="):
            index.as_retriever().retrieve(LOCAL)  # the default strategy embeds every question
    assert Settings._llm is None
    assert Settings._embed_model is None


# Loops and threads


async def test_sync_methods_work_inside_a_running_event_loop(index):
    assert asyncio.get_running_loop().is_running()
    retriever = index.as_retriever()
    for question in QUESTIONS:
        nodes = with_scores(retriever.retrieve(question))
        assert nodes == with_scores(await retriever.aretrieve(question))
        assert retriever.explain(question).route in {"local", "global"}
    engine = index.as_query_engine(llm=MockLLM())
    assert str(engine.query(LOCAL)) == str(await engine.aquery(LOCAL))
    index.insert(Document(id_="new", text="Ida met Jon. Ida saw Jon again."))
    assert retriever.retrieve("Ida and Jon?")[0].node.ref_doc_id == "new"
    for new in (
        index.as_retriever("local"),  # the names occur in no other document
        index.as_retriever(strategy=PaperStrategy()),
    ):
        assert documents_of(new.retrieve("Ida and Jon?")) == {"new"}


async def test_async_retrieval_does_not_block_the_event_loop(index_of, documents):
    ticks = 0

    class SlowEmbedder(AnonymousEmbedder):
        fingerprint = "slow"

        def embed_query(self, text):
            time.sleep(0.3)
            return super().embed_query(text)

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    index = index_of(documents, llm="extractive", embed_model=SlowEmbedder())
    ticking = asyncio.create_task(tick())
    assert await index.as_retriever().aretrieve(GLOBAL)
    ticking.cancel()
    assert ticks > 3


@pytest.mark.slow
def test_concurrent_threads_get_equal_results(index):
    retriever = index.as_retriever()
    expected = {question: with_scores(retriever.retrieve(question)) for question in QUESTIONS}
    with ThreadPoolExecutor(8) as pool:
        for question, nodes in zip(
            QUESTIONS * 8, pool.map(retriever.retrieve, QUESTIONS * 8), strict=True
        ):
            assert with_scores(nodes) == expected[question]


@pytest.mark.slow
async def test_concurrent_tasks_get_equal_results(index):
    retriever = index.as_retriever()
    expected = [with_scores(retriever.retrieve(question)) for question in QUESTIONS]
    found = await asyncio.gather(*map(retriever.aretrieve, QUESTIONS * 4))
    assert [with_scores(nodes) for nodes in found] == expected * 4


@pytest.mark.slow
def test_retrieval_continues_while_documents_are_inserted_and_deleted(index):
    # With diversity, the frequencies of words in the new document would change the order.
    retriever = index.as_retriever(strategy=HybridStrategy(diversity=0))
    expected = with_scores(retriever.retrieve(LOCAL))

    def change() -> None:
        for _ in range(10):
            index.insert(Document(id_="new", text="Ida met Jon. Ida saw Jon again. Ida left."))
            index.delete_ref_doc("new")

    with ThreadPoolExecutor(3) as pool:
        writing = pool.submit(change)
        while not writing.done():
            reads = [pool.submit(retriever.retrieve, q) for q in (LOCAL, "Ida and Jon?")]
            others = [one for one in reads[0].result() if one.node.ref_doc_id != "new"]
            assert with_scores(others) == expected
            assert documents_of(reads[1].result()) <= {"new", "story", "other"}
        writing.result()


def test_nodes_keep_their_offsets_and_relationships(index):
    for node in index.as_retriever("global", similarity_top_k=50).retrieve(GLOBAL):
        assert isinstance(node.node, TextNode)
        relations = node.node.relationships
        assert relations[NodeRelationship.SOURCE].node_id in BOTH
        is_summary = node.metadata["e2_kind"] == "summary"
        assert (NodeRelationship.CHILD in relations) == is_summary
        assert node.node.start_char_idx < node.node.end_char_idx


def test_node_ids_select_nodes(index):
    everything = [
        n.node_id for n in index.as_retriever("global", similarity_top_k=50).retrieve("x")
    ]
    some = everything[1:4]
    for mode in ("global", "local", "adaptive"):
        retriever = index.as_retriever(mode, node_ids=some, similarity_top_k=50)
        assert {n.node_id for n in retriever.retrieve(LOCAL)} <= set(some)
    found = index.as_retriever("global", node_ids=some, similarity_top_k=50).retrieve("x")
    assert {n.node_id for n in found} == set(some)
    with pytest.raises(InvalidInputError, match="node_ids"):
        index.as_retriever(node_ids=some[0])


def test_ids_of_documents_select_the_nodes_of_a_splitter(index_of, documents):
    splitter = TokenTextSplitter(chunk_size=30, chunk_overlap=0, include_metadata=False)
    index = index_of([], llm="extractive")
    index.insert_nodes(splitter.get_nodes_from_documents(documents))
    for key, operator, value, expected in (
        ("doc_id", "==", "story", STORY),
        ("ref_doc_id", "in", ["other"], OTHER),
        ("document_id", "!=", "other", STORY),
        ("doc_id", "==", "none", NONE),
    ):
        filters = one(key, FilterOperator(operator), value)
        assert matching_documents(index, filters) == expected
        found = index.as_retriever("global", filters=filters, similarity_top_k=50).retrieve("x")
        assert {node.metadata["e2_kind"] for node in found} == (
            {"chunk", "summary"} if expected else set()
        )
    assert matching_documents(index, MetadataFilters(filters=[]), doc_ids=["story"]) == STORY
    scope = index.scoped({"document_id": "story"}).as_retriever(similarity_top_k=50)
    assert documents_of(scope.retrieve(LOCAL)) == STORY


def test_metadata_take_precedence_over_document_id_keys(index_of):
    index = index_of(
        [
            Document(id_="a", text="Anna met Bert.", metadata={"document_id": "mine"}),
            Document(id_="b", text="Anna met Cleo."),
        ]
    )
    for key, value, found in (
        ("document_id", "mine", ["a"]),
        ("document_id", "b", ["b"]),
        ("doc_id", "a", ["a"]),
    ):
        filters = MetadataFilters(filters=[MetadataFilter(key=key, value=value)])
        nodes = index.as_retriever(filters=filters).retrieve("Anna?")
        assert [n.node.ref_doc_id for n in nodes] == found


@pytest.mark.parametrize("name", ["where", "filter", "metadata_filters"])
def test_filters_under_other_names_raise(index, name):
    for create in (index.as_retriever, index.as_query_engine):
        with pytest.raises(InvalidInputError, match="pass filters="):
            create(**{name: {"year": 1890}})


async def test_no_question_calls_the_language_model(documents):
    class OnlyBeforeQuestions(MockLLM):
        is_asked: bool = False

        def complete(self, *args, **kwargs):
            assert not self.is_asked, "a question called the language model"
            return super().complete(*args, **kwargs)

        async def acomplete(self, *args, **kwargs):
            return self.complete(*args, **kwargs)

    llm = OnlyBeforeQuestions()
    index = E2GraphRAGIndex.from_documents(
        documents,
        llm=llm,
        embed_model="hashing",
        settings=IndexSettings(chunk_size=16, chunk_overlap=4, group_size=3),
    )
    assert index.report.llm_calls > 0
    llm.is_asked = True
    retriever = index.as_retriever()
    assert retriever.retrieve(LOCAL)
    assert await retriever.aretrieve(LOCAL)
    assert index.rag.entities()


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("value", [0, "2", True])
def test_a_wrong_similarity_top_k_is_named_as_it_was_passed(index_with_rare_names, value):
    with pytest.raises(InvalidInputError, match=f"^similarity_top_k={value!r} must be"):
        index_with_rare_names.as_retriever(similarity_top_k=value)


def test_similarity_top_k_can_be_assigned(index_with_rare_names):
    retriever = index_with_rare_names.as_retriever()
    assert retriever.similarity_top_k is None
    for k in (1, 3, None):
        retriever.similarity_top_k = k
        expected = index_with_rare_names.as_retriever(similarity_top_k=k).retrieve(GLOBAL)
        assert [one.node.text for one in retriever.retrieve(GLOBAL)] == [
            one.node.text for one in expected
        ]
        assert copy.deepcopy(retriever).similarity_top_k == k
    with pytest.raises(InvalidInputError, match="similarity_top_k=0"):
        retriever.similarity_top_k = 0
    assert retriever.similarity_top_k is None
