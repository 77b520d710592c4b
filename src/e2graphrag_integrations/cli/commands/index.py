"""The command that indexes files."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from e2graphrag_integrations.cli import index_files, inputs, models, options, values
from e2graphrag_integrations.cli.app import ExitCode, command
from e2graphrag_integrations.cli.options import number
from e2graphrag_integrations.cli.output.indexing import print_estimate, print_report
from e2graphrag_integrations.cli.output.progress import progress_bar
from e2graphrag_integrations.store.location import index_exists, shown_path


@command
def index(
    paths: options.Sources,
    *,
    out: Annotated[str, typer.Option(metavar="INDEX", help="Index file; created or extended.")],
    on_duplicate: Annotated[
        Literal["replace", "skip", "error"],
        typer.Option(
            help="For an indexed document whose file has changed: replace it, skip the file, or "
            "stop with an error before anything is written."
        ),
    ] = "replace",
    estimate: options.EstimateOnly = False,
    profile: options.Profile = False,
    lock_timeout: options.LockTimeout = 30.0,
    json: options.Json = False,
    embedder: options.Embedder = None,
    spacy_model: options.SpacyModel = None,
    entity_rules: options.EntityRulesFile = None,
    language: options.Language = "auto",
    encoding: options.Encoding = None,
    metadata: options.Metadata = None,
    chunk_size: Annotated[int | None, number("Tokens per chunk (default: 1200).")] = None,
    chunk_overlap: Annotated[
        int | None,
        number("Tokens that adjacent chunks share (default: 100, at most half a chunk)."),
    ] = None,
    group_size: Annotated[int | None, number("Nodes per summary (default: 5).")] = None,
    cut: Annotated[
        Literal["fixed", "content"] | None,
        typer.Option(
            help="Cut chunks at a fixed size or at content-defined boundaries. With the latter, "
            "an edit regenerates fewer summaries (default: fixed)."
        ),
    ] = None,
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
    """Index files and folders.

    Run the command again to add new files, to replace documents whose files have changed, or to
    resume after an interruption. Unchanged documents are skipped.

    Examples:
      e2graphrag index novels/ --out novels.e2g
      e2graphrag index novels/ notes.md --out novels.e2g --llm-model gpt-5-mini --estimate
      e2graphrag index novels/ --out novels.e2g --enrich-model gpt-5-mini --estimate
      e2graphrag index novels/ --out novels.e2g --on-duplicate skip
      e2graphrag index novels/ --out living.e2g --cut content
      e2graphrag index novels/ --out letters.e2g --metadata tenant=a --metadata year=1895
      e2graphrag index notes/ --out notes.e2g --entity-rules drugs.jsonl
      e2graphrag index novels/ --out novels.e2g --engine ray --address 10.0.0.1:6379
      e2graphrag index novels/ --out "postgresql://host/db?schema=library" --no-wait
    """
    from e2graphrag_integrations.engine import E2GraphRAG
    from e2graphrag_integrations.options import IndexSettings, Models, WriteOptions

    summarizer = models.make_summarizer(
        llm_model, llm_base_url, llm_api_key_env, estimate=estimate or no_wait
    )
    enricher = models.make_enricher(
        enrich_model, enrich_base_url, enrich_api_key_env, estimate=estimate or no_wait
    )
    extractors = values.with_entity_rules(values.parse_extractors(spacy_model), entity_rules)
    chosen_engine = values.make_engine(engine, address)
    given_metadata = values.parse_metadata(metadata or ())
    index_files.check_new_index(out, paths)
    sources = inputs.read_sources(paths, out, encoding)
    # An estimate must not create a file.
    in_memory = estimate and not index_exists(out)
    with (
        index_files.remove_if_failed(out, uses_llm=summarizer is not None or enricher is not None),
        E2GraphRAG.open(
            ":memory:" if in_memory else out,
            embedder=embedder,
            summarizer=summarizer,
            settings=IndexSettings(
                chunk_size=chunk_size,
                chunk_overlap=chunk_overlap,
                group_size=group_size,
                chunking=cut,
                grouping=cut,
            ),
            models=Models(extractor=extractors, language=language),
            writes=WriteOptions(
                concurrency=concurrency, lock_timeout=lock_timeout, enricher=enricher
            ),
        ) as rag,
    ):
        documents = inputs.described(rag, sources.documents, given_metadata)
        if estimate:
            print_estimate(rag.estimate(documents), as_json=json)
            return ExitCode.OK
        indexed_ids = set(rag.document_ids)
        with sources.files.remembered(rag.store), progress_bar() as progress:
            report = rag.add(
                documents,
                on_duplicate=on_duplicate,
                max_llm_calls=max_llm_calls,
                progress=progress,
                engine=chosen_engine,
                wait=not no_wait,
            )
    changed_ids = inputs.changed_ids(documents, report)
    print_report(
        report,
        shown_path(out),
        {"replaced": sorted(changed_ids & indexed_ids)},
        skipped_as="already indexed" if on_duplicate == "skip" else "unchanged",
        unread=sources.skipped,
        profile=profile,
        as_json=json,
    )
    return ExitCode.INCOMPLETE if report.failed or sources.has_failures else ExitCode.OK
