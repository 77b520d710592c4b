"""The text from which a question is answered: retrieved, the full text, the evidence, or none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from e2graphrag_integrations import E2GraphRAG
from quality_bench.corpora import Corpus, Question, Words, in_words
from quality_bench.systems import system

BASELINES = ("dense", "bm25", "rrf", "paper", "full", "none")
"""Four systems, the full text up to a limit, and no context."""

CEILING = "gold"
"""The evidence itself: the best that the reader can do with these contexts."""

NAMES = ("hybrid", *BASELINES, CEILING)

_PASSAGES = 50
"""Passages to ask for: as many as the package asks for under a budget."""

ContextOf = Callable[[Question], str]


def context_of(
    name: str, corpus: Corpus, rag: E2GraphRAG, tokens: int, full_text_tokens: int
) -> ContextOf:
    """Return the function that returns the context of a question.

    Args:
        name: One of `NAMES`, or another system of the quality benchmark.
        corpus: The set.
        rag: Its index.
        tokens: Maximum length of a context, counted as 1.3 tokens per word.
        full_text_tokens: The same for the full text.
    """
    if name == "none":
        return lambda _: ""
    if name == "full":
        return full_text(corpus, full_text_tokens)
    if name == CEILING:
        return evidence(corpus, tokens)
    strategy = system(name)
    return lambda question: retrieved(corpus, rag, question, strategy, tokens)


def retrieved(
    corpus: Corpus, rag: E2GraphRAG, question: Question, strategy: Any, tokens: int
) -> str:
    """Return the passages, or the windows of long documents, best first, up to the limit.

    All systems get the same layout, so that they differ only in what they retrieve.
    """
    words = in_words(tokens)
    if corpus.long:
        result = rag.retrieve(
            question.text, strategy=strategy, token_budget=words, where=question.where
        )
        texts = [node.text for node in result.nodes]
    else:
        result = rag.retrieve(question.text, k=_PASSAGES, strategy=strategy, where=question.where)
        texts = [_titled(node.title, node.text) for node in result.nodes]
    return first_words("\n\n".join(texts), words)


def full_text(corpus: Corpus, tokens: int) -> ContextOf:
    """Return what fits without retrieval.

    For long documents, that is the beginning of the right document, which retrieval would have to
    find; for passages, the beginning of the corpus.
    """
    words = in_words(tokens)
    documents = corpus.documents()
    if corpus.long:
        cut = {one.id: first_words(one.text, words) for one in documents}
        return lambda question: cut[_only(question)]
    beginning = first_words("\n\n".join(_titled(one.title, one.text) for one in documents), words)
    return lambda _: beginning


def evidence(corpus: Corpus, tokens: int) -> ContextOf:
    """Return the gold passages or spans, up to the limit.

    A question without spans gets its evidence as text, and one about an entire document gets the
    beginning of the document.
    """
    documents = {one.id: one for one in corpus.documents()}

    def gold(question: Question) -> str:
        found = [documents[id_] for id_ in sorted(question.gold)]
        if not corpus.long:
            texts = [_titled(one.title, one.text) for one in found]
        elif question.spans:
            texts = [found[0].text[start:end] for start, end in sorted(set(question.spans))]
        elif question.evidence != question.answer:
            texts = [question.evidence]
        else:
            texts = [found[0].text]
        return first_words("\n\n".join(texts), in_words(tokens))

    return gold


def first_words(text: str, count: int) -> str:
    """Return the beginning of a text, with its layout."""
    spans = Words().spans(text)
    return text if len(spans) <= count else text[: spans[count - 1][1]]


def _titled(title: str | None, text: str) -> str:
    return f"{title}\n{text}" if title else text


def _only(question: Question) -> str:
    [document] = question.gold
    return document
