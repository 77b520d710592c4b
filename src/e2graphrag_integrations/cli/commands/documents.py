"""The commands that replace and delete documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from e2graphrag_integrations.cli import inputs, options, output
from e2graphrag_integrations.cli.app import ExitCode, command
from e2graphrag_integrations.cli.options import flag
from e2graphrag_integrations.store.location import (
    shown_path,
)

if TYPE_CHECKING:
    pass


@command
def update(
    index: options.IndexFile,
    paths: options.Sources,
    *,
    prune: Annotated[
        bool, flag("--prune", "Delete documents that are not among the given files.")
    ] = False,
    language: options.Language = "auto",
    encoding: options.Encoding = None,
    metadata: options.Metadata = None,
    estimate: options.EstimateOnly = False,
    profile: options.Profile = False,
    lock_timeout: options.LockTimeout = 30.0,
    json: options.Json = False,
    llm_model: options.LLMModel = None,
    llm_base_url: options.LLMBaseURL = None,
    llm_api_key_env: options.LLMApiKeyEnv = None,
    concurrency: options.Concurrency = 4,
    max_llm_calls: options.MaxLLMCalls = None,
    engine: options.Engine = "local",
    address: options.RayAddress = None,
    no_wait: options.NoWait = False,
) -> ExitCode:
    """Replace changed documents and add new ones.

    Only the summaries above changed chunks are regenerated. A replaced document keeps its metadata,
    and its title if the file has none.

    Examples:
      e2graphrag update novels.e2g novels/
      e2graphrag update novels.e2g novels/ --prune
      e2graphrag update novels.e2g novels/ --llm-model gpt-5-mini --estimate
    """
    summarizer = inputs.make_summarizer(
        llm_model, llm_base_url, llm_api_key_env, estimate=estimate or no_wait
    )
    chosen_engine = inputs.make_engine(engine, address)
    given_metadata = inputs.parse_metadata(metadata or ())
    inputs.check_index(index)
    sources = inputs.read_sources(paths, index, encoding)
    with inputs.open_index(
        index,
        summarizer=summarizer,
        language=language,
        concurrency=concurrency,
        lock_timeout=lock_timeout,
    ) as rag:
        documents = inputs.described(rag, sources.documents, given_metadata)
        if estimate:
            output.print_estimate(rag.estimate(documents), as_json=json)
            return ExitCode.OK
        indexed_ids = {state.id for state in rag.status()}
        # A file that exists but cannot be read keeps its document.
        deleted_ids = sorted(indexed_ids - sources.ids) if prune else []
        with sources.files.remembered(rag.store), output.progress_bar() as progress:
            report = rag.add(
                documents,
                on_duplicate="replace",
                max_llm_calls=max_llm_calls,
                progress=progress,
                engine=chosen_engine,
                wait=not no_wait,
            )
        if deleted_ids:
            rag.delete(deleted_ids)
    changed_ids = inputs.changed_ids(documents, report)
    changes = {
        "replaced": sorted(changed_ids & indexed_ids),
        "added": sorted(changed_ids - indexed_ids),
        "deleted": deleted_ids,
    }
    unread = sources.skipped
    output.print_report(
        report, shown_path(index), changes, unread=unread, profile=profile, as_json=json
    )
    return ExitCode.INCOMPLETE if report.failed or sources.has_failures else ExitCode.OK


@command
def delete(
    index: options.IndexFile,
    ids: Annotated[
        list[str],
        typer.Argument(metavar="ID", help="Document ids, as `e2graphrag status` prints them."),
    ],
    *,
    lock_timeout: options.LockTimeout = 30.0,
    json: options.Json = False,
) -> None:
    """Delete documents and their summaries.

    Examples:
      e2graphrag delete novels.e2g the_time_machine.txt
    """
    with inputs.open_index(index, lock_timeout=lock_timeout) as rag:
        report = rag.delete(ids)
    text = (
        f"{shown_path(index)}: {report.documents} document(s) deleted with {report.chunks} chunks "
        f"and {report.summaries} summaries"
    )
    output.print_summary(text, report.to_dict(), as_json=json)
