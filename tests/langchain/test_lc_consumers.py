"""What LangChain users put around retriever, tool and model works with ours."""

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

from e2graphrag_integrations.errors import IndexingError, SettingsMismatchError, SummaryError
from e2graphrag_integrations.langchain import (
    E2GraphRAGIndex,
    E2GraphRAGRetriever,
    create_e2graphrag_tool,
)
from fakes import NameExtractor
from langchain_fakes import DigestChatModel, FixedChatModel, ToolCallingModel, digest

QUESTION = "How is Anna tied to Emil?"
MORE = "Who burned the mill?"
SUMMARIES = 3
LABELLED = PromptTemplate.from_template("<{source} page {page}> {page_content}")


@pytest.fixture
def index(lc_index_of, pages) -> E2GraphRAGIndex:
    return lc_index_of(pages)


@pytest.fixture
def retriever(index) -> E2GraphRAGRetriever:
    return index.as_retriever(k=4)


def joined(documents: list[Document]) -> str:
    return "\n".join(document.page_content for document in documents)


def ids_of(documents: list[Document]) -> list[str | None]:
    return [document.id for document in documents]


# Chains


async def test_lcel_chain_puts_the_passages_in_the_prompt(retriever):
    llm = DigestChatModel()
    prompt = ChatPromptTemplate.from_template("Context: {context}\nQuestion: {question}")
    chain = (
        {"context": retriever | joined, "question": RunnablePassthrough()}
        | prompt
        | llm
        | StrOutputParser()
    )
    sent = f"Context: {joined(retriever.invoke(QUESTION))}\nQuestion: {QUESTION}"
    assert chain.invoke(QUESTION) == await chain.ainvoke(QUESTION) == digest(sent)
    assert llm.prompts == [sent, sent]


async def test_create_retrieval_chain_formats_chunks_and_summaries(index):
    retriever = index.as_retriever(k=99)
    prompt = ChatPromptTemplate.from_template("{context}\n{input}")
    answering = create_stuff_documents_chain(
        DigestChatModel(),
        prompt,
        document_prompt=PromptTemplate.from_template(
            "{source} {page} {e2_level} {e2_node_id}: {page_content}"
        ),
    )
    chain = create_retrieval_chain(retriever, answering)
    result = chain.invoke({"input": QUESTION})
    assert result["context"] == retriever.invoke(QUESTION)
    assert {document.metadata["e2_level"] for document in result["context"]} == {0, 1}
    assert await chain.ainvoke({"input": QUESTION}) == result


async def test_create_history_aware_retriever_uses_the_rewritten_question(retriever):
    prompt = ChatPromptTemplate.from_messages(
        [MessagesPlaceholder("chat_history"), ("human", "{input}")]
    )
    aware = create_history_aware_retriever(FixedChatModel(text=MORE), retriever, prompt)
    history = [HumanMessage("Tell me of Hal."), AIMessage("Hal burned a mill.")]
    told = {"input": "Who did?", "chat_history": history}
    assert aware.invoke(told) == await aware.ainvoke(told) == retriever.invoke(MORE)
    assert aware.invoke({"input": QUESTION, "chat_history": []}) == retriever.invoke(QUESTION)


# Retrievers around it


async def test_ensemble_retriever_merges_routes_by_node_id(retriever):
    local, everywhere = (retriever.model_copy(update={"mode": m}) for m in ("local", "global"))
    ensemble = EnsembleRetriever(
        retrievers=[local, everywhere], weights=[0.5, 0.5], id_key="e2_node_id"
    )
    found = ids_of(ensemble.invoke(QUESTION))
    assert set(found) == {*ids_of(local.invoke(QUESTION)), *ids_of(everywhere.invoke(QUESTION))}
    assert len(set(found)) == len(found)
    assert ids_of(await ensemble.ainvoke(QUESTION)) == found


class OnlyFrom(BaseDocumentCompressor):
    """Keeps the passages of one source."""

    source: str

    def compress_documents(self, documents, query, callbacks=None):
        return [d for d in documents if d.metadata["source"] == self.source]


async def test_contextual_compression_retriever_can_filter_by_metadata(retriever):
    compressing = ContextualCompressionRetriever(
        base_compressor=OnlyFrom(source="map.pdf"), base_retriever=retriever
    )
    found = compressing.invoke("Who went to Oslo by sea?")
    assert 0 < len(found) < 4
    assert {document.metadata["source"] for document in found} == {"map.pdf"}
    assert await compressing.ainvoke("Who went to Oslo by sea?") == found


async def test_multi_query_retriever_removes_duplicates(retriever):
    asked = [QUESTION, MORE, "Anna and Bert?"]
    many = MultiQueryRetriever.from_llm(
        retriever=retriever, llm=FixedChatModel(text="\n".join(asked)), include_original=True
    )
    found = ids_of(many.invoke(QUESTION))
    assert len(found) == len(set(found))
    assert set(found) == {id_ for q in asked for id_ in ids_of(retriever.invoke(q))}
    assert set(ids_of(await many.ainvoke(QUESTION))) == set(found)


# Tools


async def test_create_retriever_tool_returns_the_documents(retriever):
    tool = create_retriever_tool(
        retriever,
        "search",
        "Searches.",
        document_prompt=LABELLED,
        response_format="content_and_artifact",
    )
    call = {"type": "tool_call", "id": "1", "name": "search", "args": {"query": QUESTION}}
    message = tool.invoke(call)
    assert message.artifact == retriever.invoke(QUESTION)
    assert message.content.startswith("<map.pdf page ")
    assert (await tool.ainvoke(call)).content == message.content


def called(query: Any = QUESTION, **arguments: Any) -> dict[str, Any]:
    arguments["query"] = query
    return {"type": "tool_call", "id": "1", "name": "search_corpus", "args": arguments}


def test_the_tool_schema_describes_query_and_mode(retriever):
    function = convert_to_openai_tool(create_e2graphrag_tool(retriever))["function"]
    parameters = function["parameters"]
    assert function["name"] == "search_corpus"
    assert parameters["required"] == ["query"]
    assert set(parameters["properties"]) == {"query", "mode"}
    assert parameters["properties"]["mode"]["enum"] == ["auto", "local", "global"]
    assert all(given["description"] for given in parameters["properties"].values())
    named = create_e2graphrag_tool(retriever, name="lore", description="Searches the lore.")
    assert (named.name, named.description) == ("lore", "Searches the lore.")


@pytest.mark.parametrize("mode", ["auto", "local", "global"])
async def test_the_tool_returns_numbered_passages_and_documents(index, mode):
    retriever = index.as_retriever(k=99)
    tool = create_e2graphrag_tool(retriever)
    message = tool.invoke(called(mode=mode))
    expected = retriever.invoke(QUESTION, mode=mode)
    assert message.artifact == expected
    assert message.status == "success"
    passages = message.content.split("\n\n[")
    assert len(passages) == len(expected)
    for number, (passage, document) in enumerate(zip(passages, expected, strict=True), 1):
        head, text = passage.removeprefix("[").split("\n", 1)
        own = document.metadata
        kind = "summary of" if own["e2_level"] else "from"
        offsets = f"characters {own['e2_start']}-{own['e2_end']}"
        assert head == f"{number}] {kind} {own['e2_source_id']}, {offsets}"
        assert text == document.page_content
    assert "summary of map.pdf, characters 0-183" in message.content
    assert "from map.pdf, characters" in message.content
    sync = message.model_dump()
    assert (await tool.ainvoke(called(mode=mode))).model_dump() == sync


async def test_mode_auto_uses_the_retrievers_mode(retriever):
    fixed = retriever.model_copy(update={"mode": "global"})
    tool = create_e2graphrag_tool(fixed)
    assert tool.invoke(called()).artifact == retriever.invoke(QUESTION, mode="global")
    local = retriever.invoke(QUESTION, mode="local")
    assert tool.invoke(called(mode="local")).artifact == local
    assert (await tool.ainvoke(called(mode="local"))).artifact == local


async def test_the_tool_reports_that_no_passage_matches(retriever):
    nowhere = retriever.model_copy(update={"filter": {"author": "Zoe"}})
    tool = create_e2graphrag_tool(nowhere)
    for message in (tool.invoke(called()), await tool.ainvoke(called())):
        assert (message.content, message.artifact) == ("No matching passages.", [])


async def test_the_tool_formats_passages_with_a_user_prompt(retriever):
    tool = create_e2graphrag_tool(retriever, document_prompt=LABELLED)
    expected = "\n\n".join(
        f"<{d.metadata['source']} page {d.metadata['page']}> {d.page_content}"
        for d in retriever.invoke(QUESTION)
    )
    assert tool.invoke(called()).content == expected
    assert (await tool.ainvoke(called())).content == expected


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (called("  "), "InvalidInputError: the question is empty"),
        (called(mode="both"), "Input should be 'auto', 'local' or 'global'"),
        (called(5), "Input should be a valid string"),
    ],
)
async def test_errors_become_messages_to_the_model(retriever, call, told):
    tool = create_e2graphrag_tool(retriever)
    for message in (tool.invoke(call), await tool.ainvoke(call)):
        assert isinstance(message, ToolMessage)
        assert message.status == "error"
        assert told in message.content


async def test_an_invalid_document_prompt_becomes_a_message(retriever):
    unfit = PromptTemplate.from_template("{chapter} {page_content}")
    tool = create_e2graphrag_tool(retriever, document_prompt=unfit)
    for message in (tool.invoke(called()), await tool.ainvoke(called())):
        assert message.status == "error"
        assert "chapter" in message.content


class Runs(BaseCallbackHandler):
    """Keeps the parent of every retriever's run, and what the runs were."""

    def __init__(self) -> None:
        self.tools: list[Any] = []
        self.retrievers: list[Any] = []
        self.events: list[Any] = []

    def on_tool_start(self, serialized, input_str, *, run_id, **kwargs):
        self.tools.append(run_id)

    def on_retriever_start(self, serialized, query, *, parent_run_id, **kwargs):
        self.retrievers.append(parent_run_id)

    def on_custom_event(self, name, data, **kwargs):
        self.events.append(name)


async def test_the_search_is_a_child_run_of_the_tool(retriever):
    tool = create_e2graphrag_tool(retriever)
    runs = Runs()
    tool.invoke(called(), {"callbacks": [runs]})
    await tool.ainvoke(called(), {"callbacks": [runs]})
    assert runs.retrievers == runs.tools
    assert runs.events == ["e2graphrag.route"] * 2


# Agents


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_an_agents_checkpoint_keeps_the_artifacts(retriever, how):
    scored = retriever.model_copy(update={"include_scores": True})
    agent = create_agent(
        ToolCallingModel(arguments={"query": QUESTION, "mode": "local"}),
        [create_e2graphrag_tool(scored)],
        checkpointer=InMemorySaver(),
    )
    asked = {"messages": [HumanMessage("Tell me of Anna and Emil.")]}
    config = {"configurable": {"thread_id": "1"}}
    if how == "sync":
        answer = agent.invoke(asked, config)
        state = agent.get_state(config)
    else:
        answer = await agent.ainvoke(asked, config)
        state = await agent.aget_state(config)
    expected = scored.invoke(QUESTION, mode="local")
    tool_message = answer["messages"][-2]
    assert tool_message.artifact == expected
    assert answer["messages"][-1].content == f"Answer from: {tool_message.content}"
    assert "[1] from map.pdf, characters" in tool_message.content
    kept = [dict(d) for d in state.values["messages"][-2].artifact]
    assert [Document(**{"id": d["id"], **d}) for d in kept] == expected
    assert json.dumps([d["metadata"] for d in kept])


@pytest.mark.parametrize("arguments", [{"query": " "}, {"query": QUESTION, "mode": "both"}, {}])
async def test_an_agent_continues_after_a_failed_search(arguments):
    closed = E2GraphRAGIndex.open(embeddings="hashing", extractor=NameExtractor())
    tool = create_e2graphrag_tool(closed.as_retriever())
    closed.close()
    agent = create_agent(ToolCallingModel(arguments=arguments), [tool])
    asked = {"messages": [HumanMessage(QUESTION)]}
    for answer in (agent.invoke(asked), await agent.ainvoke(asked)):
        assert answer["messages"][-2].status == "error"
        assert answer["messages"][-1].content.startswith("Answer from: The search failed (")


# Models


async def built(how: str, index: E2GraphRAGIndex, pages, config: Any = None) -> E2GraphRAGIndex:
    """Take the pages and build them in."""
    if how == "sync":
        index.upsert(pages)
        index.build(config)
    else:
        await index.aupsert(pages)
        await index.abuild(config)
    return index


def summaries_of(index: E2GraphRAGIndex) -> list[str]:
    found = index.as_retriever(k=50).invoke(QUESTION)
    return sorted(d.page_content for d in found if d.metadata["e2_level"])


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_callbacks_count_the_tokens_of_a_build(lc_index_of, pages, how):
    llm = DigestChatModel()
    index = lc_index_of([], llm=llm)
    with get_usage_metadata_callback() as usage:
        await built(how, index, pages)
    assert llm.calls == index.corpus.report.llm_calls == SUMMARIES
    assert llm.async_calls == (SUMMARIES if how == "async" else 0)
    counted = usage.usage_metadata["fake"]
    assert counted["input_tokens"] == 7 * SUMMARIES
    assert counted["output_tokens"] == 5 * SUMMARIES
    assert summaries_of(index) == sorted(digest(prompt) for prompt in llm.prompts)


class Starts(BaseCallbackHandler):
    """Keeps the tags of every call of a model."""

    def __init__(self) -> None:
        self.tags: list[list[str]] = []

    def on_chat_model_start(self, serialized, messages, *, tags=None, **kwargs):
        self.tags.append(tags)


@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize("given", ["index", "build"])
async def test_a_config_reaches_every_model_call(lc_index_of, pages, how, given):
    starts = Starts()
    config = {"callbacks": [starts], "tags": ["summaries"]}
    index = lc_index_of([], llm=DigestChatModel(), config=config if given == "index" else None)
    await built(how, index, pages, config if given == "build" else None)
    assert starts.tags == [["summaries"]] * SUMMARIES


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_wrapped_model_can_summarize(lc_index_of, pages, how):
    expected = summaries_of(await built(how, lc_index_of([], llm=DigestChatModel()), pages))
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
        assert summaries_of(await built(how, lc_index_of([], llm=llm), pages)) == expected
    assert flaky.calls == SUMMARIES + 2
    assert stopping.stops == [["\n\n"]] * SUMMARIES
    assert backup.calls == SUMMARIES


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_completion_models_and_reasoning_blocks_give_plain_text(lc_index_of, pages, how):
    plain = FakeListLLM(responses=["It is about a map."])
    blocks = [{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "A map."}]
    thinking = RunnableLambda(lambda _: AIMessage(blocks))
    for llm, said in ((plain, "It is about a map."), (thinking, "A map.")):
        index = await built(how, lc_index_of([], llm=llm), pages)
        assert summaries_of(index) == [said] * SUMMARIES


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_failed_build_keeps_finished_summaries(lc_index_of, pages, how):
    llm = DigestChatModel(failing={2})
    index = lc_index_of([], llm=llm, max_concurrency=1)
    with pytest.raises(IndexingError, match="call 2 failed"):
        await built(how, index, pages)
    assert index.corpus.is_dirty
    await built(how, index, [])
    assert llm.calls == SUMMARIES + 1
    assert len(summaries_of(index)) == SUMMARIES


async def test_an_llm_response_must_be_text(lc_index_of, pages):
    for how in ("sync", "async"):
        index = lc_index_of([], llm=RunnableLambda(lambda prompt: {"answer": prompt}))
        with pytest.raises(SummaryError, match="answered with a dict: pass a model"):
            await built(how, index, pages)


class Named(DigestChatModel):
    """Tells as little of itself as ChatOllama does."""

    model: str = "small"
    api_key: str = "sk-1"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {}


def test_models_are_identified_by_name_and_settings_but_not_secrets(lc_index_of, pages, tmp_path):
    path = tmp_path / "index.e2g"

    def made_on(shelf: int, llm: Any) -> E2GraphRAGIndex:
        moved = [p.model_copy(update={"metadata": {**p.metadata, "shelf": shelf}}) for p in pages]
        return lc_index_of(moved, path=path, llm=llm)

    assert made_on(0, Named()).corpus.report.llm_calls == SUMMARIES
    for other in (
        Named(temperature=0.5),
        Named(model="large"),
        Named().bind(stop=["."]),
        DigestChatModel(),
    ):
        with pytest.raises(SettingsMismatchError, match="the summarizer it was made with"):
            made_on(1, other)
    same = (Named(api_key="sk-2"), Named().with_retry(), Named().with_config(tags=["mine"]))
    for shelf, llm in enumerate(same, 2):
        index = made_on(shelf, llm)
        assert index.corpus.report.llm_calls == 0
        assert {d.metadata["shelf"] for d in index.invoke(QUESTION)} == {shelf}
