"""The command that shows the package on a novel."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from e2graphrag_integrations.cli import index_files, options
from e2graphrag_integrations.cli.app import command
from e2graphrag_integrations.cli.commands.serve import PORT, check_server
from e2graphrag_integrations.cli.commands.serve import serve as serve_index
from e2graphrag_integrations.cli.options import flag, number
from e2graphrag_integrations.errors import InvalidInputError


@command
def demo(
    *,
    language: Annotated[
        Literal["en", "zh"], typer.Option(help="Language of the novel and the questions.")
    ] = "en",
    out: Annotated[
        str | None,
        typer.Option(
            metavar="INDEX",
            help="Index file to create (default: time_machine.e2g, or sanguo.e2g in Chinese).",
        ),
    ] = None,
    serve: Annotated[
        bool, flag("--serve", "Open the page of the index instead of asking the questions here.")
    ] = False,
    port: Annotated[
        int | None, number("With --serve: port of the page; 0 lets the system choose.")
    ] = None,
    embedder: options.Embedder = None,
    lock_timeout: options.LockTimeout = 30.0,
) -> None:
    """Index a public-domain novel and ask it six questions.

    With --serve, the page of the index opens instead, and you ask the questions there.

    Examples:
      e2graphrag demo
      e2graphrag demo --out time_machine.e2g
      e2graphrag demo --language zh
      e2graphrag demo --serve
    """
    from e2graphrag_integrations.cli.demo import DEMOS, ask_demo, index_demo

    if port is not None and not serve:
        raise InvalidInputError("--port requires --serve")
    if serve:
        check_server()

    path = DEMOS[language].index if out is None else out
    index_files.check_new_index(path)
    with index_files.remove_if_failed(path, uses_llm=False):
        index_demo(path, embedder, language, lock_timeout)
        if not serve:
            ask_demo(path, language)
    if serve:
        serve_index(path, port=PORT if port is None else port, lock_timeout=lock_timeout)
