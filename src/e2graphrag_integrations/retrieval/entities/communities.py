"""Listing the communities of the entity graph, and the sentences that their reports are made from.

A community is visible under a filter only if the filter allows all chunks under it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from itertools import accumulate, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.display import block, heading, values_table
from e2graphrag_integrations._utils.validation import check_int
from e2graphrag_integrations.entities.subjects import split_subjects
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.graph.communities import (
    MAX_SEED,
    MIN_ENTITIES,
    Communities,
    Evidence,
    community_id,
)
from e2graphrag_integrations.graph.entity_graph import row_entries
from e2graphrag_integrations.retrieval.entities.sentence_text import sentence_span
from e2graphrag_integrations.retrieval.filters.where import Where, metadata_filter
from e2graphrag_integrations.retrieval.hydrate import NodeReader, NodeSource
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.store.tables.community_reports import ReportSource
from e2graphrag_integrations.text.broken_words import join_sentences, on_one_line
from e2graphrag_integrations.text.sentences import sentence_spans
from e2graphrag_integrations.types import Sentences, Span

_SHOWN_ENTITIES = 10
"""Number of entities in `top_entities`."""

_DIGITS = 9
"""Weights are compared up to this many decimals, so that the order of sums does not matter."""

_REPORT_CHUNKS = 10
"""Maximum number of chunks from which a report is made."""

_REPORT_CHARACTERS = 1_200
"""Number of characters of sentences of a chunk after which a report uses no more of them."""


@dataclass(frozen=True, slots=True)
class Community:
    """Entities that occur together more often than with others.

    Attributes:
        id: Id that depends only on the names of the entities.
        level: Level in the hierarchy; 0 is the coarsest.
        entities: Normal forms of the entities, those with the strongest edges within the community
            first.
        weight: Sum of the weights of the edges within the community.
        node_ids: Ids of the chunks under the community, those with the most weight first. In each,
            a sentence mentions at least two of the entities.
        document_ids: Ids of the documents of these chunks, in the same order.
        parent_id: Id of the smallest larger community that contains this one and is visible, or
            None.
        child_ids: Ids of the communities into which this one is divided on finer levels.
        report: What the chunks say about the entities; None if no reports were asked for.
    """

    id: str
    level: int
    entities: tuple[str, ...]
    weight: float
    node_ids: tuple[str, ...]
    document_ids: tuple[str, ...]
    parent_id: str | None = None
    child_ids: tuple[str, ...] = ()
    report: str | None = None

    @property
    def top_entities(self) -> tuple[str, ...]:
        """The ten entities with the strongest edges within the community."""
        return self.entities[:_SHOWN_ENTITIES]

    def to_dict(self) -> dict[str, Any]:
        """Return the community as JSON values."""
        values = asdict(self)
        return {name: list(one) if isinstance(one, tuple) else one for name, one in values.items()}

    def _repr_html_(self) -> str:
        values = {
            "level": self.level,
            "entities": self.entities,
            "chunks": len(self.node_ids),
            "documents": tuple(dict.fromkeys(self.document_ids)),
        } | ({} if self.report is None else {"report": self.report})
        return block(heading(", ".join(self.top_entities[:3])), values_table(values))


@dataclass(frozen=True, slots=True)
class CommunitySelection:
    """Which communities to list.

    Attributes:
        level: Level in the hierarchy; 0 is the coarsest.
        top: Maximum number of communities, those with the most weight first; None lists all.
        where: Metadata filter. A community is listed only if all chunks under it match.
        seed: Seed of the detection. Equal indexes have equal communities for equal seeds.

    Raises:
        InvalidInputError: If a number is out of range, or if `where` is invalid.
    """

    level: int = 0
    top: int | None = None
    where: Where | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_int("level", self.level, 0)
        check_int("seed", self.seed, 0, MAX_SEED)
        if self.top is not None:
            check_int("top", self.top)
        if self.where is not None:
            metadata_filter(self.where)


def select_communities(selection: CommunitySelection, snapshot: Snapshot) -> list[Community]:
    """Return the visible communities of a level, without reports, heaviest first.

    Raises:
        InvalidInputError: If the graph does not have the level, or if the filter fails.
    """
    found = snapshot.communities(int(selection.seed))
    if selection.level >= len(found.labels):
        raise InvalidInputError(
            f"level={selection.level} does not exist: the communities of this index have the "
            f"levels 0 to {len(found.labels) - 1}"
        )
    allowed = None
    if selection.where is not None:
        allowed = metadata_filter(selection.where)(snapshot)[snapshot.chunk_nodes]
    listing = _Listing(found, snapshot, allowed)
    return listing.of_level(int(selection.level), selection.top)


class _Listing:
    """Describes communities of one snapshot under one filter."""

    def __init__(
        self, found: Communities, snapshot: Snapshot, allowed: NDArray[np.bool_] | None
    ) -> None:
        self._found = found
        self._snapshot = snapshot
        self._allowed = allowed
        self._id = cache(self._compute_id)
        self._visible = cache(self._compute_visible)

    def of_level(self, level: int, top: int | None) -> list[Community]:
        evidence, members = self._found.evidence(level), self._found.members(level)
        weights = np.round(evidence.chunks.sum(axis=1), _DIGITS)
        order = np.lexsort((np.arange(len(members)), -weights)).tolist()
        listed = (
            label
            for label in order
            if len(members[label]) >= MIN_ENTITIES and self._is_visible(level, label)
        )
        return [
            self._community(level, label, evidence, float(weights[label]))
            for label in islice(listed, top)
        ]

    def _community(self, level: int, label: int, evidence: Evidence, weight: float) -> Community:
        snapshot, members = self._snapshot, self._found.members(level)[label]
        strengths = np.round(evidence.strengths[members], _DIGITS)
        by_strength = members[np.lexsort((members, -strengths))]
        chunks, of_chunk = row_entries(evidence.chunks, label)
        rows = snapshot.chunk_nodes[chunks[np.lexsort((chunks, -np.round(of_chunk, _DIGITS)))]]
        documents = dict.fromkeys(snapshot.nodes.document[rows].tolist())
        return Community(
            id=self._id(level, label),
            level=level,
            entities=tuple(snapshot.graph.names[row] for row in by_strength.tolist()),
            weight=round(weight, 6),
            node_ids=tuple(snapshot.nodes.ids[row] for row in rows.tolist()),
            document_ids=tuple(snapshot.documents[row] for row in documents),
            parent_id=self._parent(level, members),
            child_ids=tuple(self._children(level, members)),
        )

    def _is_visible(self, level: int, label: int) -> bool:
        return self._allowed is None or bool(self._visible(level)[label])

    def _compute_visible(self, level: int) -> NDArray[np.bool_]:
        """Return a mask of the communities of a level whose chunks are all allowed."""
        chunks = self._found.evidence(level).chunks
        hidden = chunks @ (~np.asarray(self._allowed)).astype(np.float64)
        return np.asarray(hidden == 0)

    def _parent(self, level: int, members: IntArray) -> str | None:
        for above in range(level - 1, -1, -1):
            label = int(self._found.labels[above][members[0]])
            if len(self._found.members(above)[label]) > len(members):
                return self._id(above, label) if self._is_visible(above, label) else None
        return None

    def _children(self, level: int, members: IntArray) -> Iterator[str]:
        for below in range(level + 1, len(self._found.labels)):
            labels = np.unique(self._found.labels[below][members]).tolist()
            if len(labels) > 1:
                parts = self._found.members(below)
                yield from (
                    self._id(below, label) for label in labels if len(parts[label]) >= MIN_ENTITIES
                )
                return

    def _compute_id(self, level: int, label: int) -> str:
        names = self._snapshot.graph.names
        return community_id([names[row] for row in self._found.members(level)[label].tolist()])


def communities_with_sources(
    selection: CommunitySelection, snapshot: Snapshot, source: NodeSource
) -> tuple[list[Community], list[ReportSource]]:
    """Return communities, and the sentences for the report of each; see `select_communities`.

    The sentences come from the ten chunks with the most weight, and are about 1,200 characters of
    each: those with the most entities of the community first.

    Raises:
        StaleSnapshotError: If the stored nodes are newer than the snapshot.
    """
    communities = select_communities(selection, snapshot)
    reader = NodeReader(snapshot, source)
    row_of = snapshot.nodes.row_of
    sources = []
    for community in communities:
        rows = [row_of[id_] for id_ in community.node_ids[:_REPORT_CHUNKS]]
        mentions = reader.read_mentions(rows)
        index = snapshot.graph.index
        members = np.asarray([index[entity] for entity in community.entities])
        texts, node_ids = [], []
        for node, row, sentences in zip(reader.read(rows), rows, mentions, strict=True):
            text = _sentences_about(node.text, sentences, _counts(snapshot, row, members))
            if text:
                texts.append(text)
                node_ids.append(node.id)
        sources.append(ReportSource(tuple(texts), tuple(node_ids)))
    return communities, sources


def _counts(snapshot: Snapshot, row: int, members: IntArray) -> dict[int, int]:
    """Return the number of members in each sentence of a chunk that has at least two."""
    rows = snapshot.sentences.of_chunks(snapshot.nodes.first_leaf[[row]])
    is_member = np.zeros(len(snapshot.graph.names), dtype=np.int64)
    is_member[members] = 1
    counts = np.asarray(rows.entities @ is_member)
    several = np.flatnonzero(counts >= MIN_ENTITIES)
    return {int(rows.numbers[place]): int(counts[place]) for place in several}


def _sentences_about(text: str, sentences: Sentences, counts: dict[int, int]) -> str:
    """Return the sentences that say most about the members in few words, in their order."""
    own, spans = split_subjects(sentences)[1], sentence_spans(text)
    members: dict[Span, int] = {}
    for number, count in counts.items():
        span = sentence_span(spans, own[number])
        members[span] = max(count, members.get(span, 0))
    ranked = sorted(
        members, key=lambda span: (-(members[span] - 1) / math.sqrt(span.end - span.start), span)
    )
    lengths = accumulate((span.end - span.start for span in ranked), initial=0)
    kept = [span for span, used in zip(ranked, lengths, strict=False) if used < _REPORT_CHARACTERS]
    return join_sentences(_clean(text, span) for span in sorted(kept))


def _clean(text: str, span: Span) -> str:
    return on_one_line(text[span.start : span.end])
