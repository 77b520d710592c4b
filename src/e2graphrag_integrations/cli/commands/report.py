"""The command that writes an index to an HTML file."""

from __future__ import annotations

from typing import Annotated

import typer

from e2graphrag_integrations.cli import inputs, options, output
from e2graphrag_integrations.cli.app import command
from e2graphrag_integrations.cli.options import flag


@command
def report(
    index: options.IndexFile,
    *,
    out: Annotated[str, typer.Option(metavar="FILE", help="HTML file to create.")],
    question: Annotated[
        list[str] | None,
        typer.Option(metavar="QUESTION", help="A question to answer in the report. Repeat it."),
    ] = None,
    scope: options.Scope = None,
    max_mb: Annotated[
        float,
        typer.Option(
            metavar="MB",
            help="Maximum size of the texts and trees; the report names those that it leaves out.",
        ),
    ] = 25.0,
    replace: Annotated[bool, flag("--replace", "Replace an existing report.")] = False,
    json: options.Json = False,
) -> None:
    """Write an index to one HTML file that needs no server and no network.

    It shows the statistics, the documents with their trees and texts, the answers to questions, and
    the neighborhoods of the most mentioned entities.

    Examples:
      e2graphrag report novels.e2g --out novels.html
      e2graphrag report novels.e2g --question "Who was Filby?" --out filby.html
    """
    from e2graphrag_integrations.html_report import write_report

    with inputs.open_index(index) as rag:
        written = write_report(
            inputs.scoped(rag, scope),
            out,
            questions=question or (),
            max_mb=max_mb,
            replace=replace,
        )
    text = (
        f"wrote {written.path}, {written.bytes / 1e6:.1f} MB: {written.documents:,} document(s), "
        f"{written.entities:,} entities, {written.answers:,} answer(s)"
    )
    if written.left_out:
        text += f"; left out the texts of {written.left_out:,} document(s): raise --max-mb"
    output.print_summary(text, written.to_dict(), as_json=json)
