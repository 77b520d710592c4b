"""The paper's retrieval: local where the question's entities are close, global elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.entities.linking import Link, link
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.retrieval.strategy import Candidate, Query
from e2graphrag_integrations.retrieval.trace import HopStep, Pair, Ranked, Route, Trace
from e2graphrag_integrations.snapshot.snapshot import Snapshot

_MOST_ENTITIES = 32
"""Entities of a question that are paired; of more, the rarest: a 100 kB question stays quick."""

_MOST_HOPS = 100
"""More than any graph of co-occurrence needs, and within what distances are stored in."""


@dataclass(frozen=True, slots=True)
class PaperStrategy:
    """E2GraphRAG's adaptive retrieval (arXiv 2505.24226, section 3.3), its code's defects mended.

    Linked entities of the question are paired; h falls from `max_hops` until the chunks shared by
    pairs within h hops number 1 to k. Those chunks, ranked by distinct query entities, coverage and
    occurrence, are the local answer. With fewer than two entities, or no shared chunk at all, the
    2k nearest nodes by cosine are ranked by occurrence; with none, the k nearest are the answer.

    Args:
        max_hops: Largest distance, in edges, at which two entities count as close.
    """

    max_hops: int = 4

    def __post_init__(self) -> None:
        whole = isinstance(self.max_hops, int) and not isinstance(self.max_hops, bool)
        if not whole or not 1 <= self.max_hops <= _MOST_HOPS:
            raise InvalidInputError(
                f"max_hops={self.max_hops!r} must be a whole number from 1 to {_MOST_HOPS}"
            )

    @property
    def name(self) -> str:
        """How the trace calls it."""
        return "paper"

    def rank(self, query: Query, snapshot: Snapshot) -> tuple[list[Candidate], Trace]:
        """Return at most `query.k` candidates, best first, and what was done."""
        return _Retrieval(self, query, snapshot).run()


class _Retrieval:
    """One question's way through the algorithm."""

    def __init__(self, strategy: PaperStrategy, query: Query, snapshot: Snapshot) -> None:
        self.strategy = strategy
        self.query = query
        self.snapshot = snapshot
        self.graph = snapshot.graph
        linking = link(query.mentions, self.graph.index)
        rarest = sorted(linking.links, key=lambda one: len(self._chunks(one)))[:_MOST_ENTITIES]
        links = tuple(one for one in linking.links if one in rarest)
        self.entities = [self.graph.index[one.entity] for one in links]
        self.trace = Trace(
            question=query.question,
            strategy=strategy.name,
            mode=query.mode,
            mentions=query.names,
            links=links,
            unlinked=linking.unlinked,
        )

    def _chunks(self, one: Link) -> IntArray:
        return self.graph.chunks(self.graph.index[one.entity])[0]

    def run(self) -> tuple[list[Candidate], Trace]:
        if self.query.mode == "global":
            return self._nearest("asked for")
        if self.query.mode == "local":
            return self._forced_local()
        if not self.entities:
            return self._nearest("no entity of the question is in the index")
        chunks = self._shared_chunks()
        if len(chunks):
            return self._local(chunks, f"entities within {self.trace.chosen_h} hop(s) share chunks")
        few = len(self.entities) < 2  # noqa: PLR2004 - a pair needs two
        reason = "one entity" if few else "no chunk is shared by close entities"
        return self._by_occurrence(f"occurrence: {reason}")

    def _forced_local(self) -> tuple[list[Candidate], Trace]:
        """Beyond the paper: a lone entity, or entities that never meet, give their own chunks."""
        chunks = self._shared_chunks()
        if len(chunks):
            return self._local(chunks, "asked for")
        parts = [self._allowed_chunks(self.graph.chunks(e)[0]) for e in self.entities]
        chunks = np.unique(np.concatenate(parts)) if parts else np.empty(0, dtype=np.int64)
        return self._local(chunks, "asked for; no pair shares a chunk: every entity's own")

    def _shared_chunks(self) -> IntArray:
        """Return C_h for the first h that gives 1 to k chunks, else the last that was not empty."""
        hops = self.graph.hops(self.entities, self.strategy.max_hops)
        shared = {
            pair: self._allowed_chunks(
                np.intersect1d(
                    self.graph.chunks(pair[0])[0], self.graph.chunks(pair[1])[0], assume_unique=True
                )
            )
            for pair in combinations(self.entities, 2)
        }
        names = self.graph.names
        self.trace = replace(
            self.trace,
            pairs=tuple(
                Pair(names[a], names[b], hops.get((a, b)), len(chunks))
                for (a, b), chunks in shared.items()
            ),
        )
        steps: list[HopStep] = []
        chosen: tuple[int | None, IntArray] = (None, np.empty(0, dtype=np.int64))
        for h in range(self.strategy.max_hops, 0, -1):
            within = [pair for pair, distance in hops.items() if distance <= h]
            parts = [shared[pair] for pair in within]
            chunks = np.unique(np.concatenate(parts)) if parts else np.empty(0, dtype=np.int64)
            steps.append(HopStep(h, len(within), len(chunks)))
            if not len(chunks):
                break
            chosen = (h, chunks)
            if len(chunks) <= self.query.k:
                break
        self.trace = replace(self.trace, hop_steps=tuple(steps), chosen_h=chosen[0])
        return chosen[1]

    def _allowed_chunks(self, chunks: IntArray) -> IntArray:
        if self.query.allowed is None:
            return chunks
        return chunks[self.query.allowed[self.snapshot.chunk_nodes[chunks]]]

    def _local(self, chunks: IntArray, reason: str) -> tuple[list[Candidate], Trace]:
        distinct, mentions = self._matches(chunks, chunks + 1)
        coverage = distinct / np.maximum(1, self.graph.entities_per_chunk[chunks])
        occurrence = mentions / np.maximum(1, self.snapshot.words[chunks])
        # Chunks ascend by document and position: a stable sort keeps that for ties.
        order = np.lexsort((chunks, -occurrence, -coverage, -distinct))
        ranked, candidates = [], []
        for rank, at in enumerate(order, 1):
            row = int(self.snapshot.chunk_nodes[chunks[at]])
            figures = {
                "entities": int(distinct[at]),
                "coverage": round(float(coverage[at]), 6),
                "occurrence": round(float(occurrence[at]), 6),
            }
            ranked.append(Ranked(self.snapshot.nodes.ids[row], rank, figures))
            why = (
                f"holds {figures['entities']} entities of the question",
                f"coverage {figures['coverage']:.4f}",
                f"occurrence {figures['occurrence']:.4f}",
            )
            candidates.append(Candidate(row, 1 / rank, "local", why))
        return self._finish(candidates, "local", reason, {"local": tuple(ranked)})

    def _nearest(self, reason: str) -> tuple[list[Candidate], Trace]:
        found = self._search(self.query.k)
        candidates = [
            Candidate(row, score, "global", (f"cosine {score:.4f}",)) for row, score in found
        ]
        return self._finish(candidates, "global", reason, {"dense": self._dense_list(found)})

    def _by_occurrence(self, reason: str) -> tuple[list[Candidate], Trace]:
        found = self._search(2 * self.query.k)
        rows = np.asarray([row for row, _ in found], dtype=np.int64)
        first, end = self.snapshot.nodes.first_leaf[rows], self.snapshot.nodes.end_leaf[rows]
        _, mentions = self._matches(first, end)
        before = self.snapshot.words_before
        occurrence = mentions / np.maximum(1, before[end] - before[first])
        order = np.lexsort((np.arange(len(rows)), -occurrence))
        if mentions.any():
            order = order[mentions[order] > 0]
        ranked, candidates = [], []
        for rank, at in enumerate(order, 1):
            row, cosine = found[at]
            figures = {"occurrence": round(float(occurrence[at]), 6), "cosine": round(cosine, 6)}
            ranked.append(Ranked(self.snapshot.nodes.ids[row], rank, figures))
            why = (f"occurrence {occurrence[at]:.4f}", f"cosine {cosine:.4f}")
            candidates.append(Candidate(row, 1 / rank, "global", why))
        lists = {"dense": self._dense_list(found), "occurrence": tuple(ranked)}
        dropped = len(found) - len(order)
        self.trace = replace(self.trace, cuts={"no query entity": dropped})
        return self._finish(candidates, "global", reason, lists)

    def _search(self, count: int) -> list[tuple[int, float]]:
        if not len(self.snapshot.dense.nodes):
            return []  # and no model is loaded for it
        return self.snapshot.dense.search(self.query.vector, count, self.query.allowed)

    def _matches(self, first: IntArray, end: IntArray) -> tuple[IntArray, IntArray]:
        """Return per range of chunks the distinct query entities in it and their mentions."""
        distinct = np.zeros(len(first), dtype=np.int64)
        mentions = np.zeros(len(first), dtype=np.int64)
        for entity in self.entities:
            chunks, counts = self.graph.chunks(entity)
            total = np.concatenate([[0], np.cumsum(counts)])
            inside = total[np.searchsorted(chunks, end)] - total[np.searchsorted(chunks, first)]
            mentions += inside
            distinct += inside > 0
        return distinct, mentions

    def _dense_list(self, found: list[tuple[int, float]]) -> tuple[Ranked, ...]:
        ids = self.snapshot.nodes.ids
        return tuple(
            Ranked(ids[row], rank, {"cosine": round(score, 6)})
            for rank, (row, score) in enumerate(found, 1)
        )

    def _finish(
        self,
        candidates: list[Candidate],
        route: Route,
        reason: str,
        lists: dict[str, tuple[Ranked, ...]],
    ) -> tuple[list[Candidate], Trace]:
        kept = candidates[: self.query.k]
        cuts = dict(self.trace.cuts) | {"k": len(candidates) - len(kept)}
        trace = replace(self.trace, route=route, reason=reason, lists=lists, cuts=cuts)
        return kept, trace
