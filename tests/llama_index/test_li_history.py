"""The history of a chat in LlamaIndex: messages, memories and chat engines."""

from __future__ import annotations

import copy
import threading

import pytest
from llama_index.core import Document
from llama_index.core.llms import ChatMessage, MockLLM
from llama_index.core.memory import ChatMemoryBuffer

from e2graphrag_integrations.errors import InvalidInputError

CALM = [f"The sea was calm for {days} days." for days in range(20)]
MESSAGES = [
    ChatMessage(role="system", content="Be brief."),
    ChatMessage(role="user", content="Who is Zelda?"),
    ChatMessage(role="assistant", content="A pilot."),
]
QUESTION = "Where did she land?"


@pytest.fixture
def index(index_of):
    documents = [Document(text=text, id_=text) for text in [*CALM, "Zelda landed in Cairo."]]
    return index_of(documents, llm="extractive")


def first(nodes):
    return nodes[0].node.get_content()


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    "history",
    [
        MESSAGES,
        ["Who is Zelda?"],
        ChatMemoryBuffer.from_defaults(chat_history=MESSAGES),
        lambda: MESSAGES,
    ],
    ids=["messages", "texts", "memory", "function"],
)
async def test_a_retriever_takes_the_history_of_a_chat(index, history):
    retriever = index.as_retriever(history=history, similarity_top_k=1)
    assert first(retriever.retrieve(QUESTION)) == "Zelda landed in Cairo."
    assert first(await retriever.aretrieve(QUESTION)) == "Zelda landed in Cairo."
    assert "Zelda" in retriever.explain(QUESTION).carried.names
    assert (await retriever.aexplain(QUESTION)).carried == retriever.explain(QUESTION).carried


async def test_an_async_query_calls_the_function_of_a_history_outside_of_the_event_loop(index):
    threads = []

    def history():
        threads.append(threading.get_ident())
        return MESSAGES

    await index.as_retriever(history=history).aretrieve(QUESTION)
    assert threads != [threading.get_ident()]


def test_a_chat_engine_finds_the_subject_of_the_chat_without_an_llm(index):
    memory = ChatMemoryBuffer.from_defaults(llm=MockLLM())
    engine = index.as_chat_engine(
        chat_mode="context", llm=MockLLM(), memory=memory, history=memory, similarity_top_k=1
    )
    engine.chat("Who is Zelda?")
    assert first(engine.chat(QUESTION).source_nodes) == "Zelda landed in Cairo."


def test_an_invalid_history_is_rejected_when_the_retriever_is_created(index):
    with pytest.raises(InvalidInputError, match=r"history\[0\] has the unknown role 'robot'"):
        index.as_retriever(history=[("robot", "Hi")])
    with pytest.raises(InvalidInputError, match="history='Hi' must be a list of turns"):
        index.as_retriever(history="Hi")


def test_a_copied_retriever_keeps_its_history(index):
    retriever = copy.deepcopy(index.as_retriever(history=MESSAGES))
    assert "Zelda" in retriever.explain(QUESTION).carried.names
