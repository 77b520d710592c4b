"""The commands of the group `indexes` about an index in several files or schemas."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated, Literal

import typer

from e2graphrag_integrations.cli import options
from e2graphrag_integrations.cli.app import ExitCode
from e2graphrag_integrations.cli.commands.indexes import command
from e2graphrag_integrations.cli.options import number
from e2graphrag_integrations.cli.output.indexing import print_skipped
from e2graphrag_integrations.cli.output.terminal import print_json, print_line, print_summary

ShardsPath = Annotated[str, typer.Argument(metavar="SHARDS", help="File that lists the shards.")]
NewShards = Annotated[
    list[str],
    typer.Argument(metavar="N", help="Number of shards, or the files or URLs of all of them."),
]


@command
def create_shards(
    shards: ShardsPath,
    locations: NewShards,
    *,
    embedder: options.Embedder = None,
    chunk_size: Annotated[int | None, number("Tokens per chunk (default: 1200).")] = None,
) -> None:
    """Create an index in several files or schemas.

    `query`, `serve`, `mcp`, `evaluate` and most commands that only read accept its file
    `NAME.shards.json` as an index, and so do `documents delete`, `resume` and `tag`.

    Examples:
      e2graphrag indexes create-shards novels.shards.json 8
      e2graphrag indexes create-shards teams.shards.json "postgresql://host/db?schema=s0" "postgresql://host/db?schema=s1"
    """
    from e2graphrag_integrations.embedders.sentence_transformers import DEFAULT_MODEL
    from e2graphrag_integrations.options import IndexSettings
    from e2graphrag_integrations.shards import create_shards as create

    created = create(
        shards,
        _number_or_locations(locations),
        embedder=DEFAULT_MODEL if embedder is None else embedder,
        settings=IndexSettings(chunk_size=chunk_size),
    )
    print_line(f"{shards}: {len(created.shards)} shards")


@command
def add_to_shards(
    shards: ShardsPath,
    paths: options.Sources,
    *,
    on_duplicate: Annotated[
        Literal["error", "replace", "skip"],
        typer.Option(help="For an id that is indexed with another content."),
    ] = "error",
    encoding: options.Encoding = None,
    json: options.Json = False,
) -> ExitCode:
    """Index files and folders in shards.

    Unchanged documents are skipped.

    Examples:
      e2graphrag indexes add-to-shards novels.shards.json novels/
      e2graphrag indexes add-to-shards novels.shards.json novels/ --on-duplicate replace
    """
    from e2graphrag_integrations.loaders.files import SkippedFile, read_documents
    from e2graphrag_integrations.shards import open_shards

    skipped: list[SkippedFile] = []
    stdin = getattr(sys.stdin, "buffer", None)
    documents = read_documents(paths, stdin, encoding=encoding, on_skip=skipped.append)
    print_skipped(skipped)
    with open_shards(shards) as index:
        report = index.add(documents, on_duplicate=on_duplicate)
    for document_id, reason in report.failed.items():
        print_line(f"failed: {document_id}: {reason}", error=True)
    skipped_as = "already indexed" if on_duplicate == "skip" else "unchanged"
    text = f"{shards}: {report.documents} documents indexed, {len(report.skipped)} {skipped_as}"
    print_summary(text, report.to_dict(), as_json=json)
    could_not_read = any(file.error is not None for file in skipped)
    return ExitCode.INCOMPLETE if report.failed or could_not_read else ExitCode.OK


@command
def list_shards(shards: ShardsPath, *, json: options.Json = False) -> ExitCode:
    """Print what each shard contains.

    Fails if one cannot be read.

    Examples:
      e2graphrag indexes list-shards novels.shards.json
    """
    from e2graphrag_integrations.errors import ShardUnavailableError
    from e2graphrag_integrations.shards import open_shards

    with open_shards(shards, partial=True) as index:
        rows = {}
        for location in index.shards:
            try:
                rows[location] = asdict(index.state_of(location))
            except ShardUnavailableError as error:
                rows[location] = {"problem": str(error)}
    if json:
        print_json({"shards": rows})
    else:
        for location, row in rows.items():
            text = row.get("problem") or f"{row['indexed']} documents, {row['pending']} pending"
            print_line(f"{location}: {text}")
    return ExitCode.ERROR if any("problem" in row for row in rows.values()) else ExitCode.OK


@command
def rebalance_shards(
    shards: ShardsPath,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="File to create.")],
    locations: NewShards,
    *,
    lock_timeout: options.LockTimeout = 30.0,
) -> None:
    """Copy an index to another number of shards.

    No model is called.

    Examples:
      e2graphrag indexes rebalance-shards novels.shards.json larger.shards.json 16
    """
    from e2graphrag_integrations.shards import rebalance

    created = rebalance(shards, target, _number_or_locations(locations), lock_timeout=lock_timeout)
    print_line(f"{target}: {len(created.shards)} shards")


def _number_or_locations(given: list[str]) -> int | list[str]:
    return int(given[0]) if len(given) == 1 and given[0].isdecimal() else given
