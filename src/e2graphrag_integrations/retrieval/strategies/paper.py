"""The paper's strategy: local retrieval if the query's entities are close, else global."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.validation import check_int
from e2graphrag_integrations.embedders.calibration import Calibration, check_calibration
from e2graphrag_integrations.entities.matching.linking import Link, link
from e2graphrag_integrations.retrieval.reasons import Reason
from e2graphrag_integrations.retrieval.strategy import Candidate, Query
from e2graphrag_integrations.retrieval.trace import HopStep, Pair, Ranked, Route, Trace
from e2graphrag_integrations.snapshot.snapshot import Snapshot

_MAX_ENTITIES = 32
"""Maximum number of query entities, rarest first, that form pairs. Limits the cost of a very long
query."""

_MAX_HOPS = 100
"""Upper limit of `max_hops`, in edges: distances are stored in 8 bits."""


@dataclass(frozen=True, slots=True)
class PaperStrategy:
    """The adaptive retrieval of E2GraphRAG (arXiv 2505.24226, section 3.3).

    Let E be the query's entities that are in the index, and `hops(a, b)` the distance
    between a and b in the entity graph, in edges::

        C_h = union of chunks(a) & chunks(b) over all pairs a, b of E with hops(a, b) <= h

    * **Local**: h decreases from `max_hops` until `1 <= |C_h| <= k`. If C_h becomes empty first,
      the last non-empty C_h is used; if even C_1 has more than k chunks, C_1 is used. The chunks in
      C_h are ranked by the number of distinct query entities, then by coverage (query entities /
      entities in the chunk), then by occurrence (mentions of query entities / words).
    * **Global by occurrence**: with one entity, or if every C_h is empty, the 2k nodes with the
      highest cosine similarity are ranked by occurrence, and nodes without a query entity are
      dropped unless no node would remain.
    * **Global**: without an entity, the k nodes with the highest cosine similarity are returned.

    `mode="local"` goes beyond the paper: if no close pair shares a chunk, it ranks every chunk with
    a query entity.

    Args:
        max_hops: Largest h, in edges; from 1 to 100.
        relevance_calibration: Maps the cosine of a node to its relevance, as for `HybridStrategy`.

    Raises:
        InvalidInputError: If `max_hops` is out of range, or `relevance_calibration` is not a
            function.
    """

    max_hops: int = 4
    relevance_calibration: Calibration | None = None

    def __post_init__(self) -> None:
        check_int("max_hops", self.max_hops, most=_MAX_HOPS)
        check_calibration(self.relevance_calibration)

    @property
    def name(self) -> str:
        """The name of the strategy in the trace."""
        return "paper"

    def needs_vector(self, query: Query, snapshot: Snapshot) -> bool:
        """Return whether the query is answered globally, by cosine or occurrence."""
        if query.mode == "local" or not len(snapshot.dense.window_nodes):
            return False
        if query.mode == "global":
            return True
        return not len(_PaperSearch(self, query, snapshot).shared_chunks())

    def rank(self, query: Query, snapshot: Snapshot) -> tuple[list[Candidate], Trace]:
        """Return up to `query.k` candidates, best first, and the trace."""
        search = _PaperSearch(self, query, snapshot)
        requested = Reason("mode", mode=query.mode)
        if query.mode == "global":
            return search.by_cosine(requested)
        if not search.entities and query.mode == "auto":
            return search.by_cosine(Reason("no_entity"))
        chunks = search.shared_chunks()
        if query.mode == "local":
            if len(chunks):
                return search.by_entities(chunks, requested)
            return search.by_entities(search.entity_chunks(), Reason("own_chunks", mode=query.mode))
        if len(chunks):
            return search.by_entities(chunks, Reason("hops", hops=search.trace.chosen_h))
        few = len(search.entities) < 2  # noqa: PLR2004 - a pair needs two
        return search.by_occurrence(Reason("one_entity" if few else "no_pair"))


class _PaperSearch:
    """The steps of the algorithm for one query."""

    def __init__(self, strategy: PaperStrategy, query: Query, snapshot: Snapshot) -> None:
        self.max_hops = strategy.max_hops
        self.query = query
        self.snapshot = snapshot
        self.graph = snapshot.graph
        linking = link(query.mentions, self.graph.index, edits=snapshot.edits)
        rarest = sorted(linking.links, key=self._doc_freq)[:_MAX_ENTITIES]
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

    def _doc_freq(self, one: Link) -> int:
        return len(self.graph.chunks(self.graph.index[one.entity])[0])

    def shared_chunks(self) -> IntArray:
        """Return C_h for the largest h at which it has 1 to k chunks, or the last non-empty C_h.

        The result is empty if every C_h is empty. The pairs and the values of h that were tried are
        added to the trace.
        """
        hops = self.graph.hops(self.entities, self.max_hops)
        shared = {pair: self._chunks_with(*pair) for pair in combinations(self.entities, 2)}
        steps: list[HopStep] = []
        chosen_h: int | None = None
        chosen: IntArray = np.empty(0, dtype=np.int64)
        for h in range(self.max_hops, 0, -1):
            close = [pair for pair, distance in hops.items() if distance <= h]
            chunks = _union([shared[pair] for pair in close])
            steps.append(HopStep(h, len(close), len(chunks)))
            if not len(chunks):
                break
            chosen_h, chosen = h, chunks
            if len(chunks) <= self.query.k:
                break
        names = self.graph.names
        pairs = tuple(
            Pair(names[a], names[b], hops.get((a, b)), len(chunks))
            for (a, b), chunks in shared.items()
        )
        self.trace = replace(self.trace, pairs=pairs, hop_steps=tuple(steps), chosen_h=chosen_h)
        return chosen

    def entity_chunks(self) -> IntArray:
        """Return the allowed chunks that mention any query entity, ascending."""
        return _union([self._allowed(self.graph.chunks(entity)[0]) for entity in self.entities])

    def _chunks_with(self, a: int, b: int) -> IntArray:
        """Return the allowed chunks that mention both entities, ascending."""
        chunks_a, chunks_b = self.graph.chunks(a)[0], self.graph.chunks(b)[0]
        return self._allowed(np.intersect1d(chunks_a, chunks_b, assume_unique=True))

    def _allowed(self, chunks: IntArray) -> IntArray:
        if self.query.allowed is None:
            return chunks
        return chunks[self.query.allowed[self.snapshot.chunk_nodes[chunks]]]

    def by_entities(self, chunks: IntArray, reason: Reason) -> tuple[list[Candidate], Trace]:
        """Rank chunks by distinct query entities, coverage and occurrence; route `local`."""
        distinct, mentions = self._count_entities(chunks, chunks + 1)
        coverage = distinct / np.maximum(1, self.graph.entities_per_chunk[chunks])
        occurrence = mentions / np.maximum(1, self.snapshot.chunk_words[chunks])
        # Remaining ties are broken by chunk number, which ascends by document and position.
        order = np.lexsort((chunks, -occurrence, -coverage, -distinct))
        ranked, candidates = [], []
        for rank, place in enumerate(order, 1):
            row = int(self.snapshot.chunk_nodes[chunks[place]])
            figures = {
                "entities": int(distinct[place]),
                "coverage": round(float(coverage[place]), 6),
                "occurrence": round(float(occurrence[place]), 6),
            }
            ranked.append(Ranked(self.snapshot.nodes.ids[row], rank, figures))
            reasons = (
                Reason("query_entities", count=figures["entities"]),
                Reason("coverage", coverage=figures["coverage"]),
                Reason("occurrence", occurrence=figures["occurrence"]),
            )
            candidates.append(Candidate(row, 1 / rank, "entities", reasons))
        return self._finish(candidates, "local", reason, {"local": tuple(ranked)})

    def by_cosine(self, reason: Reason) -> tuple[list[Candidate], Trace]:
        """Rank the k nearest nodes by cosine similarity; route `global`."""
        found = self._nearest(self.query.k)
        candidates = [
            Candidate(
                row,
                cosine,
                "dense",
                (Reason("cosine", cosine=cosine),),
                relevance=self.query.calibration(cosine),
            )
            for row, cosine in found
        ]
        return self._finish(candidates, "global", reason, {"dense": self._dense_list(found)})

    def by_occurrence(self, reason: Reason) -> tuple[list[Candidate], Trace]:
        """Rank the 2k nearest nodes by occurrence; route `global`."""
        found = self._nearest(2 * self.query.k)
        rows = np.asarray([row for row, _ in found], dtype=np.int64)
        first, end = self.snapshot.nodes.first_leaf[rows], self.snapshot.nodes.end_leaf[rows]
        _, mentions = self._count_entities(first, end)
        words_before = self.snapshot.chunk_word_offsets
        occurrence = mentions / np.maximum(1, words_before[end] - words_before[first])
        order = np.lexsort((np.arange(len(rows)), -occurrence))
        if mentions.any():
            order = order[mentions[order] > 0]
        ranked, candidates = [], []
        for rank, place in enumerate(order, 1):
            row, cosine = found[place]
            figures = {"occurrence": round(float(occurrence[place]), 6), "cosine": round(cosine, 6)}
            ranked.append(Ranked(self.snapshot.nodes.ids[row], rank, figures))
            reasons = (
                Reason("occurrence", occurrence=float(occurrence[place])),
                Reason("cosine", cosine=cosine),
            )
            candidates.append(
                Candidate(
                    row, 1 / rank, "occurrence", reasons, relevance=self.query.calibration(cosine)
                )
            )
        lists = {"dense": self._dense_list(found), "occurrence": tuple(ranked)}
        self.trace = replace(self.trace, cuts={"no query entity": len(found) - len(order)})
        return self._finish(candidates, "global", reason, lists)

    def _nearest(self, count: int) -> list[tuple[int, float]]:
        """Return the rows and cosines of the nearest allowed nodes."""
        if not len(self.snapshot.dense.window_nodes):
            return []
        return self.snapshot.dense.search(self.query.unit_vector, count, self.query.allowed)

    def _count_entities(self, first: IntArray, end: IntArray) -> tuple[IntArray, IntArray]:
        """Count the distinct query entities and their mentions in each half-open chunk range."""
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
            Ranked(ids[row], rank, {"cosine": round(cosine, 6)})
            for rank, (row, cosine) in enumerate(found, 1)
        )

    def _finish(
        self,
        candidates: list[Candidate],
        route: Route,
        reason: Reason,
        lists: dict[str, tuple[Ranked, ...]],
    ) -> tuple[list[Candidate], Trace]:
        """Cut the candidates to k and complete the trace."""
        top = candidates[: self.query.k]
        cuts = {**self.trace.cuts, "k": len(candidates) - len(top)}
        return top, replace(self.trace, route=route, reason=reason, lists=lists, cuts=cuts)


def _union(parts: list[IntArray]) -> IntArray:
    """Return the distinct chunks of all parts, ascending."""
    return np.unique(np.concatenate([np.empty(0, dtype=np.int64), *parts]))
