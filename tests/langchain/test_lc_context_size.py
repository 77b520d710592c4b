"""How much text retrievers and tools return: the default token budget, `k`, and both together."""

from __future__ import annotations

import json

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import ConfigurableField

from e2graphrag_integrations import HybridStrategy, RelevanceCalibration
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.langchain import E2GraphRAGRetriever, create_e2graphrag_tool
from e2graphrag_integrations.retrieval.results.context_size import DEFAULT_TOKEN_BUDGET
from e2graphrag_integrations.text.tokens import ApproximateTokenCounter

QUERY = "How many barrels did Anna sell in Oslo on day 7?"
TEXT = "\n\n".join(
    f"On day {day}, Anna sold {day * 3} barrels of herring to Bert in Oslo. "
    f"The harbour was quiet, and {day} ships waited for the tide below the bridge."
    for day in range(150)
)


@pytest.fixture
def index(lc_index_of):
    document = Document(TEXT, metadata={"source": "a.txt"}, id="a")
    return lc_index_of([document], chunk_size=400, chunk_overlap=0)


def tokens(documents):
    return sum(ApproximateTokenCounter().count(one.page_content) for one in documents)


async def test_by_default_a_retriever_fills_the_token_budget(index):
    for retriever in (index.as_retriever(), index, E2GraphRAGRetriever(index=index)):
        found = retriever.invoke(QUERY)
        assert 0.8 * DEFAULT_TOKEN_BUDGET < tokens(found) <= DEFAULT_TOKEN_BUDGET
        assert await retriever.ainvoke(QUERY) == found
    assert index.similarity_search(QUERY) == found
    scoped = index.scoped({"source": "a.txt"}).as_retriever()
    assert [one.id for one in scoped.invoke(QUERY)] == [one.id for one in found]


def test_k_gives_complete_nodes_and_both_at_most_k_within_the_budget(index):
    nodes = {one.node_id: one for one in index.rag.retrieve(QUERY, k=10).nodes}
    whole = index.as_retriever(k=3).invoke(QUERY)
    assert [(one.id, one.page_content) for one in whole] == [
        (id_, node.text) for id_, node in list(nodes.items())[:3]
    ]
    # Without a budget and `k`, ten complete nodes are returned.
    unlimited = index.as_retriever(token_budget=None)
    assert {one.id: one.page_content for one in unlimited.invoke(QUERY)} == {
        id_: node.text for id_, node in nodes.items()
    }
    for both in (
        index.as_retriever(k=3, token_budget=300),
        index.as_retriever(search_kwargs={"k": 3, "token_budget": 300}),
    ):
        found = both.invoke(QUERY)
        assert 0 < len(found) <= 3
        assert 200 < tokens(found) <= 300
        assert both.invoke(QUERY, token_budget=None) == whole
        assert len(both.invoke(QUERY, k=1)) == 1
    assert len(index.similarity_search(QUERY, k=2)) == 2


async def test_invoke_and_configurable_fields_take_a_token_budget(index):
    retriever = index.as_retriever()
    short = retriever.invoke(QUERY, token_budget=100)
    assert 0 < tokens(short) <= 100
    configurable = retriever.configurable_fields(
        token_budget=ConfigurableField(id="budget"), min_relevance=ConfigurableField(id="floor")
    )
    config = {"configurable": {"budget": 100}}
    assert configurable.invoke(QUERY, config) == short
    assert await configurable.ainvoke(QUERY, config) == short
    assert configurable.invoke(QUERY) == retriever.invoke(QUERY)
    scaled = index.as_retriever(
        strategy=HybridStrategy(relevance_calibration=RelevanceCalibration(8.0, -3.0)), k=5
    ).configurable_fields(min_relevance=ConfigurableField(id="floor"))
    assert len(scaled.invoke(QUERY)) == 5
    assert scaled.invoke(QUERY, {"configurable": {"floor": 1.0}}) == []


async def test_a_tool_returns_as_much_as_its_retriever_or_its_own_options_say(index):
    retriever = index.as_retriever()
    default = create_e2graphrag_tool(retriever).invoke({"query": QUERY})
    assert ApproximateTokenCounter().count(default) < 1.2 * DEFAULT_TOKEN_BUDGET
    tool = create_e2graphrag_tool(retriever, token_budget=100)
    call = {"type": "tool_call", "id": "1", "name": tool.name, "args": {"query": QUERY}}
    message = tool.invoke(call)
    assert tokens(message.artifact) <= 100
    assert (await tool.ainvoke(call)).content == message.content
    assert len(create_e2graphrag_tool(retriever, k=2).invoke(call).artifact) == 2
    strategy = HybridStrategy(relevance_calibration=RelevanceCalibration(8.0, -3.0))
    strict = create_e2graphrag_tool(index.as_retriever(strategy=strategy), min_relevance=1.0)
    assert strict.invoke(call).content == "No matching passages."
    for wrong in ({"token_budget": 0}, {"k": 0}, {"min_relevance": 2}):
        with pytest.raises(InvalidInputError, match=next(iter(wrong))):
            create_e2graphrag_tool(retriever, **wrong)


def test_offsets_and_segments_of_a_shortened_document_are_those_of_its_text(lc_index_of):
    pages = [
        Document(text, metadata={"source": "a.pdf", "page": page}, id=f"p{page}")
        for page, text in enumerate(TEXT.split("\n\n")[:40])
    ]
    index = lc_index_of(pages, chunk_size=400, chunk_overlap=0)
    [joined] = index.rag.document_ids
    text = index.rag.document(joined).text
    found = index.as_retriever(token_budget=150).invoke(QUERY)
    whole = {node.node_id: node.text for node in index.rag.retrieve(QUERY, k=50).nodes}
    shortened = [one for one in found if one.page_content != whole[one.id]]
    assert shortened
    for one in shortened:
        spans = [tuple(map(int, span.split("-"))) for span in one.metadata["e2_spans"]]
        assert " … ".join(text[start:end] for start, end in spans) == one.page_content
        assert one.metadata["e2_start"] == spans[0][0]
        assert one.metadata["e2_end"] == spans[-1][1]
        shown = "".join(
            text[part["start"] : part["end"]] for part in json.loads(one.metadata["e2_segments"])
        )
        assert shown == "".join(text[start:end] for start, end in spans)
        days = {part["page"] for part in json.loads(one.metadata["e2_segments"])}
        assert (one.metadata.get("pages") or [one.metadata["page"]]) == sorted(days)
        assert one.metadata["e2_doc_ids"] == [f"p{day}" for day in sorted(days)]


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("wrong", [0, -5, "many", 1.5])
def test_a_wrong_token_budget_is_rejected(index, wrong):
    with pytest.raises(ValueError, match="token_budget"):
        index.as_retriever(token_budget=wrong)
    with pytest.raises(InvalidInputError, match="token_budget"):
        index.as_retriever().invoke(QUERY, token_budget=wrong)
