"""The command that serves an index to agents."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from e2graphrag_integrations.cli import index_files, options, values
from e2graphrag_integrations.cli.app import command
from e2graphrag_integrations.cli.options import number
from e2graphrag_integrations.cli.output.terminal import print_line
from e2graphrag_integrations.errors import InvalidInputError, MissingDependencyError

TOKEN_VARIABLE = "E2GRAPHRAG_MCP_TOKEN"  # noqa: S105 - the name of the variable


@command
def mcp(
    index: options.IndexFile,
    *,
    transport: Annotated[
        Literal["stdio", "http"],
        typer.Option(help="Standard input and output, or streamable HTTP at /mcp."),
    ] = "stdio",
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="With http: address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[int, number("With http: port; 0 lets the system choose.")] = 8765,
    token_env: Annotated[
        str | None,
        typer.Option(
            metavar="VARIABLE",
            help="With http: environment variable that contains the token of the clients "
            f"(default: {TOKEN_VARIABLE}).",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="With http: further host name that clients use. Repeat it."
        ),
    ] = None,
    max_tokens: Annotated[int, number("Maximum number of tokens in an answer.")] = 4_000,
    scope: options.Scope = None,
) -> None:
    """Serve an index to agents by the Model Context Protocol (MCP).

    The tools search, read, outline, entity and path only read. An address other than that of this
    machine needs a token.

    Examples:
      e2graphrag mcp novels.e2g
      e2graphrag mcp novels.e2g --transport http --port 8765
    """
    try:
        from e2graphrag_integrations.server.listening import HttpOptions
        from e2graphrag_integrations.server.mcp_server import make_server
        from e2graphrag_integrations.server.transports import serve_http, serve_stdio
    except ImportError as error:
        raise MissingDependencyError(
            "the MCP server needs the package mcp: pip install 'e2graphrag-integrations[mcp]'"
        ) from error
    from e2graphrag_integrations.agents.tools import IndexTools

    if transport == "stdio" and (token_env or allow_host):
        raise InvalidInputError("--token-env and --allow-host require --transport http")
    token = values.read_token(token_env, TOKEN_VARIABLE)
    http = HttpOptions(host, port, token, allow_host or ()) if transport == "http" else None
    with index_files.open_index(index) as rag:
        server = make_server(IndexTools(index_files.scoped(rag, scope), max_tokens))
        if http is None:
            serve_stdio(server)
        else:
            serve_http(server, http, lambda url: print_line(f"serving at {url}", error=True))
