"""The command that searches an index."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from e2graphrag_integrations.cli import index_files, options, values
from e2graphrag_integrations.cli.app import ExitCode, command
from e2graphrag_integrations.cli.options import flag, number
from e2graphrag_integrations.cli.output.documents import print_writer
from e2graphrag_integrations.cli.output.query import print_result
from e2graphrag_integrations.cli.output.terminal import print_line
from e2graphrag_integrations.cli.where import parse_object, parse_where
from e2graphrag_integrations.retrieval.validity.options import AsOf
from e2graphrag_integrations.store.location import shown_path


@command
def query(
    index: options.IndexFile,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="The question.")],
    *,
    k: Annotated[
        int | None,
        typer.Option(
            "-k",
            metavar="N",
            help="Maximum number of hits; 5 by default, or with a token budget, as many as fit.",
        ),
    ] = None,
    mode: Annotated[
        Literal["auto", "local", "global"],
        typer.Option(help="Rank by entities (local), by text (global), or by both (auto)."),
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
    min_relevance: Annotated[
        float | None,
        typer.Option(
            metavar="FROM 0 TO 1",
            help="Leave out hits with a lower relevance, so that a question without an answer "
            "finds nothing.",
        ),
    ] = None,
    scope: options.Scope = None,
    where: options.Where = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            metavar="DATE",
            help="Only what held at a date: 2024-05-01, 2024-05, 2024, or a date and the keys of "
            'the metadata, \'{"at": "2024-05-01", "valid_from": "start"}\'.',
        ),
    ] = None,
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
    context: Annotated[
        bool, flag("--context", "Print the hits with their sources, as text for a prompt.")
    ] = False,
    explain: Annotated[bool, flag("--explain", "Print every step of the retrieval.")] = False,
    paths: Annotated[
        bool, flag("--paths", "Print how the names are connected, with the sentences that say so.")
    ] = False,
    vectors: options.Vectors = None,
    profile: options.Profile = False,
    json: options.Json = False,
) -> ExitCode:
    """Search an index.

    Prints the route, and the best chunks and summaries with their document, pages, exact range of
    characters and relevance.

    Examples:
      e2graphrag query novels.e2g "Why did Filby not believe in the Time Machine?"
      e2graphrag query novels.e2g "Who was Filby?" -k 3 --explain
      e2graphrag query novels.e2g "What did Weena give to the Time Traveller?" --paths
      e2graphrag query novels.e2g "Who was Filby?" --min-relevance 0.1
      e2graphrag query novels.e2g "Who was Filby?" --context --token-budget 500
      e2graphrag query novels.e2g "Who was Filby?" --where 'document_id=the_time_machine.txt' --json
      e2graphrag query novels.e2g "Who was Filby?" --boost-document the_time_machine.txt=2
      e2graphrag query novels.e2g "Who is Weena?" --as-of 2024-05-01
      e2graphrag query novels.e2g "Who was Filby?" --vectors http://localhost:6333/novels
      e2graphrag query novels.e2g "Who was Filby?" --scope '{"document_id": "the_time_machine.txt"}'
    """
    from e2graphrag_integrations import tagged
    from e2graphrag_integrations.retrieval.strategies.by_name import make_strategy

    boost = {
        "tag": values.parse_weights("--boost-tag", boost_tag or ()),
        "documents": values.parse_weights("--boost-document", boost_document or ()),
        "boost_field": boost_field,
        "boost_scale": boost_scale,
        "half_life_days": boost_half_life_days,
        "date_field": boost_date_field,
        "now": boost_now,
    }
    condition = parse_where(where or ())

    with index_files.open_index(index, vectors=vectors) as rag:
        result = index_files.scoped(rag, scope).retrieve(
            question,
            k=5 if k is None and token_budget is None else k,
            mode=mode,
            strategy=make_strategy(strategy),
            expand=expand,
            token_budget=token_budget,
            where=tagged(*tag, where=condition) if tag else condition,
            boost={name: value for name, value in boost.items() if value not in (None, {})},
            paths=paths,
            min_relevance=min_relevance,
            as_of=_parse_date(as_of),
        )
        state = rag.state()
    print_result(result, explain=explain, context=context, profile=profile, as_json=json)
    if not result.nodes and not json and state.unfinished:
        print_line(state.lack(), error=context)
    print_writer(shown_path(index), state)
    return ExitCode.OK if result.nodes else ExitCode.NOTHING_FOUND


def _parse_date(as_of: str | None) -> AsOf | None:
    """Return a date, or a date with keys, given as a JSON object."""
    if as_of is not None and as_of.lstrip().startswith("{"):
        return parse_object("--as-of", as_of)
    return as_of
