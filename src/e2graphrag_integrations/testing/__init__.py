"""Conformance checks for custom components, and small fakes for tests without models.

Call a check in your own test. If a rule is violated, it raises `AssertionError` and names the rule.

    from e2graphrag_integrations.testing import check_embedder

    def test_my_embedder():
        check_embedder(MyEmbedder())

Names are loaded on first use: a process that unpickles a fake does not import the engine.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from e2graphrag_integrations.testing.checks import (
        check_embedder,
        check_extractor,
        check_strategy,
        check_summarizer,
        check_token_counter,
    )
    from e2graphrag_integrations.testing.fakes import CapitalizedWordExtractor, DigestLLM
    from e2graphrag_integrations.testing.store_checks import check_store

__all__ = [
    "CapitalizedWordExtractor",
    "DigestLLM",
    "check_embedder",
    "check_extractor",
    "check_store",
    "check_strategy",
    "check_summarizer",
    "check_token_counter",
]

_HOMES = {
    "checks": (
        "check_embedder",
        "check_extractor",
        "check_strategy",
        "check_summarizer",
        "check_token_counter",
    ),
    "fakes": ("CapitalizedWordExtractor", "DigestLLM"),
    "store_checks": ("check_store",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
