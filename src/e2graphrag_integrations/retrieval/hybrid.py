"""Gated fusion: words and vectors for every question, entities as far as it names some."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.lexical import words_of
from e2graphrag_integrations.retrieval.base import Candidate, Query
from e2graphrag_integrations.retrieval.trace import Ranked, Route, Trace
from e2graphrag_integrations.store.snapshot import Snapshot

_LIST = 200
"""Nodes of each list that are fused; one that is absent adds nothing."""

_HALF = 0.5

Scores = list[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class HybridStrategy:
    """Fuses what words, vectors and the entity graph find, each as far as it can be sure.

    The first list is a reciprocal rank fusion of BM25 and cosine over all nodes. The second ranks
    chunks by a personalised PageRank from the question's named entities. A gate g in [0, 1] says
    how specific these are and how much of the question they cover, and weighs the second list.
    Small fusion constants let a list that is sure carry a node alone.

    Args:
        constant: Added to ranks in both fusions.
        gate: Specificity times coverage is multiplied by it, up to 1.
        damping: Share of the walk that goes on.
        steps: Rounds of the walk.
    """

    constant: float = 1.0
    gate: float = 2.0
    damping: float = 0.5
    steps: int = 20

    def __post_init__(self) -> None:
        for name, least, most in (
            ("constant", 0, 1000),
            ("gate", 0, 1000),
            ("damping", 0, 1),
            ("steps", 1, 1000),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise InvalidInputError(f"{name}={value!r} must be a number")
            if not least <= value <= most:
                raise InvalidInputError(f"{name}={value!r} must be from {least} to {most}")

    @property
    def name(self) -> str:
        """How the trace calls it."""
        return "hybrid"

    def rank(self, query: Query, snapshot: Snapshot) -> tuple[list[Candidate], Trace]:
        """Return at most `query.k` candidates, best first, and what was done."""
        return _Retrieval(self, query, snapshot).run()


class _Retrieval:
    def __init__(self, strategy: HybridStrategy, query: Query, snapshot: Snapshot) -> None:
        self.strategy = strategy
        self.query = query
        self.snapshot = snapshot

    def run(self) -> tuple[list[Candidate], Trace]:
        dense, words, first = self._first() if self.query.mode != "local" else ([], [], [])
        seeds = self._seeds() if self.query.mode != "global" else {}
        gate = self._gate(seeds) if self.query.mode == "auto" else float(bool(seeds))
        walk = self._walk(seeds) if gate > 0 else []
        scores: dict[int, float] = {}
        parts: dict[int, list[tuple[float, Route, str]]] = {}
        both: list[tuple[str, float, Route, Scores]] = [
            ("words and vectors", 1.0, "global", first),
            ("entities", gate, "local", walk),
        ]
        for name, weight, side, ranked in both:
            for rank, (row, _) in enumerate(ranked, 1):
                share = weight / (self.strategy.constant + rank)
                scores[row] = scores.get(row, 0.0) + share
                parts.setdefault(row, []).append((share, side, f"{name}: rank {rank}"))
        order = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
        kept = order[: self.query.k]
        candidates = [
            Candidate(
                row,
                score,
                max(parts[row], key=lambda part: part[0])[1],
                tuple(reason for _, _, reason in parts[row]),
            )
            for row, score in kept
        ]
        lists = {
            "dense": self._ranked(dense, "cosine"),
            "words": self._ranked(words, "bm25"),
            "words and vectors": self._ranked(first, "fused"),
            "entities": self._ranked(walk, "walk"),
        }
        route: Route = "local" if gate >= _HALF else "global"
        trace = Trace(
            question=self.query.question,
            strategy=self.strategy.name,
            mode=self.query.mode,
            route=route,
            reason=self._reason(seeds, gate),
            mentions=self.query.mentions,
            links=self.query.linking.links,
            unlinked=self.query.linking.unlinked,
            lists={name: ranked for name, ranked in lists.items() if ranked},
            cuts={"k": len(order) - len(kept)},
        )
        return candidates, trace

    def _reason(self, seeds: dict[int, float], gate: float) -> str:
        if self.query.mode != "auto":
            return "asked for"
        if not seeds:
            return "no name of the question is in the index"
        return f"gate {gate:.2f}: how specific the question's entities are, times how much they say"

    def _first(self) -> tuple[Scores, Scores, Scores]:
        """Return nodes by cosine, by BM25, and by both."""
        dense: Scores = []
        if len(self.snapshot.dense.nodes):
            dense = self.snapshot.dense.search(self.query.vector, _LIST, self.query.allowed)
        asked = words_of(self.query.question)
        words = self.snapshot.lexical.search(asked, _LIST, self.query.allowed)
        fused: dict[int, float] = {}
        for ranked in (dense, words):
            for rank, (row, _) in enumerate(ranked, 1):
                fused[row] = fused.get(row, 0.0) + 1 / (self.strategy.constant + rank)
        both = sorted(fused.items(), key=lambda item: (-item[1], item[0]))[:_LIST]
        return dense, words, both

    def _seeds(self) -> dict[int, float]:
        """Return the question's named entities, by how few chunks hold them."""
        graph = self.snapshot.graph
        seeds = {}
        for link in self.query.linking.links:
            entity = graph.index[link.entity]
            if graph.named[entity]:
                seeds[entity] = link.score / len(graph.chunks(entity)[0])
        return seeds

    def _gate(self, seeds: dict[int, float]) -> float:
        """Return g = min(1, 2 spec cov) (retrieval note D.5)."""
        total = len(self.snapshot.chunk_nodes)
        if total < 2 or not seeds:  # noqa: PLR2004 - of one chunk nothing is specific
            return 0.0
        graph, lexical = self.snapshot.graph, self.snapshot.lexical
        linked = [link for link in self.query.linking.links if graph.index[link.entity] in seeds]
        spec = max(
            link.score
            * np.log((total + 1) / (len(graph.chunks(graph.index[link.entity])[0]) + 1))
            / np.log(total + 1)
            for link in linked
        )
        inside = {word for link in linked for word in words_of(link.entity)}
        asked = dict.fromkeys(words_of(self.query.question))
        mass = {word: lexical.idf(word) for word in asked}
        covered = sum(value for word, value in mass.items() if word in inside)
        cov = covered / max(1e-9, sum(mass.values()))
        return float(min(1.0, self.strategy.gate * spec * cov))

    def _walk(self, seeds: dict[int, float]) -> Scores:
        """Return chunks by their share of a walk from the seeds."""
        shares = self.snapshot.walk.rank(
            seeds, damping=self.strategy.damping, steps=self.strategy.steps
        )
        if self.query.allowed is not None:
            shares = np.where(self.query.allowed[self.snapshot.chunk_nodes], shares, 0)
        found = np.flatnonzero(shares)
        best = found[np.lexsort((found, -shares[found]))][:_LIST]
        return [(int(self.snapshot.chunk_nodes[chunk]), float(shares[chunk])) for chunk in best]

    def _ranked(self, ranked: Scores, figure: str) -> tuple[Ranked, ...]:
        ids = self.snapshot.nodes.ids
        return tuple(
            Ranked(ids[row], rank, {figure: round(score, 6)})
            for rank, (row, score) in enumerate(ranked, 1)
        )
