"""Continue a conversation in another process: a LlamaIndex agent, its `Context` and its messages.

    pip install torch --index-url https://download.pytorch.org/whl/cpu   # Linux without a GPU
    pip install -e ".[llama-index,local]"
    python examples/llama_index_conversation.py

Each turn opens the index and makes the agent anew, as a server that was restarted does. Between two
turns, the conversation is a JSON file. Runs offline: the packages include all-MiniLM-L6-v2 and a
small spaCy pipeline. The LLM is a stand-in that searches for the user's messages and quotes a
sentence; see stand_in_llm.py to use your own.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path

from llama_index.core import Document
from llama_index.core.agent.workflow import FunctionAgent, ToolCallResult
from llama_index.core.llms import ChatMessage
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.workflow import Context
from stand_in_llm import answering_llm

from e2graphrag_integrations import IndexSettings
from e2graphrag_integrations.llama_index import E2GraphRAGIndex, create_e2graphrag_tools

NOVEL = Path(__file__).parent / "data" / "the_time_machine.txt"
QUESTIONS = (
    "What did the Psychologist do with the lever?",
    "And in which direction did the machine travel?",
)


async def answer(question: str, index_path: Path, saved: str | None) -> tuple[str, str]:
    """Return the answer to the next question of a conversation, and the conversation as JSON."""
    with E2GraphRAGIndex.open(index_path) as index:
        tools = create_e2graphrag_tools(index, max_tokens=1_000)
        agent = FunctionAgent(tools=tools, llm=answering_llm(), system_prompt="Cite the passages.")
        if saved is None:
            context, messages = Context(agent), []
        else:
            conversation = json.loads(saved)
            context = Context.from_dict(agent, conversation["context"])
            messages = [ChatMessage.model_validate(one) for one in conversation["messages"]]
        memory = ChatMemoryBuffer.from_defaults(chat_history=messages)
        run = agent.run(question, ctx=context, memory=memory)
        async for event in run.stream_events():
            if isinstance(event, ToolCallResult):
                print(f"tool call: {event.tool_name}({event.tool_kwargs})")
        answered = str(await run)
        # With pydantic 2.14, the JSON of a context lacks its memory: it is saved as messages.
        await context.store.set("memory", None)
        said = [one.model_dump(mode="json") for one in await memory.aget_all()]
        return answered, json.dumps({"context": context.to_dict(), "messages": said})


with tempfile.TemporaryDirectory() as folder:
    index_file, conversation_file = Path(folder) / "novel.e2g", Path(folder) / "conversation.json"
    text = NOVEL.read_text(encoding="utf-8")[:25_000]
    E2GraphRAGIndex.from_documents(
        [Document(id_=NOVEL.name, text=text)],
        path=index_file,
        settings=IndexSettings(chunk_size=300, chunk_overlap=30),
    ).close()
    for number, each in enumerate(QUESTIONS):
        print(f"\n=== {each}")
        last = conversation_file.read_text(encoding="utf-8") if number else None
        answered, conversation = asyncio.run(answer(each, index_file, last))
        conversation_file.write_text(conversation, encoding="utf-8")
        print(f"answer: {answered}")
