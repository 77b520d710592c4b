"""`create_e2graphrag_tools`: everything that an agent needs to explore an index."""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.tools import FunctionTool
from pydantic import ValidationError

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
) -> list[FunctionTool]:
    """Create tools with which an agent or a workflow explores an index: those of the MCP server.

    They are `search`, `read`, `outline`, `entity` and `path`. They only read, call no language
    model, and return compact JSON with document ids and character spans to cite. An error is
    returned to the model as a sentence and does not stop the agent.

    Args:
        index: An `E2GraphRAGIndex` or a scope of one, or an `E2GraphRAG` or its `scoped` reader.
            An agent sees only what a scope contains.
        max_tokens: Maximum number of tokens in an answer; from 200 to 100,000. An answer has 2,000
            unless the agent asks for another number.
        conversation_tokens: Maximum number of tokens in all answers of these tools; create tools
            for each conversation. Then they ask the agent to answer. None means no limit.

    Raises:
        InvalidInputError: If an argument is invalid.
    """
    tools = IndexTools(readable(index), max_tokens)
    allowance = Allowance(conversation_tokens)
    return [_function_tool(tool, allowance) for tool in agent_tools(tools)]


def _function_tool(tool: AgentTool, allowance: Allowance) -> FunctionTool:
    schema = tool.arguments()

    def run(*given: Any, **arguments: Any) -> str:
        named = dict(zip(schema.model_fields, given, strict=False))
        try:
            checked = schema(**(named | arguments))
        except ValidationError as error:  # LlamaIndex does not check the arguments
            return argument_problem(error)
        values = {name: getattr(checked, name) for name in schema.model_fields}
        return allowance.answer(lambda: tool.function(**values))

    async def arun(*given: Any, **arguments: Any) -> str:
        return await asyncio.to_thread(run, *given, **arguments)

    return FunctionTool.from_defaults(
        run, tool.name, tool.description, fn_schema=schema, async_fn=arun
    )
