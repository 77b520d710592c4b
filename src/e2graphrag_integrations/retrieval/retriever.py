"""The read path: from a question to a result, over one snapshot."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from e2graphrag_integrations.checks import shown, whole_number
from e2graphrag_integrations.components import Components
from e2graphrag_integrations.embedding import unit_mean
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.extraction import checked_extraction
from e2graphrag_integrations.linking import Linking, link
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.retrieval.base import (
    MODES,
    Candidate,
    Mode,
    NodeFilter,
    NodeSource,
    Query,
    Strategy,
)
from e2graphrag_integrations.retrieval.packing import (
    EXPANSIONS,
    Expand,
    expand,
    filled,
    pack,
    to_nodes,
)
from e2graphrag_integrations.retrieval.result import RetrievalResult, RetrievedNode
from e2graphrag_integrations.retrieval.trace import Trace
from e2graphrag_integrations.store.snapshot import Snapshot

_BUDGET_CANDIDATES = 50
"""With a token budget at least this many nodes compete, and the budget alone cuts."""

_MOST_ENTITIES = 32
"""Entities of a question that are paired; of more, the rarest: a 100 kB question stays quick."""


@dataclass(frozen=True)
class Request:
    """One call of `retrieve`, checked.

    Attributes:
        embed_texts: Embedded in the question's place, their mean taken (HyDE, section 3.2).
        vector: The question's unit vector, if the caller has it.
        fill: Whether what is missing to k nodes is made up for by the nearest others.

    Raises:
        InvalidInputError: If an argument is out of range.
        FilterError: If `where` is not understood.
    """

    question: str
    strategy: Strategy
    k: int = 10
    mode: Mode = "auto"
    where: NodeFilter | None = None
    token_budget: int | None = None
    expand: Expand = "none"
    embed_texts: tuple[str, ...] = ()
    vector: FloatArray | None = None
    fill: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.question, str):
            kind = type(self.question).__name__
            raise InvalidInputError(f"the question must be a string, not {kind}")
        if not self.question.strip():
            raise InvalidInputError("the question is empty: ask something")
        for name, value in (("k", self.k), ("token_budget", self.token_budget)):
            if value is not None or name == "k":
                object.__setattr__(self, name, whole_number(name, value, most=None))
        if self.mode not in MODES:
            raise InvalidInputError(f"mode={shown(self.mode)}: choose one of {', '.join(MODES)}")
        if self.expand not in EXPANSIONS:
            raise InvalidInputError(
                f"expand={shown(self.expand)}: choose one of {', '.join(EXPANSIONS)}"
            )
        check_strategy(self.strategy)


def check_strategy(strategy: object) -> None:
    """Refuse what cannot rank.

    Raises:
        InvalidInputError: For a class, or an object without `rank`.
    """
    if inspect.isclass(strategy) or not callable(getattr(strategy, "rank", None)):
        raise InvalidInputError(
            f"strategy {shown(strategy)} has no method rank(): pass an object such as "
            "PaperStrategy()"
        )


def answer(
    request: Request, snapshot: Snapshot, source: NodeSource, components: Components
) -> RetrievalResult:
    """Rank the snapshot's nodes for the request and read their texts from their source.

    Raises:
        NodeGoneError: If the source has moved on and a node of the snapshot is gone.
    """
    return _Answer(request, snapshot, source, components).run()


def _ranked(strategy: Strategy, query: Query, snapshot: Snapshot) -> tuple[list[Candidate], Trace]:
    ranked: Any = strategy.rank(query, snapshot)
    pair = isinstance(ranked, tuple) and len(ranked) == 2  # noqa: PLR2004 - it is a pair
    if not (pair and isinstance(ranked[0], list) and isinstance(ranked[1], Trace)):
        raise InvalidInputError(
            f"{type(strategy).__name__}.rank() must return a list of candidates and a Trace, not "
            f"{shown(ranked)}"
        )
    return ranked[0], ranked[1]


class _Answer:
    def __init__(
        self, request: Request, snapshot: Snapshot, source: NodeSource, components: Components
    ) -> None:
        self.request = request
        self.snapshot = snapshot
        self.source = source
        self.components = components
        self.seconds: dict[str, float] = {}

    def run(self) -> RetrievalResult:
        request = self.request
        self.components.hold_to(self.snapshot.made_with)
        # A tool may hand on lone surrogates, which no tokenizer takes.
        question = request.question.encode("utf-8", "replace").decode()
        with self.timed("filter"):
            allowed = None if request.where is None else request.where(self.snapshot)
        if request.mode != "global" and self.snapshot.graph.names:
            with self.timed("load"):  # at first use
                _ = self.components.extractor
        with self.timed("entities"):
            mentions, linking, entities = self._entities(question)
        candidates_wanted = request.k
        if request.token_budget is not None:
            candidates_wanted = max(request.k, _BUDGET_CANDIDATES)
        query = Query(
            question=question,
            mode=request.mode,
            k=candidates_wanted,
            mentions=mentions,
            linking=linking,
            embed=self._embedding(question),
            allowed=allowed,
        )
        loaded = self.seconds.get("load", 0.0)
        with self.timed("rank"):
            candidates, trace = _ranked(request.strategy, query, self.snapshot)
        # The embedding happens within ranking, where a strategy needs it.
        loading = self.seconds.get("load", 0.0) - loaded
        self.seconds["rank"] -= self.seconds.get("embed", 0.0) + loading
        with self.timed("read"):
            expanded = expand(candidates, self.snapshot, request.expand)
            kept = expanded[:candidates_wanted]
            dropped = len(expanded) - len(kept)
            if request.fill and len(kept) < candidates_wanted:
                kept = filled(kept, query, self.snapshot, request.expand)
            ids = [self.snapshot.nodes.ids[c.row] for c in kept]
            stored = self.source.nodes_at(self.snapshot.generation, ids)
            nodes = to_nodes(kept, self.snapshot, stored, entities)
        if allowed is not None and not allowed.any():
            trace = replace(trace, reason=f"no node passes the filter; {trace.reason}")
        nodes, cuts = self._cut(nodes, dropped, trace)
        trace = replace(trace, question=request.question, cuts=cuts, timings=dict(self.seconds))
        return RetrievalResult(request.question, tuple(nodes), trace)

    def _cut(
        self, nodes: list[RetrievedNode], expanded_away: int, trace: Trace
    ) -> tuple[list[RetrievedNode], Mapping[str, int]]:
        cuts = dict(trace.cuts)
        cuts["k"] = cuts.get("k", 0) + expanded_away
        if self.request.token_budget is not None:
            with self.timed("pack"):
                nodes, cuts["token_budget"] = pack(
                    nodes, self.request.token_budget, self.components.counter
                )
        return nodes, cuts

    def _entities(self, question: str) -> tuple[tuple[str, ...], Linking, list[int]]:
        """Return the mentions in the question, their links, and the entities' rows."""
        graph = self.snapshot.graph
        if self.request.mode == "global" or not graph.names:
            return (), Linking((), ()), []
        [sentences] = checked_extraction(self.components.extractor, [question], ["the question"])
        mentions = [mention for sentence in sentences for mention in sentence]
        linking = link(mentions, graph.index)
        if len(linking.links) > _MOST_ENTITIES:
            rarity = sorted(
                linking.links, key=lambda x: len(graph.chunks(graph.index[x.entity])[0])
            )
            kept = set(rarity[:_MOST_ENTITIES])
            linking = Linking(tuple(x for x in linking.links if x in kept), linking.unlinked)
        names = tuple(dict.fromkeys(mention.entity for mention in mentions))
        return names, linking, [graph.index[x.entity] for x in linking.links]

    def _embedding(self, question: str) -> Callable[[], FloatArray]:
        def embed() -> FloatArray:
            given = self.request.vector
            if given is not None:
                return given
            with self.timed("load"):
                embedder = self.components.embedder
            with self.timed("embed"):
                texts = self.request.embed_texts or [question]
                return unit_mean([embedder.embed_question(text) for text in texts])

        return embed

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[step] = self.seconds.get(step, 0.0) + time.perf_counter() - began
