"""The command that shows the package on a novel."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from e2graphrag_integrations.cli import inputs, options
from e2graphrag_integrations.cli.app import command


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
    embedder: options.Embedder = None,
    lock_timeout: options.LockTimeout = 30.0,
) -> None:
    """Index a public-domain novel and ask it six questions.

    Examples:
      e2graphrag demo
      e2graphrag demo --out time_machine.e2g
      e2graphrag demo --language zh
    """
    from e2graphrag_integrations.cli.demo import DEMOS, run_demo

    path = DEMOS[language].index if out is None else out
    inputs.check_new_index(path)
    with inputs.remove_if_failed(path, uses_llm=False):
        run_demo(path, embedder, language, lock_timeout)
