"""`create_e2graphrag_tools`: everything that an agent needs to explore an index."""

from __future__ import annotations

import asyncio
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import StructuredTool

from e2graphrag_integrations.agents.budget import DEFAULT_LIMIT
from e2graphrag_integrations.agents.tools import IndexTools
from e2graphrag_integrations.agents.toolset import (
    AgentTool,
    Allowance,
    agent_tools,
    argument_problem,
    readable,
)


def create_e2graphrag_tools(
    index: Any, *, max_tokens: int = DEFAULT_LIMIT, conversation_tokens: int | None = None
) -> list[StructuredTool]:
    """Create tools with which an agent explores an index: those of the MCP server.

    They are `search`, `read`, `outline`, `entity` and `path`. They only read, call no language
    model, and return compact JSON with document ids and character spans to cite. An error is
    returned to the model as a sentence and does not stop the agent.

    Args:
        index: An `E2GraphRAGIndex` or a scope of one, or an `E2GraphRAG` or its `scoped` reader.
            An agent sees only what a scope contains.
        max_tokens: Maximum number of tokens in an answer; from 200 to 100,000. An answer has 2,000
            unless the agent asks for another number.
        conversation_tokens: Maximum number of tokens in all answers of a conversation, which is
            `thread_id` in the config of LangGraph; calls without one share the limit. Then the
            tools ask the agent to answer. None means no limit.

    Raises:
        InvalidInputError: If an argument is invalid.
    """
    tools = IndexTools(readable(index), max_tokens)
    allowance = Allowance(conversation_tokens)
    return [_structured(tool, allowance) for tool in agent_tools(tools)]


def _structured(tool: AgentTool, allowance: Allowance) -> StructuredTool:
    def run(config: RunnableConfig, **arguments: Any) -> str:
        thread = str((config.get("configurable") or {}).get("thread_id", ""))
        return allowance.answer(lambda: tool.function(**arguments), thread)

    async def arun(config: RunnableConfig, **arguments: Any) -> str:
        return await asyncio.to_thread(run, config, **arguments)

    return StructuredTool.from_function(
        run,
        arun,
        name=tool.name,
        description=tool.description,
        args_schema=tool.arguments(),
        handle_validation_error=argument_problem,
    )
