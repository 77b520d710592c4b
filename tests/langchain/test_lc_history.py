"""The history of a chat in LangChain: as an option of a call, a field, or a function."""

from __future__ import annotations

import threading

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.runnables import ConfigurableField, RunnableLambda

from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.langchain import E2GraphRAGRetriever

CALM = [f"The sea was calm for {days} days." for days in range(20)]
MESSAGES = [SystemMessage("Be brief."), HumanMessage("Who is Zelda?"), AIMessage("A pilot.")]
QUESTION, ANSWER = "Where did she land?", "Zelda landed in Cairo."


@pytest.fixture
def index(lc_index_of):
    return lc_index_of([Document(text, id=text) for text in [*CALM, ANSWER]], k=1)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    "history",
    [
        MESSAGES,
        [("human", "Who is Zelda?")],
        lambda: MESSAGES,
    ],
    ids=["messages", "pairs", "function"],
)
async def test_a_call_takes_the_history_of_a_chat(index, history):
    retriever = index.as_retriever()
    [found] = retriever.invoke(QUESTION, history=history)
    assert found.page_content == ANSWER
    assert await retriever.ainvoke(QUESTION, history=history) == [found]
    assert index.similarity_search(QUESTION, history=history) == [found]
    assert await index.asimilarity_search(QUESTION, history=history) == [found]
    assert "Zelda" in index.as_retriever(history=history).search(QUESTION).trace.carried.names


async def test_an_async_call_reads_the_history_outside_of_the_event_loop(index):
    threads = []

    def history():
        threads.append(threading.get_ident())
        return MESSAGES

    await index.as_retriever().ainvoke(QUESTION, history=history)
    await index.as_retriever(history=history).asearch(QUESTION)
    assert len(threads) == 2
    assert threading.get_ident() not in threads


def test_a_history_is_a_field_and_a_search_option(index):
    for options in ({"history": MESSAGES}, {"search_kwargs": {"history": MESSAGES}}):
        [found] = index.as_retriever(**options).invoke(QUESTION)
        assert found.page_content == ANSWER
    [found] = E2GraphRAGRetriever(index=index.corpus.rag, k=1).invoke(QUESTION, history=MESSAGES)
    assert found.page_content == ANSWER


def test_a_chain_passes_the_history_on(index):
    retriever = index.as_retriever()
    chain = RunnableLambda(lambda x: retriever.invoke(x["input"], history=x["chat_history"]))
    assert chain.invoke({"input": QUESTION, "chat_history": MESSAGES})[0].page_content == ANSWER
    configurable = retriever.configurable_fields(history=ConfigurableField(id="history"))
    config = {"configurable": {"history": MESSAGES}}
    assert configurable.invoke(QUESTION, config)[0].page_content == ANSWER


async def test_an_invalid_history_is_rejected(index):
    with pytest.raises(ValueError, match=r"history\[0\] has the unknown role 'robot'"):
        index.as_retriever(history=[("robot", "Hi")])
    retriever = index.as_retriever()
    with pytest.raises(InvalidInputError, match=r"history\[0\] is 5: a turn is a"):
        retriever.invoke(QUESTION, history=[5])
    with pytest.raises(InvalidInputError, match="history=5 must be a list of turns"):
        await retriever.ainvoke(QUESTION, history=5)
