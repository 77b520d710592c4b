"""The hybrid strategy: dense vectors, BM25 and the entity graph, fused by reciprocal rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.validation import check_int, check_protocol, short_repr
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.protocols import Reranker
from e2graphrag_integrations.retrieval.candidates import (
    RELEVANCE,
    WeightedList,
    fuse,
    node_candidates,
    window_candidates,
)
from e2graphrag_integrations.retrieval.paths import path_closeness
from e2graphrag_integrations.retrieval.query import Query
from e2graphrag_integrations.retrieval.relevance import Relevance, RelevanceSettings
from e2graphrag_integrations.retrieval.seeds import Seeds
from e2graphrag_integrations.retrieval.strategy import Candidate
from e2graphrag_integrations.retrieval.title_links import title_links
from e2graphrag_integrations.retrieval.trace import Listing, RankedLists, Route, Trace
from e2graphrag_integrations.search.fusion import Floats, top_rows
from e2graphrag_integrations.snapshot.snapshot import Snapshot

_MIN_LIST_LENGTH = 200
"""Nodes or windows in each list, or k if that is larger. A node beyond the end of a list gets
nothing from it."""

_LOCAL_SPECIFICITY = 0.5
"""Entity specificity from which the trace calls the route local. The ranking does not use it."""

_FLOAT_RANGES = {
    "rrf_k": (0, 1000),
    "gate": (0, 1000),
    "dense_weight": (0, 1000),
    "bm25_weight": (0, 1000),
    "entity_weight": (0, 1000),
    "title_link_weight": (0, 1000),
    "idf_power": (0, 10),
    "relevance_power": (0.1, 10),
    "neighbor_decay": (0, 1),
    "damping": (0, 1),
}
_INT_RANGES = {"title_link_sources": (0, 1000), "n_iter": (1, 1000), "rerank_top_n": (1, 1000)}


@dataclass(frozen=True, slots=True)
class HybridStrategy:
    """Fusion of dense and BM25 search with the entity graph, weighted by entity specificity.

    Nodes are ranked by weighted reciprocal rank fusion (Cormack et al. 2009) of three lists::

        score(node) = 1 / (rrf_k + rank by relevance)
                    + specificity ** gate * entity_weight / (rrf_k + rank by PageRank)
                    + link * title_link_weight / (rrf_k + rank by title links)

    Relevance combines cosine similarity and BM25 per window, and smooths over neighboring windows;
    a node has the relevance of its best window (`retrieval/relevance.py`). Personalized PageRank
    starts at the entities that the query names and ranks chunks (`graph/pagerank.py`). Title links
    lead from the best chunks to other documents (`retrieval/title_links.py`); `link` is the score
    of the best title link, at most 1. With a small `rrf_k`, the top of one list outweighs
    agreement between lists.

    The paper (arXiv 2505.24226) chooses between local and global retrieval. Here, the specificity
    of the query's entities, in [0, 1], sets the weight of local evidence: 0 for no entity or one
    that every chunk mentions, 1 for an entity that a single chunk mentions (`retrieval/seeds.py`).
    `mode="local"` uses the entity lists only, with specificity 1; `mode="global"` uses relevance
    only.

    With a token budget, windows are ranked instead of nodes, so that the budget holds the relevant
    parts of chunks. docs/constants.md lists the effect of half and double of each default.

    Args:
        rrf_k: Added to each rank.
        gate: Exponent of the entity specificity; 0 gives the entity lists their full weight.
        dense_weight: Weight of cosine similarity in the relevance; 0 skips dense search.
        bm25_weight: Weight of BM25 in the relevance; 0 skips BM25.
        entity_weight: Weight of the lists from the entity graph; 0 leaves them out.
        title_link_weight: Weight of the title links; 0 leaves them out.
        idf_power: Exponent of an extra IDF factor per BM25 term; 0 is plain BM25.
        relevance_power: Exponent of the relevance before smoothing; above 1 favors a few good
            windows over many fair ones.
        neighbor_decay: Fraction of its relevance that a window adds to the next window in its
            document, and its square to the one after that.
        title_link_sources: Best chunks whose title links are followed.
        damping: Probability that PageRank follows an edge instead of restarting at a query entity.
        n_iter: Power iterations of PageRank.
        include_summaries: Whether summaries compete with chunks.
        use_aliases: Whether surnames, initials and misspellings link to entities.
        use_path_chunks: Whether chunks along the shortest paths between the query's entities form
            another list, with the weight of the PageRank list.
        reranker: Scores the best texts against the query and sets their final order; None keeps
            the fused order.
        rerank_top_n: Texts that the reranker reads.

    Raises:
        InvalidInputError: If a number is out of range, or `reranker` has no method `rerank`.
    """

    rrf_k: float = 1.0
    gate: float = 2.0
    dense_weight: float = 1.0
    bm25_weight: float = 1.0
    entity_weight: float = 1.0
    title_link_weight: float = 1.0
    idf_power: float = 1.0
    relevance_power: float = 2.0
    neighbor_decay: float = 0.5
    title_link_sources: int = 8
    damping: float = 0.5
    n_iter: int = 10
    include_summaries: bool = True
    use_aliases: bool = True
    use_path_chunks: bool = False
    reranker: Reranker | None = None
    rerank_top_n: int = 30

    def __post_init__(self) -> None:
        for name, (least, most) in _FLOAT_RANGES.items():
            value = getattr(self, name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not least <= value <= most:
                raise InvalidInputError(
                    f"{name}={short_repr(value)} must be a number from {least} to {most}"
                )
        for name, (least, most) in _INT_RANGES.items():
            check_int(name, getattr(self, name), least, most)
        if self.reranker is not None:
            check_protocol("reranker", self.reranker, Reranker)

    @property
    def name(self) -> str:
        """The name of the strategy in the trace."""
        return "hybrid"

    def rank(self, query: Query, snapshot: Snapshot) -> tuple[Sequence[Candidate], Trace]:
        """Rank nodes, or windows if `query.packs_windows` is set.

        Returns:
            Candidates, best first, and the trace: up to `query.k` nodes (`rerank_top_n` nodes if
            that is more and there is a reranker), or all relevant windows.
        """
        evidence = self._gather(query, snapshot)
        lists = self._weighted_lists(evidence)
        candidates: Sequence[Candidate]
        # `mode="local"` has no relevance list, so it has no windows to rank.
        if query.packs_windows and query.mode != "local":
            candidates = window_candidates(lists, evidence.relevance, self.rrf_k, snapshot)
            return candidates, self._trace(evidence, lists, cut=0)
        rows, scores = fuse(lists, self.rrf_k, len(snapshot.nodes.ids))
        top = query.k if self.reranker is None else max(query.k, self.rerank_top_n)
        windows = evidence.best_windows(rows[:top])
        candidates = node_candidates(
            rows[:top], scores[:top], windows, lists=lists, rrf_k=self.rrf_k, snapshot=snapshot
        )
        return candidates, self._trace(evidence, lists, cut=len(rows) - len(candidates))

    def _gather(self, query: Query, snapshot: Snapshot) -> _Evidence:
        length = max(_MIN_LIST_LENGTH, query.k)
        settings = RelevanceSettings(
            dense_weight=self.dense_weight,
            bm25_weight=self.bm25_weight,
            idf_power=self.idf_power,
            relevance_power=self.relevance_power,
            neighbor_decay=self.neighbor_decay,
            list_length=length,
        )
        leaves_only = query.packs_windows or not self.include_summaries
        relevance = Relevance(query, snapshot, settings, leaves_only=leaves_only)
        allowed = None if query.allowed is None else query.allowed[snapshot.chunk_nodes]
        seeds = Seeds(query, snapshot, allowed, use_aliases=self.use_aliases)
        specificity = graph_weight = 0.0
        if self.entity_weight and seeds.ranked:
            specificity = 1.0 if query.mode == "local" else seeds.specificity
            graph_weight = float(specificity**self.gate)
        return _Evidence(
            query=query,
            snapshot=snapshot,
            list_length=length,
            allowed_chunks=allowed,
            relevance=relevance,
            seeds=seeds,
            specificity=specificity,
            graph_weight=graph_weight,
        )

    def _weighted_lists(self, evidence: _Evidence) -> list[WeightedList]:
        query, snapshot, seeds = evidence.query, evidence.snapshot, evidence.seeds
        lists: list[WeightedList] = []
        if query.mode != "local":
            rows, _, scores = evidence.relevance.nodes
            top = slice(evidence.list_length)
            lists.append(
                WeightedList(RELEVANCE, "relevance", 1.0, "global", rows[top], scores[top])
            )
        weight = evidence.graph_weight * self.entity_weight
        if weight:
            ranked = evidence.best_chunks(*seeds.personalized_pagerank(self.damping, self.n_iter))
            lists.append(
                WeightedList("entities", "personalized_pagerank", weight, "local", *ranked)
            )
        if weight and self.use_path_chunks:
            closeness = path_closeness(snapshot.graph, [seed.entity for seed in seeds.paired])
            ranked = evidence.best_chunks(np.arange(len(closeness)), closeness)
            lists.append(WeightedList("paths", "closeness", weight, "local", *ranked))
        if query.mode == "auto" and self.title_link_weight and self.title_link_sources:
            lists.append(self._title_links(evidence, lists))
        return lists

    def _title_links(self, evidence: _Evidence, lists: Sequence[WeightedList]) -> WeightedList:
        """Follow the title links of the best chunks of the other lists.

        The best link's score, at most 1, scales the weight of the list, so weak links count little.
        """
        snapshot = evidence.snapshot
        rows, scores = fuse(lists, self.rrf_k, len(snapshot.nodes.ids))
        best = np.flatnonzero(snapshot.nodes.level[rows] == 0)[: self.title_link_sources]
        sources = list(zip(rows[best].tolist(), scores[best].tolist(), strict=True))
        linked, scores = title_links(
            sources, snapshot, evidence.relevance.of_chunks, evidence.allowed_chunks
        )
        order = np.lexsort((linked, -scores))[: evidence.list_length]
        linked, scores = linked[order], scores[order]
        weight = self.title_link_weight * min(1.0, float(scores[0])) if len(scores) else 0.0
        return WeightedList("title_links", "score", weight, "local", linked, scores)

    def _trace(self, evidence: _Evidence, lists: Sequence[WeightedList], cut: int) -> Trace:
        query, seeds = evidence.query, evidence.seeds
        route: Route = "local" if evidence.specificity >= _LOCAL_SPECIFICITY else "global"
        if query.mode != "auto":
            route, reason = query.mode, "requested by the caller"
        elif not seeds.ranked:
            reason = "no query entity is in the index"
        else:
            reason = (
                f"entity specificity {evidence.specificity:.2f} -> "
                f"graph weight {evidence.graph_weight:.2f}"
            )
        return Trace(
            question=query.question,
            strategy=self.name,
            mode=query.mode,
            route=route,
            reason=reason,
            mentions=query.names,
            links=seeds.linking.links,
            unlinked=seeds.linking.unlinked,
            lists=_trace_lists(evidence, lists),
            cuts={"k": cut},
        )


@dataclass(frozen=True)
class _Evidence:
    """The inputs of one query's ranking.

    Attributes:
        query: The query.
        snapshot: The search index.
        list_length: Maximum nodes or windows in a list.
        allowed_chunks: Mask over chunks, shape (chunks,); None allows all.
        relevance: Relevance of the windows.
        seeds: Entities that the query names.
        specificity: Specificity of the seeds, in [0, 1].
        graph_weight: `specificity ** gate`; the weight of the entity lists is this times
            `entity_weight`.
    """

    query: Query
    snapshot: Snapshot
    list_length: int
    allowed_chunks: NDArray[np.bool_] | None
    relevance: Relevance
    seeds: Seeds
    specificity: float
    graph_weight: float

    def best_chunks(self, chunks: IntArray, scores: Floats) -> tuple[IntArray, Floats]:
        """Return the node rows of the best allowed chunks, best first, and their scores."""
        allowed = None if self.allowed_chunks is None else self.allowed_chunks[chunks]
        best = top_rows(scores, self.list_length, allowed)
        return self.snapshot.chunk_nodes[chunks[best]], scores[best]

    def best_windows(self, rows: IntArray) -> IntArray:
        """Return the most relevant window of each node, -1 for none; `local` embeds no query."""
        if self.query.mode == "local":
            return np.full(len(rows), -1)
        return self.relevance.best_windows(rows)


def _trace_lists(evidence: _Evidence, lists: Sequence[WeightedList]) -> RankedLists:
    """Return the non-empty lists by name; dense and BM25 list each node by its best window."""
    ids, window_nodes = evidence.snapshot.nodes.ids, evidence.snapshot.dense.window_nodes
    listings: dict[str, Listing] = {}
    if evidence.query.mode != "local":
        listings["dense"] = Listing(ids, "cosine", *evidence.relevance.dense, window_nodes)
        listings["bm25"] = Listing(ids, "bm25", *evidence.relevance.bm25, window_nodes)
    listings |= {one.name: Listing(ids, one.score_name, one.rows, one.scores) for one in lists}
    return RankedLists({name: one for name, one in listings.items() if len(one.rows)})
