"""The commands that export, import, copy, list and drop indexes, and copy their vectors."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from e2graphrag_integrations.cli import inputs, options, output
from e2graphrag_integrations.cli.app import command
from e2graphrag_integrations.cli.options import flag
from e2graphrag_integrations.store.location import drop_index, list_indexes, shown_path


@command
def export(
    index: options.IndexFile,
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Folder to create.")],
    *,
    json: options.Json = False,
) -> None:
    """Export an index as JSON Lines and NumPy arrays.

    Examples:
      e2graphrag export novels.e2g novels-export
    """
    with inputs.open_index(index) as rag:
        rag.export_to(folder)
    output.print_summary(f"wrote {folder}", {"folder": folder}, as_json=json)


@command
def export_graph(
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
      e2graphrag export-graph novels.e2g novels-graph
      e2graphrag export-graph novels.e2g novels.graphml --no-texts
      e2graphrag export-graph novels.e2g novels-parquet --format parquet
    """
    with inputs.open_index(index) as rag:
        counts = rag.export_graph(
            out,
            format,
            texts=not no_texts,
            communities=not no_communities,
            min_weight=min_weight,
        )
    text = ", ".join(f"{count:,} {label}" for label, count in counts.items())
    output.print_summary(f"wrote {out}: {text}", {"path": out, "counts": counts}, as_json=json)


@command
def copy(
    source: Annotated[str, typer.Argument(metavar="SRC", help="Index to read.")],
    target: Annotated[str, typer.Argument(metavar="DST", help="Index to create.")],
    *,
    lock_timeout: options.LockTimeout = 30.0,
    json: options.Json = False,
) -> None:
    """Copy an index between files and Postgres databases.

    Examples:
      e2graphrag copy novels.e2g "postgresql://host/db?schema=novels"
      e2graphrag copy "postgresql://host/db?schema=novels" novels-2.e2g
    """
    from e2graphrag_integrations.portability.copying import copy_index

    copy_index(source, target, lock_timeout=lock_timeout)
    name = shown_path(target)
    output.print_summary(f"wrote {name}", {"file": name}, as_json=json)


@command
def update_vectors(
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
    """Bring a vector index to the current state of an index.

    The key of a Qdrant server is read from the environment variable QDRANT_API_KEY.

    Examples:
      e2graphrag update-vectors "postgresql://host/db?schema=novels" pgvector
      e2graphrag update-vectors novels.e2g http://localhost:6333/novels
    """
    with inputs.open_index(index, vectors=vectors, lock_timeout=lock_timeout) as rag:
        report = rag.update_vectors(replace=replace)
    text = (
        f"{report.documents:,} document(s): wrote {report.written:,} with {report.vectors:,} "
        f"vectors, removed {report.removed:,}"
    )
    output.print_summary(text, report.to_dict(), as_json=json)


@command
def list_(
    url: Annotated[str, typer.Argument(metavar="URL", help="Postgres database.")],
    *,
    json: options.Json = False,
) -> None:
    """List the indexes in a Postgres database.

    Examples:
      e2graphrag list postgresql://host/db
    """
    output.print_indexes(list_indexes(url), as_json=json)


@command
def drop(
    url: Annotated[str, typer.Argument(metavar="URL", help="Index in a Postgres database.")],
    *,
    lock_timeout: options.LockTimeout = 30.0,
    json: options.Json = False,
) -> None:
    """Delete an index from a Postgres database. This cannot be undone.

    Examples:
      e2graphrag drop "postgresql://host/db?schema=novels"
    """
    drop_index(url, lock_timeout=lock_timeout)
    name = shown_path(url)
    output.print_summary(f"deleted {name}", {"deleted": name}, as_json=json)


@command
def import_(
    folder: Annotated[
        str, typer.Argument(metavar="FOLDER", help="Folder that `e2graphrag export` created.")
    ],
    *,
    out: options.NewIndexFile,
    lock_timeout: options.LockTimeout = 30.0,
    json: options.Json = False,
) -> None:
    """Create an index from an exported folder.

    Examples:
      e2graphrag import novels-export --out copy.e2g
    """
    from e2graphrag_integrations.engine import E2GraphRAG

    inputs.check_new_index(out)
    E2GraphRAG.import_from(folder, out, lock_timeout=lock_timeout)
    name = shown_path(out)
    output.print_summary(f"wrote {name}", {"file": name}, as_json=json)
