"""The built-in strategies by name, for the command line and for settings in files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from e2graphrag_integrations._utils.validation import check_choice, closest_or_all, short_repr
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.retrieval.strategies.hybrid import HybridStrategy
from e2graphrag_integrations.retrieval.strategies.paper import PaperStrategy
from e2graphrag_integrations.retrieval.strategies.tree_traversal import TreeTraversalStrategy
from e2graphrag_integrations.retrieval.strategy import Strategy

STRATEGIES: Mapping[str, Any] = MappingProxyType(
    {"hybrid": HybridStrategy, "paper": PaperStrategy, "tree": TreeTraversalStrategy}
)
"""The classes of the built-in strategies."""


def make_strategy(name: str, parameters: Mapping[str, Any] | None = None) -> Strategy:
    """Return a built-in strategy.

    Args:
        name: `hybrid`, `paper` or `tree`.
        parameters: Parameters of its class.

    Raises:
        InvalidInputError: If the strategy or a parameter is unknown, or a value is invalid.
    """
    check_choice("strategy", name, tuple(STRATEGIES))
    known = [field.name for field in fields(STRATEGIES[name])]
    for parameter in parameters or ():
        if parameter not in known:
            hint = closest_or_all(parameter, known, "it has")
            raise InvalidInputError(
                f"the strategy {name!r} has no parameter {short_repr(parameter)}: {hint}"
            )
    strategy: Strategy = STRATEGIES[name](**(parameters or {}))
    return strategy
