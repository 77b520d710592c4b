"""Print the hits of a question."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from e2graphrag_integrations.cli.excerpt import excerpt
from e2graphrag_integrations.cli.output.terminal import (
    print_json,
    print_line,
    print_profile,
    print_styled,
    print_text,
)
from e2graphrag_integrations.languages.language import ENGLISH

if TYPE_CHECKING:
    from e2graphrag_integrations.retrieval.entities.entity_paths import EntityPath
    from e2graphrag_integrations.retrieval.result import RetrievalResult, RetrievedNode
    from e2graphrag_integrations.retrieval.trace import Trace

_HIT_CHARACTERS = 240
"""Maximum number of characters per hit in the text output."""


def print_result(
    result: RetrievalResult,
    *,
    explain: bool,
    context: bool = False,
    profile: bool = False,
    as_json: bool = False,
) -> None:
    """Print the route and the hits of a query.

    Args:
        result: The result.
        explain: Whether to print the whole trace, and why each hit was found.
        context: Whether to print only the hits with their sources, as text for a prompt.
        profile: Whether to print the time of each stage.
        as_json: Whether to print JSON; the other flags add fields to it.
    """
    paths = result.paths
    if as_json:
        print_json(
            {
                "question": result.question,
                "route": result.route,
                "reason": result.trace.reason,
                "relevance_kind": result.trace.relevance_kind,
                "nodes": [asdict(node) for node in result.nodes],
                **({} if paths is None else {"paths": [path.to_dict() for path in paths]}),
                **({"trace": result.trace.to_dict()} if explain else {}),
                **({"context": result.cited_context()} if context else {}),
                **({"seconds": dict(result.trace.timings)} if profile else {}),
            }
        )
        return
    if context and result.nodes:
        print_text(result.cited_context())
    elif not context:
        trace = result.trace.explain()
        print_text(trace if explain else "\n".join(trace.split("\n")[:2]))
        for rank, node in enumerate(result.nodes, 1):
            _print_hit(rank, node, result.trace, explain=explain)
    if not result.nodes:
        over_budget = result.trace.cuts.get("token_budget")
        nothing = "nothing fits the token budget" if over_budget else "nothing found"
        print_line(nothing, error=context)  # not a part of a prompt
    if paths is not None:
        _print_paths(paths)
    if profile:
        print_profile(result.trace.timings)


def _print_paths(paths: Sequence[EntityPath]) -> None:
    if not paths:
        print_line("paths: no chain of sentences joins the names")
    for path in paths:
        heading, *hops = path.describe().split("\n")
        print_styled(f"path: {heading}", "bold")
        for hop in hops:
            print_line(hop)


def _print_hit(rank: int, node: RetrievedNode, trace: Trace, *, explain: bool) -> None:
    from e2graphrag_integrations.retrieval.question_words import words_to_mark
    from e2graphrag_integrations.retrieval.result import describe_place

    place = describe_place([node], node.spans)
    print_styled(f"{rank}. {place}, {trace.relevance_name} {node.relevance:.2f}", "bold")
    words = re.findall(r"\w+", words_to_mark(trace.question, [node.language]))
    print_line(f"   {excerpt(node, _HIT_CHARACTERS, words)}")
    details = {"also in": node.also_in, "tags": node.tags}
    if explain:
        kind = "summary" if node.level else "chunk"
        figures = f"{kind} {node.position}, score {node.score:.4f}, mainly by {node.found_by}"
        details |= {
            "found": (figures,),
            "reasons": ("; ".join(node.reasons),),
            "entities": node.entities,
            "language": () if node.language == ENGLISH else (node.language,),
        }
    for name, values in details.items():
        if values:
            print_styled(f"   {name}: {', '.join(values)}", "dim")
