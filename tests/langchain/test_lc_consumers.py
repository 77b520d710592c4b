"""Chains, retrievers, tools, agents and models of LangChain work with the index."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_classic.chains import create_history_aware_retriever, create_retrieval_chain
from langchain_classic.chains.combine_documents import create_stuff_documents_chain
from langchain_classic.retrievers import (
    ContextualCompressionRetriever,
    EnsembleRetriever,
    MultiQueryRetriever,
)
from langchain_core.callbacks import BaseCallbackHandler, get_usage_metadata_callback
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.language_models import FakeListLLM
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder, PromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.tools import create_retriever_tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver

from e2graphrag_integrations import Models
from e2graphrag_integrations.errors import (
    IndexingError,
    InvalidInputError,
    SettingsMismatchError,
    SummaryError,
)
from e2graphrag_integrations.langchain import (
    E2GraphRAGIndex,
    E2GraphRAGRetriever,
    create_e2graphrag_tool,
)
from fakes import NameExtractor
from langchain_fakes import DigestChatModel, FixedChatModel, ToolCallingModel, digest

QUERY = "How is Anna tied to Emil?"
OTHER_QUERY = "Who burned the mill?"
SUMMARIES = 3
LABELED_PROMPT = PromptTemplate.from_template("<{source} page {page}> {page_content}")


@pytest.fixture
def index(lc_index_of, pages) -> E2GraphRAGIndex:
    return lc_index_of(pages)


@pytest.fixture
def retriever(index) -> E2GraphRAGRetriever:
    return index.as_retriever(k=4)


def join(documents: list[Document]) -> str:
    return "\n".join(document.page_content for document in documents)


def ids_of(documents: list[Document]) -> list[str | None]:
    return [document.id for document in documents]


# Chains


async def test_lcel_chain_puts_the_passages_in_the_prompt(retriever):
    llm = DigestChatModel()
    prompt = ChatPromptTemplate.from_template("Context: {context}\nQuestion: {question}")
    chain = (
        {"context": retriever | join, "question": RunnablePassthrough()}
        | prompt
        | llm
        | StrOutputParser()
    )
    sent_prompt = f"Context: {join(retriever.invoke(QUERY))}\nQuestion: {QUERY}"
    assert chain.invoke(QUERY) == await chain.ainvoke(QUERY) == digest(sent_prompt)
    assert llm.prompts == [sent_prompt, sent_prompt]


async def test_create_retrieval_chain_formats_chunks_and_summaries(lc_index_of, pages):
    retriever = lc_index_of(pages, llm=DigestChatModel()).as_retriever(k=99)
    prompt = ChatPromptTemplate.from_template("{context}\n{input}")
    answering = create_stuff_documents_chain(
        DigestChatModel(),
        prompt,
        document_prompt=PromptTemplate.from_template(
            "{source} {page} {e2_level} {e2_node_id}: {page_content}"
        ),
    )
    chain = create_retrieval_chain(retriever, answering)
    result = chain.invoke({"input": QUERY})
    assert result["context"] == retriever.invoke(QUERY)
    assert {document.metadata["e2_level"] for document in result["context"]} == {0, 1}
    assert await chain.ainvoke({"input": QUERY}) == result


async def test_create_history_aware_retriever_uses_the_rewritten_question(retriever):
    prompt = ChatPromptTemplate.from_messages(
        [MessagesPlaceholder("chat_history"), ("human", "{input}")]
    )
    aware = create_history_aware_retriever(FixedChatModel(text=OTHER_QUERY), retriever, prompt)
    history = [HumanMessage("Describe Hal."), AIMessage("Hal burned a mill.")]
    follow_up = {"input": "Who did?", "chat_history": history}
    assert (
        aware.invoke(follow_up) == await aware.ainvoke(follow_up) == retriever.invoke(OTHER_QUERY)
    )
    assert aware.invoke({"input": QUERY, "chat_history": []}) == retriever.invoke(QUERY)


# Retrievers that wrap it


async def test_ensemble_retriever_merges_routes_by_node_id(retriever):
    local, global_ = (retriever.model_copy(update={"mode": m}) for m in ("local", "global"))
    ensemble = EnsembleRetriever(
        retrievers=[local, global_], weights=[0.5, 0.5], id_key="e2_node_id"
    )
    found = ids_of(ensemble.invoke(QUERY))
    assert set(found) == {*ids_of(local.invoke(QUERY)), *ids_of(global_.invoke(QUERY))}
    assert len(set(found)) == len(found)
    assert ids_of(await ensemble.ainvoke(QUERY)) == found


class SourceCompressor(BaseDocumentCompressor):
    """Keeps the passages of one source."""

    source: str

    def compress_documents(self, documents, query, callbacks=None):
        return [d for d in documents if d.metadata["source"] == self.source]


async def test_contextual_compression_retriever_can_filter_by_metadata(retriever):
    compressing = ContextualCompressionRetriever(
        base_compressor=SourceCompressor(source="map.pdf"), base_retriever=retriever
    )
    found = compressing.invoke("Who met Anna in Oslo, and who burned the mill?")
    assert 0 < len(found) < 4
    assert {document.metadata["source"] for document in found} == {"map.pdf"}
    assert await compressing.ainvoke("Who met Anna in Oslo, and who burned the mill?") == found


async def test_multi_query_retriever_removes_duplicates(retriever):
    queries = [QUERY, OTHER_QUERY, "Anna and Bert?"]
    multi = MultiQueryRetriever.from_llm(
        retriever=retriever, llm=FixedChatModel(text="\n".join(queries)), include_original=True
    )
    found = ids_of(multi.invoke(QUERY))
    assert len(found) == len(set(found))
    assert set(found) == {id_ for query in queries for id_ in ids_of(retriever.invoke(query))}
    assert set(ids_of(await multi.ainvoke(QUERY))) == set(found)


# Tools


async def test_create_retriever_tool_returns_the_documents(retriever):
    tool = create_retriever_tool(
        retriever,
        "search",
        "Searches.",
        document_prompt=LABELED_PROMPT,
        response_format="content_and_artifact",
    )
    call = {"type": "tool_call", "id": "1", "name": "search", "args": {"query": QUERY}}
    message = tool.invoke(call)
    assert message.artifact == retriever.invoke(QUERY)
    assert message.content.startswith("<map.pdf page ")
    assert (await tool.ainvoke(call)).content == message.content


def tool_call(query: Any = QUERY, **arguments: Any) -> dict[str, Any]:
    arguments["query"] = query
    return {"type": "tool_call", "id": "1", "name": "search_corpus", "args": arguments}


def test_the_tool_schema_describes_query_and_mode(retriever):
    function = convert_to_openai_tool(create_e2graphrag_tool(retriever))["function"]
    parameters = function["parameters"]
    assert function["name"] == "search_corpus"
    assert parameters["required"] == ["query"]
    assert set(parameters["properties"]) == {"query", "mode"}
    assert parameters["properties"]["mode"]["enum"] == ["auto", "local", "global"]
    assert all(parameter["description"] for parameter in parameters["properties"].values())
    custom = create_e2graphrag_tool(retriever, name="lore", description="Searches the lore.")
    assert (custom.name, custom.description) == ("lore", "Searches the lore.")


@pytest.mark.parametrize("mode", ["auto", "local", "global"])
async def test_the_tool_returns_numbered_passages_and_documents(lc_index_of, pages, mode):
    retriever = lc_index_of(pages, llm=DigestChatModel()).as_retriever(k=99)
    tool = create_e2graphrag_tool(retriever)
    message = tool.invoke(tool_call(mode=mode))
    expected = retriever.invoke(QUERY, mode=mode)
    assert message.artifact == expected
    assert message.status == "success"
    passages = message.content.split("\n\n[")
    assert len(passages) == len(expected)
    for number, (passage, document) in enumerate(zip(passages, expected, strict=True), 1):
        head, text = passage.removeprefix("[").split("\n", 1)
        metadata = document.metadata
        kind = "summary of" if metadata["e2_level"] else "from"
        pages = f"page{'s' if len(metadata['pages']) > 1 else ''} {str(metadata['pages'])[1:-1]}"
        offsets = f"{pages}, characters {metadata['e2_start']}-{metadata['e2_end']}"
        assert head == f"{number}] {kind} {metadata['source']}, {offsets}"
        assert text == document.page_content
    assert "summary of map.pdf, pages 1, 2, characters 0-183" in message.content
    assert "from map.pdf, page 3, characters" in message.content
    async_message = await tool.ainvoke(tool_call(mode=mode))
    assert async_message.model_dump() == message.model_dump()


async def test_mode_auto_uses_the_retrievers_mode(retriever):
    tool = create_e2graphrag_tool(retriever.model_copy(update={"mode": "global"}))
    assert tool.invoke(tool_call()).artifact == retriever.invoke(QUERY, mode="global")
    local = retriever.invoke(QUERY, mode="local")
    assert tool.invoke(tool_call(mode="local")).artifact == local
    assert (await tool.ainvoke(tool_call(mode="local"))).artifact == local


async def test_the_tool_reports_that_no_passage_matches(retriever):
    tool = create_e2graphrag_tool(retriever.model_copy(update={"filter": {"author": "Zoe"}}))
    for message in (tool.invoke(tool_call()), await tool.ainvoke(tool_call())):
        assert (message.content, message.artifact) == ("No matching passages.", [])


async def test_the_tool_formats_passages_with_a_user_prompt(retriever):
    tool = create_e2graphrag_tool(retriever, document_prompt=LABELED_PROMPT)
    expected = "\n\n".join(
        f"<{d.metadata['source']} page {d.metadata['page']}> {d.page_content}"
        for d in retriever.invoke(QUERY)
    )
    assert tool.invoke(tool_call()).content == expected
    assert (await tool.ainvoke(tool_call())).content == expected


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (tool_call("  "), "InvalidInputError: question is empty"),
        (tool_call(mode="both"), "Input should be 'auto', 'local' or 'global'"),
        (tool_call(5), "Input should be a valid string"),
    ],
)
async def test_errors_become_messages_to_the_model(retriever, call, problem):
    tool = create_e2graphrag_tool(retriever)
    for message in (tool.invoke(call), await tool.ainvoke(call)):
        assert isinstance(message, ToolMessage)
        assert message.status == "error"
        assert problem in message.content


def test_a_document_prompt_that_is_a_text_is_rejected(retriever):
    with pytest.raises(InvalidInputError, match="document_prompt is a str, not a BasePromptTempl"):
        create_e2graphrag_tool(retriever, document_prompt="{page_content}")


async def test_an_invalid_document_prompt_becomes_a_message(retriever):
    invalid = PromptTemplate.from_template("{chapter} {page_content}")
    tool = create_e2graphrag_tool(retriever, document_prompt=invalid)
    for message in (tool.invoke(tool_call()), await tool.ainvoke(tool_call())):
        assert message.status == "error"
        assert "chapter" in message.content


class RunRecorder(BaseCallbackHandler):
    """Records tool runs, the parents of retriever runs, and custom events."""

    def __init__(self) -> None:
        self.tool_runs: list[Any] = []
        self.retriever_parents: list[Any] = []
        self.events: list[Any] = []

    def on_tool_start(self, serialized, input_str, *, run_id, **kwargs):
        self.tool_runs.append(run_id)

    def on_retriever_start(self, serialized, query, *, parent_run_id, **kwargs):
        self.retriever_parents.append(parent_run_id)

    def on_custom_event(self, name, data, **kwargs):
        self.events.append(name)


async def test_the_search_is_a_child_run_of_the_tool(retriever):
    tool = create_e2graphrag_tool(retriever)
    runs = RunRecorder()
    tool.invoke(tool_call(), {"callbacks": [runs]})
    await tool.ainvoke(tool_call(), {"callbacks": [runs]})
    assert runs.retriever_parents == runs.tool_runs
    assert runs.events == ["e2graphrag.route"] * 2


# Agents


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_an_agents_checkpoint_keeps_the_artifacts(retriever, kind):
    scored = retriever.model_copy(update={"include_scores": True})
    agent = create_agent(
        ToolCallingModel(arguments={"query": QUERY, "mode": "local"}),
        [create_e2graphrag_tool(scored)],
        checkpointer=InMemorySaver(),
    )
    request = {"messages": [HumanMessage("Who are Anna and Emil?")]}
    config = {"configurable": {"thread_id": "1"}}
    if kind == "sync":
        answer = agent.invoke(request, config)
        state = agent.get_state(config)
    else:
        answer = await agent.ainvoke(request, config)
        state = await agent.aget_state(config)
    expected = scored.invoke(QUERY, mode="local")
    tool_message = answer["messages"][-2]
    assert tool_message.artifact == expected
    assert answer["messages"][-1].content == f"Answer from: {tool_message.content}"
    assert "[1] from map.pdf, page 3, characters" in tool_message.content
    artifact = [dict(d) for d in state.values["messages"][-2].artifact]
    assert [Document(**{"id": d["id"], **d}) for d in artifact] == expected
    assert json.dumps([d["metadata"] for d in artifact])


def test_an_agent_does_not_see_the_key_in_an_error(monkeypatch):
    def refuse(*_, **__):
        raise ConnectionError("api_key=sk-very-secret-0123456789 was refused")

    with E2GraphRAGIndex.open(
        embeddings="hashing", models=Models(extractor=NameExtractor())
    ) as index:
        tool = create_e2graphrag_tool(index.as_retriever())
        monkeypatch.setattr(E2GraphRAGRetriever, "invoke", refuse)
        answer = tool.invoke({"query": QUERY})
    assert "The search failed (ConnectionError" in answer
    assert "sk-very-secret" not in answer


@pytest.mark.parametrize("arguments", [{"query": " "}, {"query": QUERY, "mode": "both"}, {}])
async def test_an_agent_continues_after_a_failed_search(arguments):
    closed = E2GraphRAGIndex.open(embeddings="hashing", models=Models(extractor=NameExtractor()))
    tool = create_e2graphrag_tool(closed.as_retriever())
    closed.close()
    agent = create_agent(ToolCallingModel(arguments=arguments), [tool])
    request = {"messages": [HumanMessage(QUERY)]}
    for answer in (agent.invoke(request), await agent.ainvoke(request)):
        assert answer["messages"][-2].status == "error"
        failed = "call" if "mode" in arguments else "search"
        assert answer["messages"][-1].content.startswith(f"Answer from: The {failed} failed (")


# Models


async def build(kind: str, index: E2GraphRAGIndex, pages, config: Any = None) -> E2GraphRAGIndex:
    """Upsert pages in a batch, which builds the index, and return it."""
    if kind == "sync":
        with index.batch(config=config):
            index.upsert(pages)
    else:
        async with index.batch(config=config):
            await index.aupsert(pages)
    return index


def summaries_of(index: E2GraphRAGIndex) -> list[str]:
    documents = index.as_retriever(k=50).invoke(QUERY)
    return sorted(d.page_content for d in documents if d.metadata["e2_level"])


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_callbacks_count_the_tokens_of_a_build(lc_index_of, pages, kind):
    llm = DigestChatModel()
    index = lc_index_of([], llm=llm)
    with get_usage_metadata_callback() as usage:
        await build(kind, index, pages)
    assert llm.calls == index.report.llm_calls == SUMMARIES
    assert llm.async_calls == (SUMMARIES if kind == "async" else 0)
    tokens = usage.usage_metadata["fake"]
    assert tokens["input_tokens"] == 7 * SUMMARIES
    assert tokens["output_tokens"] == 5 * SUMMARIES
    assert summaries_of(index) == sorted(digest(prompt) for prompt in llm.prompts)


class TagRecorder(BaseCallbackHandler):
    """Records the tags of every model call."""

    def __init__(self) -> None:
        self.tags: list[list[str]] = []

    def on_chat_model_start(self, serialized, messages, *, tags=None, **kwargs):
        self.tags.append(tags)


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("passed_to", ["index", "build"])
async def test_a_config_reaches_every_model_call(lc_index_of, pages, kind, passed_to):
    recorder = TagRecorder()
    config = {"callbacks": [recorder], "tags": ["summaries"]}
    llm = DigestChatModel()
    index = lc_index_of([], llm=llm.with_config(config) if passed_to == "index" else llm)
    await build(kind, index, pages, config if passed_to == "build" else None)
    assert recorder.tags == [["summaries"]] * SUMMARIES


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_wrapped_model_can_summarize(lc_index_of, pages, kind):
    expected = summaries_of(await build(kind, lc_index_of([], llm=DigestChatModel()), pages))
    flaky = DigestChatModel(failing={1, 3})
    stopping = DigestChatModel()
    backup = DigestChatModel()

    async def answer(prompt: str) -> str:
        return digest(prompt)

    for llm in (
        flaky.with_retry(retry_if_exception_type=(RuntimeError,), wait_exponential_jitter=False),
        stopping.bind(stop=["\n\n"]),
        DigestChatModel().with_config(tags=["mine"]),
        DigestChatModel(failing=set(range(1, 100))).with_fallbacks([backup]),
        DigestChatModel() | StrOutputParser(),
        RunnableLambda(lambda prompt: AIMessage(digest(prompt))),
        RunnableLambda(digest, afunc=answer),
        RunnableLambda(str) | DigestChatModel(),
    ):
        assert summaries_of(await build(kind, lc_index_of([], llm=llm), pages)) == expected
    assert flaky.calls == SUMMARIES + 2
    assert stopping.stops == [["\n\n"]] * SUMMARIES
    assert backup.calls == SUMMARIES


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_completion_models_and_reasoning_blocks_give_plain_text(lc_index_of, pages, kind):
    completion = FakeListLLM(responses=["It is about a map."])
    blocks = [{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "A map."}]
    reasoning = RunnableLambda(lambda _: AIMessage(blocks))
    for llm, summary in ((completion, "It is about a map."), (reasoning, "A map.")):
        index = await build(kind, lc_index_of([], llm=llm), pages)
        assert index.report.llm_calls == SUMMARIES
        assert set(summaries_of(index)) == {summary}


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_failed_build_keeps_finished_summaries(lc_index_of, pages, kind):
    llm = DigestChatModel(failing={2})
    index = lc_index_of([], llm=llm, concurrency=1)
    with pytest.raises(IndexingError, match="call 2 failed"):
        await build(kind, index, pages)
    assert index.corpus.is_dirty
    await build(kind, index, [])
    assert llm.calls == SUMMARIES + 1
    assert len(summaries_of(index)) == SUMMARIES


async def test_an_llm_response_must_be_text(lc_index_of, pages):
    for kind in ("sync", "async"):
        index = lc_index_of([], llm=RunnableLambda(lambda prompt: {"answer": prompt}))
        with pytest.raises(SummaryError, match="returned dict, not a text or a message"):
            await build(kind, index, pages)


class OllamaLikeModel(DigestChatModel):
    """Has no identifying parameters, like ChatOllama."""

    model: str = "small"
    api_key: str = "sk-1"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {}


def test_models_are_identified_by_name_and_settings_but_not_secrets(lc_index_of, pages, tmp_path):
    path = tmp_path / "index.e2g"

    def index_on(shelf: int, llm: Any) -> E2GraphRAGIndex:
        shelved = [p.model_copy(update={"metadata": {**p.metadata, "shelf": shelf}}) for p in pages]
        return lc_index_of(shelved, path=path, llm=llm)

    assert index_on(0, OllamaLikeModel()).corpus.report.llm_calls == SUMMARIES
    for other in (
        OllamaLikeModel(temperature=0.5),
        OllamaLikeModel(model="large"),
        OllamaLikeModel().bind(stop=["."]),
        DigestChatModel(),
    ):
        with pytest.raises(SettingsMismatchError, match="was built with the summarizer"):
            index_on(1, other)
    equivalent = (
        OllamaLikeModel(api_key="sk-2"),
        OllamaLikeModel().with_retry(),
        OllamaLikeModel().with_config(tags=["mine"]),
    )
    for shelf, llm in enumerate(equivalent, 2):
        index = index_on(shelf, llm)
        assert index.report.llm_calls == 0
        assert {d.metadata["shelf"] for d in index.invoke(QUERY)} == {shelf}
