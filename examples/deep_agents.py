"""Run a Deep Agent that searches the index with its tools, and remembers the conversation.

    pip install torch --index-url https://download.pytorch.org/whl/cpu   # Linux without a GPU
    pip install -e ".[langchain,local]" deepagents
    python examples/deep_agents.py

Runs offline: the packages include all-MiniLM-L6-v2 and a small spaCy pipeline. The chat model is a
stand-in that searches once and quotes a sentence; see stand_in_chat_model.py to use your own.
"""

from __future__ import annotations

from pathlib import Path

from deepagents import create_deep_agent
from langchain_core.documents import Document
from langgraph.checkpoint.memory import InMemorySaver
from stand_in_chat_model import answering_model

from e2graphrag_integrations import IndexSettings
from e2graphrag_integrations.langchain import E2GraphRAGIndex, create_e2graphrag_tools

NOVEL = Path(__file__).parent / "data" / "the_time_machine.txt"

text = NOVEL.read_text(encoding="utf-8")[:25_000]
index = E2GraphRAGIndex.from_documents(
    [Document(text, metadata={"source": NOVEL.name})],
    settings=IndexSettings(chunk_size=300, chunk_overlap=30),
)
agent = create_deep_agent(
    answering_model("search"),
    create_e2graphrag_tools(index, max_tokens=1_000, conversation_tokens=4_000),
    system_prompt="Answer from the index. Cite the document and the characters.",
    checkpointer=InMemorySaver(),
)
thread = {"configurable": {"thread_id": "1"}}  # both turns share a conversation, and its limit
n_previous = 0

for question in (
    "What did the Psychologist do with the lever?",
    "And in which direction did the machine travel?",
):
    messages = agent.invoke({"messages": [("user", question)]}, thread)["messages"]
    print(f"\n=== {question}")
    for message in messages[n_previous:]:
        for call in getattr(message, "tool_calls", ()):
            print(f"tool call: {call['name']}({call['args']})")
    n_previous = len(messages)
    print(f"answer: {messages[-1].text}")
