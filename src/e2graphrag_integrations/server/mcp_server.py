"""The MCP server: tools with schemas, descriptions for agents, and errors that reveal nothing."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from importlib import metadata
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import ValidationError

from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.agents.budget import as_json, as_values
from e2graphrag_integrations.agents.tools import IndexTools
from e2graphrag_integrations.agents.toolset import INSTRUCTIONS, AgentTool, agent_tools, problem_of
from e2graphrag_integrations.errors import E2GraphRAGError

logger = logging.getLogger(__name__)


def make_server(tools: IndexTools) -> MCPServer[Any]:
    """Return an MCP server with the tools of an index.

    Args:
        tools: The tools; their limit is the largest budget of a call.
    """
    return MCPServer(
        "e2graphrag",
        instructions=f"{INSTRUCTIONS} An answer has at most {tools.limit} tokens.",
        version=metadata.version("e2graphrag-integrations"),
        tools=[_tool(tool, tools.limit) for tool in agent_tools(tools)],
        log_level="WARNING",
    )


class _StrictTool(Tool):
    """A tool that says in one sentence what is wrong with its arguments."""

    async def run(
        self, arguments: dict[str, Any], context: Any, convert_result: bool = False
    ) -> Any:
        """Check the arguments, and run the tool.

        Raises:
            ToolError: If an argument is unknown, missing or invalid, or the tool fails.
        """
        try:
            self.fn_metadata.validate_arguments(arguments)
        except ValidationError as error:
            raise ToolError(self._problem(error)) from error
        return await super().run(arguments, context, convert_result)

    def _problem(self, error: ValidationError) -> str:
        first = error.errors(include_url=False, include_context=False)[0]
        name = ".".join(map(str, first["loc"]))
        known = ", ".join(self.parameters["properties"])
        if first["type"] == "extra_forbidden":
            return f"{self.name} has no argument {name!r}: its arguments are {known}"
        if first["type"] == "missing":
            return f"{self.name} needs the argument {name!r}: its arguments are {known}"
        message = first["msg"].removeprefix("Input ")
        return f"{name}={short_repr(first['input'])} of {self.name} {message}"


def _tool(own: AgentTool, limit: int) -> Tool:
    """Return a tool that refuses unknown arguments.

    The list of the tools is part of every prompt of an agent, so the schemas have only what limits
    the arguments.
    """

    @functools.wraps(own.function)
    def function(**arguments: Any) -> CallToolResult:
        return _answer(lambda: own.function(**arguments))

    function.__annotations__ = {**own.function.__annotations__, "return": CallToolResult}
    tool = _StrictTool.from_function(
        function,
        name=own.name,
        description=own.description,
        annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
        structured_output=False,
    )
    model = tool.fn_metadata.arg_model
    model.model_config["extra"] = "forbid"
    model.model_rebuild(force=True)
    tool.parameters = _short_schema(model.model_json_schema(by_alias=True))
    tool.parameters["properties"]["max_tokens"]["maximum"] = limit
    return tool


def _short_schema(schema: Any) -> Any:
    """Return a JSON schema without titles, and without null as a value of optional arguments."""
    if isinstance(schema, list):
        return [_short_schema(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: _short_schema(value) for key, value in schema.items() if key != "title"}
    if "anyOf" in kept:
        [only] = [one for one in kept.pop("anyOf") if one != {"type": "null"}]
        kept = only | kept
        if kept.get("default", "") is None:
            del kept["default"]
    return kept


def _answer(call: Callable[[], Any]) -> CallToolResult:
    """Return an answer as JSON, which clients also get as text.

    Raises:
        ToolError: If the arguments are invalid, or the index cannot be read. The message of an
            invalid argument is the agent's to read; that of the index may contain paths.
    """
    try:
        answer = call()
    except E2GraphRAGError as error:
        raise ToolError(problem_of(error)) from error
    return CallToolResult(
        content=[TextContent(type="text", text=as_json(answer))],
        structured_content=as_values(answer),
    )
