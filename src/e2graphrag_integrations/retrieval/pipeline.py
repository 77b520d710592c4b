"""The read path: from a question to a result, over one snapshot."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from e2graphrag_integrations._utils.validation import check_int, short_repr
from e2graphrag_integrations.components import Components
from e2graphrag_integrations.embedders.windowed import mean_unit_vector
from e2graphrag_integrations.entities.spacy_extractor import extract_checked
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.retrieval.packing import (
    EXPANSIONS,
    Expand,
    expand,
    fill_to_k,
    pack_nodes,
    pack_parts,
    to_retrieved_nodes,
)
from e2graphrag_integrations.retrieval.result import RetrievalResult, RetrievedNode
from e2graphrag_integrations.retrieval.strategy import (
    MODES,
    Candidate,
    Mode,
    NodeFilter,
    NodeSource,
    Query,
    Strategy,
)
from e2graphrag_integrations.retrieval.trace import Trace
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.types import Mention, Node

_BUDGET_CANDIDATES = 50
"""With a token budget at least this many nodes compete, and the budget alone cuts."""

_LONG_TOKEN = 8
"""Characters: parts of so many for each token of the budget are read at first."""


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
                object.__setattr__(self, name, check_int(name, value, most=None))
        if self.mode not in MODES:
            raise InvalidInputError(
                f"mode={short_repr(self.mode)}: choose one of {', '.join(MODES)}"
            )
        if self.expand not in EXPANSIONS:
            raise InvalidInputError(
                f"expand={short_repr(self.expand)}: choose one of {', '.join(EXPANSIONS)}"
            )
        check_strategy(self.strategy)


def check_strategy(strategy: object) -> None:
    """Refuse what cannot rank.

    Raises:
        InvalidInputError: For a class, or an object without `rank`.
    """
    if inspect.isclass(strategy) or not callable(getattr(strategy, "rank", None)):
        raise InvalidInputError(
            f"strategy {short_repr(strategy)} has no method rank(): pass an object such as "
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


def _ranked(
    strategy: Strategy, query: Query, snapshot: Snapshot
) -> tuple[Sequence[Candidate], Trace]:
    ranked: Any = strategy.rank(query, snapshot)
    pair = isinstance(ranked, tuple) and len(ranked) == 2  # noqa: PLR2004 - it is a pair
    if not (pair and isinstance(ranked[0], Sequence) and isinstance(ranked[1], Trace)):
        raise InvalidInputError(
            f"{type(strategy).__name__}.rank() must return a list of candidates and a Trace, not "
            f"{short_repr(ranked)}"
        )
    return ranked[0], ranked[1]


def _within(parts: Iterable[Candidate], reach: int) -> Iterator[Candidate]:
    """Yield parts until so many characters are reached."""
    characters = 0
    for one in parts:
        if characters >= reach:
            return
        yield one
        if one.best is not None:
            characters += one.best.end - one.best.start


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
        if request.mode != "global" and self._has_names:
            with self.timed("load"):  # at first use
                _ = self.components.extractor
        with self.timed("entities"):
            mentions = self._mentions(question)
        candidates_wanted = request.k
        if request.token_budget is not None:
            candidates_wanted = max(request.k, _BUDGET_CANDIDATES)
        query = Query(
            question=question,
            mode=request.mode,
            k=candidates_wanted,
            mentions=mentions,
            embed=self._embedding(question),
            allowed=allowed,
            read=self._texts,
            parts=request.token_budget is not None and request.expand == "none",
        )
        loaded = self.seconds.get("load", 0.0)
        with self.timed("rank"):
            candidates, trace = _ranked(request.strategy, query, self.snapshot)
        # The embedding happens within ranking, where a strategy needs it.
        loading = self.seconds.get("load", 0.0) - loaded
        self.seconds["rank"] -= self.seconds.get("embed", 0.0) + loading
        if any(candidate.part for candidate in candidates):
            nodes, cuts = self._parts(query, candidates, trace)
        else:
            nodes, cuts = self._whole(query, candidates, trace)
        if allowed is not None and not allowed.any():
            trace = replace(trace, reason=f"no node passes the filter; {trace.reason}")
        cuts = dict(trace.cuts) | cuts
        trace = replace(trace, question=request.question, cuts=cuts, timings=dict(self.seconds))
        return RetrievalResult(request.question, tuple(nodes), trace)

    def _whole(
        self, query: Query, candidates: Sequence[Candidate], trace: Trace
    ) -> tuple[list[RetrievedNode], dict[str, int]]:
        """Return nodes as they are, the last cut to the budget, and how many were cut by what."""
        request, snapshot = self.request, self.snapshot
        with self.timed("read"):
            expanded = expand(candidates, snapshot, request.expand)
            kept = expanded[: query.k]
            cuts = {"k": trace.cuts.get("k", 0) + len(expanded) - len(kept)}
            if request.fill and len(kept) < query.k:
                kept = fill_to_k(kept, query, snapshot, request.expand)
            nodes, _ = self._read(kept, trace)
        if request.token_budget is not None:
            with self.timed("pack"):
                counter = self.components.counter
                nodes, cuts["token_budget"] = pack_nodes(nodes, request.token_budget, counter)
        return nodes, cuts

    def _parts(
        self, query: Query, candidates: Sequence[Candidate], trace: Trace
    ) -> tuple[list[RetrievedNode], dict[str, int]]:
        """Return the best parts of nodes that fit the budget, and how many do not."""
        budget, counter = self.request.token_budget or 0, self.components.counter
        if self.request.fill:
            candidates = fill_to_k(candidates, query, self.snapshot, "none")
        reach = budget * _LONG_TOKEN
        while True:
            first = list(_within(candidates, reach))
            with self.timed("read"):
                nodes, stored = self._read(first, trace)
                texts = {id_: node.text for id_, node in stored.items()}
            with self.timed("pack"):
                packed, left_out = pack_parts(nodes, budget, counter, texts)
            rest = len(candidates) - len(first)
            if left_out or not rest:
                return packed, {"token_budget": left_out + rest}
            reach *= 4  # tokens are longer than that, or parts overlap

    def _read(
        self, candidates: Sequence[Candidate], trace: Trace
    ) -> tuple[list[RetrievedNode], Mapping[str, Node]]:
        """Return what the candidates are, and the nodes that they are of, by id."""
        stored = self._stored([one.row for one in candidates])
        index = self.snapshot.graph.index
        entities = [index[one.entity] for one in trace.links if one.entity in index]
        return to_retrieved_nodes(candidates, self.snapshot, stored, entities), stored

    def _texts(self, rows: Sequence[int]) -> list[str]:
        stored = self._stored(rows)
        return [stored[self.snapshot.nodes.ids[row]].text for row in rows]

    def _stored(self, rows: Sequence[int]) -> Mapping[str, Node]:
        ids = list(dict.fromkeys(self.snapshot.nodes.ids[row] for row in rows))
        return self.source.nodes_at(self.snapshot.generation, ids)

    @property
    def _has_names(self) -> bool:
        """Whether there is anything that names of a question may stand for."""
        return bool(self.snapshot.graph.names) or any(self.snapshot.titles)

    def _mentions(self, question: str) -> tuple[Mention, ...]:
        """Return the mentions in the question, each once."""
        if self.request.mode == "global" or not self._has_names:
            return ()
        [sentences] = extract_checked(self.components.extractor, [question], ["the question"])
        once: dict[str, Mention] = {}
        for sentence in sentences:
            for mention in sentence:
                once.setdefault(mention.entity, mention)
        return tuple(once.values())

    def _embedding(self, question: str) -> Callable[[], FloatArray]:
        def embed() -> FloatArray:
            given = self.request.vector
            if given is not None:
                return given
            with self.timed("load"):
                embedder = self.components.embedder
            with self.timed("embed"):
                texts = self.request.embed_texts or [question]
                return mean_unit_vector([embedder.embed_question(text) for text in texts])

        return embed

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[step] = self.seconds.get(step, 0.0) + time.perf_counter() - began
