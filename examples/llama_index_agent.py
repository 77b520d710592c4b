"""Give an agent the index as a tool: `FunctionAgent` with a `QueryEngineTool`.

    pip install torch --index-url https://download.pytorch.org/whl/cpu   # Linux without a GPU
    pip install -e ".[llama-index,local]"
    python examples/llama_index_agent.py

Runs offline: the packages include all-MiniLM-L6-v2 and a small spaCy pipeline. The LLM is a
stand-in that calls the tool once and repeats the result; see stand_in_llm.py to use your own.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from llama_index.core import Document
from llama_index.core.agent.workflow import FunctionAgent, ToolCallResult
from llama_index.core.tools import QueryEngineTool
from stand_in_llm import answering_llm

from e2graphrag_integrations import IndexSettings
from e2graphrag_integrations.llama_index import E2GraphRAGIndex

NOVEL = Path(__file__).parent / "data" / "the_time_machine.txt"


async def main() -> None:
    """Index the first two chapters of the novel and run an agent on them."""
    text = NOVEL.read_text(encoding="utf-8")[:18_000]
    index = await E2GraphRAGIndex.afrom_documents(
        [Document(id_="the_time_machine.txt", text=text)],
        settings=IndexSettings(chunk_size=300, chunk_overlap=30),
    )
    llm = answering_llm()
    tool = QueryEngineTool.from_defaults(
        index.as_query_engine(llm=llm, similarity_top_k=3),
        name="novel",
        description="Answers questions about the first chapters of The Time Machine.",
    )
    agent = FunctionAgent(tools=[tool], llm=llm, system_prompt="Answer from the novel.")
    run = agent.run("What did the Psychologist do with the lever?")
    async for event in run.stream_events():
        if isinstance(event, ToolCallResult):
            print(f"tool call: {event.tool_name}({event.tool_kwargs})")
            for hit in event.tool_output.raw_output.source_nodes:
                node = hit.node
                span = f"characters {node.start_char_idx}-{node.end_char_idx}"
                print(f"  source: {node.ref_doc_id}, {span}, score {hit.score:.2f}")
    print(f"answer: {await run}")


asyncio.run(main())
