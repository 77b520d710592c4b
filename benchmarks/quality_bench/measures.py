"""Measures of one question, and the comparison of two systems."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spacy.lang.en.stop_words import STOP_WORDS

from e2graphrag_integrations import E2GraphRAG, Span
from e2graphrag_integrations.evaluation.intervals import estimate
from e2graphrag_integrations.evaluation.measures import ndcg, recall, span_recall
from quality_bench.corpora import Corpus, Question, in_words

CUTS = (2, 5, 10)
BUDGETS = (1000, 2000, 4000, 8000)
CONTEXTS = (2000, 4000)
"""Token budgets in which passages should contain the answer, and pages the gold documents."""

_CONTEXT = 2000
"""Token budget that should have all gold passages: the default of the integrations."""

_FIRST_HITS = 4000
"""Token budget in which the first hits of long documents are compared with the gold."""

_RANKED = 20
"""Passages to ask for when their ranks are measured."""

_IN_CONTEXT = 50
"""Passages to ask for when a context is filled: as many as the package asks for under a budget."""

_LONGEST_ANSWER = 10
"""Words of the longest answer that a context should contain word by word."""

_WORD = re.compile(r"\w{3,}")
_TOKEN = re.compile(r"\w+")
_NO_STRINGS = frozenset({"yes", "no", "true", "false"})


def score(corpus: Corpus, rag: E2GraphRAG) -> Callable[[Question, Any], dict[str, float]]:
    """Return the function that scores a strategy on a question of the set."""
    if corpus.kind == "pages":
        return lambda question, strategy: pages(rag, question, strategy)
    if corpus.kind == "spans":
        lengths = {one.id: len(one.text) for one in corpus.documents()}
        return lambda question, strategy: spans(rag, question, strategy, lengths)
    return lambda question, strategy: passages(rag, question, strategy)


def passages(rag: E2GraphRAG, question: Question, strategy: Any) -> dict[str, float]:
    """Return how high the gold passages rank, and whether the passages contain the answer.

    R@k is the recall of the gold passages among the first k, all@5 whether the first five contain
    all of them, nDCG@10 the normalized discounted cumulative gain, hit@1 and MRR@10 how high the
    first gold passage ranks. all@2000 is whether a token budget of that size, the default of both
    integrations, has all of them. A@n is whether the passages that
    fit n tokens, in their order, contain the answer; it is missing if the answer is no string.
    """
    result = rag.retrieve(question.text, k=_RANKED, strategy=strategy)
    ranked = list(dict.fromkeys(node.document_id for node in result.nodes))
    gold = question.gold
    scores = {f"R@{cut}": recall(ranked[:cut], gold) for cut in CUTS}
    scores |= {"all@5": float(gold <= set(ranked[:5])), "nDCG@10": ndcg(ranked, gold, 10)}
    scores |= first_hits([id_ in gold for id_ in ranked])
    parts = rag.retrieve(question.text, strategy=strategy, token_budget=in_words(_CONTEXT)).nodes
    scores[f"all@{_CONTEXT}"] = float(gold <= {node.document_id for node in parts})
    if answer := answer_string(question.answer):
        result = rag.retrieve(question.text, k=_IN_CONTEXT, strategy=strategy)
        texts = (f"{node.title or ''}\n{node.text}" for node in result.nodes)
        words = " ".join(texts).split()
        for budget in CONTEXTS:
            context = plain(" ".join(words[: in_words(budget)]))
            scores[f"A@{budget}"] = float(f" {answer} " in f" {context} ")
    return scores


def first_hits(is_gold: Sequence[bool]) -> dict[str, float]:
    """Return whether the first hit is gold, and the reciprocal rank of the first gold one of ten.

    Args:
        is_gold: Whether each hit is gold, best first.
    """
    rank = next((rank for rank, gold in enumerate(is_gold[:10], 1) if gold), None)
    return {"hit@1": float(rank == 1), "MRR@10": 1 / rank if rank else 0.0}


def _overlaps(spans: Sequence[Span], gold: Sequence[Span]) -> bool:
    return any(a.start < b.end and b.start < a.end for a in spans for b in gold)


def answer_string(answer: str) -> str:
    """Return the words of an answer that a text can contain; empty for yes, no and sentences."""
    words = plain(answer)
    return "" if words in _NO_STRINGS or len(words.split()) > _LONGEST_ANSWER else words


def plain(text: str) -> str:
    """Return the words of a text in lower case, without punctuation."""
    return " ".join(_TOKEN.findall(text.lower()))


def pages(rag: E2GraphRAG, question: Question, strategy: Any) -> dict[str, float]:
    """Return the fraction of the gold documents in the context, under each budget."""
    scores = {}
    for budget in CONTEXTS:
        nodes = rag.retrieve(
            question.text, strategy=strategy, token_budget=in_words(budget), where=question.where
        ).nodes
        found = {node.document_id for node in nodes}
        scores[f"G@{budget}"] = len(question.gold & found) / len(question.gold)
        if budget == _FIRST_HITS:
            ranked = sorted(nodes, key=lambda node: -node.score)
            scores |= first_hits([node.document_id in question.gold for node in ranked])
    return scores


def spans(
    rag: E2GraphRAG,
    question: Question,
    strategy: Any,
    lengths: Mapping[str, int],
    budgets: Sequence[int] = BUDGETS,
) -> dict[str, float]:
    """Return the fraction of the gold characters in the context, under each budget."""
    [document] = question.gold
    gold = [Span(start, min(end, lengths[document])) for start, end in question.spans]
    scores = {}
    for budget in budgets:
        result = rag.retrieve(
            question.text, strategy=strategy, token_budget=in_words(budget), where=question.where
        )
        nodes = [n for n in result.nodes if n.level == 0 and n.document_id == document]
        found = {document: [span for node in nodes for span in node.spans]}
        scores[f"R@{budget}"] = span_recall(found, {document: gold})
        if budget == _FIRST_HITS:
            ranked = sorted(result.nodes, key=lambda node: -node.score)
            scores |= first_hits([node in nodes and _overlaps(node.spans, gold) for node in ranked])
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
    found = estimate([one - other for one, other in zip(scores, baseline, strict=True)])
    return {
        "difference": round(found.mean, 4),
        "low": round(found.low, 4),
        "high": round(found.high, 4),
    }
