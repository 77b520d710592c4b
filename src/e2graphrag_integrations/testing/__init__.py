"""Conformance checks for custom components, and small fakes for tests without models.

Call a check in your own test. If a rule is violated, it raises `AssertionError` and names the rule.

    from e2graphrag_integrations.testing import check_embedder

    def test_my_embedder():
        check_embedder(MyEmbedder())

Names are loaded on first use: a process that unpickles a fake does not import the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from e2graphrag_integrations._utils.lazy import load_name

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
    return load_name(__name__, _HOMES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
