"""The group of commands about the documents of an index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from e2graphrag_integrations._utils.display import printable
from e2graphrag_integrations.cli import index_files, inputs, models, options, stop_signals, values
from e2graphrag_integrations.cli.app import ExitCode, group
from e2graphrag_integrations.cli.options import flag, number
from e2graphrag_integrations.cli.output.documents import (
    print_states,
    print_states_as_json,
    print_tags,
    print_writer,
)
from e2graphrag_integrations.cli.output.indexing import print_estimate, print_report
from e2graphrag_integrations.cli.output.progress import progress_bar
from e2graphrag_integrations.cli.output.terminal import print_summary
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.store.location import SHARDS_ENDING, shown_path

if TYPE_CHECKING:
    from e2graphrag_integrations.engine import E2GraphRAG

command = group(
    "documents",
    """List, update, delete and tag documents, or resume indexing.

    Examples:
      e2graphrag documents list novels.e2g
      e2graphrag documents update novels.e2g novels/ --prune
    """,
)


@command
def list_(
    index: options.IndexFile,
    *,
    all_documents: Annotated[bool, flag("--all", "List all documents.")] = False,
    json: options.Json = False,
) -> ExitCode:
    """List the first 20 documents, and how many are in which state.

    The states are done, pending, processing and failed. Documents that are not done are listed
    first. The exit code is 3 unless all documents are done.

    Examples:
      e2graphrag documents list novels.e2g
      e2graphrag documents list novels.e2g --all
    """
    with index_files.open_index(index) as rag:
        states, state = rag.status(), rag.state()
    path = shown_path(index)
    if json:
        print_states_as_json(states, state)
    else:
        print_states(states, path, can_resume=state.writer is None, limited=not all_documents)
        print_writer(path, state)
    done = all(state.status == "done" for state in states)
    return ExitCode.OK if done else ExitCode.INCOMPLETE


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
    enrich_model: options.EnrichModel = None,
    enrich_base_url: options.EnrichBaseURL = None,
    enrich_api_key_env: options.EnrichApiKeyEnv = None,
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
      e2graphrag documents update novels.e2g novels/
      e2graphrag documents update novels.e2g novels/ --prune
      e2graphrag documents update novels.e2g novels/ --llm-model gpt-5-mini --estimate
    """
    summarizer = models.make_summarizer(
        llm_model, llm_base_url, llm_api_key_env, estimate=estimate or no_wait
    )
    enricher = models.make_enricher(
        enrich_model, enrich_base_url, enrich_api_key_env, estimate=estimate or no_wait
    )
    chosen_engine = values.make_engine(engine, address)
    given_metadata = values.parse_metadata(metadata or ())
    index_files.check_index(index)
    sources = inputs.read_sources(paths, index, encoding)
    with index_files.open_index(
        index,
        summarizer=summarizer,
        enricher=enricher,
        language=language,
        concurrency=concurrency,
        lock_timeout=lock_timeout,
    ) as rag:
        documents = inputs.described(rag, sources.documents, given_metadata)
        if estimate:
            print_estimate(rag.estimate(documents), as_json=json)
            return ExitCode.OK
        indexed_ids = {state.id for state in rag.status()}
        # A file that exists but cannot be read keeps its document.
        deleted_ids = sources.without_file(indexed_ids) if prune else []
        with sources.files.remembered(rag.store), progress_bar() as progress:
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
    print_report(report, shown_path(index), changes, unread=unread, profile=profile, as_json=json)
    return ExitCode.INCOMPLETE if report.failed or sources.has_failures else ExitCode.OK


@command
def delete(
    index: options.IndexFile,
    ids: Annotated[
        list[str],
        typer.Argument(
            metavar="ID", help="Document ids, as `e2graphrag documents list` prints them."
        ),
    ],
    *,
    lock_timeout: options.LockTimeout = 30.0,
    json: options.Json = False,
) -> None:
    """Delete documents and their summaries.

    Examples:
      e2graphrag documents delete novels.e2g the_time_machine.txt
    """
    with index_files.open_index(index, lock_timeout=lock_timeout) as rag:
        report = rag.delete(_as_stored(rag, ids))
    text = (
        f"{shown_path(index)}: {report.documents} document(s) deleted with {report.chunks} chunks "
        f"and {report.summaries} summaries"
    )
    print_summary(text, report.to_dict(), as_json=json)


def _as_stored(rag: E2GraphRAG, ids: Sequence[str]) -> list[str]:
    """Return ids with the control characters of which a terminal shows the escapes."""
    known = {*rag.document_ids, *rag.queued_ids()}
    if known.issuperset(ids):
        return list(ids)
    shown: dict[str, list[str]] = {}
    for one in known:
        shown.setdefault(printable(one), []).append(one)
    named = {one: found[0] for one, found in shown.items() if len(found) == 1}
    return [one if one in known else named.get(one, one) for one in ids]


@command
def tag(
    index: options.IndexFile,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[TAG]...", help="Names of the tags.")
    ] = None,
    *,
    file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="JSON list of names or of objects with the keys name, description and examples.",
        ),
    ] = None,
    clear: Annotated[bool, flag("--clear", "Remove all tags.")] = False,
    lock_timeout: options.LockTimeout = 30.0,
    json: options.Json = False,
) -> None:
    """Set the tags, and print how many chunks have each.

    The tags replace the former ones. Chunks are assigned to them without a language model. Without
    tags, the command prints the present ones.

    Examples:
      e2graphrag documents tag novels.e2g travel science
      e2graphrag documents tag novels.e2g --file tags.json
      e2graphrag documents tag novels.e2g
    """
    if clear and (names or file):
        raise InvalidInputError("--clear removes all tags: run the command again to set new ones")
    with index_files.open_index(index, lock_timeout=lock_timeout) as rag:
        if clear:
            rag.set_tags(None)
        elif names or file:
            rag.set_tags(values.read_tags(names or (), file))
        print_tags(rag.tag_counts(), rag.path, as_json=json)


@command
def resume(
    index: options.IndexFile,
    *,
    profile: options.Profile = False,
    lock_timeout: options.LockTimeout = 30.0,
    json: options.Json = False,
    llm_model: options.LLMModel = None,
    llm_base_url: options.LLMBaseURL = None,
    llm_api_key_env: options.LLMApiKeyEnv = None,
    enrich_model: options.EnrichModel = None,
    enrich_base_url: options.EnrichBaseURL = None,
    enrich_api_key_env: options.EnrichApiKeyEnv = None,
    concurrency: options.Concurrency = 4,
    max_llm_calls: options.MaxLLMCalls = None,
    engine: options.Engine = "local",
    address: options.RayAddress = None,
) -> ExitCode:
    """Index the documents that are pending or have failed.

    Examples:
      e2graphrag documents resume novels.e2g
    """
    summarizer = models.make_summarizer(llm_model, llm_base_url, llm_api_key_env)
    enricher = models.make_enricher(enrich_model, enrich_base_url, enrich_api_key_env)
    chosen_engine = values.make_engine(engine, address)
    with (
        index_files.open_index(
            index,
            summarizer=summarizer,
            enricher=enricher,
            concurrency=concurrency,
            lock_timeout=lock_timeout,
        ) as rag,
        progress_bar() as progress,
    ):
        report = rag.resume(
            max_llm_calls=max_llm_calls,
            progress=None if index.endswith(SHARDS_ENDING) else progress,
            engine=chosen_engine,
        )
    print_report(report, shown_path(index), profile=profile, as_json=json)
    return ExitCode.INCOMPLETE if report.failed else ExitCode.OK


@command
def work(
    index: options.IndexFile,
    *,
    forever: Annotated[
        bool, flag("--forever", "Wait for further documents when the queue is empty.")
    ] = False,
    profile: options.Profile = False,
    lock_timeout: options.LockTimeout = 30.0,
    json: options.Json = False,
    embedder: options.Embedder = None,
    spacy_model: options.SpacyModel = None,
    llm_model: options.LLMModel = None,
    llm_base_url: options.LLMBaseURL = None,
    llm_api_key_env: options.LLMApiKeyEnv = None,
    enrich_model: options.EnrichModel = None,
    enrich_base_url: options.EnrichBaseURL = None,
    enrich_api_key_env: options.EnrichApiKeyEnv = None,
    concurrency: options.Concurrency = 4,
    llm_limit: Annotated[
        int | None,
        number("Number of concurrent LLM calls of all workers; give all of them the same."),
    ] = None,
    lease: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="Time after which others take over the documents of a worker that died.",
        ),
    ] = 60.0,
) -> ExitCode:
    """Index the documents in the queue, together with other workers.

    Any number of workers, also on other machines, can index the queue of an index in Postgres.
    Ctrl+C and SIGTERM end a worker after the calls in flight; a second signal ends it at once.
    Either way, nothing is lost.

    Examples:
      e2graphrag documents work "postgresql://host/db?schema=library"
      e2graphrag documents work "postgresql://host/db?schema=library" --llm-limit 8 --lease 120
    """
    summarizer = models.make_summarizer(llm_model, llm_base_url, llm_api_key_env)
    enricher = models.make_enricher(enrich_model, enrich_base_url, enrich_api_key_env)
    with (
        index_files.open_index(
            index,
            summarizer=summarizer,
            enricher=enricher,
            embedder=embedder,
            extractor=values.parse_extractors(spacy_model),
            concurrency=concurrency,
            lock_timeout=lock_timeout,
        ) as rag,
        stop_signals.stopped_by_signals(rag.stop),
        progress_bar() as progress,
    ):
        report = rag.work(forever=forever, llm_limit=llm_limit, lease=lease, progress=progress)
    print_report(report, shown_path(index), profile=profile, as_json=json)
    return ExitCode.INCOMPLETE if report.failed else ExitCode.OK
