"""The commands, one function each; each function's docstring is its command's help text.

`copies.py` contains those that copy whole indexes.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from e2graphrag_integrations.cli import inputs, options, output
from e2graphrag_integrations.cli.app import ExitCode, command
from e2graphrag_integrations.cli.boosts import parse_weights, read_tags
from e2graphrag_integrations.cli.options import flag, number
from e2graphrag_integrations.cli.where import parse_object, parse_where
from e2graphrag_integrations.errors import DuplicateDocumentError, TagError
from e2graphrag_integrations.store.location import (
    index_exists,
    shown_path,
)

if TYPE_CHECKING:
    from e2graphrag_integrations.indexing.community_reports import Reports


@command
def index(
    paths: options.Sources,
    *,
    out: Annotated[str, typer.Option(metavar="INDEX", help="Index file; created or extended.")],
    replace: Annotated[bool, flag("--replace", "Replace documents whose text changed.")] = False,
    estimate: options.EstimateOnly = False,
    profile: options.Profile = False,
    json: options.Json = False,
    embedder: options.Embedder = None,
    spacy_model: options.SpacyModel = None,
    language: options.Language = "auto",
    chunk_size: Annotated[int | None, number("Tokens per chunk (default: 1200).")] = None,
    chunk_overlap: Annotated[
        int | None, number("Tokens that adjacent chunks share (default: 100).")
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
    concurrency: options.Concurrency = 4,
    max_llm_calls: options.MaxLLMCalls = None,
    engine: options.Engine = "local",
    address: options.RayAddress = None,
    no_wait: options.NoWait = False,
) -> ExitCode:
    """Index files and folders.

    Run the command again to add files or to resume after an interruption: unchanged documents
    are skipped.

    Examples:
      e2graphrag index novels/ --out novels.e2g
      e2graphrag index novels/ notes.md --out novels.e2g --llm-model gpt-5-mini --estimate
      e2graphrag index novels/ --out living.e2g --cut content
      e2graphrag index novels/ --out novels.e2g --engine ray --address 10.0.0.1:6379
      e2graphrag index novels/ --out "postgresql://host/db?schema=library" --no-wait
    """
    from e2graphrag_integrations.engine import E2GraphRAG

    summarizer = inputs.make_summarizer(
        llm_model, llm_base_url, llm_api_key_env, estimate=estimate or no_wait
    )
    chosen_engine = inputs.make_engine(engine, address)
    inputs.check_new_index(out, paths)
    sources = inputs.read_sources(paths, out)
    # An estimate must not create a file.
    in_memory = estimate and not index_exists(out)
    with (
        inputs.remove_if_failed(out, uses_llm=summarizer is not None),
        E2GraphRAG.open(
            ":memory:" if in_memory else out,
            embedder=embedder,
            extractor=spacy_model,
            language=language,
            summarizer=summarizer,
            concurrency=concurrency,
            chunk_size=chunk_size,
            chunk_overlap=chunk_overlap,
            group_size=group_size,
            chunking=cut,
            grouping=cut,
        ) as rag,
    ):
        if estimate:
            output.print_estimate(rag.estimate(sources.documents), as_json=json)
            return ExitCode.OK
        with output.progress_bar() as progress:
            try:
                report = rag.add(
                    sources.documents,
                    on_duplicate="replace" if replace else "error",
                    max_llm_calls=max_llm_calls,
                    progress=progress,
                    engine=chosen_engine,
                    wait=not no_wait,
                )
            except DuplicateDocumentError as error:
                hint = "on the command line, use --replace or `e2graphrag update`"
                raise DuplicateDocumentError(f"{error}; {hint}") from error
    output.print_report(
        report, shown_path(out), unread=sources.skipped, profile=profile, as_json=json
    )
    return ExitCode.INCOMPLETE if report.failed or sources.has_failures else ExitCode.OK


@command
def query(
    index: options.IndexFile,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="The question.")],
    *,
    k: Annotated[int, typer.Option("-k", metavar="N", help="Maximum number of hits.")] = 5,
    mode: Annotated[
        Literal["auto", "local", "global"],
        typer.Option(help="Rank by entities (local), by text (global), or choose per question."),
    ] = "auto",
    strategy: Annotated[
        Literal["hybrid", "paper", "tree"],
        typer.Option(
            help="Fused ranking (hybrid), the algorithm of the E2GraphRAG paper, or RAPTOR's "
            "traversal of the summary tree."
        ),
    ] = "hybrid",
    expand: Annotated[
        Literal["none", "children", "leaves"],
        typer.Option(help="Replace summaries with the nodes below them."),
    ] = "none",
    token_budget: Annotated[int | None, number("Maximum number of tokens in all hits.")] = None,
    scope: options.Scope = None,
    where: options.Where = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(metavar="TAG", help="Only hits with this tag; repeat it for more tags."),
    ] = None,
    boost_tag: options.BoostTags = None,
    boost_document: options.BoostDocuments = None,
    boost_field: options.BoostField = None,
    boost_scale: options.BoostScale = None,
    boost_half_life_days: options.BoostHalfLife = None,
    boost_date_field: options.BoostDateField = None,
    boost_now: options.BoostNow = None,
    context: Annotated[bool, flag("--context", "Print the hits as text for a prompt.")] = False,
    explain: Annotated[bool, flag("--explain", "Print every step of the retrieval.")] = False,
    paths: Annotated[
        bool, flag("--paths", "Print how the names are connected, with the sentences that say so.")
    ] = False,
    vectors: options.Vectors = None,
    profile: options.Profile = False,
    json: options.Json = False,
) -> ExitCode:
    """Search an index.

    Prints the route, the linked entities and the best chunks and summaries with their exact
    character spans.

    Examples:
      e2graphrag query novels.e2g "Why did Filby not believe in the Time Machine?"
      e2graphrag query novels.e2g "Who was Filby?" -k 3 --explain
      e2graphrag query novels.e2g "What did Weena give to the Time Traveller?" --paths
      e2graphrag query novels.e2g "Who was Filby?" --context --token-budget 500
      e2graphrag query novels.e2g "Who was Filby?" --where 'document_id=the_time_machine.txt' --json
      e2graphrag query novels.e2g "Who was Filby?" --boost-document the_time_machine.txt=2
      e2graphrag query novels.e2g "Who was Filby?" --vectors http://localhost:6333/novels
      e2graphrag query novels.e2g "Who was Filby?" --scope '{"document_id": "the_time_machine.txt"}'
    """
    from e2graphrag_integrations import tagged
    from e2graphrag_integrations.retrieval.named_strategies import make_strategy

    boost = {
        "tag": parse_weights("--boost-tag", boost_tag or ()),
        "documents": parse_weights("--boost-document", boost_document or ()),
        "boost_field": boost_field,
        "boost_scale": boost_scale,
        "half_life_days": boost_half_life_days,
        "date_field": boost_date_field,
        "now": boost_now,
    }
    condition = parse_where(where or ())

    with inputs.open_index(index, vectors=vectors) as rag:
        reader = rag if scope is None else rag.scoped(parse_object("--scope", scope))
        result = reader.retrieve(
            question,
            k=k,
            mode=mode,
            strategy=make_strategy(strategy),
            expand=expand,
            token_budget=token_budget,
            where=tagged(*tag, where=condition) if tag else condition,
            boost={name: value for name, value in boost.items() if value not in (None, {})},
            paths=paths,
        )
    output.print_result(result, explain=explain, context=context, profile=profile, as_json=json)
    return ExitCode.OK if result.nodes else ExitCode.NOTHING_FOUND


@command
def entities(
    index: options.IndexFile,
    *,
    prefix: Annotated[
        str, typer.Option(metavar="TEXT", help="Start of the name or of one of its aliases.")
    ] = "",
    top: Annotated[int, number("Maximum number of entities.")] = 20,
    where: options.Where = None,
    json: options.Json = False,
) -> ExitCode:
    """List the entities of an index, most mentioned first.

    Examples:
      e2graphrag entities novels.e2g --top 50
      e2graphrag entities novels.e2g --prefix fil
    """
    with inputs.open_index(index) as rag:
        found = rag.entities(prefix=prefix, top=top, where=parse_where(where or ()))
    output.print_entities(found, as_json=json)
    return ExitCode.OK if found else ExitCode.NOTHING_FOUND


@command
def communities(
    index: options.IndexFile,
    *,
    level: Annotated[int, number("Level; 0 is the coarsest.")] = 0,
    top: Annotated[int, number("Maximum number of communities.")] = 10,
    where: options.Where = None,
    seed: Annotated[int, number("Seed of the detection.")] = 0,
    no_reports: Annotated[bool, flag("--no-reports", "Print the entities alone.")] = False,
    estimate: options.EstimateOnly = False,
    json: options.Json = False,
    llm_model: options.LLMModel = None,
    llm_base_url: options.LLMBaseURL = None,
    llm_api_key_env: options.LLMApiKeyEnv = None,
    concurrency: options.Concurrency = 4,
    max_llm_calls: options.MaxLLMCalls = None,
) -> ExitCode:
    """Print the communities of the entity graph.

    A community is a group of entities that occur together. Its report is extracted from the text,
    or written by a language model with --llm-model; the index caches reports by a language model.

    Examples:
      e2graphrag communities novels.e2g
      e2graphrag communities novels.e2g --top 5 --where 'document_id=the_time_machine.txt'
      e2graphrag communities novels.e2g --llm-model gpt-5-mini --estimate
    """
    from e2graphrag_integrations import CommunitySelection

    summarizer = inputs.make_summarizer(llm_model, llm_base_url, llm_api_key_env, estimate=estimate)
    condition = parse_where(where or ())
    with inputs.open_index(index, summarizer=summarizer, concurrency=concurrency) as rag:
        if estimate:
            selection = CommunitySelection(level, top, condition, seed)
            output.print_estimate(rag.estimate(communities=selection), as_json=json)
            return ExitCode.OK
        reports: Reports = "extractive" if summarizer is None else "summarizer"
        found = rag.communities(
            level,
            top=top,
            where=condition,
            seed=seed,
            reports=None if no_reports else reports,
            max_llm_calls=max_llm_calls,
        )
    output.print_communities(found, as_json=json)
    return ExitCode.OK if found else ExitCode.NOTHING_FOUND


@command
def entity(
    index: options.IndexFile,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name, or an alias.")],
    *,
    top: Annotated[int, number("Maximum number of mentions and of neighbors.")] = 10,
    where: options.Where = None,
    json: options.Json = False,
) -> None:
    """Show where an entity is mentioned, its neighbors and its documents.

    Examples:
      e2graphrag entity novels.e2g Filby
      e2graphrag entity novels.e2g Filby --where 'document_id=the_time_machine.txt' --json
    """
    with inputs.open_index(index) as rag:
        details = rag.entity(name, top=top, where=parse_where(where or ()))
    output.print_entity(details, as_json=json)


@command
def edit(
    index: options.IndexFile,
    *,
    alias: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=ENTITY", help="Another name of an entity. Repeat it for more names."
        ),
    ] = None,
    separate: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="NAME NAME", help="Two names that never mean the same entity."),
    ] = None,
    stop: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A name that means no entity. Repeat it for more."),
    ] = None,
    undo: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Id of an edit to undo. Repeat it for more."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Correct the entities of an index, and list all corrections with their ids.

    Nothing is extracted again, and no model is called. Each correction can be undone.

    Examples:
      e2graphrag edit novels.e2g --alias "Mr. F"=Filby --stop "Time Machine"
      e2graphrag edit novels.e2g --separate Filby Filbert
      e2graphrag edit novels.e2g
      e2graphrag edit novels.e2g --undo c0e29154abe9
    """
    aliases = inputs.parse_aliases(alias or ())
    pairs = None if separate is None else [separate]
    with inputs.open_index(index) as rag:
        edits = rag.edit_entities(alias=aliases, separate=pairs, stop=stop, undo=undo)
    output.print_edits(edits, as_json=json)


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
    json: options.Json = False,
) -> None:
    """Set the tags of an index, and print the number of chunks with each.

    The tags replace the former ones. Chunks are assigned to them without a language model. Without
    tags, the command prints the present ones.

    Examples:
      e2graphrag tag novels.e2g travel science
      e2graphrag tag novels.e2g --file tags.json
      e2graphrag tag novels.e2g
    """
    if clear and (names or file):
        raise TagError("--clear removes all tags: run the command again to set new ones")
    with inputs.open_index(index) as rag:
        if clear:
            rag.set_tags(None)
        elif names or file:
            rag.set_tags(read_tags(names or (), file))
        output.print_tags(rag.tag_counts(), rag.path, as_json=json)


@command
def update(
    index: options.IndexFile,
    paths: options.Sources,
    *,
    prune: Annotated[
        bool, flag("--prune", "Delete documents that are not among the given files.")
    ] = False,
    language: options.Language = "auto",
    estimate: options.EstimateOnly = False,
    profile: options.Profile = False,
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

    Only the summaries above changed chunks are regenerated.

    Examples:
      e2graphrag update novels.e2g novels/
      e2graphrag update novels.e2g novels/ --prune
      e2graphrag update novels.e2g novels/ --llm-model gpt-5-mini --estimate
    """
    summarizer = inputs.make_summarizer(
        llm_model, llm_base_url, llm_api_key_env, estimate=estimate or no_wait
    )
    chosen_engine = inputs.make_engine(engine, address)
    inputs.check_index(index)
    sources = inputs.read_sources(paths, index)
    documents = sources.documents
    with inputs.open_index(
        index, summarizer=summarizer, language=language, concurrency=concurrency
    ) as rag:
        if estimate:
            output.print_estimate(rag.estimate(documents), as_json=json)
            return ExitCode.OK
        indexed_ids = {state.id for state in rag.status()}
        given_ids = {document.id for document in documents}
        # A file that exists but cannot be read keeps its document.
        deleted_ids = sorted(indexed_ids - sources.ids) if prune else []
        with output.progress_bar() as progress:
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
    changed_ids = given_ids - set(report.skipped) - set(report.failed)
    changes = {
        "replaced": sorted((changed_ids - {*report.queued}) & indexed_ids),
        "added": sorted(changed_ids - {*report.queued} - indexed_ids),
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
    json: options.Json = False,
) -> None:
    """Delete documents and their summaries.

    Examples:
      e2graphrag delete novels.e2g the_time_machine.txt
    """
    with inputs.open_index(index) as rag:
        report = rag.delete(ids)
    text = (
        f"{shown_path(index)}: {report.documents} document(s) deleted with {report.chunks} chunks "
        f"and {report.summaries} summaries"
    )
    output.print_summary(text, report.to_dict(), as_json=json)


@command
def resume(
    index: options.IndexFile,
    *,
    profile: options.Profile = False,
    json: options.Json = False,
    llm_model: options.LLMModel = None,
    llm_base_url: options.LLMBaseURL = None,
    llm_api_key_env: options.LLMApiKeyEnv = None,
    concurrency: options.Concurrency = 4,
    max_llm_calls: options.MaxLLMCalls = None,
    engine: options.Engine = "local",
    address: options.RayAddress = None,
) -> ExitCode:
    """Index the documents that are pending or have failed.

    Examples:
      e2graphrag resume novels.e2g
    """
    summarizer = inputs.make_summarizer(llm_model, llm_base_url, llm_api_key_env)
    chosen_engine = inputs.make_engine(engine, address)
    with (
        inputs.open_index(index, summarizer=summarizer, concurrency=concurrency) as rag,
        output.progress_bar() as progress,
    ):
        report = rag.resume(max_llm_calls=max_llm_calls, progress=progress, engine=chosen_engine)
    output.print_report(report, shown_path(index), profile=profile, as_json=json)
    return ExitCode.INCOMPLETE if report.failed else ExitCode.OK


@command
def work(
    index: options.IndexFile,
    *,
    forever: Annotated[
        bool, flag("--forever", "Wait for further documents when the queue is empty.")
    ] = False,
    profile: options.Profile = False,
    json: options.Json = False,
    embedder: options.Embedder = None,
    spacy_model: options.SpacyModel = None,
    llm_model: options.LLMModel = None,
    llm_base_url: options.LLMBaseURL = None,
    llm_api_key_env: options.LLMApiKeyEnv = None,
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
    """Index the documents in the queue, beside workers on other machines.

    Any number of workers can index the queue of an index in Postgres. Ctrl+C and SIGTERM end a
    worker after the calls in flight; a second signal ends it at once. Either way, nothing is
    lost.

    Examples:
      e2graphrag work "postgresql://host/db?schema=library"
      e2graphrag work "postgresql://host/db?schema=library" --llm-limit 8 --lease 120
    """
    summarizer = inputs.make_summarizer(llm_model, llm_base_url, llm_api_key_env)
    with (
        inputs.open_index(
            index,
            summarizer=summarizer,
            embedder=embedder,
            extractor=spacy_model,
            concurrency=concurrency,
        ) as rag,
        inputs.stopped_by_signals(rag.stop),
        output.progress_bar() as progress,
    ):
        report = rag.work(forever=forever, llm_limit=llm_limit, lease=lease, progress=progress)
    output.print_report(report, shown_path(index), profile=profile, as_json=json)
    return ExitCode.INCOMPLETE if report.failed else ExitCode.OK


@command
def reindex(
    index: options.IndexFile,
    *,
    profile: options.Profile = False,
    json: options.Json = False,
    spacy_model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name or path of another spaCy pipeline (default: the one of the index).",
        ),
    ] = None,
) -> None:
    """Extract the entities of all documents again, with the newest rules.

    An index that an older version built is used as it is until then. No summary and no vector
    changes, so no language model and no embedding model is called.

    Examples:
      e2graphrag reindex novels.e2g
    """
    with (
        inputs.open_index(index, extractor=spacy_model) as rag,
        output.progress_bar() as progress,
    ):
        report = rag.reindex(progress=progress)
    output.print_reindexed(report, shown_path(index), profile=profile, as_json=json)


@command
def status(index: options.IndexFile, *, json: options.Json = False) -> ExitCode:
    """Print the state of every document.

    The states are done, pending, processing and failed. The exit code is 3 unless all
    documents are done.

    Examples:
      e2graphrag status novels.e2g
    """
    with inputs.open_index(index) as rag:
        states, version = rag.status(), rag.extraction_rules
        outdated_path = rag.path if rag.is_outdated else None
    output.print_states(states, version, outdated_path, as_json=json)
    done = all(state.status == "done" for state in states)
    return ExitCode.OK if done else ExitCode.INCOMPLETE


@command
def stats(index: options.IndexFile, *, json: options.Json = False) -> None:
    """Print the size and the settings of an index.

    Examples:
      e2graphrag stats novels.e2g
      e2graphrag stats novels.e2g --json
    """
    with inputs.open_index(index) as rag:
        output.print_stats(rag.stats(), as_json=json)


@command
def verify(index: options.IndexFile, *, json: options.Json = False) -> ExitCode:
    """Check an index file for damage.

    Examples:
      e2graphrag verify novels.e2g
    """
    with inputs.open_index(index) as rag:
        report = rag.verify()
    output.print_verification(report, shown_path(index), as_json=json)
    return ExitCode.OK if report.ok else ExitCode.ERROR


@command
def compact(index: options.IndexFile, *, json: options.Json = False) -> None:
    """Reclaim disk space from deleted documents.

    Examples:
      e2graphrag compact novels.e2g
    """
    with inputs.open_index(index) as rag:
        report = rag.compact()
    text = (
        f"{shown_path(index)}: {report.bytes_before} to {report.bytes_after} bytes, "
        f"{report.dropped} cached results dropped"
    )
    output.print_summary(text, asdict(report), as_json=json)


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
        run_demo(path, embedder, language)
