"""Dense search and BM25 over all shards, for the strategies: as if there were one index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.concurrency import cached_method
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.search.bm25 import BM25Index, Weights
from e2graphrag_integrations.search.dense import NodeSearch
from e2graphrag_integrations.search.fusion import Floats
from e2graphrag_integrations.search.term_postings import TermPostings
from e2graphrag_integrations.shards.calls import Request, ShardCalls
from e2graphrag_integrations.shards.host import (
    NO_FACTORS,
    StaleShardError,
    TermQuery,
    TermStatistics,
)
from e2graphrag_integrations.shards.merging import ShardRows
from e2graphrag_integrations.store.records import StaleSnapshotError

_CACHED_TERMS = 256
"""Number of terms whose windows are remembered."""


@dataclass(frozen=True, eq=False)
class ShardRequests:
    """Requests to the shards of one merged generation.

    Attributes:
        calls: Sends them.
        rows: Where the rows are.
        generations: The generation of each shard.
    """

    calls: ShardCalls
    rows: ShardRows
    generations: tuple[str, ...]

    def ask(self, requests: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
        """Return the results by shard, given the method and the arguments after the generation.

        All of the shards are asked: a part of the rows would be a wrong result for the snapshot.

        Raises:
            ShardUnavailableError: If a shard does not answer, even if the question does without it.
            StaleSnapshotError: If a shard no longer has the generation.
        """
        wanted = {
            shard: Request(method, tuple(arguments), self.generations[shard])
            for shard, (method, *arguments) in requests.items()
        }
        try:
            with self.calls.without(frozenset()):
                return self.calls.ask(wanted)
        except StaleShardError as error:
            raise StaleSnapshotError("a shard has changed since the snapshot") from error

    def best(
        self,
        rows: Sequence[IntArray],
        masks: Mapping[int, NDArray[np.bool_] | None],
        count: int,
        request: tuple[Any, ...],
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return the best windows of all shards, best first; the earlier one wins ties.

        Args:
            rows: The windows of each shard.
            masks: The shards to ask, each with a mask over its nodes or windows.
            count: Maximum number of windows.
            request: The method, and its arguments after the generation and the mask.
        """
        method, *arguments = request
        found = self.ask({shard: (method, mask, *arguments) for shard, mask in masks.items()})
        parts = [(rows[shard][own], scores) for shard, (own, scores) in found.items()]
        if not parts:
            return np.empty(0, dtype=np.int64), np.empty(0)
        best, scores = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.lexsort((best, -scores))[:count]
        return best[order], scores[order]

    def of_windows(
        self, windows: IntArray, method: str, *arguments: Any
    ) -> Iterator[tuple[IntArray, Any]]:
        """Yield the places of the windows of each shard in the argument, and their result.

        Args:
            windows: The windows.
            method: A method of the shards.
            arguments: Its arguments between the generation and the windows.
        """
        split = {shard: own for shard, *own in self.rows.split(np.asarray(windows))}
        found = self.ask({one: (method, *arguments, own) for one, (_, own) in split.items()})
        for shard, values in found.items():
            yield split[shard][0], values

    def masks(
        self, allowed: NDArray[np.bool_] | None, rows: Sequence[IntArray]
    ) -> dict[int, NDArray[np.bool_] | None]:
        """Return the part of a mask for each shard in which it allows something."""
        if allowed is None:
            return {shard: None for shard, own in enumerate(rows) if len(own)}
        parts = {shard: allowed[own] for shard, own in enumerate(rows)}
        return {shard: part for shard, part in parts.items() if part.any()}


class ShardedSearch(NodeSearch):
    """Searches the vectors of all shards. Cosines depend on no other document.

    Args:
        requests: Requests to the shards.
        window_nodes: The node of each window of all shards, ascending.
        dimension: Dimension of the vectors.
    """

    def __init__(
        self, requests: ShardRequests, window_nodes: NDArray[np.int64], dimension: int
    ) -> None:
        self.window_nodes = window_nodes
        self.dimension = dimension
        self._requests = requests

    def search_windows(
        self, query: FloatArray, count: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return up to `count` windows, best first, and their cosines. See `NodeSearch`."""
        requests, rows = self._requests, self._requests.rows
        masks = requests.masks(allowed, rows.nodes)
        return requests.best(rows.windows, masks, count, ("search_windows", query, count))

    def cosines(self, query: FloatArray, windows: IntArray) -> Floats:
        """Return the cosines of some windows. See `NodeSearch`."""
        return self._gather("cosines", query, windows, np.empty(len(windows), dtype=np.float32))

    def cosines_of(self, queries: FloatArray, windows: IntArray) -> Floats:
        """Return the cosines of several vectors and some windows. See `NodeSearch`."""
        return self._gather("cosines_of", queries, windows, np.empty((len(windows), len(queries))))

    def _gather(self, method: str, vectors: FloatArray, windows: IntArray, out: Floats) -> Floats:
        for places, values in self._requests.of_windows(windows, method, vectors):
            out[places] = values
        return out


@dataclass(frozen=True, eq=False)
class ShardedBM25(BM25Index):
    """BM25 over the windows of all shards, with their merged statistics, which are in `corpus`.

    Attributes:
        requests: Requests to the shards.
        version: Name of the merged generation.
    """

    requests: ShardRequests | None = None
    version: str = ""

    @property
    def _shards(self) -> ShardRequests:
        assert self.requests is not None  # noqa: S101 - a field after others with a default
        return self.requests

    @property
    def postings(self) -> TermPostings:
        """The terms of all texts are in the shards."""
        raise TypeError("the words of all windows are in the shards")

    def doc_freq(self, term: str) -> int:
        """Return the number of texts that contain a term."""
        return 0 if self.corpus is None else self.corpus.doc_freq.get(term, 0)

    def search(
        self,
        terms: Sequence[str],
        count: int,
        allowed: NDArray[np.bool_] | None = None,
        *,
        idf_power: float = 0.0,
        weights: Weights = NO_FACTORS,
    ) -> tuple[IntArray, NDArray[np.float32]]:
        """Return the `count` best texts, best first, and their scores. See `BM25Index.search`."""
        rows = self._shards.rows.windows
        masks = self._shards.masks(allowed, rows)
        terms, factors = list(terms), dict(weights)
        query = TermQuery(terms, count, idf_power, factors)
        request = ("search_terms", self._statistics(terms), query)
        return self._shards.best(rows, masks, count, request)

    def saturations(self, terms: Sequence[str], rows: IntArray) -> NDArray[np.float32]:
        """Return BM25's saturated frequency of each term in the given texts, in [0, 1)."""
        return self._gather("saturations", terms, rows, np.float32)

    def contain(self, terms: Sequence[str], rows: IntArray) -> NDArray[np.bool_]:
        """Return which of the given texts contain which terms, shape (terms, rows)."""
        return self._gather("contain", terms, rows, np.bool_)

    @cached_method(_CACHED_TERMS)
    def texts_with(self, term: str) -> IntArray:
        """Return the rows of the texts that contain a term, ascending."""
        if not self.doc_freq(term):
            return np.empty(0, dtype=np.int64)
        shards = self._shards
        filled = [shard for shard, own in enumerate(shards.rows.windows) if len(own)]
        found = shards.ask(dict.fromkeys(filled, ("texts_with", term)))
        parts = [shards.rows.windows[shard][own] for shard, own in found.items()]
        return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *parts]))

    def _gather(
        self, method: str, terms: Sequence[str], rows: IntArray, dtype: type[np.generic]
    ) -> NDArray[Any]:
        """Return what a method of the shards says of known terms in texts; 0 for other terms."""
        out = np.zeros((len(terms), len(rows)), dtype=dtype)
        known = [place for place, term in enumerate(terms) if self.doc_freq(term)]
        if known and len(rows):
            words = [terms[place] for place in known]
            statistics = [self._statistics(words)] if method == "saturations" else []
            for places, values in self._shards.of_windows(rows, method, *statistics, words):
                out[np.ix_(np.asarray(known), places)] = values
        return out

    def _statistics(self, terms: Sequence[str]) -> TermStatistics:
        corpus = self.corpus
        assert corpus is not None  # noqa: S101 - always given
        frequencies = {term: self.doc_freq(term) for term in dict.fromkeys(terms)}
        return TermStatistics(self.version, corpus.n_texts, corpus.mean_length, frequencies)
