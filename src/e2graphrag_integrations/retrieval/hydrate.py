"""Hydration: from ranked candidates to result nodes with texts, spans and metadata."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate
from typing import Any, Protocol

import numpy as np

from e2graphrag_integrations.embedders.calibration import clipped_cosine
from e2graphrag_integrations.entities.matching.linking import Link
from e2graphrag_integrations.pages import copied, merge_metadata
from e2graphrag_integrations.retrieval.result import RetrievedNode
from e2graphrag_integrations.retrieval.results.selection import children
from e2graphrag_integrations.retrieval.strategy import Candidate, Query
from e2graphrag_integrations.retrieval.trace import RelevanceKind, Trace, measure
from e2graphrag_integrations.snapshot.metadata import MetadataRecords
from e2graphrag_integrations.snapshot.snapshot import NodeTable, Snapshot
from e2graphrag_integrations.store.records import StaleSnapshotError
from e2graphrag_integrations.types import Node, Segment, Sentences, Span


class NodeSource(Protocol):
    """Reads the stored nodes of a snapshot."""

    def nodes_at(self, generation: str, ids: Sequence[str]) -> Mapping[str, Node]:
        """Return nodes by id, as stored in the generation that a snapshot was built from.

        Raises:
            StaleSnapshotError: If a newer generation has replaced that one, or a node is missing.
        """

    def mentions_at(self, generation: str, ids: Sequence[str]) -> Mapping[str, Sentences]:
        """Return the mentions in each sentence of chunks, by the id of the chunk.

        Raises:
            StaleSnapshotError: For the same reasons as `nodes_at`.
        """


class NodeReader:
    """Reads the stored nodes for one retrieval, each at most once, and measures the time.

    Args:
        snapshot: The index in memory.
        source: The stored nodes.
    """

    def __init__(self, snapshot: Snapshot, source: NodeSource) -> None:
        self.snapshot = snapshot
        self.texts: dict[str, str] = {}
        """Texts of the nodes read so far, by node id."""
        self.candidates: dict[str, Candidate] = {}
        """The best candidate of each hydrated node, by node id."""
        self.timings: dict[str, float] = {}
        """Seconds per step; `read` adds its own."""
        self._source = source
        self._nodes: dict[str, Node] = {}

    def read(self, rows: Sequence[int]) -> list[Node]:
        """Return the stored nodes at the given rows, in the same order."""
        ids = [self.snapshot.nodes.ids[row] for row in rows]
        missing = [id_ for id_ in dict.fromkeys(ids) if id_ not in self._nodes]
        self.timings.setdefault("read", 0.0)
        if missing:
            with measure("read", self.timings), self._naming_documents(rows):
                found = self._source.nodes_at(self.snapshot.generation, missing)
            self._nodes |= found
            self.texts |= {id_: node.text for id_, node in found.items()}
        return [self._nodes[id_] for id_ in ids]

    def texts_of(self, rows: Sequence[int]) -> list[str]:
        """Return the texts of the nodes at the given rows, in the same order."""
        return [node.text for node in self.read(rows)]

    def read_mentions(self, rows: Sequence[int]) -> list[Sentences]:
        """Return the mentions in the chunks at the given rows, in the same order."""
        ids = [self.snapshot.nodes.ids[row] for row in rows]
        with measure("read", self.timings), self._naming_documents(rows):
            found = self._source.mentions_at(self.snapshot.generation, list(dict.fromkeys(ids)))
        edits, documents = self.snapshot.edits, self.snapshot.documents
        owners = self.snapshot.nodes.document
        return [
            edits.read_in(documents[int(owners[row])], found[id_])
            for row, id_ in zip(rows, ids, strict=True)
        ]

    @contextmanager
    def _naming_documents(self, rows: Sequence[int]) -> Iterator[None]:
        """Add the documents of the changed nodes to a `StaleSnapshotError`."""
        try:
            yield
        except StaleSnapshotError as error:
            ids, documents = self.snapshot.nodes.ids, self.snapshot.nodes.document
            changed = [row for row in rows if ids[row] in error.node_ids]
            error.documents = frozenset(documents[changed].tolist())
            raise


def hydrate(
    candidates: Sequence[Candidate], links: Sequence[Link], reader: NodeReader
) -> list[RetrievedNode]:
    """Return the candidates as result nodes.

    Args:
        candidates: Candidates, best first.
        links: Entities in the question; each result node lists those that it mentions.
        reader: The texts and the snapshot.
    """
    rows = [one.row for one in candidates]
    mentioned = _mentioned_entities(reader.snapshot, rows, links)
    tags = _tags(reader.snapshot, rows)
    columns = (reader.read(rows), mentioned, tags)
    found = []
    for candidate, node, entities, own in zip(candidates, *columns, strict=True):
        best = reader.candidates.setdefault(node.id, candidate)
        relevance = clipped(best.relevance or 0.0)
        result = _result_node(candidate, reader.snapshot, node, entities, relevance)
        found.append(replace(result, tags=own) if own else result)
    return found


def _tags(snapshot: Snapshot, rows: Sequence[int]) -> list[tuple[str, ...]]:
    if snapshot.tags is None:
        return [()] * len(rows)
    from e2graphrag_integrations.snapshot.tags import tags_of_nodes

    return tags_of_nodes(snapshot, np.asarray(rows, dtype=np.int64))


def hydrate_in_batches(
    candidates: Iterable[Candidate], links: Sequence[Link], reader: NodeReader, first_batch: int
) -> Iterator[RetrievedNode]:
    """Yield the candidates as result nodes, reading texts in batches as the consumer needs them.

    Args:
        candidates: Candidates, best first.
        links: Entities in the question.
        reader: The texts and the snapshot.
        first_batch: Number of characters of candidate text in the first batch. Each later batch is
            four times as large as the one before.
    """
    batch: list[Candidate] = []
    size = 0
    for candidate in candidates:
        batch.append(candidate)
        if candidate.best_span is not None:
            size += candidate.best_span.end - candidate.best_span.start
        if size >= first_batch:
            yield from hydrate(batch, links, reader)
            batch, size, first_batch = [], 0, 4 * first_batch
    if batch:
        yield from hydrate(batch, links, reader)


def clipped(relevance: float) -> float:
    """Return a relevance limited to [0, 1]."""
    return min(1.0, max(0.0, float(relevance)))


def common_metadata(snapshot: Snapshot, row: int) -> dict[str, Any]:
    """Return the metadata of a node, merged from all segments under it."""
    return merge_metadata(_metadata_under(snapshot, row))


def _result_node(
    candidate: Candidate,
    snapshot: Snapshot,
    node: Node,
    entities: tuple[str, ...],
    relevance: float,
) -> RetrievedNode:
    row = candidate.row
    document = int(snapshot.nodes.document[row])
    metadata = _metadata_under(snapshot, row)
    text, best_span = node.text, None
    span = Span(node.start, node.end)
    if candidate.best_span is not None and not node.level:
        start, end = candidate.best_span
        best_span = Span(node.start + start, node.start + end)
        if candidate.is_window:
            text, span = text[start:end], best_span
    below = children(row, snapshot) if node.level else ()
    return RetrievedNode(
        node_id=node.id,
        text=text,
        level=node.level,
        document_id=node.document_id,
        start=node.start,
        end=node.end,
        spans=(span,),
        score=float(candidate.score),
        found_by=candidate.found_by,
        reasons=candidate.reasons,
        entities=entities,
        title=snapshot.titles[document],
        metadata=merge_metadata(metadata),
        segments=_segments(snapshot, document, node, metadata),
        position=int(snapshot.nodes.position[row]),
        parent_id=node.parent_id,
        child_ids=tuple(snapshot.nodes.ids[child] for child in below),
        best_span=best_span,
        relevance=relevance,
        language=snapshot.languages[document],
        previous_id=_neighbor(snapshot.nodes, row, -1),
        next_id=_neighbor(snapshot.nodes, row, 1),
        segment_start=snapshot.records.sections.start_at(document, node.start),
    )


def _neighbor(nodes: NodeTable, row: int, step: int) -> str | None:
    """Return the id of the node before (-1) or after (1) on the same level of the document."""
    other = row + step
    if not 0 <= other < len(nodes.ids):
        return None
    is_neighbor = (
        nodes.document[other] == nodes.document[row]
        and nodes.level[other] == nodes.level[row]
        and nodes.position[other] == nodes.position[row] + step  # a scope may hide nodes between
    )
    return nodes.ids[other] if is_neighbor else None


def _mentioned_entities(
    snapshot: Snapshot, rows: Sequence[int], links: Sequence[Link]
) -> list[tuple[str, ...]]:
    """Return, for each node, the linked entities that its chunks mention."""
    leaves = np.stack([snapshot.nodes.first_leaf[rows], snapshot.nodes.end_leaf[rows]])
    mentioned: list[list[str]] = [[] for _ in rows]
    index = snapshot.graph.index
    for name in (link.entity for link in links if link.entity in index):
        first, end = snapshot.graph.chunks(index[name])[0].searchsorted(leaves)
        for position in np.flatnonzero(first < end).tolist():
            mentioned[position].append(name)
    return [tuple(names) for names in mentioned]


def _metadata_under(snapshot: Snapshot, row: int) -> list[dict[str, Any]]:
    """Return the metadata of each segment under a node, without the document id."""
    records = snapshot.records
    under = records.indices[int(records.starts[row]) : int(records.ends[row])]
    return [_without_id(records, i) for i in under.tolist()]


def _segments(
    snapshot: Snapshot, document: int, node: Node, metadata: Sequence[Mapping[str, Any]]
) -> tuple[Segment, ...]:
    if len(metadata) == 1:
        return (Segment(node.start, node.end, metadata[0]),)
    records = snapshot.records
    return tuple(
        Segment(start, end, _without_id(records, record))
        for start, end, record in records.sections.within(document, node.start, node.end)
    )


def _without_id(records: MetadataRecords, record: int) -> dict[str, Any]:
    own = records.values[record].items()
    return {key: copied(value) for key, value in own if key != records.id_key}


def add_relevance(
    nodes: Sequence[RetrievedNode], query: Query, trace: Trace, reader: NodeReader
) -> tuple[list[RetrievedNode], Trace]:
    """Return result nodes with the relevance that hydration could not set, clipped to [0, 1].

    The trace gets the meaning of the relevance (`Trace.relevance_kind`).

    If the strategy does not give a node's relevance, it is the calibrated cosine between the
    question and the node's best window. A question without a vector is not embedded for this
    purpose: the relevance is then the fraction of the question's names that the node mentions.

    Args:
        nodes: Nodes that `reader` has read.
        query: The question; its vector may be None.
        trace: The names in the question that are in the index, and those that are not.
        reader: The candidates of the nodes, and the snapshot.
    """
    candidates = [reader.candidates[node.node_id] for node in nodes]
    trace = replace(trace, relevance_kind=_kind(query, candidates))
    missing = [place for place, one in enumerate(candidates) if one.relevance is None]
    if not missing:
        return list(nodes), trace
    if query.vector is not None:
        rows = np.asarray([candidates[place].row for place in missing])
        cosines = reader.snapshot.dense.best_cosines(query.vector, rows).tolist()
        values = [query.calibration(cosine) for cosine in cosines]
    else:
        names = {one.entity for one in trace.links} | set(trace.unlinked)
        values = [len(nodes[place].entities) / max(1, len(names)) for place in missing]
    completed = list(nodes)
    for place, value in zip(missing, values, strict=True):
        completed[place] = replace(nodes[place], relevance=clipped(value))
    return completed, trace


def _kind(query: Query, candidates: Sequence[Candidate]) -> RelevanceKind:
    if query.vector is not None:
        return "cosine" if query.calibration is clipped_cosine else "calibrated"
    return "names" if any(one.relevance is None for one in candidates) else "words"


def falling_relevance(nodes: Sequence[RetrievedNode]) -> list[float]:
    """Return the relevance of each node, raised to that of the nodes ranked below it.

    The result never increases, so sorting by it keeps the ranking, and a cutoff removes its end.
    """
    relevance = [node.relevance for node in reversed(nodes)]
    return [*accumulate(relevance, max)][::-1]
