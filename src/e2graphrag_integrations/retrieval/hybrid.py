"""Gated fusion: words and vectors for every question, entities as far as it names some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from e2graphrag_integrations.checks import fits_port, whole_number
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.graph import IntArray
from e2graphrag_integrations.linking import Linking, link
from e2graphrag_integrations.protocols import Reranker
from e2graphrag_integrations.ranking import Floats, best_rows, reciprocal
from e2graphrag_integrations.rerankers import reranker_scores
from e2graphrag_integrations.retrieval.base import Candidate, Query
from e2graphrag_integrations.retrieval.bridges import bridges
from e2graphrag_integrations.retrieval.paths import path_chunks
from e2graphrag_integrations.retrieval.relevance import Relevance, Weights
from e2graphrag_integrations.retrieval.trace import Ranked, Route, Trace
from e2graphrag_integrations.store.snapshot import Snapshot
from e2graphrag_integrations.types import NOUN, Span

_LIST = 200
"""Windows or nodes of each list that are fused; one that is absent adds nothing."""

_HALF = 0.5

_MOST_NAMES = 32
_PAIRED = 16
"""Names of a question, the rarest, that are walked from, and that are looked at in pairs."""

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


class _Retrieval:
    def __init__(self, strategy: HybridStrategy, query: Query, snapshot: Snapshot) -> None:
        self.strategy = strategy
        self.query = query
        self.snapshot = snapshot
        self.owners = snapshot.dense.nodes
        self.seen = None if query.allowed is None else query.allowed[snapshot.chunk_nodes]
        weights = Weights(
            strategy.dense,
            strategy.words,
            strategy.rarity,
            strategy.sharpness,
            strategy.share,
            _LIST,
        )
        self.relevance = Relevance(
            query, snapshot, weights, leaves_only=query.parts or not strategy.summaries
        )
        self.linking = self._linked()

    def run(self) -> tuple[list[Candidate], Trace]:
        seeds = self._seeds()
        specific = self._specificity(seeds) if self.strategy.entities else 0.0
        gate = specific**self.strategy.gate if seeds else 0.0
        lists = self._lists(seeds, gate)
        # By names alone chunks are found, not parts of them; and no vector is needed.
        parts = self.query.parts and self.query.mode != "local"
        candidates = self._parts(lists) if parts else self._nodes(lists)
        reranked: Sequence[Ranked] = ()
        if self.strategy.reranker is not None and candidates:
            candidates, reranked = self._reranked(self.strategy.reranker, candidates)
        dropped = 0 if parts else max(0, len(candidates) - self.query.k)
        candidates = candidates[: len(candidates) - dropped]
        shown = {one.name: self._shown(one) for one in lists if one.ranked}
        sides: dict[str, Route] = {"local": "local", "global": "global"}
        adaptive: Route = "local" if specific >= _HALF else "global"
        route = sides.get(self.query.mode, adaptive)
        trace = Trace(
            question=self.query.question,
            strategy=self.strategy.name,
            mode=self.query.mode,
            route=route,
            reason=self._reason(seeds, specific, gate),
            mentions=self.query.names,
            links=self.linking.links,
            unlinked=self.linking.unlinked,
            lists=self._first_lists() | shown | ({"reranked": tuple(reranked)} if reranked else {}),
            cuts={"k": dropped},
        )
        return candidates, trace

    def _reason(self, seeds: Mapping[int, tuple[float, int]], specific: float, gate: float) -> str:
        if self.query.mode != "auto":
            return "asked for"
        if not seeds:
            return "no name of the question is in the index"
        return f"its names are {specific:.2f} specific: entities count {gate:.2f}"

    # The lists.

    def _lists(self, seeds: Mapping[int, tuple[float, int]], gate: float) -> list[_List]:
        strategy = self.strategy
        lists: list[_List] = []
        if self.query.mode != "local":
            fit = self._best_nodes(*self.relevance.windows)
            lists.append(_List("relevance", "relevance", 1.0, "global", fit))
        if gate > 0 and strategy.entities:
            walk = self._chunk_rows(self._walk(seeds))
            weight = gate * strategy.entities
            lists.append(_List("entities", "walk", weight, "local", walk))
            if strategy.path_chunks:
                paths = self._chunk_rows(path_chunks(self.snapshot.graph, list(seeds)[:_PAIRED]))
                lists.append(_List("paths", "closeness", weight, "local", paths))
        if self.query.mode == "auto" and strategy.bridges and strategy.sources:
            led = self._bridges(self._fused(lists))
            # A bridge to what hardly fits counts as little as it fits.
            weight = strategy.bridges * min(1.0, led[0][1]) if led else 0.0
            lists.append(_List("bridges", "value", weight, "local", led))
        return lists

    def _best_nodes(self, windows: IntArray, values: Floats) -> Scores:
        """Return nodes by their best window."""
        scores = np.zeros(len(self.snapshot.nodes.ids))
        np.maximum.at(scores, self.owners[windows], values)
        return [(int(row), float(scores[row])) for row in best_rows(scores, _LIST)]

    def _linked(self) -> Linking:
        """Return the links of the question's names; nouns are left to the words."""
        if self.query.mode == "global":
            return Linking((), ())
        snapshot, subjects = self.snapshot, self.snapshot.subjects
        aliases = snapshot.aliases if self.strategy.aliases else None
        found = link(self.query.mentions, subjects.index, aliases)
        known = len(snapshot.graph.names)
        rows = {one.entity: subjects.index[one.entity] for one in found.links}
        named = {
            entity
            for entity, row in rows.items()
            if row >= known or snapshot.graph.named[row] or row in subjects.documents
        }
        nouns = {mention.entity for mention in self.query.mentions if mention.label == NOUN}
        return Linking(
            tuple(one for one in found.links if one.entity in named),
            tuple(name for name in found.unlinked if name not in nouns),
        )

    def _seeds(self) -> dict[int, tuple[float, int]]:
        """Return the score of each of the question's names, and how many chunks hold it."""
        subjects, walk = self.snapshot.subjects, self.snapshot.walk
        seeds = {}
        for one in self.linking.links:
            entity = subjects.index[one.entity]
            chunks = walk.chunks_of(entity)
            held = len(chunks) if self.seen is None else int(self.seen[chunks].sum())
            if held:
                seeds[entity] = (one.score, held)
        rarest = sorted(seeds, key=lambda entity: seeds[entity][1])[:_MOST_NAMES]
        return {entity: seeds[entity] for entity in rarest}

    def _specificity(self, seeds: Mapping[int, tuple[float, int]]) -> float:
        """Return max of s ln((N + 1) / (df + 1)) / ln((N + 1) / 2), in [0, 1].

        Over names, and over pairs of them that share chunks, as the paper's local side asks for. N
        and df count the chunks that may be seen; what one of them alone holds has all of s.
        """
        if not seeds:
            return 0.0
        if self.query.mode == "local":
            return 1.0
        total = len(self.snapshot.chunk_nodes) if self.seen is None else int(self.seen.sum())
        if total < 2:  # noqa: PLR2004 - of one chunk nothing is specific
            return 0.0
        rarest = list(seeds)[:_PAIRED]
        pairs = (
            (min(seeds[a][0], seeds[b][0]), shared)
            for a, b in combinations(rarest, 2)
            if (shared := self._shared(a, b))
        )
        specific = max(
            score * np.log((total + 1) / (held + 1)) / np.log((total + 1) / 2)
            for score, held in [*seeds.values(), *pairs]
        )
        return float(specific)

    def _shared(self, a: int, b: int) -> int:
        """Return how many chunks that may be seen hold both names."""
        walk = self.snapshot.walk
        both = np.intersect1d(walk.chunks_of(a), walk.chunks_of(b), assume_unique=True)
        return len(both) if self.seen is None else int(self.seen[both].sum())

    def _walk(self, seeds: Mapping[int, tuple[float, int]]) -> Floats:
        """Return each chunk's share of a walk from the seeds, the rarer the stronger."""
        start = {entity: score / held for entity, (score, held) in seeds.items()}
        walk, strategy = self.snapshot.walk, self.strategy
        return walk.rank(start, damping=strategy.damping, steps=strategy.steps)

    def _chunk_rows(self, scores: Floats) -> Scores:
        """Return the rows of the best chunks that may be seen."""
        if self.seen is not None:
            scores = np.where(self.seen, scores, 0)
        rows = self.snapshot.chunk_nodes
        return [(int(rows[chunk]), float(scores[chunk])) for chunk in best_rows(scores, _LIST)]

    def _bridges(self, fused: Scores) -> Scores:
        """Return chunks that the titles in the best chunks lead to."""
        level = self.snapshot.nodes.level
        sources = [one for one in fused if level[one[0]] == 0][: self.strategy.sources]
        allowed = self.query.allowed
        led = bridges(sources, self.snapshot, self._fit) if sources else {}
        seen = [(row, v) for row, v in led.items() if allowed is None or allowed[row]]
        return sorted(seen, key=lambda one: (-one[1], one[0]))[:_LIST]

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
            for rank, (row, _) in enumerate(one.ranked, 1):
                share = one.weight * reciprocal(rank, self.strategy.constant)
                scores[row] = scores.get(row, 0.0) + share
        return sorted(scores.items(), key=lambda item: (-item[1], item[0]))

    def _nodes(self, lists: Sequence[_List]) -> list[Candidate]:
        reasons = self._reasons(lists)
        best = {} if self.query.mode == "local" else self._best_windows()
        return [
            Candidate(row, score, *_told(reasons[row]), best=self._span(best.get(row)))
            for row, score in self._fused(lists)
        ]

    def _parts(self, lists: Sequence[_List]) -> list[Candidate]:
        """Return windows by their relevance, which every other list multiplies for its chunks.

        The factor is 1 + w (1 + c) / (c + rank): 1 + w for the best chunk of a list of weight w. A
        chunk that others lead to and no word or vector found gives its first window, after all.
        """
        windows, values = self.relevance.windows
        owners = self.owners[windows]
        scores = values.copy()
        others = [one for one in lists if one.name != "relevance"]
        missing: dict[int, float] = {}
        for one in others:
            factor = np.ones(len(self.snapshot.nodes.ids))
            for rank, (row, _) in enumerate(one.ranked, 1):
                share = one.weight * reciprocal(rank, self.strategy.constant)
                factor[row] += share * (1 + self.strategy.constant)
                missing[row] = missing.get(row, 0.0) + share
            scores *= factor[owners]
        order = sorted(
            zip(windows.tolist(), scores.tolist(), strict=True), key=lambda one: (-one[1], one[0])
        )
        least = order[-1][1] if order else 1.0
        most = max(missing.values(), default=1.0)
        inside = set(owners.tolist())
        after = [
            (int(np.searchsorted(self.owners, row)), least * share / most)
            for row, share in missing.items()
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
    ) -> tuple[list[Candidate], list[Ranked]]:
        """Return the best candidates as the reranker orders them, and the others after them."""
        head, tail = candidates[: self.strategy.reranked], candidates[self.strategy.reranked :]
        texts = []
        for one, text in zip(head, self.query.read([c.row for c in head]), strict=True):
            title = (self.snapshot.titles[int(self.snapshot.nodes.document[one.row])] or "").strip()
            part = text[one.best.start : one.best.end] if one.part and one.best else text
            texts.append(f"{title}. {part}" if title else part)
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
        ids = self.snapshot.nodes.ids
        shown = [
            Ranked(ids[head[at].row], rank, {"score": round(given[at], 6)})
            for rank, at in enumerate(order, 1)
        ]
        return [*moved, *tail], shown

    def _reasons(self, lists: Sequence[_List]) -> dict[int, list[tuple[float, Route, str]]]:
        reasons: dict[int, list[tuple[float, Route, str]]] = {}
        for one in lists:
            for rank, (row, _) in enumerate(one.ranked, 1):
                share = one.weight * reciprocal(rank, self.strategy.constant)
                reasons.setdefault(row, []).append((share, one.side, f"{one.name}: rank {rank}"))
        return reasons

    def _best_windows(self) -> dict[int, int]:
        """Return the most relevant window of each node."""
        windows, values = self.relevance.windows
        order = np.lexsort((windows, -values))
        best: dict[int, int] = {}
        for window in windows[order].tolist():
            best.setdefault(int(self.owners[window]), window)
        return best

    def _span(self, window: int | None) -> Span | None:
        if window is None:
            return None
        start, end = self.snapshot.window_spans[window].tolist()
        return Span(start, end)

    # The trace.

    def _first_lists(self) -> dict[str, tuple[Ranked, ...]]:
        if self.query.mode == "local":
            return {}
        both = (("dense", "cosine", self.relevance.dense), ("words", "bm25", self.relevance.words))
        return {
            name: self._shown(_List(name, figure, 1.0, "global", self._best_nodes_of(*found)))
            for name, figure, found in both
            if len(found[0])
        }

    def _best_nodes_of(self, windows: IntArray, values: Floats) -> Scores:
        best: dict[int, float] = {}
        for row, value in zip(self.owners[windows].tolist(), values.tolist(), strict=True):
            best.setdefault(row, value)
        return list(best.items())

    def _shown(self, one: _List) -> tuple[Ranked, ...]:
        ids = self.snapshot.nodes.ids
        return tuple(
            Ranked(ids[row], rank, {one.figure: round(score, 6)})
            for rank, (row, score) in enumerate(one.ranked, 1)
        )


def _told(parts: Sequence[tuple[float, Route, str]]) -> tuple[Route, tuple[str, ...]]:
    """Return the side that gave most, and all reasons."""
    return max(parts, key=lambda part: part[0])[1], tuple(reason for _, _, reason in parts)
