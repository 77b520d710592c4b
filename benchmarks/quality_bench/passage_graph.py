"""Passages, their sentences and the entities in them, as the graph baselines need them.

Names, passages and vectors are those of the index that the hybrid searches, so that a comparison
isolates the retrieval. In the protocol `field`, a passage begins with its title, as in `text`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

from e2graphrag_integrations import E2GraphRAG
from e2graphrag_integrations.entities.normalize import normal_form
from e2graphrag_integrations.entities.subjects import split_subjects
from e2graphrag_integrations.graph.titles import title_form
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.retrieval.strategy import Candidate, Query
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.store.records import decode_sentences
from e2graphrag_integrations.text.sentences import sentence_spans

Vector = NDArray[np.float64]

_ITERATIONS = 24
"""Power iterations of PageRank. With damping .5, the rest is below .5 ** 24."""

_BATCH = 1000
"""Chunks whose extractions are read at once."""


class Embeds(Protocol):
    """The part of an embedder that documents need."""

    def embed(self, texts: Sequence[str]) -> FloatArray: ...


@dataclass(frozen=True, eq=False)
class PassageGraph:
    """The passages of an index with their named entities.

    Attributes:
        documents: Id of the document of each passage; those of a document are adjacent.
        entities: Normal form of each entity.
        counts: Mentions of each entity in each passage, shape (passages, entities).
        sentences: Texts of the sentences that mention an entity.
        sentence_entities: 1 where a sentence mentions an entity, shape (sentences, entities).
        embedder: Embeds sentences and names.
    """

    documents: Sequence[str]
    entities: Sequence[str]
    counts: csr_array
    sentences: Sequence[str]
    sentence_entities: csr_array
    embedder: Embeds

    @classmethod
    def of(cls, rag: E2GraphRAG, embedder: Embeds) -> Self:
        """Read the passages of an index, in the order of its snapshot."""
        titles = {header.id: header.title for header in rag.store.document_headers()}
        rows: dict[str, int] = {}
        sentences: list[str] = []
        in_passages: list[tuple[int, int]] = []
        in_sentences: list[tuple[int, int]] = []
        snapshot = rag._session.snapshot()  # noqa: SLF001 - strategies get it anyway
        order = {snapshot.nodes.ids[row]: n for n, row in enumerate(snapshot.chunk_nodes.tolist())}
        chunks = [stored for stored in rag.store.all_nodes() if stored.node.level == 0]
        chunks.sort(key=lambda stored: order[stored.node.id])
        for number, stored in enumerate(chunks):
            if number % _BATCH == 0:
                batch = chunks[number : number + _BATCH]
                extractions = rag.store.cached(one.content_key for one in batch)
            title = titles[stored.node.document_id]
            prefix = f"{title}\n" if title else ""
            text = prefix + stored.node.text
            _, found = split_subjects(decode_sentences(extractions[stored.content_key]))
            mentions = [
                (form, mention.start + len(prefix))
                for sentence in found
                for mention in sentence
                if mention.named and (form := normal_form(mention.entity))
            ]
            if form := title_form(title):
                mentions.insert(0, (form, 0))
            spans = sentence_spans(text)
            starts = [span.start for span in spans]
            used: dict[int, int] = {}
            for form, start in mentions:
                entity = rows.setdefault(form, len(rows))
                in_passages.append((number, entity))
                place = max(0, bisect_right(starts, start) - 1)
                if place not in used:
                    used[place] = len(sentences)
                    sentences.append(text[spans[place].start : spans[place].end])
                in_sentences.append((used[place], entity))
        counts = _matrix(in_passages, (len(chunks), len(rows)))
        by_sentence = _matrix(in_sentences, (len(sentences), len(rows)))
        by_sentence.data[:] = 1
        return cls(
            [one.node.document_id for one in chunks],
            list(rows),
            counts,
            sentences,
            by_sentence,
            embedder,
        )

    @cached_property
    def index(self) -> dict[str, int]:
        """The row of each entity."""
        return {form: row for row, form in enumerate(self.entities)}

    @cached_property
    def adjacent(self) -> csr_array:
        """1 for adjacent passages of a document, shape (passages, passages)."""
        pairs = [
            pair
            for left, (one, other) in enumerate(pairwise(self.documents))
            if one == other
            for pair in ((left, left + 1), (left + 1, left))
        ]
        return _matrix(pairs, (len(self.documents),) * 2)

    @cached_property
    def entity_sentences(self) -> csr_array:
        """The transpose of `sentence_entities`."""
        return self.sentence_entities.T.tocsr()

    @cached_property
    def frequencies(self) -> NDArray[np.int64]:
        """The number of passages that mention each entity, shape (entities,)."""
        return np.bincount(self.counts.indices, minlength=len(self.entities))

    @cached_property
    def sentence_vectors(self) -> FloatArray:
        """Unit vectors of the sentences."""
        return _unit(self.embedder.embed(self.sentences))

    @cached_property
    def entity_vectors(self) -> FloatArray:
        """Unit vectors of the entities' names."""
        return _unit(self.embedder.embed(self.entities))

    def linked(self, query: Query) -> dict[int, float]:
        """Return the nearest entity of each name in the question, and its cosine.

        A name that is an entity is its own nearest entity, so the names of the entities are
        embedded only for other names.
        """
        forms = {normal_form(one.entity) for one in query.mentions if one.named} - {""}
        links: dict[int, float] = {}
        for form in sorted(forms):
            if form in self.index:
                entity, cosine = self.index[form], 1.0
            elif self.entities:
                cosines = self.entity_vectors @ _unit(self.embedder.embed([form]))[0]
                entity = int(np.argmax(cosines))
                cosine = float(cosines[entity])
            else:
                continue
            if cosine > links.get(entity, 0.0):
                links[entity] = cosine
        return links

    def cosines(self, query: Query, snapshot: Snapshot) -> Vector:
        """Return the cosine of the best window of each passage."""
        best = np.full(len(snapshot.nodes.ids), -1.0)
        windows, found = snapshot.dense.search_windows(
            query.unit_vector, len(snapshot.dense.window_nodes), snapshot.nodes.level == 0
        )
        np.maximum.at(best, snapshot.dense.window_nodes[windows], found)
        passages: Vector = best[snapshot.chunk_nodes]
        return passages


@dataclass(frozen=True, eq=False)
class Walk:
    """Personalized PageRank over passages and entities, passages first.

    Attributes:
        transitions: Probabilities of the steps; column j has those from node j.
        damping: Probability of following an edge instead of restarting.
    """

    transitions: csr_array
    damping: float

    @classmethod
    def over(cls, edges: csr_array, damping: float) -> Self:
        """Return the walk over undirected edges; `edges` is symmetric."""
        degrees = np.asarray(edges.sum(axis=0)).ravel()
        return cls((edges @ diags_array(1 / np.where(degrees > 0, degrees, 1))).tocsr(), damping)

    def scores(self, reset: Vector) -> Vector:
        """Return the probability of each node, given the weights of the nodes to restart at."""
        restart: Vector = reset / reset.sum()
        scores = restart
        for _ in range(_ITERATIONS):
            scores = (1 - self.damping) * restart + self.damping * (self.transitions @ scores)
        return scores


def undirected(weights: csr_array, between_passages: csr_array | None = None) -> csr_array:
    """Return the symmetric matrix of the edges between passages and entities.

    Args:
        weights: Weight of the edge between each passage and entity, shape (passages, entities).
        between_passages: Symmetric weights of the edges between passages.
    """
    passages, entities = weights.shape
    coo = weights.tocoo()
    parts = [(coo.row, coo.col + passages, coo.data), (coo.col + passages, coo.row, coo.data)]
    if between_passages is not None:
        own = between_passages.tocoo()
        parts.append((own.row, own.col, own.data))
    rows, columns, values = (np.concatenate(part) for part in zip(*parts, strict=True))
    size = passages + entities
    return csr_array((values, (rows, columns)), shape=(size, size))


def min_max(values: Vector) -> Vector:
    """Return the values scaled to [0, 1]."""
    if not len(values):
        return values
    spread = values.max() - values.min()
    scaled: Vector = (values - values.min()) / spread if spread > 0 else np.ones_like(values)
    return scaled


def ranked(scores: Vector, query: Query, snapshot: Snapshot) -> list[Candidate]:
    """Return the best `query.k` passages that the query allows."""
    rows = snapshot.chunk_nodes
    if query.allowed is not None:
        scores = np.where(query.allowed[rows], scores, -np.inf)
    best = np.argsort(-scores, kind="stable")[: query.k].tolist()
    return [
        Candidate(int(rows[chunk]), float(scores[chunk]), "local", ())
        for chunk in best
        if scores[chunk] > -np.inf
    ]


def _matrix(pairs: Sequence[tuple[int, int]], shape: tuple[int, int]) -> csr_array:
    """Return how often each pair of a row and a column occurs."""
    coordinates = np.asarray(pairs, dtype=np.int64).reshape(-1, 2).T
    matrix = csr_array((np.ones(len(pairs)), (coordinates[0], coordinates[1])), shape=shape)
    matrix.sum_duplicates()
    return matrix


def _unit(vectors: FloatArray) -> FloatArray:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: FloatArray = vectors / np.where(norms > 0, norms, 1)
    return unit
