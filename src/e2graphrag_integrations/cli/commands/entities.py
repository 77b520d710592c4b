"""The group of commands about the entities of an index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from e2graphrag_integrations.cli import index_files, models, options, values
from e2graphrag_integrations.cli.app import ExitCode, group
from e2graphrag_integrations.cli.options import flag, number
from e2graphrag_integrations.cli.output.entities import (
    print_communities,
    print_edits,
    print_entities,
    print_entity,
    print_homonyms,
)
from e2graphrag_integrations.cli.output.indexing import print_estimate, print_renewed
from e2graphrag_integrations.cli.output.progress import progress_bar
from e2graphrag_integrations.cli.output.terminal import print_line
from e2graphrag_integrations.cli.where import parse_where
from e2graphrag_integrations.store.location import shown_path

if TYPE_CHECKING:
    from e2graphrag_integrations.indexing.stages.community_reports import Reports

command = group(
    "entities",
    """List, show and correct entities, and print their communities.

    Examples:
      e2graphrag entities list novels.e2g
      e2graphrag entities show novels.e2g Filby
    """,
)


@command
def list_(
    index: options.IndexFile,
    *,
    prefix: Annotated[
        str, typer.Option(metavar="TEXT", help="Start of the name or of one of its aliases.")
    ] = "",
    top: Annotated[int, number("Maximum number of entities.")] = 20,
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            metavar="TYPE",
            help="Type of the entities: person, place, organization, work, product, other, noun, "
            "or one of your rules. Repeat it for more.",
        ),
    ] = None,
    where: options.Where = None,
    json: options.Json = False,
) -> ExitCode:
    """List the entities of an index, most mentioned first.

    Examples:
      e2graphrag entities list novels.e2g --top 50
      e2graphrag entities list novels.e2g --type person --type place
      e2graphrag entities list novels.e2g --prefix fil
    """
    with index_files.open_index(index) as rag:
        condition = parse_where(where or ())
        found = rag.entities(prefix=prefix, top=top, where=condition, types=types)
    print_entities(found, as_json=json)
    return ExitCode.OK if found else ExitCode.NOTHING_FOUND


@command
def show(
    index: options.IndexFile,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name, or an alias.")],
    *,
    top: Annotated[int, number("Maximum number of mentions and of neighbors.")] = 10,
    where: options.Where = None,
    json: options.Json = False,
) -> None:
    """Show the mentions, neighbors and documents of an entity.

    Examples:
      e2graphrag entities show novels.e2g Filby
      e2graphrag entities show novels.e2g Filby --where 'document_id=the_time_machine.txt' --json
    """
    with index_files.open_index(index) as rag:
        details = rag.entity(name, top=top, where=parse_where(where or ()))
    print_entity(details, as_json=json)


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
    lock_timeout: options.LockTimeout = 30.0,
    json: options.Json = False,
) -> None:
    """Correct entities, and list all corrections with their ids.

    Nothing is extracted again, and no model is called. Each correction can be undone.

    Examples:
      e2graphrag entities edit novels.e2g --alias "Mr. F"=Filby --stop "Time Machine"
      e2graphrag entities edit novels.e2g --separate Filby Filbert
      e2graphrag entities edit novels.e2g
      e2graphrag entities edit novels.e2g --undo c0e29154abe9
    """
    aliases = values.parse_pairs("--alias", 'NAME="ENTITY"', alias or ())
    pairs = None if separate is None else [separate]
    with index_files.open_index(index, lock_timeout=lock_timeout) as rag:
        edits = rag.edit_entities(alias=aliases, separate=pairs, stop=stop, undo=undo)
    print_edits(edits, as_json=json)


@command
def homonyms(
    index: options.IndexFile,
    *,
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="Start of the names.")] = "",
    accept: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Name whose entities to separate. Repeat it for more."),
    ] = None,
    lock_timeout: options.LockTimeout = 30.0,
    json: options.Json = False,
) -> None:
    """Propose names that mean several entities.

    --accept NAME separates the entities of a proposal; `entities edit --undo` undoes it. No
    language model is called.

    Examples:
      e2graphrag entities homonyms novels.e2g
    """
    with index_files.open_index(index, lock_timeout=lock_timeout) as rag:
        found = rag.propose_homonyms(prefix=prefix)
        if accept:
            chosen = values.chosen_proposals(accept, found)
            print_edits(rag.edit_entities(separate=chosen), as_json=json)
            return
    print_homonyms(found, as_json=json)


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
    lock_timeout: options.LockTimeout = 30.0,
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
      e2graphrag entities communities novels.e2g
      e2graphrag entities communities novels.e2g --top 5 --where 'document_id=the_time_machine.txt'
      e2graphrag entities communities novels.e2g --llm-model gpt-5-mini --estimate
    """
    from e2graphrag_integrations import CommunitySelection

    summarizer = models.make_summarizer(llm_model, llm_base_url, llm_api_key_env, estimate=estimate)
    condition = parse_where(where or ())
    with index_files.open_index(
        index, summarizer=summarizer, concurrency=concurrency, lock_timeout=lock_timeout
    ) as rag:
        selection = CommunitySelection(level, top, condition, seed)
        if estimate:
            print_estimate(rag.estimate(communities=selection), as_json=json)
            return ExitCode.OK
        if summarizer is not None and not no_reports:
            cost = rag.estimate(communities=selection)
            if cost.llm_calls:  # the run reports no progress, which says so elsewhere
                print_line(
                    f"community reports: {cost.llm_calls:,} LLM call(s), with at most "
                    f"{cost.prompt_tokens:,} prompt tokens and {cost.completion_tokens:,} "
                    "completion tokens",
                    error=True,
                )
        reports: Reports = "extractive" if summarizer is None else "summarizer"
        found = rag.communities(
            level,
            top=top,
            where=condition,
            seed=seed,
            reports=None if no_reports else reports,
            max_llm_calls=max_llm_calls,
        )
    print_communities(found, as_json=json)
    return ExitCode.OK if found else ExitCode.NOTHING_FOUND


@command
def reindex(
    index: options.IndexFile,
    *,
    profile: options.Profile = False,
    lock_timeout: options.LockTimeout = 30.0,
    json: options.Json = False,
    spacy_model: options.SpacyModel = None,
) -> None:
    """Extract all entities again, with another extractor.

    No summary and no vector changes, so no language model and no embedding model is called.

    Examples:
      e2graphrag entities reindex novels.e2g
    """
    with (
        index_files.open_index(
            index, extractor=values.parse_extractors(spacy_model), lock_timeout=lock_timeout
        ) as rag,
        progress_bar() as progress,
    ):
        report = rag.reindex(progress=progress)
    what = f"extracted again; {report.entities} entities, {report.edges} edges"
    print_renewed(report, shown_path(index), what, profile=profile, as_json=json)
