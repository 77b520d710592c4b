"""The snapshot: arrays derived from the store, all that retrieval reads but the texts.

Nodes are ordered by document, level and position; chunks have an order of their own among
themselves, in which every node covers a contiguous range.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray, exclusive_sums, smallest_int_type
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.entities.aliases import Aliases
from e2graphrag_integrations.entities.normalize import normal_form
from e2graphrag_integrations.errors import CorruptStoreError
from e2graphrag_integrations.graph.entity_graph import (
    EntityGraph,
    MentionTable,
    graph_from_mentions,
    mention_table,
)
from e2graphrag_integrations.graph.pagerank import PersonalizedPageRank
from e2graphrag_integrations.graph.titles import TitledEntities, with_title
from e2graphrag_integrations.search.bm25 import BM25Index, build_bm25
from e2graphrag_integrations.search.dense import DenseIndex, NodeSearch
from e2graphrag_integrations.store.records import (
    DocumentHead,
    StoredNode,
    canonical_json,
    decode_sentences,
)
from e2graphrag_integrations.store.sqlite import Store
from e2graphrag_integrations.types import Node, Segment, Sentences, Span

logger = logging.getLogger(__name__)

_BATCH_NODES = 10_000
"""Nodes whose rows are read at once."""

_COLUMNS = 64
"""Keys of metadata whose values are remembered, once a filter named them."""


@dataclass(frozen=True, eq=False)
class NodeTable:
    """One row a node; `first_leaf` and `end_leaf` are its half-open range of chunks."""

    ids: Sequence[str]
    document: IntArray
    level: IntArray
    position: IntArray
    start: IntArray
    end: IntArray
    first_leaf: IntArray
    end_leaf: IntArray


NODE_ARRAYS = tuple(one.name for one in fields(NodeTable) if one.name != "ids")


@dataclass(frozen=True, eq=False)
class MetadataRecords:
    """The distinct metadata that nodes stand under, for filters.

    A node stands under one record for each segment it touches, and under its document's own where
    some of it lies in no segment.

    Attributes:
        values: Each record with its document's id under `id_key`.
        first, last: Half-open range of each node's records in `of_node`.
        of_node: Indices into `values`.
        id_key: The one key that is not the user's.
    """

    values: Sequence[Mapping[str, Any]]
    first: IntArray
    last: IntArray
    of_node: IntArray
    id_key: str = "document_id"

    @lazy
    def column(self) -> Callable[[str, object], tuple[Sequence[Any], IntArray]]:
        """Return what gives the distinct values of all records under a key, and which each has.

        It takes the key, and what stands for the value of records without it.
        """
        return lru_cache(_COLUMNS)(self._column)

    def _column(self, key: str, missing: object) -> tuple[Sequence[Any], IntArray]:
        rows: dict[Any, int] = {}
        values: list[Any] = []
        of_record = np.empty(len(self.values), dtype=smallest_int_type(len(self.values)))
        for at, record in enumerate(self.values):
            value = record.get(key, missing)
            same = _same(value) if value is not missing else missing
            if same not in rows:
                rows[same] = len(values)
                values.append(value)
            of_record[at] = rows[same]
        return values, of_record


def _same(value: Any) -> Any:
    """Return what is equal for values that no filter tells apart: 1, 1.0 and True are three."""
    if value is None or isinstance(value, str | int | float):
        return type(value), value
    try:
        return canonical_json(value)
    except (TypeError, ValueError, RecursionError):  # not JSON: like no other
        return id(value)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Everything derived, of one generation of the store.

    Attributes:
        generation: Name of the state.
        made_with: Settings and fingerprints of the models.
        documents, titles, stamps: Of the documents, by id; stamps change with all they hold.
        nodes: Of all documents.
        chunk_nodes: Row of each chunk among the nodes.
        words: Words of each chunk.
        graph: Of entities.
        mentions: What the graph is the sum of; None where nothing is made from this snapshot.
        dense: Finds windows by their vectors.
        window_spans: Of each window in its node's text.
        records: Metadata of the nodes.
        lexical_from: Makes the index of words.
        known_lexical: The index of words, where it was made with the rest.
    """

    generation: str
    made_with: Mapping[str, str]
    documents: Sequence[str]
    titles: Sequence[str | None]
    nodes: NodeTable
    chunk_nodes: IntArray
    words: IntArray
    graph: EntityGraph
    dense: NodeSearch
    window_spans: IntArray
    records: MetadataRecords
    lexical_from: Callable[[Snapshot], BM25Index]
    stamps: Sequence[str] = ()
    mentions: MentionTable | None = None
    known_lexical: BM25Index | None = None

    @lazy
    def lexical(self) -> BM25Index:
        """Return the words of all windows, indexed at first use."""
        return self.lexical_from(self) if self.known_lexical is None else self.known_lexical

    @property
    def lexical_at_hand(self) -> BM25Index | None:
        """The words of all windows, if they were indexed already."""
        found: BM25Index | None = vars(self).get("lexical", self.known_lexical)
        return found

    @lazy
    def subjects(self) -> TitledEntities:
        """Return the entities, those that only titles name among them."""
        return TitledEntities.of(self.graph, self.titles)

    @lazy
    def walk(self) -> PersonalizedPageRank:
        """Return the steps of a walk between entities and chunks, made at first use."""
        return PersonalizedPageRank.of(self.graph, self.subjects, self.document_of_chunk)

    @lazy
    def document_of_chunk(self) -> IntArray:
        """Return the document of each chunk, ascending."""
        documents: IntArray = self.nodes.document[self.chunk_nodes]
        return documents

    @lazy
    def leaves(self) -> NDArray[np.bool_]:
        """Return a mask over nodes: which are chunks."""
        mask: NDArray[np.bool_] = self.nodes.level == 0
        return mask

    @lazy
    def aliases(self) -> Aliases:
        """Return the other names of entities, gathered when a name is not found as it is."""
        only_titles = len(self.subjects.names) - len(self.graph.names)
        named = np.concatenate([self.graph.named, np.ones(only_titles, dtype=np.bool_)])
        return Aliases(self.subjects.names, named, self.walk.held)

    @lazy
    def neighborhoods(self) -> IntArray:
        """Return where the windows of each level of a document begin, and where the last end."""
        nodes = self.dense.nodes  # by document, level and position
        document, level = self.nodes.document[nodes], self.nodes.level[nodes]
        other = (np.diff(document) != 0) | (np.diff(level) != 0)
        return np.concatenate([[0], np.flatnonzero(other) + 1, [len(nodes)]])

    @lazy
    def words_before(self) -> IntArray:
        """Return the words in all chunks before each; one entry more than chunks."""
        return exclusive_sums(self.words)


def build_snapshot(store: Store, ids: Sequence[str] | None = None) -> Snapshot:
    """Derive the snapshot from one state of the store.

    Args:
        store: The truth.
        ids: Of the documents to take, ascending; None takes all.

    Raises:
        CorruptStoreError: If a row does not match its checksum, or points to one that is gone.
    """
    try:
        return _build(store, ids)
    except KeyError as error:
        raise CorruptStoreError(
            f"{store.path}: a row points to one that is not there ({error}); run verify(), then "
            "restore a backup or index again"
        ) from error


def _build(store: Store, ids: Sequence[str] | None) -> Snapshot:
    with store.consistent():
        heads = store.heads(ids)
        columns = _Columns(heads)
        names, mentions = mention_table(columns.read(store))
        generation, made_with = store.generation, store.manifest()
    table = columns.table()
    return Snapshot(
        generation=generation,
        made_with=made_with,
        documents=[head.id for head in heads],
        titles=[head.title for head in heads],
        nodes=table,
        chunk_nodes=np.flatnonzero(table.level == 0).astype(np.int64),
        words=_joined(columns.words),
        graph=graph_from_mentions(names, mentions),
        dense=DenseIndex(columns.vectors, _joined(columns.owners)),
        window_spans=np.concatenate([np.empty((0, 2), dtype=np.int64), *columns.spans]),
        records=_records(heads, columns.segments, table),
        lexical_from=lambda snapshot: bm25_from_store(store, snapshot),
        stamps=[head.stamp for head in heads],
        mentions=mentions,
    )


class _Columns:
    """Gathers the arrays of a snapshot, some documents at a time: rows are held no longer."""

    def __init__(self, heads: Sequence[DocumentHead]) -> None:
        self._heads = heads
        self._documents = {head.id: i for i, head in enumerate(heads)}
        self._tables: list[NodeTable] = []
        self._filled = 0
        self._nodes = 0
        self._chunks = 0
        self.vectors = np.empty((0, 0), dtype=np.float32)
        self.owners: list[IntArray] = []
        self.spans: list[IntArray] = []
        self.words: list[IntArray] = []
        self.segments: dict[str, list[Segment]] = {}

    def read(self, store: Store) -> Iterator[list[list[tuple[str, bool]]]]:
        """Yield what each chunk adds to the graph; take everything else on the way."""
        forms: dict[str, str] = {}  # documents of one index have most of their names in common
        for heads in self._batches():
            stored = list(store.all_nodes([head.id for head in heads]))
            check_counts(store.path, heads, stored)
            self._add(stored, store.cached(key for s in stored for _, key in s.windows))
            for head in heads:
                if head.segments:
                    text = store.document(head.id).text
                    self.segments[head.id] = _without_gaps(head.segments, text)
            chunks = [s.content_key for s in stored if s.node.level == 0]
            extractions = store.cached(chunks)
            if self._nodes >= _BATCH_NODES:  # long enough to wonder
                whole = sum(head.nodes for head in self._heads)
                logger.info("deriving the snapshot: %d of %d nodes", self._nodes, whole)
            yield from (graph_contribution(decode_sentences(extractions[c]), forms) for c in chunks)

    def _batches(self) -> Iterator[list[DocumentHead]]:
        batch: list[DocumentHead] = []
        nodes = 0
        for head in self._heads:
            batch.append(head)
            nodes += head.nodes
            if nodes >= _BATCH_NODES:
                yield batch
                batch, nodes = [], 0
        if batch:
            yield batch

    def _add(self, stored: Sequence[StoredNode], vectors: Mapping[bytes, bytes]) -> None:
        table, chunks = node_table([s.node for s in stored], self._documents)
        self._tables.append(
            replace(
                table,
                first_leaf=table.first_leaf + self._chunks,
                end_leaf=table.end_leaf + self._chunks,
            )
        )
        self.words.append(np.asarray([stored[i].words for i in chunks], dtype=np.int64))
        owners = np.repeat(np.arange(len(stored)), [len(s.windows) for s in stored])
        self.owners.append(owners + self._nodes)
        self.spans.append(window_spans(s.windows for s in stored))
        for s in stored:
            for _, key in s.windows:
                vector = np.frombuffer(vectors[key], dtype="<f4")
                if not self._filled:
                    windows = sum(head.windows for head in self._heads)
                    self.vectors = np.empty((windows, len(vector)), dtype=np.float32)
                self.vectors[self._filled] = vector
                self._filled += 1
        self._nodes += len(stored)
        self._chunks += len(chunks)

    def table(self) -> NodeTable:
        """Return the table of all nodes."""
        columns = {
            name: _joined([getattr(one, name) for one in self._tables]) for name in NODE_ARRAYS
        }
        return NodeTable(ids=[id_ for one in self._tables for id_ in one.ids], **columns)


def _joined(arrays: Sequence[IntArray]) -> NDArray[np.int64]:
    return np.concatenate([np.empty(0, dtype=np.int64), *arrays])


def bm25_from_store(store: Store, snapshot: Snapshot) -> BM25Index:
    """Return the index of the words of a snapshot's windows.

    Raises:
        NodeGoneError: If the store has another state by now.
    """

    def texts() -> Iterator[str]:
        ids = snapshot.nodes.ids
        for first in range(0, len(ids), _BATCH_NODES):
            some = ids[first : first + _BATCH_NODES]
            stored = store.nodes_at(snapshot.generation, some)
            yield from (stored[id_].text for id_ in some)

    with store.consistent():
        return build_bm25(window_texts(snapshot, texts()))


def window_texts(snapshot: Snapshot, texts: Iterable[str]) -> Iterator[str]:
    """Yield each window as it is searched by words, its document's title before it.

    Args:
        snapshot: Whose windows.
        texts: Of its nodes.
    """
    windows = exclusive_sums(np.bincount(snapshot.dense.nodes, minlength=len(snapshot.nodes.ids)))
    for node, text in enumerate(texts):
        title = snapshot.titles[int(snapshot.nodes.document[node])]
        spans = snapshot.window_spans[windows[node] : windows[node + 1]].tolist()
        yield from (with_title(title, text[start:end]) for start, end in spans)


def check_counts(path: str, heads: Sequence[DocumentHead], stored: Sequence[StoredNode]) -> None:
    """Notice rows that are missing: their checksums have gone with them.

    Raises:
        CorruptStoreError: If some are.
    """
    nodes = Counter(s.node.document_id for s in stored)
    windows: Counter[str] = Counter()
    for s in stored:
        windows[s.node.document_id] += len(s.windows)
    for head in heads:
        if (nodes[head.id], windows[head.id]) != (head.nodes, head.windows):
            raise CorruptStoreError(
                f"{path}: document {head.id!r} has {nodes[head.id]} of {head.nodes} nodes and "
                f"{windows[head.id]} of {head.windows} vectors; run verify(), then restore a "
                "backup or index again"
            )


def graph_contribution(
    sentences: Sentences, known: dict[str, str] | None = None
) -> list[list[tuple[str, bool]]]:
    """Return what a chunk's mentions add to the graph: normal forms, sentence by sentence.

    Args:
        sentences: Of the chunk.
        known: Normal forms found before, added to.
    """
    forms = {} if known is None else known
    for sentence in sentences:
        for mention in sentence:
            if mention.entity not in forms:
                forms[mention.entity] = normal_form(mention.entity)
    return [
        [(forms[m.entity], m.named) for m in sentence if forms[m.entity]] for sentence in sentences
    ]


def node_table(nodes: Sequence[Node], documents: Mapping[str, int]) -> tuple[NodeTable, IntArray]:
    """Return the table of nodes, given by document, level and position, and the rows of chunks."""
    rows = {node.id: i for i, node in enumerate(nodes)}
    chunk_nodes = [i for i, node in enumerate(nodes) if node.level == 0]
    first = np.full(len(nodes), len(nodes), dtype=np.int64)
    last = np.zeros(len(nodes), dtype=np.int64)
    first[chunk_nodes] = np.arange(len(chunk_nodes))
    last[chunk_nodes] = np.arange(len(chunk_nodes)) + 1
    for i, node in enumerate(nodes):  # levels ascend within a document: children come first
        if node.parent_id is not None:
            parent = rows[node.parent_id]
            first[parent] = min(first[parent], first[i])
            last[parent] = max(last[parent], last[i])
    table = NodeTable(
        ids=[node.id for node in nodes],
        document=np.asarray([documents[node.document_id] for node in nodes], dtype=np.int64),
        level=np.asarray([node.level for node in nodes], dtype=np.int64),
        position=np.asarray([node.position for node in nodes], dtype=np.int64),
        start=np.asarray([node.start for node in nodes], dtype=np.int64),
        end=np.asarray([node.end for node in nodes], dtype=np.int64),
        first_leaf=first,
        end_leaf=last,
    )
    return table, np.asarray(chunk_nodes, dtype=np.int64)


def window_spans(windows: Iterable[Sequence[tuple[Span, Any]]]) -> IntArray:
    """Return the span of each window of each node, shape (windows, 2)."""
    spans = [span for node in windows for span, _ in node]
    return np.asarray(spans, dtype=np.int64).reshape(-1, 2)


def _without_gaps(segments: Sequence[Segment], text: str) -> list[Segment]:
    """Stretch segments over the white space between them, which belongs to no leaf.

    Those of nothing but white space, such as empty pages, are left out: no leaf lies in them.
    """
    segments = [s for s in segments if text[s.start : s.end].strip()]
    if not segments:
        return []
    ends = [segment.start for segment in segments[1:]] + [len(text)]
    first = segments[0]
    start = 0 if not text[: first.start].strip() else first.start
    stretched = [first._replace(start=start), *segments[1:]]
    return [
        segment._replace(end=end) if not text[segment.end : end].strip() else segment
        for segment, end in zip(stretched, ends, strict=True)
    ]


def _records(
    heads: Sequence[DocumentHead], segments: Mapping[str, Sequence[Segment]], table: NodeTable
) -> MetadataRecords:
    numbers: dict[str, int] = {}
    values: list[Mapping[str, Any]] = []
    firsts, of_node = [0], []

    def number(record: Mapping[str, Any]) -> int:
        key = canonical_json(record)
        if key not in numbers:
            numbers[key] = len(values)
            values.append(record)
        return numbers[key]

    own: dict[int, list[tuple[int, int, int]]] = {}
    base: dict[int, int] = {}
    for i, head in enumerate(heads):
        record = {**head.metadata, "document_id": head.id}
        base[i] = number(record)
        own[i] = [
            (s.start, s.end, number({**record, **s.metadata})) for s in segments.get(head.id, ())
        ]
    for document, start, end in zip(table.document, table.start, table.end, strict=True):
        of_node.extend(_records_of(own[document], base[document], int(start), int(end)))
        firsts.append(len(of_node))
    bounds = np.asarray(firsts, dtype=np.int64)
    return MetadataRecords(values, bounds[:-1], bounds[1:], np.asarray(of_node, dtype=np.int64))


def _records_of(
    segments: Sequence[tuple[int, int, int]], base: int, start: int, end: int
) -> list[int]:
    found: dict[int, None] = {}
    covered = start
    # Segments are in order and do not overlap: those that can touch the node lie side by side.
    lowest = bisect_left(segments, start, key=lambda s: s[1])
    for first, last, record in segments[lowest:]:
        if first >= end:
            break
        if first < end and start < last:
            found[record] = None
            if first > covered:
                found[base] = None
            covered = max(covered, last)
    if covered < end:
        found[base] = None
    return list(found)
