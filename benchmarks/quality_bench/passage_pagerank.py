"""Personalized PageRank over passages and entities in the manner of HippoRAG 2 (arXiv 2502.14802).

Without an LLM there are no triples, so the seeds are the names in the question instead of the
phrases of the best triples, and there are no edges between phrases. Like HippoRAG 2, it divides the
weight of a seed by the number of its passages, gives every passage a small weight by its cosine,
and uses dense search alone if there is no seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from e2graphrag_integrations.retrieval.strategy import Candidate, Query
from e2graphrag_integrations.retrieval.trace import Trace
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from quality_bench.passage_graph import PassageGraph, Walk, min_max, ranked, undirected

_PASSAGE_WEIGHT = 0.05
_DAMPING = 0.5


@dataclass(frozen=True, eq=False)
class PassagePageRank:
    """Ranks passages by PageRank that restarts at the names in the question and at all passages.

    Args:
        graph: The passages and entities.
    """

    graph: PassageGraph

    @property
    def name(self) -> str:
        return "passage-entity PageRank"

    def rank(self, query: Query, snapshot: Snapshot) -> tuple[list[Candidate], Trace]:
        scores = dense = self.graph.cosines(query, snapshot)
        links = self.graph.linked(query)
        if links:
            passages, entities = self.graph.counts.shape
            reset = np.zeros(passages + entities)
            reset[:passages] = _PASSAGE_WEIGHT * min_max(dense)
            for entity, score in links.items():
                reset[passages + entity] = score / self.graph.frequencies[entity]
            scores = self._walk.scores(reset)[:passages]
        return ranked(scores, query, snapshot), Trace(query.question, self.name, query.mode)

    @cached_property
    def _walk(self) -> Walk:
        counts = self.graph.counts
        present = csr_array(
            (np.ones(counts.nnz), counts.indices, counts.indptr), shape=counts.shape
        )
        return Walk.over(undirected(present), _DAMPING)
