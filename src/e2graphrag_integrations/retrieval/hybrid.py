"""Gated fusion: words and vectors for every question, entities as far as it names some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from e2graphrag_integrations._utils.arrays import IntArray, concatenated_ranges, sum_by_key
from e2graphrag_integrations._utils.lazy import LazySequence, lazy
from e2graphrag_integrations._utils.validation import check_int, check_protocol
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.graph.titles import with_title
from e2graphrag_integrations.protocols import Reranker
from e2graphrag_integrations.retrieval.paths import path_chunks
from e2graphrag_integrations.retrieval.relevance import Relevance, Weights
from e2graphrag_integrations.retrieval.seeds import Seeds
from e2graphrag_integrations.retrieval.strategy import Candidate, Query
from e2graphrag_integrations.retrieval.title_links import title_links
from e2graphrag_integrations.retrieval.trace import Listing, RankedLists, Route, Trace
from e2graphrag_integrations.search.fusion import Floats, reciprocal_rank, top_rows
from e2graphrag_integrations.search.rerankers import rerank_scores
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.types import Span

_LIST = 200
"""Windows or nodes of each list that are fused, or k if that is more; one that is absent adds
nothing."""

_SPECIFIC = 0.5
"""From this specificity of the question's names on the route is called local."""


@dataclass(frozen=True, slots=True)
class HybridStrategy:
    """Fuses what words, vectors and the entity graph find, each as far as it can be sure.

    Windows are ranked by cosine and BM25 together, their neighbors' relevance counted in; a node
    is as good as its best window. Chunks are ranked by a personalized PageRank from the question's
    names, and by the titles that lead from the best passages to others. The ranks are fused:
    `1 / (c + relevance) + g / (c + entities) + 1 / (c + bridges)`, where the gate g in [0, 1] is
    the square of how specific the question's rarest name, or pair of names in one chunk, is: the
    continuous form of the paper's choice between local (half as specific as can be, or more) and
    global. A small constant c lets a list that is sure carry a node alone.

    Where a token budget is to be filled, windows are returned in place of nodes. What each constant
    does at half and at double its default is in docs/constants.md.

    Args:
        constant: Added to ranks.
        gate: Power of the specificity of the question's names; 0 lets them always count in full.
        dense, words, entities, bridges: Weight of each list; 0 leaves it out.
        rarity: Power of a word's inverse document frequency, beyond the one that BM25 has.
        sharpness: Power of relevance before neighbors share it.
        share: Of its relevance, what a window hands to the next in its document, and that one on.
        sources: Best chunks from which bridges are looked for.
        damping: Share of the walk that goes on.
        steps: Rounds of the walk.
        summaries: Whether summaries compete with chunks.
        aliases: Whether surnames, initials and misspellings are looked up.
        path_chunks: Whether the chunks along the shortest path between two names join as a list.
        reranker: Reads the question with each of the best texts and has the last word on their
            order; None leaves it.
        reranked: How many it reads.
    """

    constant: float = 1.0
    gate: float = 2.0
    dense: float = 1.0
    words: float = 1.0
    entities: float = 1.0
    bridges: float = 1.0
    rarity: float = 1.0
    sharpness: float = 2.0
    share: float = 0.5
    sources: int = 8
    damping: float = 0.5
    steps: int = 10
    summaries: bool = True
    aliases: bool = True
    path_chunks: bool = False
    reranker: Reranker | None = None
    reranked: int = 30

    def __post_init__(self) -> None:
        for name, least, most in (
            ("constant", 0, 1000),
            ("gate", 0, 1000),
            ("dense", 0, 1000),
            ("words", 0, 1000),
            ("entities", 0, 1000),
            ("bridges", 0, 1000),
            ("rarity", 0, 10),
            ("sharpness", 0.1, 10),
            ("share", 0, 1),
            ("sources", 0, 1000),
            ("damping", 0, 1),
            ("steps", 1, 1000),
            ("reranked", 1, 1000),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise InvalidInputError(f"{name}={value!r} must be a number")
            if not least <= value <= most:
                raise InvalidInputError(f"{name}={value!r} must be from {least} to {most}")
        for name in ("sources", "steps", "reranked"):
            check_int(name, getattr(self, name), least=0)
        if self.reranker is not None:
            check_protocol("reranker", self.reranker, Reranker)

    @property
    def name(self) -> str:
        """How the trace calls it."""
        return "hybrid"

    def rank(self, query: Query, snapshot: Snapshot) -> tuple[Sequence[Candidate], Trace]:
        """Return candidates, best first, and what was done: at most `query.k`, or all parts."""
        return _Retrieval(self, query, snapshot).run()


@dataclass(frozen=True, eq=False)
class _List:
    """One list of the fusion: nodes, best first, with the figure that they are ranked by."""

    name: str
    figure: str
    weight: float
    side: Route
    rows: IntArray
    scores: Floats

    def shares(self, constant: float) -> Floats:
        """Return what the list gives to each of its nodes."""
        ranks = np.arange(1, len(self.rows) + 1)
        given: Floats = self.weight * reciprocal_rank(ranks, constant)
        return given

    @lazy
    def ranks(self) -> Mapping[int, int]:
        """Return the rank of each node, from 1."""
        return {row: rank for rank, row in enumerate(self.rows.tolist(), 1)}


class _Retrieval:
    def __init__(self, strategy: HybridStrategy, query: Query, snapshot: Snapshot) -> None:
        self.strategy = strategy
        self.query = query
        self.snapshot = snapshot
        self.owners = snapshot.dense.nodes
        self.length = max(_LIST, query.k)
        self.seen = None if query.allowed is None else query.allowed[snapshot.chunk_nodes]
        weights = Weights(
            strategy.dense,
            strategy.words,
            strategy.rarity,
            strategy.sharpness,
            strategy.share,
            self.length,
        )
        self.relevance = Relevance(
            query, snapshot, weights, leaves_only=query.parts or not strategy.summaries
        )
        self.seeds = Seeds(query, snapshot, self.seen, aliases=strategy.aliases)
        self.specific = self._specific()

    def run(self) -> tuple[Sequence[Candidate], Trace]:
        lists = self._lists()
        # By names alone chunks are found, not parts of them; and no vector is needed.
        parts = self.query.parts and self.query.mode != "local"
        candidates: Sequence[Candidate]
        candidates, dropped = (self._parts(lists), 0) if parts else self._nodes(lists)
        reranked = None
        if self.strategy.reranker is not None and candidates:
            candidates, reranked = self._reranked(self.strategy.reranker, candidates)
        if not parts:
            dropped += max(0, len(candidates) - self.query.k)
            candidates = candidates[: self.query.k]
        adaptive: Route = "local" if self.specific >= _SPECIFIC else "global"
        trace = Trace(
            question=self.query.question,
            strategy=self.strategy.name,
            mode=self.query.mode,
            route=adaptive if self.query.mode == "auto" else self.query.mode,
            reason=self._reason(),
            mentions=self.query.names,
            links=self.seeds.linking.links,
            unlinked=self.seeds.linking.unlinked,
            lists=self._shown(lists, reranked),
            cuts={"k": dropped},
        )
        return candidates, trace

    def _specific(self) -> float:
        if not self.strategy.entities or not self.seeds.all:
            return 0.0
        return 1.0 if self.query.mode == "local" else self.seeds.specificity

    @property
    def _gate(self) -> float:
        return float(self.specific**self.strategy.gate) if self.seeds.all else 0.0

    def _reason(self) -> str:
        if self.query.mode != "auto":
            return "asked for"
        if not self.seeds.all:
            return "no name of the question is in the index"
        return f"its names are {self.specific:.2f} specific: entities count {self._gate:.2f}"

    # The lists.

    def _lists(self) -> list[_List]:
        strategy = self.strategy
        lists: list[_List] = []
        if self.query.mode != "local":
            rows, _, values = self.relevance.nodes
            best = slice(self.length)
            lists.append(_List("relevance", "relevance", 1.0, "global", rows[best], values[best]))
        weight = self._gate * strategy.entities
        if weight:
            walk = self._best_chunks(*self.seeds.walk(strategy.damping, strategy.steps))
            lists.append(_List("entities", "walk", weight, "local", *walk))
        if weight and strategy.path_chunks:
            ends = [seed.entity for seed in self.seeds.paired]
            closeness = path_chunks(self.snapshot.graph, ends)
            paths = self._best_chunks(np.arange(len(closeness)), closeness)
            lists.append(_List("paths", "closeness", weight, "local", *paths))
        if self.query.mode == "auto" and strategy.bridges and strategy.sources:
            rows, values = self._bridges(*self._fused(lists))
            # A bridge to what hardly fits counts as little as it fits.
            weight = strategy.bridges * min(1.0, float(values[0])) if len(values) else 0.0
            lists.append(_List("bridges", "value", weight, "local", rows, values))
        return lists

    def _best_chunks(self, chunks: IntArray, scores: Floats) -> tuple[IntArray, Floats]:
        """Return the rows of the best of some chunks that may be seen, and their scores."""
        best = top_rows(scores, self.length, None if self.seen is None else self.seen[chunks])
        return self.snapshot.chunk_nodes[chunks[best]], scores[best]

    def _bridges(self, rows: IntArray, scores: Floats) -> tuple[IntArray, Floats]:
        """Return chunks that the titles in the best chunks lead to, and their values."""
        chunks = np.flatnonzero(self.snapshot.nodes.level[rows] == 0)[: self.strategy.sources]
        sources = list(zip(rows[chunks].tolist(), scores[chunks].tolist(), strict=True))
        to, values = title_links(sources, self.snapshot, self._fit, self.seen)
        best = np.lexsort((to, -values))[: self.length]
        return to[best], values[best]

    def _fit(self, chunks: IntArray) -> Floats:
        """Return how well chunks, given by their numbers, fit the question by their best window."""
        rows = self.snapshot.chunk_nodes[chunks]
        first = np.searchsorted(self.owners, rows)
        sizes = np.searchsorted(self.owners, rows, side="right") - first
        windows = concatenated_ranges(first, sizes)
        best = np.zeros(len(chunks))
        np.maximum.at(best, np.repeat(np.arange(len(chunks)), sizes), self.relevance.plain(windows))
        return best

    # The fusion.

    def _fused(self, lists: Sequence[_List]) -> tuple[IntArray, Floats]:
        """Return the nodes of all lists, best first, and the sums of what those give them."""
        rows = np.concatenate([np.empty(0, dtype=np.int64), *(one.rows for one in lists)])
        shares = [np.empty(0), *(one.shares(self.strategy.constant) for one in lists)]
        together, sums = sum_by_key(rows, np.concatenate(shares), len(self.snapshot.nodes.ids))
        best = np.lexsort((together, -sums))
        return together[best], sums[best]

    def _nodes(self, lists: Sequence[_List]) -> tuple[list[Candidate], int]:
        """Return as many of the best nodes as will be looked at, and how many more there are."""
        fused, scores = self._fused(lists)
        wanted = self.query.k
        if self.strategy.reranker is not None:
            wanted = max(wanted, self.strategy.reranked)
        rows = fused[:wanted]
        best = self._best_windows(rows)
        spans = self._spans(best)
        candidates = [
            Candidate(row, score, *self._told(row, lists), best=span if window >= 0 else None)
            for row, score, window, span in zip(
                rows.tolist(), scores[:wanted].tolist(), best.tolist(), spans, strict=True
            )
        ]
        return candidates, len(fused) - len(candidates)

    def _best_windows(self, rows: IntArray) -> IntArray:
        """Return for each node its window that fits best, -1 where none does."""
        if self.query.mode == "local" or not len(self.relevance.nodes[0]):
            return np.full(len(rows), -1)
        found, windows, _ = self.relevance.nodes
        order = np.argsort(found)
        at = order[np.minimum(np.searchsorted(found, rows, sorter=order), len(found) - 1)]
        return np.where(found[at] == rows, windows[at], -1)

    def _parts(self, lists: Sequence[_List]) -> Sequence[Candidate]:
        """Return windows by their relevance, which every other list multiplies for its chunks.

        The factor is 1 + w (1 + c) / (c + rank): 1 + w for the best chunk of a list of weight w. A
        chunk that others lead to and no word or vector found gives its first window, after all.
        """
        windows, values = self.relevance.windows
        rows, place = np.unique(
            np.concatenate([self.owners[windows], *(one.rows for one in lists)]),
            return_inverse=True,
        )
        owners, at = place[: len(windows)], len(windows)
        led, factor = np.zeros(len(rows)), np.ones(len(rows))
        for one in lists:
            its, at = place[at : at + len(one.rows)], at + len(one.rows)
            if one.name != "relevance":
                shares = one.shares(self.strategy.constant)
                factor[its] *= 1 + shares * (1 + self.strategy.constant)
                led[its] += shares
        scores = values * factor[owners]
        found = np.lexsort((windows, -scores))
        least = scores[found[-1]] if len(found) else 1.0
        most = led.max(initial=0.0)
        led[owners] = 0
        after = top_rows(led, len(led))
        first = np.searchsorted(self.owners, rows[after])
        order = np.concatenate([windows[found], first])
        given = np.concatenate([scores[found], least * led[after] / most if most else led[after]])

        def part(at: int) -> Candidate:
            row, (start, end) = int(self.owners[order[at]]), self.snapshot.window_spans[order[at]]
            told = self._told(row, lists)
            return Candidate(
                row, float(given[at]), *told, best=Span(int(start), int(end)), part=True
            )

        return LazySequence(len(order), part)

    def _reranked(
        self, reranker: Reranker, candidates: Sequence[Candidate]
    ) -> tuple[list[Candidate], Listing]:
        """Return the best candidates as the reranker orders them, and the others after them."""
        head, tail = candidates[: self.strategy.reranked], candidates[self.strategy.reranked :]
        texts = []
        for one, text in zip(head, self.query.read([c.row for c in head]), strict=True):
            part = text[one.best.start : one.best.end] if one.part and one.best else text
            document = int(self.snapshot.nodes.document[one.row])
            texts.append(with_title(self.snapshot.titles[document], part))
        given = rerank_scores(reranker, self.query.question, texts)
        order = sorted(range(len(head)), key=lambda at: (-given[at], at))
        scores = sorted((one.score for one in head), reverse=True)
        moved = [
            replace(
                head[at],
                score=score,
                reasons=(*head[at].reasons, f"reranked: {given[at]:.4f}, rank {at + 1} before"),
            )
            for at, score in zip(order, scores, strict=True)
        ]
        rows = np.asarray([head[at].row for at in order], dtype=np.int64)
        scores_given = np.asarray([given[at] for at in order])
        return [*moved, *tail], Listing(self.snapshot.nodes.ids, "score", rows, scores_given)

    def _told(self, row: int, lists: Sequence[_List]) -> tuple[Route, tuple[str, ...]]:
        """Return the side that gave a node most, and how each list ranks it."""
        side: Route = "global"
        most = 0.0
        reasons: list[str] = []
        for one in lists:
            rank = one.ranks.get(row)
            if rank is not None:
                share = one.weight * reciprocal_rank(rank, self.strategy.constant)
                if share > most or not reasons:
                    side, most = one.side, share
                reasons.append(f"{one.name}: rank {rank}")
        return side, tuple(reasons) or ("beside what was found",)

    def _spans(self, windows: IntArray) -> list[Span]:
        return [Span(start, end) for start, end in self.snapshot.window_spans[windows].tolist()]

    # The trace.

    def _shown(self, lists: Sequence[_List], reranked: Listing | None) -> RankedLists:
        """Return all lists by name, those of windows as nodes by their best one."""
        ids = self.snapshot.nodes.ids
        shown: dict[str, Listing] = {}
        if self.query.mode != "local":
            for name, figure, (windows, values) in (
                ("dense", "cosine", self.relevance.dense),
                ("words", "bm25", self.relevance.words),
            ):
                shown[name] = Listing(ids, figure, windows, values, self.owners)
        shown |= {one.name: Listing(ids, one.figure, one.rows, one.scores) for one in lists}
        if reranked is not None:
            shown["reranked"] = reranked
        return RankedLists({name: one for name, one in shown.items() if len(one.rows)})
