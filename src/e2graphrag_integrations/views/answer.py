"""The view of an answer: its nodes with their ranks, the lists, and everything that was cut."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from e2graphrag_integrations._utils.display import printable
from e2graphrag_integrations._utils.failures import redact
from e2graphrag_integrations._utils.validation import check_bool, short_repr
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.evaluation.evaluate import measure
from e2graphrag_integrations.evaluation.questions import Question
from e2graphrag_integrations.evaluation.settings import Setting, make_setting
from e2graphrag_integrations.pages import PAGE_ID, describe_pages
from e2graphrag_integrations.retrieval.entities.entity_paths import EntityPath
from e2graphrag_integrations.retrieval.question_words import words_to_mark
from e2graphrag_integrations.retrieval.reader import IndexReader
from e2graphrag_integrations.retrieval.reasons import Reason
from e2graphrag_integrations.retrieval.result import RetrievalResult, RetrievedNode
from e2graphrag_integrations.retrieval.trace import Ranked, RelevanceKind, Trace
from e2graphrag_integrations.text.tokens import ApproximateTokenCounter
from e2graphrag_integrations.types import Span
from e2graphrag_integrations.views.index_name import index_name

TOP = 20
"""Number of nodes of each list in the view."""


@dataclass(frozen=True, slots=True)
class ReasonView:
    """A reason or a step as a sentence, and what makes the same sentence in another language.

    Attributes:
        code: What it says; `text` if it is only a text, as that of a strategy of the user.
        values: The values that it names, by name; see `Reason`. One may be a further reason.
        text: The sentence in English.
    """

    code: str
    values: Mapping[str, Any]
    text: str

    @classmethod
    def of(cls, reason: str) -> ReasonView:
        """Return the view of a reason."""
        if not isinstance(reason, Reason):
            return cls("text", {}, redact(reason))
        values = {
            name: cls.of(one)
            if isinstance(one, Reason)
            else redact(one)
            if isinstance(one, str)
            else one
            for name, one in reason.values.items()
        }
        return cls(reason.code, values, redact(reason))


@dataclass(frozen=True, slots=True)
class PieceView:
    """A part of a document, with its text."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class SpanView:
    """A half-open range of characters of a document."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class NodeView:
    """A chunk or a summary in an answer; see `RetrievedNode`.

    Attributes:
        pages: The pages that the node touches, as text; empty if there are none.
        pieces: The parts of the text, in order. Each is inside or outside of the best part.
        best: The part that matches best.
        ranks: The rank of the node in each list that contains it; 1 is the best.
        factor: The factor of the boosts.
        gold: Whether the node belongs to a gold answer; None if there are no gold ids or spans.
    """

    node_id: str
    document_id: str
    title: str | None
    level: int
    pages: str
    start: int
    end: int
    pieces: tuple[PieceView, ...]
    best: SpanView | None
    score: float
    relevance: float
    found_by: str
    reasons: tuple[ReasonView, ...]
    entities: tuple[str, ...]
    tags: tuple[str, ...]
    language: str
    also_in: tuple[str, ...]
    superseded_by: str | None
    metadata: Mapping[str, Any]
    ranks: Mapping[str, int]
    factor: float
    gold: bool | None


@dataclass(frozen=True, slots=True)
class ListView:
    """A ranked list: its length and its best nodes."""

    size: int
    top: tuple[Ranked, ...]


@dataclass(frozen=True, slots=True)
class LinkView:
    """A mention in the question, and the entity that it means; see `Link`."""

    mention: str
    entity: str
    how: str


@dataclass(frozen=True, slots=True)
class HopView:
    """Two entities and the sentence that mentions both, with its range in the document."""

    source: str
    target: str
    document_id: str
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class PathView:
    """A chain of entities; each hop has its evidence."""

    entities: tuple[str, ...]
    hops: tuple[HopView, ...]

    @classmethod
    def of(cls, path: EntityPath) -> PathView:
        """Return the view of a path."""
        return cls(
            path.entities,
            tuple(
                HopView(hop.source, hop.target, hop.document_id, hop.start, hop.end, hop.text)
                for hop in path.hops
            ),
        )


@dataclass(frozen=True, slots=True)
class FreshnessView:
    """How old the answer is; see `Freshness`. `max_age` is None if it is unknown."""

    is_newest: bool
    max_age: float | None
    is_preparing: bool
    left_out: int
    waited: float
    text: str


@dataclass(frozen=True, slots=True)
class AnswerView:
    """The answer to a question, with the steps that led to it; see `RetrievalResult` and `Trace`.

    Attributes:
        words: The question without words that say nothing about a text, to mark the others.
        relevance_kind: The meaning of the nodes' relevance: `calibrated`, `cosine`, `names` (the
            fraction of the question's names) or `words` (that of its words, weighted by BM25).
        lists: Each ranked list with its best nodes.
        cuts: Number of nodes dropped, by the limit that dropped them.
        unlinked: Mentions without an entity in the index.
        explain: The steps as text.
        steps: The same steps, each with its code and its values.
        foreign_language: The language of the question, if no document that the client sees is in
            it; else empty.
        missing_shards: The names of the shards that the answer does without, because they cannot
            be asked; see `open_shards`.
        timings: Seconds per step.
        paths: The chains of entities between the names of the question, if they were asked for.
        tokens: Approximate number of tokens in the context.
        context: The nodes as text for a prompt.
        scores: The measures of the evaluation; None without gold answers.
    """

    question: str
    words: str
    strategy: str
    mode: str
    route: str
    reason: ReasonView
    relevance_kind: RelevanceKind
    nodes: tuple[NodeView, ...]
    lists: Mapping[str, ListView]
    cuts: Mapping[str, int]
    links: tuple[LinkView, ...]
    unlinked: tuple[str, ...]
    explain: str
    steps: tuple[ReasonView, ...]
    foreign_language: str
    missing_shards: tuple[str, ...]
    timings: Mapping[str, float]
    freshness: FreshnessView | None
    paths: tuple[PathView, ...] | None
    tokens: int
    context: str
    scores: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a question: the arguments of `retrieve` by name.

    Args:
        values: `k`, `mode`, `strategy`, `token_budget`, `where`, `expand`, `fill`, `boosts`,
            `min_relevance`, `as_of`, `history` and `paths`. Other keys are parameters of the
            strategy, such as `bm25_weight`.

    Raises:
        InvalidInputError: If a value is invalid.
    """

    values: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.values, Mapping):
            raise InvalidInputError(f"settings={short_repr(self.values)} must be an object")
        history = self.values.get("history")
        if history is not None and not isinstance(history, list | tuple):
            raise InvalidInputError(f"history={short_repr(history)} must be a list")
        check_bool("paths", self.values.get("paths", False))

    def ask(self, reader: IndexReader, question: str) -> tuple[RetrievalResult, Setting]:
        """Return the result of a question, and the setting for the measures."""
        setting = self.setting("")
        result = reader.retrieve(
            question,
            **setting.arguments(),
            history=self.values.get("history") or None,
            paths=self.values.get("paths", False),
        )
        return result, setting

    def setting(self, name: str) -> Setting:
        """Return the setting for an evaluation, without `paths`, which does not change the nodes.

        Args:
            name: Its name, for error messages.

        Raises:
            EvaluationError: If a value is invalid.
        """
        names = {"boosts": "boost"}
        arguments = {
            names.get(key, key): value
            for key, value in self.values.items()
            if value is not None and key not in ("history", "paths")
        }
        return make_setting(name, arguments)


def ask(
    reader: IndexReader,
    question: str,
    settings: Settings = Settings(),
    gold: Question | None = None,
) -> AnswerView:
    """Return the view of the answer to a question.

    Args:
        reader: The index, or a scope.
        question: The question.
        settings: Arguments of `retrieve`.
        gold: The gold answers of the question, to measure the result.

    Raises:
        EvaluationError: If the index does not contain a gold id or span, or a setting is invalid.
        E2GraphRAGError: For the same reasons as `IndexReader.retrieve`.
    """
    result, setting = settings.ask(reader, question)
    view = answer_view(result, gold)
    if gold is None:
        return view
    return replace(view, scores=measure(reader, result, gold, setting))


def answer_view(result: RetrievalResult, gold: Question | None = None) -> AnswerView:
    """Return the view of a result; nodes that belong to a gold answer are marked."""
    names = tuple(map(index_name, result.trace.missing_shards))  # without folders and servers
    trace = replace(result.trace, missing_shards=names)
    lists = dict(trace.lists)
    ranks = {name: {one.node_id: one.rank for one in own} for name, own in lists.items()}
    factors = {one.node_id: one.figures["factor"] for one in lists.get("boosted", ())}
    context, steps = result.context(), trace.steps()
    return AnswerView(
        result.question,
        words_to_mark(result.question, {node.language for node in result.nodes}),
        trace.strategy,
        trace.mode,
        result.route,
        ReasonView.of(trace.reason),
        trace.relevance_kind,
        tuple(_node_view(node, ranks, factors, gold) for node in result.nodes),
        {name: ListView(len(own), own[:TOP]) for name, own in lists.items()},
        trace.cuts,
        tuple(LinkView(link.mention, link.entity, link.how) for link in trace.links),
        trace.unlinked,
        redact("\n".join(map(printable, steps))),
        tuple(map(ReasonView.of, steps)),
        trace.foreign_language,
        trace.missing_shards,
        trace.timings,
        _freshness(trace),
        None if result.paths is None else tuple(map(PathView.of, result.paths)),
        ApproximateTokenCounter().count(context),
        context,
    )


def _node_view(
    node: RetrievedNode,
    ranks: Mapping[str, Mapping[str, int]],
    factors: Mapping[str, float],
    gold: Question | None,
) -> NodeView:
    best = node.best_span
    return NodeView(
        node.node_id,
        node.document_id,
        node.title,
        node.level,
        describe_pages(node.metadata),
        node.start,
        node.end,
        tuple(_pieces(node)),
        None if best is None else SpanView(best.start, best.end),
        float(node.score),
        float(node.relevance),
        node.found_by,
        tuple(map(ReasonView.of, node.reasons)),
        node.entities,
        node.tags,
        node.language,
        node.also_in,
        node.superseded_by,
        node.metadata,
        {name: own[node.node_id] for name, own in ranks.items() if node.node_id in own},
        factors.get(node.node_id, 1.0),
        _is_gold(node, gold),
    )


def _pieces(node: RetrievedNode) -> Iterator[PieceView]:
    """Yield the pieces of a node, divided at the bounds of the best part."""
    for span, text in node.pieces:
        bounds = {span.start, span.end}
        if node.best_span is not None:
            bounds |= {one for one in node.best_span if span.start < one < span.end}
        for start, end in pairwise(sorted(bounds)):
            yield PieceView(start, end, text[start - span.start : end - span.start])


def _is_gold(node: RetrievedNode, gold: Question | None) -> bool | None:
    if gold is None or not (gold.gold_ids or gold.gold_spans):
        return None
    own = {node.node_id, node.document_id}
    if node.level == 0:
        own |= {str(one.metadata[PAGE_ID]) for one in node.segments if PAGE_ID in one.metadata}
    return not own.isdisjoint(gold.gold_ids) or _touches(node, gold.gold_spans)


def _touches(node: RetrievedNode, spans: Sequence[tuple[str, int, int]]) -> bool:
    own: Sequence[Span] = node.spans if node.level == 0 else ()
    return any(
        document == node.document_id and start < span.end and span.start < end
        for document, start, end in spans
        for span in own
    )


def _freshness(trace: Trace) -> FreshnessView | None:
    one = trace.freshness
    if one is None:
        return None
    return FreshnessView(
        one.is_newest,
        one.max_age if math.isfinite(one.max_age) else None,
        one.is_preparing,
        one.left_out,
        one.waited,
        redact(replace(one, problem="").describe()),
    )
