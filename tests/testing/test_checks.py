"""The shipped conformance checks accept conforming components and reject broken ones."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from e2graphrag_integrations import (
    ApproximateTokenCounter,
    CallableSummarizer,
    ExtractiveSummarizer,
    HashingEmbedder,
    HybridStrategy,
    PaperStrategy,
    TreeTraversalStrategy,
)
from e2graphrag_integrations.testing import (
    CapitalizedWordExtractor,
    DigestLLM,
    check_embedder,
    check_extractor,
    check_strategy,
    check_summarizer,
    check_token_counter,
)
from fakes import AnonymousEmbedder, LineCounter


@pytest.mark.slow
def test_bundled_embedders_conform(real_embedder):
    check_embedder(HashingEmbedder())
    check_embedder(AnonymousEmbedder())
    check_embedder(real_embedder)


def test_bundled_extractor_conforms(real_extractor):
    check_extractor(CapitalizedWordExtractor())
    check_extractor(real_extractor)


def test_sync_and_async_summarizers_conform():
    async def summarize(prompt: str) -> str:
        return prompt[:20]

    check_summarizer(ExtractiveSummarizer())
    check_summarizer(CallableSummarizer(DigestLLM()))
    check_summarizer(CallableSummarizer(summarize))


def test_bundled_token_counters_conform(wordpiece_counter):
    check_token_counter(ApproximateTokenCounter())
    check_token_counter(wordpiece_counter)
    check_token_counter(LineCounter())


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(
    "strategy",
    [
        HybridStrategy(),
        PaperStrategy(),
        HybridStrategy(entity_weight=0),
        TreeTraversalStrategy(),
        TreeTraversalStrategy(per_level=None, threshold=0.0),
    ],
)
def test_bundled_strategies_conform(strategy):
    check_strategy(strategy)


class Rounded(HashingEmbedder):
    def embed(self, texts):
        return super().embed(texts)[:, :-1]


class Unstable(HashingEmbedder):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def embed(self, texts):
        self.calls += 1
        return super().embed(texts) + self.calls


class Zero(HashingEmbedder):
    def embed(self, texts):
        return np.zeros((len(texts), self.dimension), dtype=np.float32)


class Constant(HashingEmbedder):
    def embed(self, texts):
        return np.ones((len(texts), self.dimension), dtype=np.float32)


@pytest.mark.parametrize(
    ("embedder", "rule"),
    [
        (Rounded(), "embed\\(\\) returned"),
        (Unstable(), "not deterministic"),
        (Zero(), "zero vector"),
        (Constant(), "equal vectors"),
    ],
)
def test_broken_embedder_is_rejected(embedder, rule):
    with pytest.raises(AssertionError, match=rule):
        check_embedder(embedder)


class Shifted(CapitalizedWordExtractor):
    def extract(self, texts):
        return [
            [[m._replace(end=10_000) for m in sentence] for sentence in sentences]
            for sentences in super().extract(texts)
        ]


class Missing(CapitalizedWordExtractor):
    def extract(self, texts):
        return super().extract(texts)[1:]


class Strings(CapitalizedWordExtractor):
    def extract(self, texts):
        return [[["Anna"]] for _ in texts]


@pytest.mark.parametrize(
    ("extractor", "rule"),
    [(Shifted(), "outside its text"), (Missing(), "4 results"), (Strings(), "not a Mention")],
)
def test_broken_extractor_is_rejected(extractor, rule):
    with pytest.raises(AssertionError, match=rule):
        check_extractor(extractor)


@pytest.mark.parametrize(
    ("answer", "rule"), [(None, "returned <class 'NoneType'>"), (" ", "returned no text")]
)
def test_broken_summarizer_is_rejected(answer, rule):
    with pytest.raises(AssertionError, match=rule):
        check_summarizer(CallableSummarizer(lambda _: answer))


def test_broken_token_counter_is_rejected():
    class Backwards(ApproximateTokenCounter):
        def spans(self, text):
            return list(super().spans(text))[::-1]

    with pytest.raises(AssertionError, match="not in order"):
        check_token_counter(Backwards())


@dataclass(frozen=True)
class Wrong(HybridStrategy):
    """Breaks one rule of ranking."""

    rule: str = ""

    def rank(self, query, snapshot):
        candidates, trace = super().rank(query, snapshot)
        candidates = list(candidates)
        if self.rule == "order":
            candidates.reverse()
        if self.rule == "reasons":
            candidates = [replace(candidate, reasons=()) for candidate in candidates]
        return candidates, trace


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("rule", "message"),
    [("order", "not in order"), ("reasons", "no reason")],
)
def test_broken_strategy_is_rejected(rule, message):
    with pytest.raises(AssertionError, match=message):
        check_strategy(Wrong(rule=rule))
