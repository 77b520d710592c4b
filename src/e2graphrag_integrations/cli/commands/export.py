"""The group of commands that write an index for other programs and for readers."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from e2graphrag_integrations.cli import index_files, options
from e2graphrag_integrations.cli.app import group
from e2graphrag_integrations.cli.options import flag
from e2graphrag_integrations.cli.output.terminal import print_summary

command = group(
    "export",
    """Write an index as files, a graph, an HTML report or vectors.

    Examples:
      e2graphrag export report novels.e2g --out novels.html
      e2graphrag export graph novels.e2g novels.graphml
    """,
)


@command
def folder(
    index: options.IndexFile,
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Folder to create.")],
    *,
    json: options.Json = False,
) -> None:
    """Export an index as JSON Lines and NumPy arrays.

    Examples:
      e2graphrag export folder novels.e2g novels-export
    """
    with index_files.open_index(index) as rag:
        rag.export_to(folder)
    print_summary(f"wrote {folder}", {"folder": folder}, as_json=json)


@command
def graph(
    index: options.IndexFile,
    out: Annotated[str, typer.Argument(metavar="OUT", help="File or folder to create.")],
    *,
    format: Annotated[  # noqa: A002 - the name of the option
        Literal["neo4j-csv", "graphml", "gexf", "json", "parquet"] | None,
        typer.Option(
            help="A folder of CSV files for neo4j-admin or of Parquet files, or one file. Default: "
            "that of the suffix of OUT."
        ),
    ] = None,
    no_texts: Annotated[bool, flag("--no-texts", "Leave out the texts.")] = False,
    no_communities: Annotated[
        bool, flag("--no-communities", "Leave out the communities of entities.")
    ] = False,
    min_weight: Annotated[
        float,
        typer.Option(metavar="WEIGHT", help="Minimum weight of a co-occurrence of two entities."),
    ] = 0.0,
    json: options.Json = False,
) -> None:
    """Export an index as a property graph.

    The nodes are documents, chunks, summaries, entities and communities. OUT is a file that ends in
    .graphml, .gexf or .json, or a folder.

    Examples:
      e2graphrag export graph novels.e2g novels-graph
      e2graphrag export graph novels.e2g novels.graphml --no-texts
      e2graphrag export graph novels.e2g novels-parquet --format parquet
    """
    with index_files.open_index(index) as rag:
        counts = rag.export_graph(
            out,
            format,
            texts=not no_texts,
            communities=not no_communities,
            min_weight=min_weight,
        )
    text = ", ".join(f"{count:,} {label}" for label, count in counts.items())
    print_summary(f"wrote {out}: {text}", {"path": out, "counts": counts}, as_json=json)


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
    language: Annotated[
        str | None,
        typer.Option(
            metavar="CODE",
            help="Language of the report, en or zh (default: that of most documents).",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Write an index to one HTML file that works offline.

    It shows the statistics, the documents with their trees and texts, the answers to questions, and
    the neighborhoods of the most mentioned entities.

    Examples:
      e2graphrag export report novels.e2g --out novels.html
      e2graphrag export report novels.e2g --question "Who was Filby?" --out filby.html
    """
    from e2graphrag_integrations.html_report import write_report

    with index_files.open_index(index) as rag:
        written = write_report(
            index_files.scoped(rag, scope),
            out,
            questions=question or (),
            max_mb=max_mb,
            replace=replace,
            language=language,
        )
    text = (
        f"wrote {written.path}, {written.bytes / 1e6:.1f} MB: {written.documents:,} document(s), "
        f"{written.entities:,} entities, {written.answers:,} answer(s)"
    )
    if written.left_out:
        text += f"; left out the texts of {written.left_out:,} document(s): raise --max-mb"
    print_summary(text, written.to_dict(), as_json=json)


@command
def vectors(
    index: options.IndexFile,
    vectors: Annotated[
        str,
        typer.Argument(metavar="VECTORS", help="pgvector, or the URL of a Qdrant collection."),
    ],
    *,
    replace: Annotated[
        bool, flag("--replace", "Delete the vectors of another index in the collection.")
    ] = False,
    lock_timeout: options.LockTimeout = 30.0,
    json: options.Json = False,
) -> None:
    """Write the vectors to pgvector or Qdrant, or update them there.

    The key of a Qdrant server is read from the environment variable QDRANT_API_KEY.

    Examples:
      e2graphrag export vectors "postgresql://host/db?schema=library" pgvector
      e2graphrag export vectors novels.e2g http://localhost:6333/novels
    """
    with index_files.open_index(index, vectors=vectors, lock_timeout=lock_timeout) as rag:
        report = rag.update_vectors(replace=replace)
    text = (
        f"{report.documents:,} document(s): wrote {report.written:,} with {report.vectors:,} "
        f"vectors, removed {report.removed:,}"
    )
    print_summary(text, report.to_dict(), as_json=json)
