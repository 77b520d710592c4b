"""The commands about the entities, communities and tags of an index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from e2graphrag_integrations.cli import inputs, options, output
from e2graphrag_integrations.cli.app import ExitCode, command
from e2graphrag_integrations.cli.boosts import read_tags
from e2graphrag_integrations.cli.options import flag, number
from e2graphrag_integrations.cli.where import parse_where
from e2graphrag_integrations.errors import TagError

if TYPE_CHECKING:
    from e2graphrag_integrations.indexing.community_reports import Reports


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
    lock_timeout: options.LockTimeout = 30.0,
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
    with inputs.open_index(index, lock_timeout=lock_timeout) as rag:
        edits = rag.edit_entities(alias=aliases, separate=pairs, stop=stop, undo=undo)
    output.print_edits(edits, as_json=json)


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
      e2graphrag communities novels.e2g
      e2graphrag communities novels.e2g --top 5 --where 'document_id=the_time_machine.txt'
      e2graphrag communities novels.e2g --llm-model gpt-5-mini --estimate
    """
    from e2graphrag_integrations import CommunitySelection

    summarizer = inputs.make_summarizer(llm_model, llm_base_url, llm_api_key_env, estimate=estimate)
    condition = parse_where(where or ())
    with inputs.open_index(
        index, summarizer=summarizer, concurrency=concurrency, lock_timeout=lock_timeout
    ) as rag:
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
    with inputs.open_index(index, lock_timeout=lock_timeout) as rag:
        if clear:
            rag.set_tags(None)
        elif names or file:
            rag.set_tags(read_tags(names or (), file))
        output.print_tags(rag.tag_counts(), rag.path, as_json=json)
