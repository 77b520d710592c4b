"""Run an agent that searches the index and cites its sources, with a memory of two turns.

    pip install torch --index-url https://download.pytorch.org/whl/cpu   # Linux without a GPU
    pip install -e ".[langchain,local]" langchain
    python examples/langchain_agent.py

Runs offline: the packages include all-MiniLM-L6-v2 and a small spaCy pipeline. The chat model is a
stand-in that calls the tool once and quotes a sentence; see stand_in_chat_model.py to use your own.
"""

from __future__ import annotations

import re
from pathlib import Path

from langchain.agents import create_agent
from langchain_core.documents import Document
from langgraph.checkpoint.memory import InMemorySaver
from stand_in_chat_model import answering_model

from e2graphrag_integrations import IndexSettings
from e2graphrag_integrations.langchain import E2GraphRAGIndex, create_e2graphrag_tool

NOVEL = Path(__file__).parent / "data" / "the_time_machine.txt"

text = NOVEL.read_text(encoding="utf-8")[:25_000]
index = E2GraphRAGIndex.from_documents(
    [Document(text, metadata={"source": NOVEL.name})],
    settings=IndexSettings(chunk_size=300, chunk_overlap=30),
)
agent = create_agent(
    answering_model(),
    [create_e2graphrag_tool(index.as_retriever(k=3))],
    system_prompt="Answer from the corpus. Cite the passages you use as [1].",
    checkpointer=InMemorySaver(),
)
thread = {"configurable": {"thread_id": "1"}}  # both turns share a conversation
n_previous = 0

for question in (
    "What did the Psychologist do with the lever?",
    "And in which direction did the machine travel?",
):
    messages = agent.invoke({"messages": [("user", question)]}, thread)["messages"]
    print(f"\n=== {question}")
    passages: list[Document] = []
    for message in messages[n_previous:]:
        if message.type == "tool":
            passages = message.artifact  # the documents of the last search
        for call in getattr(message, "tool_calls", ()):
            print(f"tool call: {call['name']}({call['args']})")
    n_previous = len(messages)
    answer = messages[-1].text
    print(f"answer: {answer}")
    for number in re.findall(r"\[(\d+)\]", answer):
        metadata = passages[int(number) - 1].metadata
        span = f"{metadata['e2_start']}-{metadata['e2_end']}"
        print(f"  [{number}] {metadata['source']}, characters {span}")
