"""The compared systems, each a `Strategy`: baselines, the paper, the hybrid and ablations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from e2graphrag_integrations import HybridStrategy, PaperStrategy, TreeTraversalStrategy
from e2graphrag_integrations.retrieval.strategy import Candidate, Query
from e2graphrag_integrations.retrieval.trace import Trace
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.text.words import terms_of
from e2graphrag_integrations.types import Span
from quality_bench.linear_rag import MUSIQUE, LinearRAG
from quality_bench.passage_graph import PassageGraph
from quality_bench.passage_pagerank import PassagePageRank

_LIST_LENGTH = 200
"""Windows per ranked list."""

Kind = Literal["dense", "bm25", "rrf"]


@dataclass(frozen=True)
class Baseline:
    """Ranks the windows of chunks without graph or tree.

    Args:
        kind: By cosine similarity, by BM25, or by reciprocal rank fusion of both.
        rrf_k: Constant of reciprocal rank fusion.
    """

    kind: Kind
    rrf_k: float = 1.0

    @property
    def name(self) -> str:
        return self.kind

    def rank(self, query: Query, snapshot: Snapshot) -> tuple[list[Candidate], Trace]:
        allowed = snapshot.nodes.level == 0
        if query.allowed is not None:
            allowed = allowed & query.allowed
        owners = snapshot.dense.window_nodes
        scores = self.scores(query, snapshot, allowed)
        ranked = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
        windows = query.packs_windows
        candidates: list[Candidate] = []
        visited: set[int] = set()
        for window, score in ranked:
            row = int(owners[window])
            if windows or row not in visited:
                visited.add(row)
                span = Span(*snapshot.window_spans[window].tolist())
                candidates.append(
                    Candidate(row, score, "global", (), best_span=span, is_window=windows)
                )
        if not windows:
            candidates = candidates[: query.k]
        return candidates, Trace(query.question, self.name, query.mode)

    def scores(self, query: Query, snapshot: Snapshot, allowed: Any) -> dict[int, float]:
        """Return the scores of the windows found in allowed nodes."""
        scores: dict[int, float] = {}
        if self.kind != "bm25":
            rows, _ = snapshot.dense.search_windows(query.unit_vector, _LIST_LENGTH, allowed)
            self._add(scores, rows)
        if self.kind != "dense":
            windows = allowed[snapshot.dense.window_nodes]
            rows, _ = snapshot.bm25.search(terms_of(query.question), _LIST_LENGTH, windows)
            self._add(scores, rows)
        return scores

    def _add(self, scores: dict[int, float], rows: Any) -> None:
        for rank, window in enumerate(np.asarray(rows).tolist(), 1):
            scores[window] = scores.get(window, 0.0) + 1 / (self.rrf_k + rank)


SYSTEMS: Mapping[str, Callable[[], Any]] = {
    "dense": lambda: Baseline("dense"),
    "bm25": lambda: Baseline("bm25"),
    "rrf": lambda: Baseline("rrf"),
    "rrf60": lambda: Baseline("rrf", rrf_k=60),
    "paper": PaperStrategy,
    "tree-traversal": TreeTraversalStrategy,
    "hybrid": HybridStrategy,
    "no-gate": lambda: HybridStrategy(gate=0),
    "no-coverage": lambda: HybridStrategy(coverage_factor=0),
    "no-diversity": lambda: HybridStrategy(diversity=0),
    "no-entities": lambda: HybridStrategy(entity_weight=0),
    "no-title-links": lambda: HybridStrategy(title_link_weight=0),
    "no-bridges": lambda: HybridStrategy(bridge_weight=0),
    "no-bm25": lambda: HybridStrategy(bm25_weight=0),
    "no-dense": lambda: HybridStrategy(dense_weight=0),
    "no-summaries": lambda: HybridStrategy(include_summaries=False),
    "no-aliases": lambda: HybridStrategy(use_aliases=False),
    "no-neighbors": lambda: HybridStrategy(neighbor_decay=0),
    "path-chunks": lambda: HybridStrategy(use_path_chunks=True),
}

ABLATIONS = tuple(name for name in SYSTEMS if name.startswith(("no-", "path-")))

GRAPHS: Mapping[str, Callable[[PassageGraph], Any]] = {
    "pagerank": PassagePageRank,
    "linearrag": LinearRAG,
    "linearrag-musique": lambda graph: LinearRAG(graph, MUSIQUE),
}
"""Systems for passage sets only."""

BASELINES = ("dense", "bm25", "rrf", "rrf60", "paper", *GRAPHS)
"""The systems that the hybrid is compared with; the best of them counts."""


def system(name: str) -> Any:
    """Return a system by name; `hybrid:rrf_k=2+gate=1` is the hybrid with other settings."""
    if name.startswith("hybrid:"):
        return hybrid(dict(part.split("=") for part in name.partition(":")[2].split("+")))
    return SYSTEMS[name]()


def hybrid(settings: Mapping[str, str]) -> HybridStrategy:
    """Return the hybrid with settings in words, each of the type of its default."""
    defaults = HybridStrategy()
    return HybridStrategy(
        **{name: _like(getattr(defaults, name), settings[name]) for name in settings}
    )


def _like(default: Any, value: str) -> Any:
    if isinstance(default, bool):
        return {"True": True, "False": False}[value]
    if isinstance(default, str):
        return value
    return int(value) if isinstance(default, int) else float(value)


def systems(
    names: Sequence[str], graph: Callable[[], PassageGraph] | None = None
) -> dict[str, Any]:
    """Return systems by name; without a graph, those that need one are left out.

    Args:
        names: Names as for `system`, and those of `GRAPHS`.
        graph: Makes the graph of the passages, if a system needs it.
    """
    made: dict[str, Any] = {}
    passage_graph = lru_cache(1)(graph) if graph else None
    for name in names:
        if name not in GRAPHS:
            made[name] = system(name)
        elif passage_graph:
            made[name] = GRAPHS[name](passage_graph())
    return made
