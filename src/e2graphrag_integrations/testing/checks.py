"""Checks that a component conforms to its protocol in `e2graphrag_integrations.protocols`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Sequence

import numpy as np

from e2graphrag_integrations.embedders.hashing import HashingEmbedder
from e2graphrag_integrations.engine import E2GraphRAG
from e2graphrag_integrations.options import IndexSettings, Models
from e2graphrag_integrations.protocols import Embedder, EntityExtractor, Summarizer, TokenCounter
from e2graphrag_integrations.retrieval.result import RetrievalResult
from e2graphrag_integrations.retrieval.strategy import MODES, Strategy
from e2graphrag_integrations.testing.fakes import CapitalizedWordExtractor
from e2graphrag_integrations.types import Mention, SourceDocument

TEXTS = (
    "Anna met Bert in Oslo. Bert gave Anna a map of the harbor.",
    "Cleo watched from the bridge. Later Cleo followed Bert to Rome.",
    "Ärzte in Köln: “Müller & Söhne”, naïve café.",
    "量子力学是物理学的一个分支。",
    "Tabs\tand\r\nline breaks\n\nand 👩‍👩‍👧 emoji.",
)
"""Test texts in several scripts, with line breaks and emoji."""

_LONG_SENTENCE = "The captain wrote another letter to the harbor master. "
_MOST_SENTENCES = 400
LONG_TEXT = _LONG_SENTENCE * _MOST_SENTENCES

_DOCUMENTS = tuple(
    SourceDocument(f"doc{number}", text, title=f"Part {number}", metadata={"number": number})
    for number, text in enumerate(
        (
            "Anna met Bert in Oslo. Bert gave Anna a map. Anna kept the map for Cleo.",
            "Cleo followed Bert to Rome. Dora sold the map to Emil in Rome.",
            "Emil sailed from Oslo at night. Anna wrote to Dora about the map.",
            "Nobody lives on the island. The lighthouse is dark. The sea is calm.",
        )
    )
)
_QUESTIONS = ("Where did Anna meet Bert?", "Who sold the map?", "What is the sea like?")
_TOLERANCE = 1e-3


def _require(condition: bool, component: object, rule: str) -> None:
    if not condition:
        raise AssertionError(f"{type(component).__name__}: {rule}")


def check_embedder(embedder: Embedder) -> None:
    """Check an embedder's attributes, the shape and values of its vectors, and its determinism.

    Args:
        embedder: The embedder under test. It embeds about 20 short texts and one long text.

    Raises:
        AssertionError: If the component violates a rule.
    """
    dimension, limit = embedder.dimension, embedder.max_tokens
    _require(isinstance(dimension, int) and dimension > 0, embedder, "dimension is not positive")
    _require(limit is None or limit > 0, embedder, "max_tokens is neither None nor positive")
    tokens = getattr(embedder, "tokens", None)
    if tokens is not None:
        check_token_counter(tokens)

    vectors = np.asarray(embedder.embed(list(TEXTS)))
    shape = (len(TEXTS), dimension)
    _require(vectors.shape == shape, embedder, f"embed() returned {vectors.shape}, not {shape}")
    _require(bool(np.isfinite(vectors).all()), embedder, "embed() returned NaN or infinity")
    _require(bool(vectors.any(axis=1).all()), embedder, "embed() returned a zero vector")
    again = np.asarray(embedder.embed(list(TEXTS)))
    _require(_close(vectors, again), embedder, "embed() is not deterministic")
    alone = np.concatenate([np.asarray(embedder.embed([text])) for text in TEXTS])
    _require(_close(vectors, alone), embedder, "a vector depends on the other texts in its batch")
    distinct = len({vector.tobytes() for vector in vectors})
    _require(distinct == len(TEXTS), embedder, "different texts have equal vectors")

    query = np.asarray(embedder.embed_query(TEXTS[0]))
    _require(query.shape == (dimension,), embedder, f"embed_query() returned {query.shape}")
    _require(bool(np.isfinite(query).all()), embedder, "embed_query() returned NaN or infinity")
    long = np.asarray(embedder.embed([_longer_than(limit)]))
    _require(long.shape == (1, dimension), embedder, "embed() fails on a long text")
    _check_fingerprint(embedder)


def _longer_than(limit: int | None) -> str:
    """Return a text with a quarter more words than `limit` tokens, but at most `LONG_TEXT`.

    It has at least 640 words, because many models fail beyond 512 tokens whatever they declare. A
    model that reads 500 tokens per second would need eight seconds for all of `LONG_TEXT`.
    """
    words = len(_LONG_SENTENCE.split())
    enough = _MOST_SENTENCES if limit is None else -(-max(640, limit * 5 // 4) // words)
    return _LONG_SENTENCE * min(enough, _MOST_SENTENCES)


def _close(one: np.ndarray, other: np.ndarray) -> bool:
    return one.shape == other.shape and bool(np.allclose(one, other, atol=_TOLERANCE))


def check_extractor(extractor: EntityExtractor) -> None:
    """Check that an extractor returns one list of sentences per text, with valid spans.

    Args:
        extractor: The extractor under test.

    Raises:
        AssertionError: If the component violates a rule.
    """
    found = extractor.extract(list(TEXTS))
    _require(len(found) == len(TEXTS), extractor, f"{len(found)} results for {len(TEXTS)} texts")
    for text, sentences in zip(TEXTS, found, strict=True):
        for sentence in sentences:
            for mention in sentence:
                _check_mention(extractor, mention, text)
    _require(
        _plain(found) == _plain(extractor.extract(list(TEXTS))), extractor, "not deterministic"
    )
    alone = [extractor.extract([text])[0] for text in TEXTS]
    _require(_plain(found) == _plain(alone), extractor, "a result depends on the other texts")
    _require(len(extractor.extract([])) == 0, extractor, "extract([]) is not empty")
    _require(len(extractor.extract([""])) == 1, extractor, 'extract([""]) has no result')
    _check_fingerprint(extractor)


def _check_mention(extractor: EntityExtractor, mention: Mention, text: str) -> None:
    _require(isinstance(mention, Mention), extractor, f"{mention!r} is not a Mention")
    inside = 0 <= mention.start < mention.end <= len(text)
    _require(inside, extractor, f"{mention!r} lies outside its text of {len(text)} characters")
    _require(bool(mention.entity.strip()), extractor, f"{mention!r} has an empty entity")
    _require(bool(mention.label), extractor, f"{mention!r} has no label")


def _plain(found: Sequence[Sequence[Sequence[Mention]]]) -> list[list[list[Mention]]]:
    return [[list(sentence) for sentence in sentences] for sentences in found]


def check_summarizer(summarizer: Summarizer) -> None:
    """Check that a summarizer returns text, synchronously or as an awaitable.

    A summary may exceed `max_tokens`: the index truncates it at the end of a sentence. Do not call
    this function from a running event loop.

    Args:
        summarizer: The summarizer under test. It is called twice.

    Raises:
        AssertionError: If the component violates a rule.
    """
    for level in (1, 2):
        answer = summarizer.summarize(list(TEXTS[:2]), level=level, max_tokens=60)
        summary = asyncio.run(_awaited(answer)) if inspect.isawaitable(answer) else answer
        if not isinstance(summary, str):
            raise AssertionError(  # noqa: TRY004 - a failed check, not an invalid argument
                f"{type(summarizer).__name__}: returned {type(summary)}"
            )
        _require(bool(summary.strip()), summarizer, f"summarize(level={level}) returned no text")
    _check_fingerprint(summarizer)


async def _awaited(answer: Awaitable[str]) -> str:
    return await answer


def check_token_counter(counter: TokenCounter) -> None:
    """Check that token spans are ordered, disjoint and within the text, and that counts agree.

    Args:
        counter: The counter under test.

    Raises:
        AssertionError: If the component violates a rule.
    """
    for text in (*TEXTS, ""):
        count, spans = counter.count(text), [tuple(span) for span in counter.spans(text)]
        _require(isinstance(count, int) and count >= 0, counter, f"count() returned {count!r}")
        _require(bool(count) == bool(text.strip()), counter, f"count({text!r}) is {count}")
        starts = [start for start, _ in spans]
        _require(starts == sorted(starts), counter, f"the spans of {text!r} are not in order")
        inside = all(0 <= start <= end <= len(text) for start, end in spans)
        _require(inside, counter, f"the spans of {text!r} lie outside the text")
    _check_fingerprint(counter)


def check_strategy(strategy: Strategy) -> None:
    """Check a strategy on a small index: limits, order, filters, budgets and statelessness.

    Nodes that a filter excludes are left out of the answers of every strategy.

    Args:
        strategy: The strategy under test. Its `rank` method is called about 40 times.

    Raises:
        AssertionError: If the component violates a rule.
    """
    name = strategy.name
    _require(isinstance(name, str) and bool(name), strategy, "name is not a non-empty string")
    with _index() as rag:
        _check_answer(strategy, rag.retrieve(_QUESTIONS[0], strategy=strategy), 10)
        rag.add(_DOCUMENTS)
        answers = [rag.retrieve(question, strategy=strategy) for question in _QUESTIONS]
        _require(any(answer.nodes for answer in answers), strategy, "finds nothing")
        for question, before in zip(reversed(_QUESTIONS), reversed(answers), strict=True):
            again = rag.retrieve(question, strategy=strategy)
            _require(_ids(again) == _ids(before), strategy, "depends on earlier questions")
        for question in _QUESTIONS:
            _check_ways_of_asking(strategy, rag, question)


def _check_ways_of_asking(strategy: Strategy, rag: E2GraphRAG, question: str) -> None:
    for mode in MODES:
        for k in (1, 3):
            answer = rag.retrieve(question, k=k, mode=mode, strategy=strategy)
            _check_answer(strategy, answer, k)
    filtered = rag.retrieve(question, strategy=strategy, where={"number": 1})
    _check_answer(strategy, filtered, 10)
    packed = rag.retrieve(question, strategy=strategy, token_budget=20)
    _require(len(packed.context()) < len(LONG_TEXT), strategy, "ignores the token budget")


def _index() -> E2GraphRAG:
    return E2GraphRAG.open(
        ":memory:",
        embedder=HashingEmbedder(),
        models=Models(extractor=CapitalizedWordExtractor()),
        settings=IndexSettings(chunk_size=12, chunk_overlap=0),
    )


def _check_answer(strategy: Strategy, answer: RetrievalResult, k: int) -> None:
    _require(len(answer.nodes) <= k, strategy, f"returned {len(answer.nodes)} nodes for k={k}")
    ids = _ids(answer)
    _require(len(ids) == len(set(ids)), strategy, "returned a node twice")
    scores = [node.score for node in answer.nodes]
    _require(bool(np.isfinite(scores).all()), strategy, "a score is NaN or infinite")
    _require(scores == sorted(scores, reverse=True), strategy, "scores are not in order")
    _require(all(node.reasons for node in answer.nodes), strategy, "a node has no reason")
    _require(answer.route in {"local", "global"}, strategy, f"the route is {answer.route!r}")


def _ids(answer: RetrievalResult) -> list[str]:
    return [node.node_id for node in answer.nodes]


def _check_fingerprint(component: object) -> None:
    fingerprint = getattr(component, "fingerprint", None)
    valid = fingerprint is None or (isinstance(fingerprint, str) and bool(fingerprint))
    _require(valid, component, "fingerprint is neither None nor a non-empty string")
