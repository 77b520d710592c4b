"""How much text retrievers and engines return: the token budget, `similarity_top_k`, and both."""

from __future__ import annotations

import pytest
from llama_index.core import Document
from llama_index.core.llms import MockLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.schema import MetadataMode, NodeRelationship

from e2graphrag_integrations import HybridStrategy, RelevanceCalibration
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.llama_index import E2GraphRAGIndex, E2GraphRAGRetriever
from e2graphrag_integrations.options import grouped
from e2graphrag_integrations.retrieval.results.context_size import DEFAULT_TOKEN_BUDGET
from e2graphrag_integrations.text.tokens import ApproximateTokenCounter
from fakes import NameExtractor

QUERY = "How many barrels did Anna sell in Oslo on day 7?"
TEXT = "\n\n".join(
    f"On day {day}, Anna sold {day * 3} barrels of herring to Bert in Oslo. "
    f"The harbour was quiet, and {day} ships waited for the tide below the bridge."
    for day in range(600)
)


@pytest.fixture(scope="module")
def index():
    """An index that no test changes."""
    options = {"extractor": NameExtractor(), "chunk_size": 400, "chunk_overlap": 0, "group_size": 3}
    return E2GraphRAGIndex.from_documents(
        [Document(id_="a", text=TEXT, metadata={"kind": "log"})],
        **grouped({"embed_model": "hashing"} | options),
    )


def tokens(nodes):
    return sum(ApproximateTokenCounter().count(one.node.get_content()) for one in nodes)


def chat_engine(index, **options):
    # LlamaIndex's default memory leaves a connection open.
    memory = ChatMemoryBuffer.from_defaults(llm=MockLLM())
    return index.as_chat_engine(chat_mode="context", llm=MockLLM(), memory=memory, **options)


async def test_by_default_retrievers_and_engines_fill_the_token_budget(index):
    found = index.as_retriever().retrieve(QUERY)
    assert 0.8 * DEFAULT_TOKEN_BUDGET < tokens(found) <= DEFAULT_TOKEN_BUDGET
    others = [
        await index.as_retriever().aretrieve(QUERY),
        E2GraphRAGRetriever(index).retrieve(QUERY),
        index.scoped({"kind": "log"}).as_retriever().retrieve(QUERY),
        index.as_query_engine(llm=MockLLM()).query(QUERY).source_nodes,
        (await index.as_query_engine(llm=MockLLM()).aquery(QUERY)).source_nodes,
        chat_engine(index).chat(QUERY).source_nodes,
    ]
    for other in others:
        assert [one.node_id for one in other] == [one.node_id for one in found]
        assert tokens(other) == tokens(found)


async def test_similarity_top_k_gives_complete_nodes_and_both_are_limits(index):
    complete = {
        one.node_id: one.node for one in index.as_retriever(similarity_top_k=50).retrieve(QUERY)
    }
    stored = index.docstore.get_nodes(list(complete))
    assert [node.text for node in complete.values()] == [node.text for node in stored]
    assert len(index.as_retriever(token_budget=None).retrieve(QUERY)) == 10
    both = {"similarity_top_k": 2, "token_budget": 300}
    found = index.as_retriever(**both).retrieve(QUERY)
    assert 0 < len(found) <= 2
    assert 200 < tokens(found) <= 300
    engine = index.as_query_engine(llm=MockLLM(), **both)
    chat = chat_engine(index, **both)
    scope = index.scoped({"kind": "log"}).as_query_engine(MockLLM(), **both)
    responses = [
        engine.query(QUERY),
        await engine.aquery(QUERY),
        chat.chat(QUERY),
        scope.query(QUERY),
    ]
    for response in responses:
        assert [one.text for one in response.source_nodes] == [one.text for one in found]


def test_a_shortened_node_is_an_excerpt_with_its_own_offsets(index):
    whole = {node.node_id: node for node in index.docstore.docs.values()}
    found = index.as_retriever(token_budget=150).retrieve(QUERY)
    shortened = [one.node for one in found if one.text != whole[one.node_id].text]
    assert shortened
    for node in shortened:
        spans = [tuple(map(int, span.split("-"))) for span in node.metadata["e2_spans"]]
        assert node.text == " … ".join(TEXT[start:end] for start, end in spans)
        assert (node.start_char_idx, node.end_char_idx) == (spans[0][0], spans[-1][1])
        assert node.relationships[NodeRelationship.SOURCE].node_id == "a"
        for mode in (MetadataMode.LLM, MetadataMode.EMBED):
            assert "e2_spans" not in node.get_content(mode)
    # The docstore keeps the complete nodes.
    for id_, node in whole.items():
        assert index.docstore.get_node(id_).text == node.text


def test_a_filter_for_summaries_fills_the_budget_with_them(index_of):
    index = index_of([Document(id_="a", text=TEXT[:20_000])], chunk_size=200, llm="extractive")
    result = index.as_retriever(
        node_ids=[id_ for id_, node in index.docstore.docs.items() if node.metadata.get("e2_level")]
    ).search(QUERY)
    assert result.nodes
    assert {node.level > 0 for node in result.nodes} == {True}
    assert len({node.node_id for node in result.nodes}) == len(result.nodes)


def test_min_relevance_leaves_nodes_out(index):
    strategy = HybridStrategy(relevance_calibration=RelevanceCalibration(8.0, -3.0))
    retriever = index.as_retriever(strategy=strategy, min_relevance=1.0)
    assert retriever.retrieve(QUERY) == []
    assert "cut by min_relevance" in retriever.explain(QUERY).explain()
    engine = index.as_query_engine(llm=MockLLM(), strategy=strategy, min_relevance=1.0)
    assert engine.query(QUERY).source_nodes == []


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    "wrong", [{"token_budget": 0}, {"token_budget": "many"}, {"min_relevance": 2}]
)
def test_wrong_sizes_are_rejected(index, wrong):
    with pytest.raises(InvalidInputError, match=next(iter(wrong))):
        index.as_retriever(**wrong)
