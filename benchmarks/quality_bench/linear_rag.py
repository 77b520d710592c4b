"""LinearRAG (arXiv 2510.10114), a graph baseline: spreading over sentences, then PageRank.

Written from the paper and a description of the reference code. Where the two differ, it follows the
code: each sentence is used once, an entity restarts the walk with the sum of the scores that it
received, the damping is .5. What an entity passes on is the best of its scores, as in the paper:
with their sum, entities in many sentences win, and the MuSiQue preset falls from .785 to .425 R@5
(hotpotqa with titles in the text, every 4th dev question).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array, diags_array

from e2graphrag_integrations.retrieval.strategy import Candidate, Query
from e2graphrag_integrations.retrieval.trace import Trace
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from quality_bench.passage_graph import PassageGraph, Vector, Walk, min_max, ranked, undirected


@dataclass(frozen=True)
class Preset:
    """The settings that the reference code chooses per data set.

    Attributes:
        rounds: Rounds of spreading.
        dense_weight: Weight of the cosine of a passage (lambda).
        threshold: Minimum score of an entity (delta).
        top_sentences: Sentences that each entity spreads to in a round (K).
    """

    rounds: int
    dense_weight: float
    threshold: float
    top_sentences: int


HOTPOTQA = Preset(rounds=2, dense_weight=0.05, threshold=0.4, top_sentences=1)
MUSIQUE = Preset(rounds=4, dense_weight=2.0, threshold=0.1, top_sentences=4)

_PASSAGE_WEIGHT = 0.05
"""Factor of the reset weights of passages."""

_DAMPING = 0.5


@dataclass(frozen=True, slots=True)
class Active:
    """An entity that spreading has reached.

    Attributes:
        score: The sum of the scores that it received.
        tier: The round in which it was reached first; 1 for an entity of the question.
    """

    score: float
    tier: int


@dataclass(frozen=True, eq=False)
class LinearRAG:
    """Ranks passages by PageRank from the entities that spreading over sentences reaches.

    Args:
        graph: The passages, sentences and entities.
        preset: The settings.
    """

    graph: PassageGraph
    preset: Preset = HOTPOTQA

    @property
    def name(self) -> str:
        return "LinearRAG"

    def rank(self, query: Query, snapshot: Snapshot) -> tuple[list[Candidate], Trace]:
        dense = self.graph.cosines(query, snapshot)
        seeds = self.graph.linked(query)
        scores = self._scores(query, seeds, dense) if seeds else dense
        return ranked(scores, query, snapshot), Trace(query.question, self.name, query.mode)

    def spread(self, seeds: Mapping[int, float], relevance: Vector) -> dict[int, Active]:
        """Return the entities that spreading reaches.

        Args:
            seeds: Score of each entity of the question.
            relevance: Cosine of each sentence to the question.
        """
        preset, graph = self.preset, self.graph
        reached = {entity: Active(score, 1) for entity, score in seeds.items()}
        active = dict(seeds)
        used: set[int] = set()
        for tier in range(2, preset.rounds + 2):
            gained: dict[int, float] = {}
            frontier: dict[int, float] = {}
            for entity, score in sorted(active.items(), key=lambda item: (-item[1], item[0])):
                if score < preset.threshold:
                    continue
                unused = [s for s in _columns(graph.entity_sentences, entity) if s not in used]
                best = sorted(unused, key=lambda s: -relevance[s])[: preset.top_sentences]
                used.update(best)
                for sentence in best:
                    gain = score * float(relevance[sentence])
                    if gain >= preset.threshold:
                        for other in _columns(graph.sentence_entities, sentence):
                            gained[other] = gained.get(other, 0.0) + gain
                            frontier[other] = max(frontier.get(other, 0.0), gain)
            for entity, gain in gained.items():
                before = reached.get(entity, Active(0.0, tier))
                reached[entity] = Active(before.score + gain, before.tier)
            active = frontier
        return reached

    def _scores(self, query: Query, seeds: Mapping[int, float], dense: Vector) -> Vector:
        graph = self.graph
        reached = self.spread(seeds, graph.sentence_vectors @ query.unit_vector)
        passages, entities = graph.counts.shape
        weights, tiered = np.zeros(entities), np.zeros(entities)
        for entity, active in reached.items():
            weights[entity] = active.score
            tiered[entity] = active.score / active.tier
        bonus = np.log1p(self._log_counts @ tiered)
        reset = np.empty(passages + entities)
        reset[:passages] = _PASSAGE_WEIGHT * (self.preset.dense_weight * min_max(dense) + bonus)
        reset[passages:] = weights
        return self._walk.scores(reset)[:passages]

    @cached_property
    def _log_counts(self) -> csr_array:
        counts = self.graph.counts.copy()
        counts.data = np.log1p(counts.data)
        return counts

    @cached_property
    def _shares(self) -> csr_array:
        """The share of each entity in the mentions of each passage."""
        counts = self.graph.counts
        totals = np.asarray(counts.sum(axis=1)).ravel()
        return (diags_array(1 / np.where(totals > 0, totals, 1)) @ counts).tocsr()

    @cached_property
    def _walk(self) -> Walk:
        return Walk.over(undirected(self._shares, self.graph.adjacent), _DAMPING)


def _columns(matrix: csr_array, row: int) -> list[int]:
    columns: list[int] = matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]].tolist()
    return columns
