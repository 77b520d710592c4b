"""Conformance checks for custom components, and small fakes for tests without models.

Call a check in your own test. If a rule is violated, it raises `AssertionError` and names the rule.

    from e2graphrag_integrations.testing import check_embedder

    def test_my_embedder():
        check_embedder(MyEmbedder())
"""

from __future__ import annotations

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
