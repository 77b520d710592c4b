"""Split an index into shards by document, and compare their merged answers with the index's own.

Each shard is a snapshot of its documents with its own vectors, BM25 index and entity graph. A
coordinator knows the nodes, the names and the merged statistics, and asks the shards for the rest.
Two cores cannot run eight shards at once, so a question asks them one after another, and the time
of the slowest shard counts. Times are CPU times: with eight measurements per question, one of them
would nearly always meet an interruption by another process.

`python benchmarks/scale.py` runs this for the largest index, or:

    python benchmarks/scale.py --step shards INDEX CHUNKS VECTORS
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array, vstack

from e2graphrag_integrations import E2GraphRAG, HybridStrategy
from e2graphrag_integrations._utils.arrays import sum_by_key
from e2graphrag_integrations.graph.entity_graph import EntityGraph
from e2graphrag_integrations.graph.pagerank import PersonalizedPageRank
from e2graphrag_integrations.retrieval.pipeline import retrieve
from e2graphrag_integrations.retrieval.result import RetrievalResult
from e2graphrag_integrations.retrieval.strategy import Query
from e2graphrag_integrations.search.bm25 import BM25Index, CorpusStatistics
from e2graphrag_integrations.search.dense import DenseIndex, NodeSearch
from e2graphrag_integrations.snapshot.build import build_snapshot
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from goals import Goal
from runs import percentiles, timed
from synthetic import Corpus, Floats

SHARDS = 8
QUESTIONS = 200
EXACT_QUESTIONS = 50
"""Number of questions for which the slow exact search is run."""

WARM_UP = 20
UNLIMITED = 1 << 60
EXPANSIONS = (
    "lists, and the first expansion of PageRank",
    "second expansion of PageRank",
    "third expansion of PageRank",
)
LISTS = EXPANSIONS[0]
LINKS = "title links"
LINKED = "relevance of the linked chunks"
WORDS = "words of the best nodes"
ROUNDS = (*EXPANSIONS, LINKS, LINKED, WORDS)
"""The requests that a question sends to the shards, one after another."""


def shard_of(document_id: str, shards: int) -> int:
    """Return the shard of a document: the hash of its id, so that it needs no table."""
    digest = hashlib.blake2b(document_id.encode(), digest_size=8).digest()
    return int.from_bytes(digest) % shards


class Clock:
    """Seconds that each shard works for one question, shape (rounds, shards)."""

    def __init__(self, shards: int) -> None:
        self.seconds = np.zeros((len(ROUNDS), shards))
        self.expansions = 0
        """Number of expansions that have begun."""

    @contextmanager
    def measure(self, round_: str, shard: int) -> Iterator[None]:
        start = time.thread_time()
        try:
            yield
        finally:
            self.seconds[ROUNDS.index(round_), shard] += time.thread_time() - start


@dataclass(frozen=True, eq=False)
class Statistics:
    """What the shards must share so that their scores are comparable.

    Attributes:
        words: The number of windows, their mean length, and how many contain each word.
        entity_weights: Total weight of each entity in all chunks, by which PageRank divides.
        chunk_weights: Total weight of all entities in each chunk. A shard knows that of its own.
    """

    words: CorpusStatistics
    entity_weights: NDArray[np.float64]
    chunk_weights: NDArray[np.float64]

    @classmethod
    def of(cls, bm25: BM25Index, pagerank: PersonalizedPageRank) -> Self:
        postings = bm25.postings
        doc_freq = np.diff(postings.counts.indptr).tolist()
        frequencies = dict(zip(postings.vocabulary, doc_freq, strict=True))
        sums = [np.asarray(pagerank.chunk_entities.sum(axis=axis)).ravel() for axis in (0, 1)]
        of_entities, of_chunks = (np.where(each > 0, each, 1) for each in sums)
        words = CorpusStatistics(bm25.n_texts, bm25.mean_length, frequencies)
        return cls(words, of_entities, of_chunks)


@dataclass(frozen=True, eq=False)
class Shard:
    """One shard, and the rows of its windows, nodes and chunks in the order of all documents."""

    number: int
    snapshot: Snapshot
    windows: NDArray[np.int64]
    nodes: NDArray[np.int64]
    chunks: NDArray[np.int64]
    entities: NDArray[np.int64]
    """The row of each of all entities in the shard's graph; -1 if it is not there."""
    bm25: BM25Index
    pagerank: PersonalizedPageRank

    @property
    def dense(self) -> DenseIndex:
        assert isinstance(self.snapshot.dense, DenseIndex)  # noqa: S101 - narrows the type
        return self.snapshot.dense

    def mebibytes(self) -> dict[str, int]:
        """Return the size of the arrays that answer questions."""
        graph, dense = self.snapshot.graph, self.dense
        sizes = {
            "vectors": dense.vectors.nbytes,
            "quantized vectors": dense.vectors.size,
            "BM25": nbytes(self.bm25.postings.counts) + self.bm25.lengths.nbytes,
            "entity graph": nbytes(graph.postings) + nbytes(graph.edges),
            "PageRank": nbytes(self.pagerank.chunk_entities) + nbytes(self.pagerank.entity_chunks),
        }
        return {name: size >> 20 for name, size in sizes.items()}


def nbytes(matrix: csr_array | csc_array) -> int:
    return int(matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes)


def build_shard(
    rag: E2GraphRAG, whole: Snapshot, number: int, shards: int, merged: Statistics
) -> Shard:
    """Build the snapshot of a shard from the rows of its documents, as for an index of its own."""
    own = np.asarray([shard_of(id_, shards) == number for id_ in whole.documents])
    ids = list(compress(whole.documents, own.tolist()))
    snapshot = build_snapshot(rag._store, ids)  # noqa: SLF001 - no public access
    of_nodes = own[whole.nodes.document]
    chunks = np.flatnonzero(of_nodes[whole.chunk_nodes])
    index = snapshot.graph.index
    entities = np.asarray([index.get(name, -1) for name in whole.subjects.names])
    shard = Shard(
        number,
        snapshot,
        np.flatnonzero(of_nodes[whole.dense.window_nodes]),
        np.flatnonzero(of_nodes),
        chunks,
        entities,
        replace(snapshot.bm25, corpus=merged.words, max_doc_freq=whole.bm25.max_doc_freq // shards),
        pagerank_with(merged, whole.personalized_pagerank, chunks),
    )
    shard.dense.search_windows(shard.dense.vectors[0], 10)  # trains its IVF lists
    return shard


def pagerank_with(
    merged: Statistics, whole: PersonalizedPageRank, chunks: NDArray[np.int64]
) -> PersonalizedPageRank:
    """Return PageRank of a shard's chunks with the weights that the merged statistics give.

    Its entities have the rows of all entities.
    """
    rows = whole.chunk_entities[chunks]
    result = PersonalizedPageRank(rows, rows.T.tocsr())
    vars(result)["_sums"] = merged.chunk_weights[chunks], merged.entity_weights
    return result


@dataclass(frozen=True, eq=False)
class Router:
    """The shards, and for each window and chunk of all documents its shard and its row there."""

    shards: Sequence[Shard]
    windows: tuple[NDArray[np.int64], NDArray[np.int64]]
    chunks: tuple[NDArray[np.int64], NDArray[np.int64]]
    clocks: list[Clock] = field(default_factory=list)

    @classmethod
    def to(cls, shards: Sequence[Shard]) -> Self:
        return cls(
            shards,
            _places([shard.windows for shard in shards]),
            _places([shard.chunks for shard in shards]),
            [Clock(len(shards))],
        )

    def measure(self, round_: str, shard: Shard) -> Any:
        return self.clocks[-1].measure(round_, shard.number)

    def split(self, windows: Any) -> Iterator[tuple[Shard, Any, Any]]:
        """Yield each shard of some windows, their places in the argument, and their rows there."""
        return self._split(self.windows, windows)

    def split_chunks(self, chunks: Any) -> Iterator[tuple[Shard, Any, Any]]:
        """Yield the same for chunks."""
        return self._split(self.chunks, chunks)

    def _split(self, places: Any, items: Any) -> Iterator[tuple[Shard, Any, Any]]:
        owners, rows = (column[items] for column in places)
        for shard in self.shards:
            own = np.flatnonzero(owners == shard.number)
            if len(own):
                yield shard, own, rows[own]


def _places(parts: Sequence[NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    size = sum(map(len, parts))
    owners, rows = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    for number, part in enumerate(parts):
        owners[part], rows[part] = number, np.arange(len(part))
    return owners, rows


def _best(parts: Sequence[tuple[Any, Any]], count: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the best of several rankings; the earlier row wins ties."""
    rows, scores = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((rows, -scores))[:count]
    return rows[order], scores[order]


def _ascending(parts: Sequence[tuple[Any, Any]]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the rows and values of several shards, ordered by row."""
    rows, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(rows)
    return rows[order], values[order]


class ShardedDense(NodeSearch):
    """Asks all shards for their nearest windows. Cosines need no statistics."""

    def __init__(self, router: Router, window_nodes: NDArray[np.int64]) -> None:
        self.window_nodes = window_nodes
        self._router = router

    def search_windows(
        self, query: Floats, count: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        parts = []
        for shard in self._router.shards:
            mask = None if allowed is None else allowed[shard.nodes]
            with self._router.measure(LISTS, shard):
                rows, cosines = shard.dense.search_windows(query, count, mask)
            parts.append((shard.windows[rows], cosines))
        return _best(parts, count)

    def cosines(self, query: Floats, windows: NDArray[np.integer[Any]]) -> Any:
        cosines = np.zeros(len(windows))
        for shard, places, rows in self._router.split(windows):
            with self._router.measure(WORDS, shard):
                cosines[places] = shard.dense.cosines(query, rows)
        return cosines


class ShardedBM25:
    """Asks all shards for their best windows. IDFs are those of all documents."""

    def __init__(self, router: Router, whole: BM25Index) -> None:
        self._router = router
        self.idf = whole.idf
        self.doc_freq = whole.doc_freq
        self.texts_with = whole.texts_with
        self.idf_of_unique = whole.idf_of_unique
        self.has_frequent = whole.has_frequent
        self.reference_score = whole.reference_score

    def search(self, terms: Any, count: int, allowed: Any = None, **options: Any) -> Any:
        parts = []
        for shard in self._router.shards:
            mask = None if allowed is None else allowed[shard.windows]
            with self._router.measure(LISTS, shard):
                rows, scores = shard.bm25.search(terms, count, mask, **options)
            parts.append((shard.windows[rows], scores))
        return _best(parts, count)

    def score_rows(self, terms: Any, rows: Any, **options: Any) -> Any:
        scores = np.zeros(len(rows), dtype=np.float32)
        for shard, places, own in self._router.split(rows):
            with self._router.measure(LINKED, shard):
                scores[places] = shard.bm25.score_rows(terms, own, **options)
        return scores

    def saturations(self, terms: Sequence[str], rows: Any) -> Any:
        values = np.zeros((len(terms), len(rows)), dtype=np.float32)
        for shard, places, own in self._router.split(rows):
            with self._router.measure(WORDS, shard):
                known = [place for place, term in enumerate(terms) if shard.bm25.idf(term)]
                found = shard.bm25.saturations([terms[place] for place in known], own)
            values[np.ix_(known, places)] = found
        return values


@dataclass(frozen=True, eq=False)
class ShardedPageRank(PersonalizedPageRank):
    """Grows a subgraph in all shards, one request per expansion, and iterates in it.

    Each shard sends its share of the best chunks, so they may differ from the best of all.
    """

    router: Router | None = None

    def expand(
        self, entities: Any, weights: Any, max_chunks: int, damping: float, allowed: Any
    ) -> Any:
        self._router.clocks[-1].expansions += 1
        parts = []
        for shard in self._router.shards:
            mask = None if allowed is None else allowed[shard.chunks]
            with self._router.measure(self._round, shard):
                share = max_chunks // len(self._router.shards)
                chunks, scores = shard.pagerank.expand(entities, weights, share, damping, mask)
            parts.append((shard.chunks[chunks], scores))
        return _ascending(parts)

    def spread(self, chunks: Any, scores: Any) -> Any:
        parts = []
        for shard, places, rows in self._router.split_chunks(chunks):
            with self._router.measure(self._round, shard):
                parts.append(shard.pagerank.spread(rows, scores[places]))
        entities, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
        return sum_by_key(entities, weights, self.chunk_entities.shape[1])

    def rows_of(self, chunks: Any) -> Any:
        parts, order = [], []
        for shard, places, rows in self._router.split_chunks(chunks):
            with self._router.measure(self._round, shard):
                parts.append(shard.pagerank.rows_of(rows))
            order.append(places)
        return vstack(parts).tocsr()[np.argsort(np.concatenate(order))]

    @property
    def _round(self) -> str:
        return EXPANSIONS[(self._router.clocks[-1].expansions - 1) % len(EXPANSIONS)]

    @property
    def _router(self) -> Router:
        assert self.router is not None  # noqa: S101 - a field after one with a default
        return self.router

    def chunks_of(self, entity: int) -> Any:
        parts = []
        for shard in self._router.shards:
            with self._router.measure(LISTS, shard):
                parts.append(shard.chunks[shard.pagerank.chunks_of(entity)])
        return np.sort(np.concatenate(parts))

    def entities_of(self, chunk: int) -> Any:
        owner, row = (int(column[chunk]) for column in self._router.chunks)
        with self._router.measure(LINKS, self._router.shards[owner]):
            return self._router.shards[owner].pagerank.entities_of(row)


class ShardedGraph:
    """Asks all shards for the chunks of an entity."""

    def __init__(self, router: Router, whole: EntityGraph) -> None:
        self.names = whole.names
        self.named = whole.named
        self.index = whole.index
        self._router = router

    def chunks(self, entity: int) -> Any:
        rows, counts = [], []
        for shard in self._router.shards:
            own = int(shard.entities[entity])
            if own >= 0:
                with self._router.measure(LINKS, shard):
                    chunks, frequency = shard.snapshot.graph.chunks(own)
                rows.append(shard.chunks[chunks])
                counts.append(frequency)
        return _ascending(list(zip(rows, counts, strict=True)))


def sharded(whole: Snapshot, router: Router, merged: Statistics) -> Snapshot:
    """Return a snapshot with the directory of the whole index that searches the shards."""
    graph: Any = ShardedGraph(router, whole.graph)
    dense = ShardedDense(router, whole.dense.window_nodes)
    pagerank = whole.personalized_pagerank
    result = replace(whole, dense=dense, graph=graph)
    vars(result)["bm25"] = ShardedBM25(router, whole.bm25)
    matrices = pagerank.chunk_entities, pagerank.entity_chunks  # for their shapes and frequencies
    sharded_pagerank = ShardedPageRank(*matrices, exact_limit=0, router=router)
    vars(sharded_pagerank)["_sums"] = merged.chunk_weights, merged.entity_weights
    vars(result)["personalized_pagerank"] = sharded_pagerank
    vars(result)["subjects"] = whole.subjects
    return result


def exact(whole: Snapshot) -> Snapshot:
    """Return the snapshot without approximations."""
    vectors = np.ascontiguousarray(whole.dense.vectors)
    flat = DenseIndex(vectors, whole.dense.window_nodes, exact_limit=UNLIMITED)
    result = replace(whole, dense=flat)
    pagerank = replace(whole.personalized_pagerank, exact_limit=UNLIMITED)
    vars(result)["personalized_pagerank"] = pagerank
    vars(result)["bm25"] = replace(whole.bm25, max_doc_freq=UNLIMITED)
    vars(result)["subjects"] = whole.subjects
    return result


def ask(
    rag: E2GraphRAG, snapshot: Snapshot, question: str, strategy: HybridStrategy | None = None
) -> RetrievalResult:
    components = rag._index.components  # noqa: SLF001 - no public access
    query = Query(question, vector=components.embedder.embed_query(question))
    return retrieve(query, strategy or HybridStrategy(), snapshot, rag._store, components)  # noqa: SLF001


def time_question(rag: E2GraphRAG, snapshot: Snapshot, question: str) -> float:
    """Return the CPU seconds of a question without its embedding."""
    components = rag._index.components  # noqa: SLF001 - no public access
    query = Query(question, vector=components.embedder.embed_query(question))
    start = time.thread_time()
    retrieve(query, HybridStrategy(), snapshot, rag._store, components)  # noqa: SLF001
    return time.thread_time() - start


def measure_shards(rag: E2GraphRAG, corpus: Corpus) -> dict[str, Any]:
    """Build the shards of an index, and compare their answers with those of one index."""
    import faiss

    faiss.omp_set_num_threads(1)
    whole = rag._session.snapshot()  # noqa: SLF001 - no public access
    merged, merging = timed(lambda: Statistics.of(whole.bm25, whole.personalized_pagerank))
    shards, seconds = [], []
    for number in range(SHARDS):
        shard, duration = timed(
            lambda number=number: build_shard(rag, whole, number, SHARDS, merged)
        )
        shards.append(shard)
        seconds.append(duration)
    router = Router.to(shards)
    snapshot = sharded(whole, router, merged)
    questions = corpus.questions(QUESTIONS)
    one_index = time_one_index(rag, whole, questions)
    times = time_shards(rag, snapshot, router, questions)
    chunks = np.asarray([len(shard.chunks) for shard in shards])
    directory = [
        *(getattr(whole.nodes, name).nbytes for name in ("document", "level", "first_leaf")),
        whole.dense.window_nodes.nbytes,
        sum(map(len, whole.subjects.names)),
        sum(map(len, merged.words.doc_freq)) + 8 * len(merged.words.doc_freq),
        merged.entity_weights.nbytes,
    ]
    return {
        "shards": SHARDS,
        "chunks of the largest shard relative to the mean": round(chunks.max() / chunks.mean(), 3),
        "seconds to build a shard": round(float(np.mean(seconds)), 1),
        "seconds to merge the statistics": round(merging, 1),
        "MiB per shard": shards[0].mebibytes(),
        "MiB of the directory": sum(directory) >> 20,
        "ms of one index": one_index,
        **times,
        "recall": compare(rag, whole, snapshot, questions[:EXACT_QUESTIONS]),
        "recall if each shard is scored alone": recall_alone(whole, router, questions),
    }


def shard_goals(result: Mapping[str, Any]) -> list[Goal]:
    recall = result["recall"]["shards against one index: results, top 10"]
    return [
        Goal(f"{result['shards']} shards: results, top 10, against one index", recall, min=0.98)
    ]


def time_one_index(rag: E2GraphRAG, whole: Snapshot, questions: Sequence[str]) -> dict[str, float]:
    for question in questions[:WARM_UP]:
        ask(rag, whole, question)
    return percentiles([time_question(rag, whole, question) for question in questions])


def time_shards(
    rag: E2GraphRAG, snapshot: Snapshot, router: Router, questions: Sequence[str]
) -> dict[str, Any]:
    """Return the times of a question: of the slowest shard, the merge, and their sum."""
    for question in questions[:WARM_UP]:
        ask(rag, snapshot, question)
    slowest, means, merges, singles = [], [], [], []
    for question in questions:
        router.clocks.append(Clock(len(router.shards)))
        total = time_question(rag, snapshot, question)
        seconds = router.clocks[-1].seconds
        slowest.append(float(seconds.max(axis=1).sum()))  # each round waits for its slowest shard
        means.append(float(seconds.sum(axis=0).mean()))
        merges.append(total - float(seconds.sum()))
        singles += seconds.sum(axis=0).tolist()
    both = [a + b for a, b in zip(slowest, merges, strict=True)]
    rounds = np.asarray([clock.seconds.max(axis=1) for clock in router.clocks[-len(questions) :]])
    expected = float(np.quantile(singles, 0.5 ** (1 / len(router.shards)))) * 1000
    return {
        "ms of the slowest shard plus the merge": percentiles(both),
        "ms of the slowest shard": percentiles(slowest),
        "ms of the merge": percentiles(merges),
        "ms of a shard": percentiles(singles),
        "ms of the mean shard": percentiles(means),
        "p50 ms of the slowest shard by round": {
            name: round(float(np.median(rounds[:, number])) * 1000, 3)
            for number, name in enumerate(ROUNDS)
        },
        "p50 ms of the slowest shard, if shards were independent": round(expected, 3),
    }


def compare(
    rag: E2GraphRAG, whole: Snapshot, snapshot: Snapshot, questions: Sequence[str]
) -> dict[str, float]:
    """Return the mean share of the expected rows that are found, by list.

    The shards are compared with one index, and both with exact search.
    """
    without_links = HybridStrategy(title_link_weight=0, bridge_weight=0)
    exhaustive = exact(whole)
    found: dict[str, list[float]] = {}

    def record(name: str, rows: Sequence[Any], expected: Sequence[Any]) -> None:
        if len(expected):
            share = len(set(rows) & set(expected)) / len(expected)
            found.setdefault(name, []).append(share)

    for question in questions:
        versions = {"one index": whole, "shards": snapshot, "exact": exhaustive}
        results = {name: ask(rag, one, question) for name, one in versions.items()}
        lists = {name: _lists(one) for name, one in results.items()}
        ids = {name: [node.node_id for node in one.nodes] for name, one in results.items()}
        for first, second in (("shards", "one index"), ("shards", "exact"), ("one index", "exact")):
            record(f"{first} against {second}: results, top 10", ids[first], ids[second])
            for listing in ("dense", "bm25", "entities"):
                for count in (10, 200):
                    tops = [lists[name].get(listing, [])[:count] for name in (first, second)]
                    record(f"{first} against {second}: {listing}, top {count}", *tops)
        pair = [
            [node.node_id for node in ask(rag, one, question, without_links).nodes]
            for one in (snapshot, whole)
        ]
        record("shards against one index without title links: results, top 10", *pair)
    return {name: round(float(np.mean(values)), 4) for name, values in found.items()}


def recall_alone(whole: Snapshot, router: Router, questions: Sequence[str]) -> dict[str, float]:
    """Return the recall of BM25 if each shard computes scores as if it were alone."""
    alone = Router.to([replace(shard, bm25=shard.snapshot.bm25) for shard in router.shards])
    shards = ShardedBM25(alone, whole.bm25)
    recalls: dict[str, list[float]] = {}
    for question in questions:
        terms = Query(question).terms
        for count in (10, 200):
            expected, _ = whole.bm25.search(terms, count, idf_power=1.0)
            rows, _ = shards.search(terms, count, idf_power=1.0)
            share = len(np.intersect1d(rows, expected)) / max(1, len(expected))
            recalls.setdefault(f"bm25, top {count}", []).append(share)
    return {name: round(float(np.mean(values)), 4) for name, values in recalls.items()}


def _lists(result: RetrievalResult) -> dict[str, list[str]]:
    """Return the ranked nodes of each list of the trace."""
    return {name: [node.node_id for node in one] for name, one in result.trace.lists.items()}
