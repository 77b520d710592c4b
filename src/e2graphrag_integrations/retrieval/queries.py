"""Building a query from the arguments of `retrieve`."""

from __future__ import annotations

from dataclasses import replace

from e2graphrag_integrations.retrieval.boosts import Boost, as_boosts
from e2graphrag_integrations.retrieval.filters import Where, metadata_filter
from e2graphrag_integrations.retrieval.history import History, as_turns
from e2graphrag_integrations.retrieval.strategy import Expand, Mode, Query


def build_query(
    question: str,
    *,
    k: int,
    mode: Mode,
    where: Where | None,
    token_budget: int | None,
    expand: Expand,
    fill: bool,
    boost: Boost | None,
    history: History | None,
    paths: bool,
) -> Query:
    """Return the query for the arguments of `E2GraphRAG.retrieve`.

    Raises:
        InvalidInputError: If an argument is invalid; see `E2GraphRAG.retrieve`.
    """
    node_filter = None if where is None else metadata_filter(where)
    query = Query(
        question, k, mode, node_filter, token_budget, expand, bool(fill), paths=bool(paths)
    )
    if boost is not None:
        query = replace(query, boosts=as_boosts(boost))
    if history is not None:
        query = replace(query, history=as_turns(history))
    return query
