"""Gated fusion: words and vectors for every question, entities as far as it names some."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from e2graphrag_integrations.checks import fits_port, whole_number
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.graph import IntArray
from e2graphrag_integrations.protocols import Reranker
from e2graphrag_integrations.ranking import Floats, best_rows, firsts, reciprocal
from e2graphrag_integrations.rerankers import reranker_scores
from e2graphrag_integrations.retrieval.base import Candidate, Query
from e2graphrag_integrations.retrieval.bridges import bridges
from e2graphrag_integrations.retrieval.paths import path_chunks
from e2graphrag_integrations.retrieval.relevance import Relevance, Weights
from e2graphrag_integrations.retrieval.seeds import Seeds
from e2graphrag_integrations.retrieval.trace import Ranked, Route, Trace
from e2graphrag_integrations.store.snapshot import Snapshot
from e2graphrag_integrations.titles import titled
from e2graphrag_integrations.types import Span

_LIST = 200
"""Windows or nodes of each list that are fused, or k if that is more; one that is absent adds
nothing."""

_SPECIFIC = 0.5
"""From this specificity of the question's names on the route is called local."""

Scores = list[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class HybridStrategy:
    """Fuses what words, vectors and the entity graph find, each as far as it can be sure.

    Windows are ranked by cosine and BM25 together, their neighbours' relevance counted in; a node
    is as good as its best window. Chunks are ranked by a personalised PageRank from the question's
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
        sharpness: Power of relevance before neighbours share it.
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
    steps: int = 20
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
            whole_number(name, getattr(self, name), least=0)
        if self.reranker is not None:
            fits_port("reranker", self.reranker, Reranker)

    @property
    def name(self) -> str:
        """How the trace calls it."""
        return "hybrid"

    def rank(self, query: Query, snapshot: Snapshot) -> tuple[list[Candidate], Trace]:
        """Return candidates, best first, and what was done: at most `query.k`, or all parts."""
        return _Retrieval(self, query, snapshot).run()


@dataclass(frozen=True, slots=True)
class _List:
    """One list of the fusion: nodes, best first, with the figure that they are ranked by."""

    name: str
    figure: str
    weight: float
    side: Route
    ranked: Scores

    def shares(self, constant: float) -> Iterator[tuple[int, int, float]]:
        """Yield each node, its rank and what the list gives it."""
        for rank, (row, _) in enumerate(self.ranked, 1):
            yield row, rank, self.weight * reciprocal(rank, constant)


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

    def run(self) -> tuple[list[Candidate], Trace]:
        lists = self._lists()
        # By names alone chunks are found, not parts of them; and no vector is needed.
        parts = self.query.parts and self.query.mode != "local"
        candidates, dropped = (self._parts(lists), 0) if parts else self._nodes(lists)
        reranked: dict[str, tuple[Ranked, ...]] = {}
        if self.strategy.reranker is not None and candidates:
            candidates, shown = self._reranked(self.strategy.reranker, candidates)
            reranked = {"reranked": shown}
        if not parts:
            dropped += max(0, len(candidates) - self.query.k)
            candidates = candidates[: self.query.k]
        sides: dict[str, Route] = {"local": "local", "global": "global"}
        adaptive: Route = "local" if self.specific >= _SPECIFIC else "global"
        trace = Trace(
            question=self.query.question,
            strategy=self.strategy.name,
            mode=self.query.mode,
            route=sides.get(self.query.mode, adaptive),
            reason=self._reason(),
            mentions=self.query.names,
            links=self.seeds.linking.links,
            unlinked=self.seeds.linking.unlinked,
            lists=self._shown(lists) | reranked,
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
            fit = list(
                zip(rows[: self.length].tolist(), values[: self.length].tolist(), strict=True)
            )
            lists.append(_List("relevance", "relevance", 1.0, "global", fit))
        weight = self._gate * strategy.entities
        if weight:
            walk = self._best_chunks(self.seeds.walk(strategy.damping, strategy.steps))
            lists.append(_List("entities", "walk", weight, "local", walk))
        if weight and strategy.path_chunks:
            ends = [seed.entity for seed in self.seeds.paired]
            paths = self._best_chunks(path_chunks(self.snapshot.graph, ends))
            lists.append(_List("paths", "closeness", weight, "local", paths))
        if self.query.mode == "auto" and strategy.bridges and strategy.sources:
            led = self._bridges(self._fused(lists))
            # A bridge to what hardly fits counts as little as it fits.
            weight = strategy.bridges * min(1.0, led[0][1]) if led else 0.0
            lists.append(_List("bridges", "value", weight, "local", led))
        return lists

    def _best_chunks(self, scores: Floats) -> Scores:
        """Return the rows of the best chunks that may be seen."""
        rows = self.snapshot.chunk_nodes
        best = best_rows(scores, self.length, self.seen)
        return list(zip(rows[best].tolist(), scores[best].tolist(), strict=True))

    def _bridges(self, fused: Scores) -> Scores:
        """Return chunks that the titles in the best chunks lead to."""
        level = self.snapshot.nodes.level
        sources = [one for one in fused if level[one[0]] == 0][: self.strategy.sources]
        allowed = self.query.allowed
        led = bridges(sources, self.snapshot, self._fit) if sources else {}
        seen = [(row, v) for row, v in led.items() if allowed is None or allowed[row]]
        return sorted(seen, key=lambda one: (-one[1], one[0]))[: self.length]

    def _fit(self, chunks: IntArray) -> Floats:
        """Return how well chunks, given by their numbers, fit the question by their best window."""
        rows = self.snapshot.chunk_nodes[chunks]
        first = np.searchsorted(self.owners, rows)
        sizes = np.searchsorted(self.owners, rows, side="right") - first
        windows = np.repeat(first - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        best = np.zeros(len(chunks))
        np.maximum.at(best, np.repeat(np.arange(len(chunks)), sizes), self.relevance.plain(windows))
        return best

    # The fusion.

    def _fused(self, lists: Sequence[_List]) -> Scores:
        scores: dict[int, float] = {}
        for one in lists:
            for row, _, share in one.shares(self.strategy.constant):
                scores[row] = scores.get(row, 0.0) + share
        return sorted(scores.items(), key=lambda item: (-item[1], item[0]))

    def _nodes(self, lists: Sequence[_List]) -> tuple[list[Candidate], int]:
        """Return as many of the best nodes as will be looked at, and how many more there are."""
        fused = self._fused(lists)
        wanted = self.query.k
        if self.strategy.reranker is not None:
            wanted = max(wanted, self.strategy.reranked)
        reasons = self._reasons(lists)
        best: dict[int, int] = {}
        if self.query.mode != "local":
            rows, windows, _ = self.relevance.nodes
            best = dict(zip(rows.tolist(), windows.tolist(), strict=True))
        candidates = [
            Candidate(row, score, *_told(reasons[row]), best=self._span(best.get(row)))
            for row, score in fused[:wanted]
        ]
        return candidates, len(fused) - len(candidates)

    def _parts(self, lists: Sequence[_List]) -> list[Candidate]:
        """Return windows by their relevance, which every other list multiplies for its chunks.

        The factor is 1 + w (1 + c) / (c + rank): 1 + w for the best chunk of a list of weight w. A
        chunk that others lead to and no word or vector found gives its first window, after all.
        """
        windows, values = self.relevance.windows
        owners = self.owners[windows]
        scores = values.copy()
        led: dict[int, float] = {}
        for one in lists:
            if one.name == "relevance":
                continue
            factor = np.ones(len(self.snapshot.nodes.ids))
            for row, _, share in one.shares(self.strategy.constant):
                factor[row] += share * (1 + self.strategy.constant)
                led[row] = led.get(row, 0.0) + share
            scores *= factor[owners]
        found = np.lexsort((windows, -scores))
        order = list(zip(windows[found].tolist(), scores[found].tolist(), strict=True))
        least = order[-1][1] if order else 1.0
        most = max(led.values(), default=1.0)
        inside = set(owners.tolist())
        after = [
            (int(np.searchsorted(self.owners, row)), least * share / most)
            for row, share in led.items()
            if row not in inside
        ]
        order += sorted(after, key=lambda one: (-one[1], one[0]))
        reasons = self._reasons(lists)
        return [
            Candidate(row, score, *_told(why), best=self._span(window), part=True)
            for window, score in order
            for row in [int(self.owners[window])]
            for why in [reasons.get(row) or [(0.0, "global", "beside what was found")]]
        ]

    def _reranked(
        self, reranker: Reranker, candidates: Sequence[Candidate]
    ) -> tuple[list[Candidate], tuple[Ranked, ...]]:
        """Return the best candidates as the reranker orders them, and the others after them."""
        head, tail = candidates[: self.strategy.reranked], candidates[self.strategy.reranked :]
        texts = []
        for one, text in zip(head, self.query.read([c.row for c in head]), strict=True):
            part = text[one.best.start : one.best.end] if one.part and one.best else text
            document = int(self.snapshot.nodes.document[one.row])
            texts.append(titled(self.snapshot.titles[document], part))
        given = reranker_scores(reranker, self.query.question, texts)
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
        return [*moved, *tail], self._ranked("score", [(head[at].row, given[at]) for at in order])

    def _reasons(self, lists: Sequence[_List]) -> dict[int, list[tuple[float, Route, str]]]:
        reasons: dict[int, list[tuple[float, Route, str]]] = {}
        for one in lists:
            for row, rank, share in one.shares(self.strategy.constant):
                reasons.setdefault(row, []).append((share, one.side, f"{one.name}: rank {rank}"))
        return reasons

    def _span(self, window: int | None) -> Span | None:
        if window is None:
            return None
        start, end = self.snapshot.window_spans[window].tolist()
        return Span(start, end)

    # The trace.

    def _shown(self, lists: Sequence[_List]) -> dict[str, tuple[Ranked, ...]]:
        """Return all lists by name, those of windows as nodes by their best one."""
        shown: dict[str, tuple[Ranked, ...]] = {}
        if self.query.mode != "local":
            for name, figure, (windows, values) in (
                ("dense", "cosine", self.relevance.dense),
                ("words", "bm25", self.relevance.words),
            ):
                at = firsts(self.owners[windows])
                nodes = self.owners[windows[at]].tolist()
                shown[name] = self._ranked(
                    figure, list(zip(nodes, values[at].tolist(), strict=True))
                )
        shown |= {one.name: self._ranked(one.figure, one.ranked) for one in lists}
        return {name: ranked for name, ranked in shown.items() if ranked}

    def _ranked(self, figure: str, scores: Scores) -> tuple[Ranked, ...]:
        ids = self.snapshot.nodes.ids
        return tuple(
            Ranked(ids[row], rank, {figure: round(score, 6)})
            for rank, (row, score) in enumerate(scores, 1)
        )


def _told(parts: Sequence[tuple[float, Route, str]]) -> tuple[Route, tuple[str, ...]]:
    """Return the side that gave most, and all reasons."""
    return max(parts, key=lambda part: part[0])[1], tuple(reason for _, _, reason in parts)
