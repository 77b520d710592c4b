"""LlamaIndex engines, routers, agents and postprocessors work with the index unchanged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from llama_index.core import Settings, VectorStoreIndex
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.callbacks import CallbackManager, TokenCountingHandler
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.indices.query.query_transform import HyDEQueryTransform
from llama_index.core.llms import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
    MockLLM,
)
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.postprocessor import (
    LongContextReorder,
    MetadataReplacementPostProcessor,
    PrevNextNodePostprocessor,
    SimilarityPostprocessor,
)
from llama_index.core.query_engine import (
    CitationQueryEngine,
    RouterQueryEngine,
    SubQuestionQueryEngine,
    TransformQueryEngine,
)
from llama_index.core.question_gen.types import BaseQuestionGenerator, SubQuestion
from llama_index.core.retrievers import (
    AutoMergingRetriever,
    BaseRetriever,
    QueryFusionRetriever,
    RouterRetriever,
)
from llama_index.core.retrievers.fusion_retriever import FUSION_MODES
from llama_index.core.schema import IndexNode, NodeWithScore, QueryBundle
from llama_index.core.tools import QueryEngineTool, RetrieverTool
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters

from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.llama_index import E2GraphRAGIndex, GraphProximitySelector
from e2graphrag_integrations.options import grouped
from e2graphrag_integrations.retrieval.strategies.hybrid import HybridStrategy
from e2graphrag_integrations.retrieval.strategies.paper import PaperStrategy
from fakes import NameExtractor
from llama_fakes import Digests

LOCAL, GLOBAL, LONE = "What did Anna give Bert?", "What is it all about?", "Who is Anna?"
GUESS = "Hal burned the mill one winter."
MEETING = "Anna met Bert in Oslo."
DOCUMENTS = {"story", "other"}
LEAVES = MetadataFilters(filters=[MetadataFilter(key="e2_level", value=0)])


class ForbiddenLLM(MockLLM):
    """A model that must not be called."""

    def complete(self, prompt, formatted=False, **kwargs):
        raise AssertionError("an LLM was called")


class FixedLLM(MockLLM):
    """A model that always gives the same answer."""

    answer: str = ""

    def complete(self, prompt, formatted=False, **kwargs):
        return CompletionResponse(text=self.answer)


def fixed_llm(answer: str) -> FixedLLM:
    llm = FixedLLM()
    llm.answer = answer
    return llm


@pytest.fixture
def index(index_of, documents):
    return index_of(documents, llm="extractive")


def ids(nodes: Sequence[NodeWithScore]) -> list[str]:
    return [node.node.node_id for node in nodes]


def with_scores(nodes: Sequence[NodeWithScore]) -> list[tuple[str, float | None]]:
    return [(node.node.node_id, node.score) for node in nodes]


async def both(sync: Any, coroutine: Any) -> list[Any]:
    """Return the answers of a sync method, run in a thread, and of its async counterpart."""
    return [await asyncio.to_thread(sync, LOCAL), await coroutine(LOCAL)]


# Query engines

MODES = (
    "compact refine tree_summarize simple_summarize accumulate compact_accumulate no_text "
    "context_only"
).split()


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("mode", MODES)
async def test_a_query_engine_answers_in_every_response_mode(index, mode):
    Settings.llm = ForbiddenLLM()  # two of LlamaIndex's synthesizers ignore `llm=`
    engine = index.as_query_engine(llm=MockLLM(), response_mode=mode, similarity_top_k=3)
    expected = ids(index.as_retriever(similarity_top_k=3).retrieve(LOCAL))
    for answer in await both(engine.query, engine.aquery):
        assert ids(answer.source_nodes) == expected
        assert (MEETING in str(answer)) == (mode != "no_text")  # the mock repeats its prompt


async def test_answers_are_streamed(index):
    engine = index.as_query_engine(llm=MockLLM(), streaming=True)
    answer = engine.query(LOCAL)
    assert MEETING in "".join(answer.response_gen)
    later = await engine.aquery(LOCAL)
    assert MEETING in "".join([piece async for piece in later.async_response_gen()])
    assert ids(later.source_nodes) == ids(answer.source_nodes)


async def test_citations_keep_document_and_level(index):
    engine = CitationQueryEngine.from_args(index, llm=MockLLM(), similarity_top_k=4, mode="global")
    for answer in await both(engine.query, engine.aquery):
        assert str(answer.source_nodes[0].node.text).startswith("Source 1:")
        assert len(answer.source_nodes) >= 4
        for source in answer.source_nodes:
            assert source.node.ref_doc_id in DOCUMENTS
            assert source.node.metadata["e2_level"] in {0, 1, 2}


class TwoQuestions(BaseQuestionGenerator):
    """Generates a local and a global question."""

    def _get_prompts(self):
        return {}

    def _update_prompts(self, prompts):
        pass

    def generate(self, tools, query):
        return [SubQuestion(sub_question=one, tool_name="books") for one in (LOCAL, GLOBAL)]

    async def agenerate(self, tools, query):
        return self.generate(tools, query)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("use_async", [True, False])
async def test_sub_questions_are_answered_with_sources(index, use_async):
    tool = QueryEngineTool.from_defaults(index.as_query_engine(llm=MockLLM()), name="books")
    engine = SubQuestionQueryEngine.from_defaults(
        [tool], MockLLM(), TwoQuestions(), verbose=False, use_async=use_async
    )
    for answer in await both(engine.query, engine.aquery):
        # LlamaIndex drops failed sub-questions silently.
        assert str(answer).count("Sub question:") == 2
        found = {node.node.ref_doc_id for node in answer.source_nodes}
        assert found >= DOCUMENTS
        assert MEETING in str(answer)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("include_original", [True, False])
async def test_hyde_changes_the_vector_but_not_the_entities(index, include_original):
    hyde = HyDEQueryTransform(llm=fixed_llm(GUESS), include_original=include_original)
    retriever = index.as_retriever()
    for question, names in ((LOCAL, ["anna", "bert"]), (GLOBAL, [])):
        asked, plain = retriever.explain(hyde(question)), retriever.explain(question)
        guessed = index.as_retriever("global").explain(GUESS)
        assert [link.entity for link in asked.links] == names
        assert ("entities" in asked.lists) == bool(names)
        for name in ("bm25", "entities"):
            assert asked.lists.get(name) == plain.lists.get(name)
        assert (asked.lists["dense"] == guessed.lists["dense"]) == (not include_original)
        assert asked.lists["dense"] != plain.lists["dense"]
        found = with_scores(retriever.retrieve(hyde(question)))
        assert found == with_scores(await retriever.aretrieve(hyde(question)))
        assert found != with_scores(retriever.retrieve(question))
    by_names = index.as_retriever("local")
    assert with_scores(by_names.retrieve(hyde(LOCAL))) == with_scores(by_names.retrieve(LOCAL))
    engine = TransformQueryEngine(index.as_query_engine(llm=MockLLM()), hyde)
    for answer in await both(engine.query, engine.aquery):
        assert MEETING in str(answer)


@pytest.mark.parametrize("include_original", [True, False])
async def test_hyde_changes_only_the_global_route_of_the_paper_strategy(index, include_original):
    hyde = HyDEQueryTransform(llm=fixed_llm(GUESS), include_original=include_original)
    retriever = index.as_retriever(strategy=PaperStrategy())
    assert ids(retriever.retrieve(hyde(LOCAL))) == ids(retriever.retrieve(LOCAL))
    assert [link.entity for link in retriever.explain(hyde(LOCAL)).links] == ["anna", "bert"]
    asked = with_scores(retriever.retrieve(hyde(GLOBAL)))
    guessed = with_scores(index.as_retriever("global", strategy=PaperStrategy()).retrieve(GUESS))
    assert (asked == guessed) == (not include_original)
    assert asked == with_scores(await retriever.aretrieve(hyde(GLOBAL)))
    assert asked != with_scores(retriever.retrieve(GLOBAL))


def test_an_empty_hyde_answer_changes_nothing(index):
    hyde = HyDEQueryTransform(llm=fixed_llm(""), include_original=True)
    retriever = index.as_retriever()
    assert with_scores(retriever.retrieve(hyde(GLOBAL))) == with_scores(retriever.retrieve(GLOBAL))


# Routers

# Options, question, position. LONE has one rare name, so there is no pair to measure.
ROUTES = [
    ({}, LOCAL, 0),
    ({}, LONE, 0),
    ({}, GLOBAL, 1),
    ({"strategy": PaperStrategy()}, LOCAL, 0),
    ({"strategy": PaperStrategy()}, LONE, 1),
    ({"strategy": PaperStrategy()}, GLOBAL, 1),
]


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(("options", "question", "choice"), ROUTES)
async def test_the_router_retriever_follows_the_selector(
    index_with_rare_names, options, question, choice
):
    sides = [
        index_with_rare_names.as_retriever("local"),
        index_with_rare_names.as_retriever("global", similarity_top_k=3),
    ]
    tools = [RetrieverTool.from_defaults(side, description="?") for side in sides]
    router = RouterRetriever(
        GraphProximitySelector(index_with_rare_names, **options), tools, llm=ForbiddenLLM()
    )
    assert with_scores(sides[0].retrieve(question)) != with_scores(sides[1].retrieve(question))
    expected = with_scores(sides[choice].retrieve(question))
    assert expected
    assert with_scores(router.retrieve(question)) == expected
    assert with_scores(await router.aretrieve(question)) == expected


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(("options", "question", "choice"), ROUTES)
async def test_the_router_query_engine_follows_the_selector(
    index_with_rare_names, options, question, choice
):
    Settings.llm = ForbiddenLLM()  # `no_text` ignores `llm=`
    tools = [
        QueryEngineTool.from_defaults(
            index_with_rare_names.as_query_engine(
                llm=ForbiddenLLM(), response_mode="no_text", mode=mode
            ),
            description="?",
        )
        for mode in ("local", "global")
    ]
    router = RouterQueryEngine(
        GraphProximitySelector(index_with_rare_names, **options), tools, llm=ForbiddenLLM()
    )
    for answer in (router.query(question), await router.aquery(question)):
        selected = answer.metadata["selector_result"]
        assert selected.ind == choice
        assert selected.reason.startswith(("local: ", "global: ")[choice])
        assert answer.source_nodes


def test_selector_positions_are_configurable_and_checked(index_with_rare_names):
    choices = [
        QueryEngineTool.from_defaults(
            index_with_rare_names.as_query_engine(llm=ForbiddenLLM())
        ).metadata
    ] * 3
    selector = GraphProximitySelector(index_with_rare_names, local_index=2, global_index=1)
    assert [selector.select(choices, one).ind for one in (LOCAL, GLOBAL)] == [2, 1]
    assert selector.get_prompts() == {}
    with pytest.raises(
        InvalidInputError, match="local_index=2 must be less than the router's 2 choices"
    ):
        selector.select(choices[:2], GLOBAL)
    with pytest.raises(InvalidInputError, match="local_index"):
        GraphProximitySelector(index_with_rare_names, local_index=-1)


# Fusion


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("mode", list(FUSION_MODES))
@pytest.mark.parametrize("use_async", [True, False])
async def test_fusion_does_not_change_later_retrievals(index, mode, use_async):
    sides: list[BaseRetriever] = [
        index.as_retriever(side, similarity_top_k=4) for side in ("local", "global")
    ]
    before = [with_scores(side.retrieve(LOCAL)) for side in sides]
    fusion = QueryFusionRetriever(
        sides, llm=ForbiddenLLM(), mode=mode, num_queries=1, similarity_top_k=9, use_async=use_async
    )
    answers = await both(fusion.retrieve, fusion.aretrieve)
    assert with_scores(answers[0]) == with_scores(answers[1])
    assert set(ids(answers[0])) == {node_id for side in before for node_id, _ in side}
    assert len(set(ids(answers[0]))) == len(answers[0])
    assert [with_scores(side.retrieve(LOCAL)) for side in sides] == before


def test_fusion_asks_generated_questions(index):
    fusion = QueryFusionRetriever(
        [index.as_retriever()],
        llm=fixed_llm("Who was Fay to Gus?"),
        num_queries=2,
        similarity_top_k=9,
        use_async=False,
    )
    assert {node.node.ref_doc_id for node in fusion.retrieve(LOCAL)} == DOCUMENTS


@pytest.mark.parametrize("ours_first", [True, False])
async def test_fusion_merges_equal_nodes_of_another_retriever(index, ours_first):
    ours = index.as_retriever()
    stored = index.docstore.get_nodes(
        [id_ for info in index.ref_doc_info.values() for id_ in info.node_ids]
    )
    # The other one embeds in five dimensions and stores its vector in the shared bundle.
    other = VectorStoreIndex(stored, embed_model=MockEmbedding(embed_dim=5)).as_retriever(
        similarity_top_k=len(stored)
    )
    fusion = QueryFusionRetriever(
        [ours, other] if ours_first else [other, ours],
        llm=ForbiddenLLM(),
        mode=FUSION_MODES.RECIPROCAL_RANK,
        num_queries=1,
        similarity_top_k=50,
        use_async=False,
    )
    fused = fusion.retrieve(QueryBundle(GLOBAL))
    assert sorted(ids(fused)) == sorted(node.node_id for node in stored)
    # One retriever alone gives at most 1/60.
    twice = [node for node in fused if (node.score or 0) > 1 / 60]
    assert set(ids(twice)) == set(ids(ours.retrieve(GLOBAL)))
    assert sorted(ids(await fusion.aretrieve(QueryBundle(GLOBAL)))) == sorted(ids(fused))


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("mode", [FUSION_MODES.RECIPROCAL_RANK, FUSION_MODES.SIMPLE])
def test_fusion_of_one_retriever_keeps_its_ranking(index, mode):
    strategy = HybridStrategy(entity_weight=100)  # ranks nodes above others with a higher cosine
    ours = index.as_retriever(strategy=strategy, similarity_top_k=8)
    fusion = QueryFusionRetriever(
        [ours], llm=ForbiddenLLM(), mode=mode, num_queries=1, similarity_top_k=8, use_async=False
    )
    assert ids(fusion.retrieve(LOCAL)) == ids(ours.retrieve(LOCAL))


# Chat engines and agents


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("mode", ["best", "condense_plus_context", "context", "condense_question"])
async def test_chat_engines_answer_from_the_index(index, mode):
    def engine():
        # LlamaIndex's default memory does not close its database, which raises a warning.
        memory = ChatMemoryBuffer.from_defaults(llm=MockLLM())
        return index.as_chat_engine(mode, llm=MockLLM(), similarity_top_k=2, memory=memory)

    expected = ids(index.as_retriever(similarity_top_k=2).retrieve(LOCAL))
    chat = engine()
    first = chat.chat(LOCAL)
    assert MEETING in str(first)
    assert ids(first.source_nodes) == expected
    assert chat.chat("And then?").source_nodes  # with the chat history
    assert ids((await engine().achat(LOCAL)).source_nodes) == expected
    streamed = engine().stream_chat(LOCAL)
    assert MEETING in "".join(streamed.response_gen)
    assert ids(streamed.source_nodes) == expected
    later = await engine().astream_chat(LOCAL)
    assert MEETING in "".join([piece async for piece in later.async_response_gen()])


AGENT_WARNS = pytest.mark.filterwarnings(
    # LlamaIndex's agents read all their attributes, including deprecated ones of pydantic.
    "ignore::pydantic.warnings.PydanticDeprecationWarning",
)


class ToolCallingLLM(FunctionCallingLLM):
    """Calls the first tool with the user's message and repeats the tool's output."""

    @property
    def metadata(self):
        return LLMMetadata(is_function_calling_model=True, is_chat_model=True)

    def _prepare_chat_with_tools(self, tools, user_msg=None, chat_history=None, **kwargs):
        return {"messages": list(chat_history or []), "tools": tools}

    def chat(self, messages, **kwargs):
        last = messages[-1]
        if last.role == "tool":
            return ChatResponse(message=ChatMessage(role="assistant", content=last.content))
        call = ToolSelection(
            tool_id="1",
            tool_name=kwargs["tools"][0].metadata.name,
            tool_kwargs={"input": messages[-1].content},
        )
        message = ChatMessage(role="assistant", content="", additional_kwargs={"calls": [call]})
        return ChatResponse(message=message)

    def get_tool_calls_from_response(self, response, error_on_no_tool_call=True, **kwargs):
        return response.message.additional_kwargs.get("calls", [])

    async def astream_chat(self, messages, **kwargs):
        async def pieces():
            yield self.chat(messages, **kwargs)

        return pieces()

    def complete(self, prompt, formatted=False, **kwargs):
        raise NotImplementedError

    acomplete = achat = stream_chat = stream_complete = astream_complete = complete


@AGENT_WARNS
async def test_an_agent_calls_a_query_engine(index):
    tool = QueryEngineTool.from_defaults(index.as_query_engine(llm=MockLLM()), name="books")
    agent = FunctionAgent(tools=[tool], llm=ToolCallingLLM())
    answer = await agent.run(LOCAL)
    assert MEETING in str(answer)
    sources = answer.tool_calls[0].tool_output.raw_output.source_nodes
    assert ids(sources) == ids(index.as_retriever().retrieve(LOCAL))


@AGENT_WARNS
async def test_an_agent_calls_a_retriever(index):
    agent = FunctionAgent(
        tools=[RetrieverTool.from_defaults(index.as_retriever(), name="books")],
        llm=ToolCallingLLM(),
    )
    answer = await agent.run(LOCAL)
    found = answer.tool_calls[0].tool_output.raw_output
    assert with_scores(found) == with_scores(index.as_retriever().retrieve(LOCAL))
    assert MEETING in str(answer)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("question", [LOCAL, GLOBAL])
async def test_the_prefix_of_a_retriever_tool_changes_nothing(index, question):
    retriever = index.as_retriever()
    tool = RetrieverTool.from_defaults(retriever)
    outputs = [
        tool.call(question),
        tool.call(input=question),
        await tool.acall(question),
        await tool.acall(query=question),
    ]
    for output in outputs:
        assert with_scores(output.raw_output) == with_scores(retriever.retrieve(question))


# Postprocessors


@pytest.mark.parametrize("question", [LOCAL, "Anna, Dora and Emil?", GLOBAL])
def test_postprocessors_accept_the_nodes(index, question):
    retriever = index.as_retriever(similarity_top_k=6)
    nodes = retriever.retrieve(question)
    cutoff = nodes[len(nodes) // 2].score
    expected = SimilarityPostprocessor(similarity_cutoff=cutoff).postprocess_nodes(nodes)
    kept = [node.node.node_id for node in nodes if node.score >= cutoff]
    assert ids(expected) == kept == ids(nodes)[: len(kept)]
    reordered = LongContextReorder().postprocess_nodes(retriever.retrieve(question))
    assert sorted(ids(reordered)) == sorted(ids(nodes))
    Settings.llm = ForbiddenLLM()  # `no_text` ignores `llm=`
    engine = index.as_query_engine(
        llm=ForbiddenLLM(),
        response_mode="no_text",
        similarity_top_k=6,
        node_postprocessors=[
            SimilarityPostprocessor(similarity_cutoff=cutoff),
            LongContextReorder(),
        ],
    )
    assert sorted(ids(engine.query(question).source_nodes)) == sorted(ids(expected))


def test_metadata_replacement_does_not_change_the_index(index_of, documents):
    for document in documents:
        document.metadata["window"] = f"A window on {document.id_}."
    index = index_of(documents, llm="extractive")
    retriever = index.as_retriever()
    before = [(node.node.ref_doc_id, node.text) for node in retriever.retrieve(LOCAL)]
    assert {document for document, _ in before} == DOCUMENTS
    replaced = MetadataReplacementPostProcessor("window").postprocess_nodes(
        retriever.retrieve(LOCAL)
    )
    assert [node.text for node in replaced] == [f"A window on {name}." for name, _ in before]
    assert [(node.node.ref_doc_id, node.text) for node in retriever.retrieve(LOCAL)] == before


def test_neighbors_are_on_the_same_level(index_of, documents):
    index = index_of(documents, llm=Digests())
    nodes = index.as_retriever("global", similarity_top_k=30).retrieve(GLOBAL)
    for node in nodes:
        around = PrevNextNodePostprocessor(
            docstore=index.docstore, num_nodes=1, mode="both"
        ).postprocess_nodes([node])
        assert node.node.node_id in ids(around)
        assert {n.metadata["e2_level"] for n in around} == {node.metadata["e2_level"]}
        assert {n.node.ref_doc_id for n in around} == {node.node.ref_doc_id}
    assert len({node.metadata["e2_level"] for node in nodes}) > 1


def test_auto_merging_replaces_chunks_by_summaries(index):
    chunks = index.as_retriever("global", similarity_top_k=30, filters=LEAVES)
    merging = AutoMergingRetriever(chunks, index.storage_context)
    # The retriever returns all chunks of both documents, so only the two roots remain.
    merged = merging.retrieve(GLOBAL)
    assert {node.node.ref_doc_id for node in merged} == DOCUMENTS
    assert all(node.node.parent_node is None for node in merged)
    few = AutoMergingRetriever(index.as_retriever("local"), index.storage_context)
    assert all(isinstance(node.score, float) for node in few.retrieve("Anna, Dora and Emil?"))


# Token counting


class FiveWords(MockLLM):
    """Counts each call once: the async method of MockLLM also counts its sync method."""

    async def acomplete(self, prompt, formatted=False, **kwargs):
        return self.complete(prompt, formatted, **kwargs)


@pytest.fixture
def counter() -> Iterator[TokenCountingHandler]:
    before = Settings._callback_manager
    yield TokenCountingHandler(tokenizer=str.split)
    Settings._callback_manager = before


@pytest.fixture(params=["sync", "async"])
def check_counts(request, documents, counter):
    """Build an index and check that the handler counts all its calls."""

    async def check(**options):
        options |= {"extractor": NameExtractor(), "chunk_size": 16, "chunk_overlap": 4}
        if request.param == "async":
            index = await E2GraphRAGIndex.afrom_documents(documents, **grouped(options))
        else:
            index = await asyncio.to_thread(
                E2GraphRAGIndex.from_documents, documents, **grouped(options)
            )
        assert len(counter.llm_token_counts) == index.report.llm_calls > 0
        assert counter.completion_llm_token_count == 5 * index.report.llm_calls
        words = [len(node.get_content().split()) for node in index.docstore.docs.values()]
        assert counter.total_embedding_token_count >= sum(words)

    return check


def models(**options: Any) -> dict[str, Any]:
    return {"llm": FiveWords(5, **options), "embed_model": MockEmbedding(8, **options)}


async def test_tokens_are_counted_with_a_callback_manager_of_the_models(check_counts, counter):
    await check_counts(**models(callback_manager=CallbackManager([counter])))


async def test_tokens_are_counted_with_the_callback_manager_of_settings(check_counts, counter):
    Settings.callback_manager = CallbackManager([counter])
    await check_counts(**models())


@pytest.mark.parametrize(
    "models_first",
    [
        True,
        False,
    ],
)
async def test_tokens_are_counted_for_the_models_of_settings(check_counts, counter, models_first):
    if models_first:
        Settings.llm, Settings.embed_model = models().values()
    Settings.callback_manager = CallbackManager([counter])
    if not models_first:
        Settings.llm, Settings.embed_model = models().values()
    await check_counts(llm=Settings.llm)


async def test_tokens_are_counted_with_the_callback_manager_of_the_index(check_counts, counter):
    await check_counts(**models(), callback_manager=CallbackManager([counter]))


# Recursive retrieval


def index_nodes(index: E2GraphRAGIndex, obj: Any) -> list[IndexNode]:
    return [IndexNode(index_id="book", text="A tale of Anna, Bert and a map.", obj=obj)]


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("target", ["retriever", "query engine"])
async def test_an_index_node_leads_to_another_index(index, index_of, target):
    inner = index.as_retriever() if target == "retriever" else index.as_query_engine(llm=MockLLM())
    options = {"embed_model": "hashing", "extractor": NameExtractor(), "llm": "extractive"}
    outer = E2GraphRAGIndex(**grouped({"objects": index_nodes(index, inner), **options}))
    by_node = E2GraphRAGIndex(index_nodes(index, inner), **grouped(options))
    core = VectorStoreIndex(
        objects=index_nodes(index, inner), embed_model=MockEmbedding(embed_dim=4)
    )
    given = E2GraphRAGIndex(index_nodes(index, None), **grouped(options))
    retrievers = [
        outer.as_retriever(),
        by_node.as_retriever(),
        core.as_retriever(),
        given.as_retriever(objects=index_nodes(index, inner)),
        given.as_retriever(object_map={"book": inner}),
    ]
    for retriever in retrievers:
        for nodes in await both(retriever.retrieve, retriever.aretrieve):
            assert any(MEETING in node.text for node in nodes)
            if target == "retriever":
                assert ids(nodes) == ids(index.as_retriever().retrieve(LOCAL))
    assert ids(
        given.as_retriever().retrieve(LOCAL)
    )  # without an object, the result is the node itself
