"""The systems compared, each a `Strategy`: simple baselines, the paper, the hybrid, ablations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from e2graphrag_integrations import HybridStrategy, PaperStrategy
from e2graphrag_integrations.retrieval.query import Query
from e2graphrag_integrations.retrieval.strategy import Candidate
from e2graphrag_integrations.retrieval.trace import Trace
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.text.words import bm25_terms
from e2graphrag_integrations.types import Span

_LIST = 200

Kind = Literal["dense", "bm25", "rrf"]


@dataclass(frozen=True)
class Baseline:
    """Windows of chunks by cosine, by BM25, or by both lists' reciprocal ranks; no graph, no tree.

    Args:
        kind: Which of them.
        rrf_k: Constant of reciprocal rank fusion.
        whole: Whether a budget is filled with whole chunks, not with windows.
    """

    kind: Kind
    rrf_k: float = 1.0
    whole: bool = False

    @property
    def name(self) -> str:
        return self.kind

    def rank(self, query: Query, snapshot: Snapshot) -> tuple[list[Candidate], Trace]:
        allowed = snapshot.nodes.level == 0
        if query.allowed is not None:
            allowed = allowed & query.allowed
        owners = snapshot.dense.window_nodes
        scores = self.scores(query, snapshot, allowed)
        found = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
        parts = query.packs_windows and not self.whole
        candidates: list[Candidate] = []
        seen: set[int] = set()
        for window, score in found:
            row = int(owners[window])
            if parts or row not in seen:
                seen.add(row)
                span = Span(*snapshot.window_spans[window].tolist())
                candidates.append(
                    Candidate(row, score, "global", (), best_span=span, is_window=parts)
                )
        kept = candidates if parts else candidates[: query.k]
        return kept, Trace(query.question, self.name, query.mode)

    def scores(self, query: Query, snapshot: Snapshot, allowed: Any) -> dict[int, float]:
        """Return the score of each window found, of the nodes that are allowed."""
        scores: dict[int, float] = {}
        if self.kind != "bm25":
            rows, _ = snapshot.dense.search_windows(query.vector, _LIST, allowed)
            self._add(scores, rows)
        if self.kind != "dense":
            seen = allowed[snapshot.dense.window_nodes]
            rows, _ = snapshot.bm25.search(bm25_terms(query.question), _LIST, seen)
            self._add(scores, rows)
        return scores

    def _add(self, scores: dict[int, float], rows: Any) -> None:
        for rank, window in enumerate(np.asarray(rows).tolist(), 1):
            scores[window] = scores.get(window, 0.0) + 1 / (self.rrf_k + rank)


BASELINES = ("dense", "bm25", "rrf")

SYSTEMS: Mapping[str, Callable[[], Any]] = {
    "dense": lambda: Baseline("dense"),
    "bm25": lambda: Baseline("bm25"),
    "rrf": lambda: Baseline("rrf"),
    "rrf60": lambda: Baseline("rrf", rrf_k=60),
    "dense-chunks": lambda: Baseline("dense", whole=True),
    "paper": PaperStrategy,
    "hybrid": HybridStrategy,
    "no-gate": lambda: HybridStrategy(gate=0),
    "no-entities": lambda: HybridStrategy(entity_weight=0),
    "no-title-links": lambda: HybridStrategy(title_link_weight=0),
    "no-bm25": lambda: HybridStrategy(bm25_weight=0),
    "no-dense": lambda: HybridStrategy(dense_weight=0),
    "no-summaries": lambda: HybridStrategy(include_summaries=False),
    "no-aliases": lambda: HybridStrategy(use_aliases=False),
    "no-neighbors": lambda: HybridStrategy(neighbor_decay=0),
    "no-windows": lambda: WholeNodes(HybridStrategy()),
    "path-chunks": lambda: HybridStrategy(use_path_chunks=True),
    "packed-summaries": lambda: PackedSummaries(HybridStrategy()),
}


@dataclass(frozen=True)
class WholeNodes:
    """Another strategy, filling budgets with whole chunks."""

    inner: HybridStrategy

    @property
    def name(self) -> str:
        return "whole nodes"

    def rank(self, query: Query, snapshot: Snapshot) -> tuple[list[Candidate], Trace]:
        candidates, trace = self.inner.rank(query, snapshot)
        best: dict[int, Candidate] = {}
        for one in candidates:
            best.setdefault(one.row, Candidate(one.row, one.score, one.route, one.reasons))
        return list(best.values()), trace


@dataclass(frozen=True)
class PackedSummaries:
    """Another strategy, with the best window of a summary after every three of its leaves."""

    inner: HybridStrategy

    @property
    def name(self) -> str:
        return "packed summaries"

    def rank(self, query: Query, snapshot: Snapshot) -> tuple[list[Candidate], Trace]:
        leaves, trace = self.inner.rank(query, snapshot)
        if not query.packs_windows:
            return leaves, trace
        above = snapshot.nodes.level > 0
        if query.allowed is not None:
            above = above & query.allowed
        owners = snapshot.dense.window_nodes
        both = Baseline("rrf").scores(query, snapshot, above)
        summaries = [
            Candidate(int(owners[window]), score, "global", (), is_window=True)
            for window, score in sorted(both.items(), key=lambda item: (-item[1], item[0]))
        ]
        once = {one.row: one for one in reversed(summaries)}
        best = [one for one in summaries if once[one.row] is one]
        mixed = []
        for rank, leaf in enumerate(leaves, 1):
            mixed.append(leaf)
            if rank % 3 == 0 and best:
                mixed.append(best.pop(0))
        return mixed, trace


ABLATIONS = tuple(name for name in SYSTEMS if name.startswith(("no-", "path-", "packed-")))


def system(name: str) -> Any:
    """Return a system by name, or `hybrid:setting=value` for the hybrid with another constant."""
    if ":" not in name:
        return SYSTEMS[name]()
    settings = dict(part.split("=") for part in name.partition(":")[2].split("+"))
    whole = {"title_link_sources", "n_iter", "rerank_top_n"}
    return HybridStrategy(**{k: int(v) if k in whole else float(v) for k, v in settings.items()})
