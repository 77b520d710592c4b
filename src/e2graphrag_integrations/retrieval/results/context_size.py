"""The size of a context for a prompt: a number of nodes, or a budget of tokens.

The retrievers, engines and tools for frameworks share the rule. `E2GraphRAG.retrieve` has no budget
unless one is given.
"""

from __future__ import annotations

from typing import Final, Literal

TokenBudget = int | Literal["auto"] | None
"""Maximum number of tokens; `auto` means `DEFAULT_TOKEN_BUDGET` unless `k` is given; None means no
limit."""

DEFAULT_BUDGET: Final = "auto"
"""The default `TokenBudget` of the faces."""

DEFAULT_TOKEN_BUDGET = 2_000
"""Tokens of a context if neither `k` nor a budget is given: near that of the vector indexes of
LlamaIndex and LangChain."""


def token_budget_for(k: int | None, token_budget: TokenBudget) -> int | None:
    """Return the budget that applies; None means that complete nodes are returned.

    >>> token_budget_for(None, "auto"), token_budget_for(5, "auto"), token_budget_for(5, 800)
    (2000, None, 800)
    """
    if token_budget != DEFAULT_BUDGET:
        return token_budget
    return DEFAULT_TOKEN_BUDGET if k is None else None
