"""`ShardHost`: one shard, in the process or actor that holds its snapshot."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.concurrency import process_lock
from e2graphrag_integrations.engine import E2GraphRAG
from e2graphrag_integrations.errors import (
    ClosedError,
    IndexGoneError,
    IndexingError,
    StoppedError,
)
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.reports import CostEstimate, DeleteReport, IndexReport
from e2graphrag_integrations.retrieval.hydrate import NodeSource
from e2graphrag_integrations.search.bm25 import BM25Index, CorpusStatistics, Weights
from e2graphrag_integrations.search.dense import DenseIndex
from e2graphrag_integrations.search.fusion import Floats, top_rows
from e2graphrag_integrations.snapshot.snapshot import Preparation, Snapshot, no_field
from e2graphrag_integrations.snapshot.tags import assign_tags
from e2graphrag_integrations.store.location import index_exists, shown_path
from e2graphrag_integrations.store.queue import count_unfinished
from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.text.tags import TagSet
from e2graphrag_integrations.types import Node, Sentences, SourceDocument

T = TypeVar("T")

_KEPT = 3
"""Number of generations that a shard can answer from: that of the questions in flight, and newer
ones that the coordinator has not merged yet."""

NO_FACTORS: Weights = {}
"""The factors of words that all count the same."""

Ranking = tuple[IntArray, NDArray[Any]]
"""Windows of the shard, best first, and their scores."""


@dataclass(frozen=True)
class ShardSpec:
    """How to open a shard.

    Attributes:
        location: The index file, or the URL of the schema.
        arguments: The arguments of `E2GraphRAG.open`.
    """

    location: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class WordCounts:
    """How often words occur in a shard; those of several shards add up.

    Attributes:
        n_texts: Number of windows.
        n_terms: Number of terms in all windows.
        doc_freq: Number of windows that contain each term.
    """

    n_texts: int
    n_terms: int
    doc_freq: Mapping[str, int]


@dataclass(frozen=True)
class TermQuery:
    """A search for words.

    Attributes:
        terms: The terms.
        count: Maximum number of windows.
        idf_power, weights: See `BM25Index.search`.
    """

    terms: Sequence[str]
    count: int
    idf_power: float
    weights: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Directory:
    """What the coordinator keeps of a shard: all but its vectors, words and texts.

    Attributes:
        snapshot: The snapshot with vectors of no dimension and without BM25.
        words: The counts of its words.
    """

    snapshot: Snapshot
    words: WordCounts


@dataclass(frozen=True)
class TermStatistics:
    """The statistics of all shards that a request needs.

    Attributes:
        version: The generations of all shards, from which the statistics are.
        n_texts: Number of windows.
        mean_length: Mean number of terms in a window.
        doc_freq: Number of windows that contain each term of the request.
    """

    version: str
    n_texts: int
    mean_length: float
    doc_freq: dict[str, int]


@dataclass(frozen=True)
class Written:
    """The result of a write to a shard.

    Attributes:
        report: The report.
        error: The error if all documents failed; those in other shards may be indexed.
    """

    report: IndexReport
    error: IndexingError | None = None


@dataclass(frozen=True, eq=False)
class ShardBM25(BM25Index):
    """Scores the texts of a shard as one index of all texts would.

    `corpus` must be given, with the frequencies of all terms that are asked for. Whether a term is
    too frequent to retrieve texts by itself also depends on the corpus, not on the shard.
    """

    def search(
        self,
        terms: Sequence[str],
        count: int,
        allowed: NDArray[np.bool_] | None = None,
        *,
        idf_power: float = 0.0,
        weights: Weights = NO_FACTORS,
    ) -> tuple[IntArray, NDArray[np.float32]]:
        """Return the best texts of the shard; see `BM25Index.search`."""
        known = [term for term in terms if self.doc_freq(term)]
        if self._n_texts_of_corpus > self.max_doc_freq:
            by_rarity = sorted(known, key=self.doc_freq)
            return self._search_pruned(by_rarity, count, allowed, idf_power, weights)
        scores = self._score_all(known, idf_power, weights)
        best = top_rows(scores, count, allowed)
        return best, scores[best]

    def doc_freq(self, term: str) -> int:
        """Return the number of texts of all shards that contain a term."""
        return 0 if self.corpus is None else self.corpus.doc_freq.get(term, 0)

    def _max_weight(self, term: str) -> np.float32:
        is_here = any(term in part.postings.columns for part in self.parts)
        return super()._max_weight(term) if is_here else np.float32(0)


class StaleShardError(Exception):
    """Raised internally when a shard no longer has the generation that a question reads."""


class ShardHost:
    """Answers the requests of a coordinator to one shard. Safe for concurrent use by threads.

    Requests name the generation that the question reads. The rows of nodes and windows are those
    of the shard. The index is opened at the first request, which thus has the error if it cannot
    be opened: an actor that cannot be created would be created again and again.

    Args:
        spec: How to open the shard.
    """

    def __init__(self, spec: ShardSpec) -> None:
        self._spec = spec
        self._opened: E2GraphRAG | None = None
        self._is_closed = False
        self._opening = process_lock()  # guards the two attributes above
        self._lock = process_lock()  # guards the two below
        self._held: OrderedDict[str, Snapshot] = OrderedDict()
        self._bm25: OrderedDict[tuple[str, str], ShardBM25] = OrderedDict()

    @property
    def _index(self) -> E2GraphRAG:
        """The index.

        Raises:
            IndexGoneError: If it does not exist.
            ClosedError: If the host was closed.
        """
        if (opened := self._opened) is not None:
            return opened
        with self._opening:
            location = self._spec.location
            if self._is_closed:
                raise ClosedError(f"{shown_path(location)} is closed")
            if self._opened is None:
                if not index_exists(location):  # an empty one in its place would answer, too
                    raise IndexGoneError(f"{shown_path(location)} does not exist")
                self._opened = E2GraphRAG.open(location, **self._spec.arguments)
            return self._opened

    def close(self) -> None:
        """Close the index."""
        with self._opening:
            self._is_closed = True
        if self._opened is not None:
            self._opened.close()

    # What the coordinator merges

    def generation(self) -> str:
        """Return the name of the newest generation."""
        return self._index.store.generation

    def prepare(self) -> str:
        """Prepare the newest generation for questions, and return its name."""
        return self._newest().generation

    def directory(self) -> Directory:
        """Return what the coordinator keeps of the newest generation."""
        snapshot = self._newest()
        bm25 = snapshot.bm25
        words = WordCounts(bm25.n_texts, int(bm25.lengths.sum()), _frequencies(bm25))
        return Directory(without_search(snapshot), words)

    def chunk_tags(self, generation: str, tag_set: TagSet) -> NDArray[np.int16]:
        """Return the tags of each chunk; see `assign_tags`."""
        snapshot = self._at(generation)
        if snapshot.tag_set.to_json() == tag_set.to_json():
            return snapshot.chunk_tags
        return assign_tags(replace(snapshot, tags=tag_set, prebuilt_bm25=snapshot.bm25))

    # Search

    def search_windows(
        self, generation: str, allowed: NDArray[np.bool_] | None, query: FloatArray, count: int
    ) -> Ranking:
        """Return the nearest windows and their cosines; see `NodeSearch`."""
        return self._at(generation).dense.search_windows(query, count, allowed)

    def cosines(self, generation: str, query: FloatArray, windows: IntArray) -> Floats:
        """Return the cosines of some windows."""
        return self._at(generation).dense.exact_cosines(query, windows)

    def cosines_of(self, generation: str, queries: FloatArray, windows: IntArray) -> Floats:
        """Return the cosines of some vectors and windows, shape (windows, queries)."""
        return self._at(generation).dense.cosines_of(queries, windows)

    def search_terms(
        self,
        generation: str,
        allowed: NDArray[np.bool_] | None,
        statistics: TermStatistics,
        query: TermQuery,
    ) -> Ranking:
        """Return the best windows by BM25 and their scores; see `BM25Index.search`."""
        bm25 = self._with(generation, statistics)
        return bm25.search(
            query.terms, query.count, allowed, idf_power=query.idf_power, weights=query.weights
        )

    def saturations(
        self, generation: str, statistics: TermStatistics, terms: Sequence[str], rows: IntArray
    ) -> NDArray[np.float32]:
        """Return BM25's saturated frequency of terms in some windows, shape (terms, rows)."""
        return self._with(generation, statistics).saturations(terms, rows)

    def contain(self, generation: str, terms: Sequence[str], rows: IntArray) -> NDArray[np.bool_]:
        """Return which windows contain which terms, shape (terms, rows)."""
        return self._at(generation).bm25.contain(terms, rows)

    def texts_with(self, generation: str, term: str) -> IntArray:
        """Return the windows that contain a term, ascending."""
        return self._at(generation).bm25.texts_with(term)

    # Texts

    def nodes_at(self, generation: str, ids: Sequence[str]) -> tuple[dict[str, Node], set[str]]:
        """Return those of some nodes that the shard has, and the ids of those that changed since.

        Args:
            generation: The generation that the question reads.
            ids: Ids of nodes of any shard.
        """
        return self._read_at(generation, ids, lambda _, nodes: nodes)

    def mentions_at(
        self, generation: str, ids: Sequence[str]
    ) -> tuple[dict[str, Sentences], set[str]]:
        """Return the mentions in the sentences of those chunks that the shard has; see `nodes_at`.

        The second value contains the ids of the chunks that changed since.
        """
        return self._read_at(
            generation, ids, lambda store, nodes: store.mentions_at(store.generation, list(nodes))
        )

    def _read_at(
        self, generation: str, ids: Sequence[str], read: Callable[[Store, dict[str, Node]], T]
    ) -> tuple[T, set[str]]:
        snapshot = self._at(generation)  # may wait for a build, so before the transaction
        store = self._index.store
        with store.read_transaction():
            nodes = store.nodes(ids)
            found = read(store, nodes)
            changed = _changed(store, snapshot, nodes.values())
        return found, {id_ for id_, node in nodes.items() if node.document_id in changed}

    # The index and its store

    def read_index(self, method: str) -> Any:
        """Return the result of a method of the index that only reads, and has no arguments."""
        return getattr(self._index, method)()

    def read_store(self, method: str, *arguments: Any) -> Any:
        """Return the result of a method of the store that only reads."""
        result = getattr(self._index.store, method)(*arguments)
        return list(result) if method == "all_nodes" else result

    def size(self) -> int:
        """Return the size of the index in bytes."""
        return self._index.store.database.size()

    def unfinished(self) -> int:
        """Return the number of documents that wait to be indexed."""
        return count_unfinished(self._index.store)

    # Writes, which may be repeated if it is unknown whether they succeeded

    def estimate(
        self, documents: Sequence[SourceDocument], updated: Sequence[SourceDocument]
    ) -> CostEstimate:
        """Return the cost of `add` and `update`; see `E2GraphRAG.estimate`."""
        return self._index.estimate(documents, update=updated)

    def add(self, documents: Sequence[SourceDocument], options: Mapping[str, Any]) -> Written:
        """Index documents; see `E2GraphRAG.add`."""
        return self._written(documents, lambda: self._index.add(documents, **options))

    def update(self, documents: Sequence[SourceDocument], options: Mapping[str, Any]) -> Written:
        """Replace documents; see `E2GraphRAG.update`."""
        return self._written(documents, lambda: self._index.update(documents, **options))

    def resume(self, options: Mapping[str, Any]) -> Written:
        """Index the documents in the queue; see `E2GraphRAG.resume`."""
        return self._written(None, lambda: self._index.resume(**options))

    def _written(
        self, documents: Sequence[SourceDocument] | None, write: Callable[[], IndexReport]
    ) -> Written:
        """Return the report of a write, also if all its documents failed; None means the queue."""
        ids = None if documents is None else {one.id for one in documents}
        try:
            return Written(write())
        except StoppedError:
            raise
        except IndexingError as error:
            failed = {
                one.id: one.reason or ""
                for one in self._index.status()
                if one.status == "failed" and (ids is None or one.id in ids)
            }
            return Written(IndexReport(failed=failed), error)

    def delete(self, ids: Sequence[str]) -> DeleteReport:
        """Delete documents; those that do not exist are left out."""
        known = self._index.queued_ids().union(self._index.store.hashes_and_languages(ids)[0])
        return self._index.delete(id_ for id_ in ids if id_ in known)

    def put_tag_set(self, tag_set: TagSet) -> None:
        """Set the tags."""
        with self._index.write_lock():
            self._index.store.put_tag_set(tag_set)

    def stop(self) -> None:
        """Stop indexing."""
        if self._opened is not None:
            self._opened.stop()

    # Generations

    def _newest(self) -> Snapshot:
        snapshot = self._index.read_snapshot(_with_words)
        with self._lock:
            snapshot = self._held.setdefault(snapshot.generation, snapshot)
            self._held.move_to_end(snapshot.generation)
            while len(self._held) > _KEPT:
                self._held.popitem(last=False)
        return snapshot

    def _at(self, generation: str) -> Snapshot:
        """Return the snapshot of a generation.

        Raises:
            StaleShardError: If the shard has changed and no longer has it.
        """
        snapshot = self._held.get(generation)
        if snapshot is None:  # the actor was restarted, or is a replica
            snapshot = self._newest()
        if snapshot.generation != generation:
            raise StaleShardError(generation)
        return snapshot

    def _with(self, generation: str, statistics: TermStatistics) -> ShardBM25:
        """Return BM25 of a generation with the statistics of all shards."""
        key = generation, statistics.version
        with self._lock:
            found = self._bm25.get(key)
        if found is None:
            own = self._at(generation).bm25
            corpus = CorpusStatistics(statistics.n_texts, statistics.mean_length, {})
            found = ShardBM25(own.parts, own.n_texts, own.max_doc_freq, corpus)
            with self._lock:
                found = self._bm25.setdefault(key, found)
                while len(self._bm25) > _KEPT:
                    self._bm25.popitem(last=False)
        known: Any = found.corpus
        known.doc_freq.update(statistics.doc_freq)
        return found


def _with_words(snapshot: Snapshot, source: NodeSource) -> Snapshot:
    """Return a snapshot whose words are read: later, the texts may have changed."""
    del source
    _ = snapshot.bm25
    return snapshot


def _changed(store: Store, snapshot: Snapshot, nodes: Iterable[Node]) -> set[str]:
    """Return the ids of the documents of nodes that have changed since a snapshot."""
    if store.generation == snapshot.generation:
        return set()
    stamps = dict(zip(snapshot.documents, snapshot.stamps, strict=True))
    ids = list({node.document_id for node in nodes})
    headers = store.document_headers(ids)
    return set(ids) - {one.id for one in headers if stamps.get(one.id) == one.stamp}


def without_search(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot without its vectors, words, and files, which can be sent and merged."""
    window_nodes = np.asarray(snapshot.dense.window_nodes)
    return replace(
        snapshot,
        dense=DenseIndex(np.empty((len(window_nodes), 0), dtype=np.float32), window_nodes),
        bm25_factory=no_bm25,
        mentions=snapshot.unedited_mentions,
        mentions_factory=None,
        prebuilt_bm25=None,
        tags_factory=assign_tags,
        title_forms=None,
        segments=None,
        field_factory=no_field,
        preparation=Preparation(),
    )


def no_bm25(snapshot: Snapshot) -> BM25Index:
    """Raise an error: the words are in the shards."""
    raise TypeError(f"the BM25 index of {snapshot.generation} is in its shards")


def _frequencies(bm25: BM25Index) -> dict[str, int]:
    """Return the number of texts that contain each term."""
    frequencies: dict[str, int] = {}
    for part in bm25.parts:
        counts = np.diff(part.postings.counts.indptr)
        for column, dropped in part.dropped.items():
            counts[column] -= dropped
        for term, count in zip(part.postings.vocabulary, counts.tolist(), strict=True):
            if count:
                frequencies[term] = frequencies.get(term, 0) + count
    return frequencies
