"""Measures of one question, and the comparison of two systems."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from spacy.lang.en.stop_words import STOP_WORDS

from e2graphrag_integrations import E2GraphRAG
from e2graphrag_integrations.retrieval.strategy import Candidate, Query
from e2graphrag_integrations.retrieval.trace import Trace
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from quality_bench.corpora import Corpus, Question, in_words

CUTS = (2, 5, 10)
BUDGETS = (1000, 2000, 4000, 8000)
RESAMPLES = 10_000

_WORD = re.compile(r"\w{3,}")


def passages(
    rag: E2GraphRAG, question: Question, strategy: Any, document_of: Mapping[str, str]
) -> dict[str, float]:
    """Return recall@k of the gold passages, whether the first 5 contain all, and the MRR."""
    result = rag.retrieve(question.text, k=2 * max(CUTS), strategy=strategy)
    ranked = list(dict.fromkeys(document_of[node.node_id] for node in result.nodes))
    gold = question.gold
    first = next((rank for rank, id_ in enumerate(ranked, 1) if id_ in gold), 0)
    scores = {f"R@{cut}": len(gold & set(ranked[:cut])) / len(gold) for cut in CUTS}
    return scores | {"all@5": float(gold <= set(ranked[:5])), "MRR": 1 / first if first else 0.0}


def headlines(
    rag: E2GraphRAG, corpus: Corpus, strategies: Mapping[str, Any], every: int
) -> dict[str, float]:
    """Return the mean headline measure of each strategy on every n-th question of the dev half.

    The measure is R@5 for passages, and the recall of gold spans in 2000 tokens for long documents.
    """
    questions = corpus.questions("dev")[::every]
    if corpus.long:
        lengths = {one.id: len(one.text) for one in corpus.documents()}
        local = [question for question in questions if question.spans]

        def scores(strategy: Any) -> list[float]:
            return [spans(rag, q, strategy, lengths, (2000,))["R@2000"] for q in local]

    else:
        document_of = {s.node.id: s.node.document_id for s in rag.store.all_nodes()}

        def scores(strategy: Any) -> list[float]:
            return [passages(rag, q, strategy, document_of)["R@5"] for q in questions]

    return {
        name: round(statistics.mean(scores(strategy)), 4) for name, strategy in strategies.items()
    }


def spans(
    rag: E2GraphRAG,
    question: Question,
    strategy: Any,
    lengths: Mapping[str, int],
    budgets: Sequence[int] = BUDGETS,
) -> dict[str, float]:
    """Return the fraction of the gold characters in the context, under each budget."""
    [document] = question.gold
    scores = {}
    for budget in budgets:
        gold = np.zeros(lengths[document], dtype=np.bool_)
        for start, end in question.spans:
            gold[start:end] = True
        total = int(gold.sum())
        result = rag.retrieve(
            question.text, strategy=strategy, token_budget=in_words(budget), where=question.where
        )
        for node in result.nodes:
            if node.level == 0 and node.document_id == document:
                for start, end in node.spans:
                    gold[start:end] = False
        scores[f"R@{budget}"] = 1 - int(gold.sum()) / total
    return scores


def coverage(rag: E2GraphRAG, question: Question, strategy: Any) -> dict[str, float]:
    """Return the fraction of the evidence's content words in the context, under each budget."""
    gold = content_words(question.evidence)
    scores = {}
    for budget in BUDGETS:
        result = rag.retrieve(
            question.text, strategy=strategy, token_budget=in_words(budget), where=question.where
        )
        scores[f"C@{budget}"] = len(gold & content_words(result.context())) / len(gold)
    return scores


def content_words(text: str) -> set[str]:
    return {word for word in _WORD.findall(text.lower()) if word not in STOP_WORDS}


def interval(scores: Sequence[float], baseline: Sequence[float]) -> dict[str, float]:
    """Return the mean paired difference with its 95% bootstrap interval."""
    differences = np.asarray(scores) - np.asarray(baseline)
    random = np.random.default_rng(0)
    means = np.concatenate(
        [
            differences[random.integers(0, len(differences), (1000, len(differences)))].mean(axis=1)
            for _ in range(RESAMPLES // 1000)
        ]
    )
    low, high = np.quantile(means, [0.025, 0.975])
    return {
        "difference": round(float(differences.mean()), 4),
        "low": round(float(low), 4),
        "high": round(float(high), 4),
    }


def latencies(rag: E2GraphRAG, questions: Sequence[Question], strategy: Any) -> dict[str, Any]:
    """Return milliseconds of retrieval without the embedding, and of the dense search alone."""
    dense = DenseAlone()
    seconds: dict[str, list[float]] = {"retrieve": [], "ranking": [], "dense search": dense.seconds}
    for question in questions:
        rag.retrieve(question.text, strategy=dense, where=question.where)
        timings = rag.retrieve(question.text, strategy=strategy, where=question.where).trace.timings
        steps = [spent for step, spent in timings.items() if step not in {"embed", "load"}]
        seconds["retrieve"].append(sum(steps))
        seconds["ranking"].append(timings["rank"])
    return {
        name: {f"p{q}": round(1000 * float(np.quantile(values, q / 100)), 2) for q in (50, 95)}
        for name, values in seconds.items()
    }


class DenseAlone:
    """Times the vector search and returns no candidates."""

    name = "dense alone"

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def rank(self, query: Query, snapshot: Snapshot) -> tuple[list[Candidate], Trace]:
        vector = query.unit_vector
        began = time.perf_counter()
        snapshot.dense.search_windows(vector, 200, query.allowed)
        self.seconds.append(time.perf_counter() - began)
        return [], Trace(query.question, self.name, query.mode)
