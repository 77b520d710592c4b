"""Dense search in a vector index outside of the snapshot, such as pgvector or Qdrant.

The vector index finds candidates. The snapshot has all vectors, too: it computes the cosines of the
candidates, and it is searched where the vector index cannot answer. So the vector index can only
affect which windows are found, and an outdated, incomplete or unreachable one is no error.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray, concatenated_ranges
from e2graphrag_integrations.errors import ClosedError, StoreError, VectorIndexError
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.search.dense import NodeSearch, OwnVectors
from e2graphrag_integrations.search.fusion import Floats

_EXACT_LIMIT = 50_000
"""Maximum number of windows that are searched exactly if a filter allows no others. That takes less
time than a filtered search in an HNSW graph, whose recall falls with the share of the windows."""

_MAX_MISSING = 20_000
"""Maximum number of windows that are searched exactly because the vector index lacks them."""

_MORE_FILTERED, _MAX_MORE = 0.3, 3.0
"""How many more results to ask for under a filter: this part, divided by the share of the windows
that the filter allows, and its maximum."""

_BATCH = 1 << 16
"""Number of windows whose cosines are computed at once."""

_MAX_COUNT = 1000
"""Maximum number of windows to ask a vector index for."""

_CHECK_SECONDS = 1.0
"""Interval of the checks whether a vector index that cannot be searched was updated."""

_RETRY_SECONDS = 1.0
_MAX_RETRY_SECONDS = 60.0
"""Delay after a failure, during which the snapshot's vectors are searched. It doubles with every
further failure."""


@dataclass(frozen=True, slots=True)
class IndexedDocument:
    """A document whose vectors are all in a vector index.

    Attributes:
        stamp: The document's stamp.
        first: The place of its first vector. The others follow, in the order of the snapshot.
        windows: Number of its vectors.
        digest: Identifies its windows, so that equal ones need not be written again.
    """

    stamp: str
    first: int
    windows: int
    digest: str = ""


@dataclass(frozen=True, eq=False)
class IndexContents:
    """The contents of a vector index.

    Attributes:
        token: `<build>.<update>`: changes with every update, and its first part if the vectors
            get new places.
        embedder: Fingerprint of the embedder.
        dimension: Dimension of the vectors.
        documents: The documents by id.
        is_ready: Whether it can be searched; False while it is built for the first time.
    """

    token: str
    embedder: str
    dimension: int
    documents: Mapping[str, IndexedDocument]
    is_ready: bool = True


@dataclass(frozen=True, eq=False)
class Hits:
    """The result of a search.

    Attributes:
        places: The places of the nearest vectors.
        token: The token of the contents that were searched; empty if there are none.
    """

    places: NDArray[np.int64]
    token: str


@dataclass(frozen=True, eq=False)
class AllowedPlaces:
    """The places that a filter allows.

    Attributes:
        places: The places, in any order.
        firsts: The first place of each document that has one of them, ascending.
        other_firsts: The first place of each other document, ascending.
        share: The share of all windows that the filter allows.
        share_in_documents: The same among the windows of the documents with `firsts`.
    """

    places: NDArray[np.int64]
    firsts: NDArray[np.int64]
    other_firsts: NDArray[np.int64]
    share: float
    share_in_documents: float


class VectorIndex(Protocol):
    """An index of the vectors of all windows, in a server.

    Errors of the connection are raised as `StoreConnectionError`, and those that another try meets
    again as `VectorIndexError`.
    """

    @property
    def name(self) -> str:
        """Name in traces and messages; contains no secret."""

    def contents(self) -> IndexContents | None:
        """Return the contents; None if there are none."""

    def token(self) -> str:
        """Return the token of the contents; empty if there are none, or it is being built."""

    def search(self, query: FloatArray, count: int, allowed: AllowedPlaces | None) -> Hits:
        """Return about `count` of the nearest vectors.

        Args:
            query: Unit vector, shape (dimension,).
            count: Number of vectors.
            allowed: The places to search; None for all. The result may contain others.
        """


@dataclass(frozen=True, slots=True)
class VectorUse:
    """Where the list of the nearest windows came from.

    Attributes:
        index: Name of the vector index.
        covered: Number of these windows that it contained.
        windows: Number of windows that the filter of the question allows.
        reasons: Why the vectors of the snapshot were searched instead, if they were.
    """

    index: str
    covered: int
    windows: int
    reasons: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return the facts as text."""
        if self.reasons:
            return f"own vectors instead of {self.index}: {'; '.join(self.reasons)}"
        text = f"{self.covered:,} of {self.windows:,} windows in {self.index}"
        return text if self.covered == self.windows else f"{text}, the others exactly"


class _Coverage:
    """Which windows of a snapshot are at which places of a vector index."""

    def __init__(
        self,
        contents: IndexContents | None,
        documents: Sequence[str],
        stamps: Sequence[str],
        starts: IntArray,
        problem: str = "",
    ) -> None:
        self.token = "" if contents is None or not contents.is_ready else contents.token
        self.problem = problem or _problem_of(contents)
        known = {} if contents is None or self.problem else contents.documents
        sizes = np.diff(starts)
        firsts, rows = list[int](), list[int]()
        for row, (id_, stamp) in enumerate(zip(documents, stamps, strict=True)):
            found = known.get(id_)
            is_current = found is not None and (found.stamp, found.windows) == (stamp, sizes[row])
            if found is not None and is_current and found.windows:
                firsts.append(found.first)
                rows.append(row)
        self.firsts, chosen, counts = np.unique(
            np.asarray(firsts, dtype=np.int64), return_index=True, return_counts=True
        )
        # Places may be derived by a hash. Documents with the same place count as missing.
        self.firsts, chosen = self.firsts[counts == 1], chosen[counts == 1]
        own_rows = np.asarray(rows, dtype=np.int64)[chosen]
        self._sizes, self._windows = sizes[own_rows], np.asarray(starts)[own_rows]
        self.places = np.full(int(starts[-1]), -1, dtype=np.int64)
        windows = concatenated_ranges(self._windows, self._sizes)
        self.places[windows] = concatenated_ranges(self.firsts, self._sizes)
        self.missing = np.flatnonzero(self.places < 0)
        held = sum(one.windows for one in known.values())
        self.outdated = held - int(self._sizes.sum())
        """Number of vectors in the index that are not in the snapshot."""

    def windows_at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the windows at some places, without places of other snapshots."""
        if not len(self.firsts):
            return np.empty(0, dtype=np.int64)
        rows = np.maximum(np.searchsorted(self.firsts, places, side="right") - 1, 0)
        offsets = places - self.firsts[rows]
        is_known = (offsets >= 0) & (offsets < self._sizes[rows])
        return np.unique(self._windows[rows[is_known]] + offsets[is_known])

    def allowed(self, windows: IntArray) -> AllowedPlaces:
        """Return the places of some windows."""
        places = self.places[windows]
        places = places[places >= 0]
        rows = np.unique(np.searchsorted(self.firsts, places, side="right") - 1)
        is_allowed = np.zeros(len(self.firsts), dtype=np.bool_)
        is_allowed[rows] = True
        in_documents = int(self._sizes[rows].sum())
        return AllowedPlaces(
            places,
            self.firsts[rows],
            self.firsts[~is_allowed],
            len(windows) / max(1, len(self.places)),
            len(places) / max(1, in_documents),
        )


def _build_of(token: str) -> str:
    return token.partition(".")[0]


def _problem_of(contents: IndexContents | None) -> str:
    if contents is None:
        return "it is empty: call update_vectors()"
    return "" if contents.is_ready else "it is being built"


@dataclass(eq=False)
class Connection:
    """The state of a vector index that all snapshots of one open index share.

    Attributes:
        index: The vector index.
        on_change: Called when a search finds that the vector index was updated since.
        on_failure: Called with the first error after a success.
        problem: The last error; empty if the last search succeeded.
        failures: Number of consecutive failures.
        retry_at: Time before which the server is not asked, because it has just failed.
    """

    index: VectorIndex
    on_change: Callable[[], None] = lambda: None
    on_failure: Callable[[str], None] = lambda _: None
    problem: str = ""
    failures: int = 0
    retry_at: float = 0.0
    checked_at: float = -math.inf  # time of the last check of the token alone

    def current_token(self, known: str) -> str:
        """Return the token of the contents, or the known one if it was checked just now."""
        now = time.monotonic()
        if now < self.checked_at + _CHECK_SECONDS:
            return known
        self.checked_at = now
        return self.index.token()

    def failed(self, error: Exception) -> None:
        """Record a failure."""
        is_first = not self.problem
        delay = min(_RETRY_SECONDS * 2**self.failures, _MAX_RETRY_SECONDS)
        self.problem = f"{type(error).__name__}: {error}"
        self.failures, self.retry_at = self.failures + 1, time.monotonic() + delay
        if is_first:
            self.on_failure(self.problem)

    def succeeded(self) -> None:
        """Record a success."""
        self.problem, self.failures = "", 0


class VectorIndexSearch(NodeSearch):
    """Searches a vector index, and the windows of a snapshot that it does not contain.

    Args:
        connection: The vector index.
        own: The vectors of the snapshot.
        documents, stamps: Id and stamp of each document.
        document_of: Row of the document of each window, ascending.
    """

    def __init__(
        self,
        connection: Connection,
        own: OwnVectors,
        documents: Sequence[str],
        stamps: Sequence[str],
        document_of: IntArray,
    ) -> None:
        self.own = own
        self.window_nodes = own.window_nodes
        self._connection = connection
        self._documents, self._stamps = documents, stamps
        self._starts = np.searchsorted(document_of, np.arange(len(documents) + 1))
        self._uses = threading.local()
        self.use_contents(None)

    def use_contents(self, contents: IndexContents | None, problem: str = "") -> None:
        """Replace the known contents of the vector index.

        Args:
            contents: The contents.
            problem: Why they are unknown.
        """
        self._coverage = _Coverage(contents, self._documents, self._stamps, self._starts, problem)

    @contextmanager
    def recording(self) -> Iterator[Callable[[], VectorUse | None]]:
        """Record the searches of this thread; yields a function that returns their source."""
        reasons: dict[str, None] = {}
        self._uses.reasons, self._uses.counts = reasons, None

        def use() -> VectorUse | None:
            counts: tuple[int, int] | None = self._uses.counts
            if counts is None:
                return None
            return VectorUse(self._connection.index.name, *counts, tuple(reasons))

        try:
            yield use
        finally:
            del self._uses.reasons

    def search_windows(
        self, query: FloatArray, count: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return up to `count` windows, best first, and their cosines. See `NodeSearch`."""
        windows = None
        if allowed is not None:
            windows = np.flatnonzero(allowed[self.window_nodes])
        usable = len(self.window_nodes) if windows is None else len(windows)
        if count < 1 or not usable:
            return np.empty(0, dtype=np.int64), np.empty(0)
        coverage = self._coverage
        missing = coverage.missing
        if allowed is not None:
            missing = missing[allowed[self.window_nodes[missing]]]
        self._uses.counts = usable - len(missing), usable
        if windows is not None and usable <= _EXACT_LIMIT:
            self._note(f"exact, because the filter allows only {usable:,} windows")
            return self._best(query, count, windows)
        found = self._found(query, count, windows, coverage)
        if isinstance(found, str):
            self._note(found)
            return self.own.search_windows(query, count, allowed)
        if allowed is not None:
            found = found[allowed[self.window_nodes[found]]]
        expected = min(count, usable - len(missing))
        if len(found) >= expected:
            return self._best(query, count, np.concatenate([found, missing]))
        problem = f"it found only {len(found):,} of {expected:,} windows"
        if windows is not None:
            self._note(f"exact, because {problem} that pass the filter")
            return self._best(query, count, windows)
        self._note(f"{problem}: call update_vectors()")
        return self.own.search_windows(query, count)

    def _found(
        self, query: FloatArray, count: int, windows: IntArray | None, coverage: _Coverage
    ) -> NDArray[np.int64] | str:
        """Return the windows that the vector index finds, or why it is not searched."""
        connection = self._connection
        if count > _MAX_COUNT:
            return f"the question needs more than {_MAX_COUNT:,} windows"
        if connection.problem and time.monotonic() < connection.retry_at:
            return connection.problem
        problem = coverage.problem
        if not problem and len(coverage.missing) > _MAX_MISSING:
            problem = f"it lacks more than {_MAX_MISSING:,} windows: call update_vectors()"
        try:
            if problem:
                token, places = connection.current_token(coverage.token), None
            else:
                hits = self._ask(query, count, windows, coverage)
                token, places = hits.token, hits.places
        except (VectorIndexError, ClosedError):
            raise
        except StoreError as error:
            connection.failed(error)
            return connection.problem
        connection.succeeded()
        if token != coverage.token:
            connection.on_change()
            if not problem and _build_of(token) != _build_of(coverage.token):
                return "it is being built again"  # with other places
        return problem if places is None else coverage.windows_at(places)

    def _ask(
        self, query: FloatArray, count: int, windows: IntArray | None, coverage: _Coverage
    ) -> Hits:
        # Some more, because the vectors may be rounded there, or be outdated.
        count += count // 8 + min(coverage.outdated, count)
        allowed = None if windows is None else coverage.allowed(windows)
        if allowed is not None:
            if not len(allowed.places):
                return Hits(allowed.places, coverage.token)
            count += int(count * min(_MORE_FILTERED / allowed.share, _MAX_MORE))
        return self._connection.index.search(query, count, allowed)

    def _note(self, reason: str) -> None:
        reasons = getattr(self._uses, "reasons", None)
        if reasons is not None:
            reasons[reason] = None

    def _best(
        self, query: FloatArray, count: int, windows: IntArray
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the best of some windows by their exact cosines."""
        parts = [windows[i : i + _BATCH] for i in range(0, len(windows), _BATCH)]
        cosines = [self.own.cosines(query, part).astype(np.float64) for part in parts]
        scores = np.concatenate(cosines) if cosines else np.empty(0)
        order = np.lexsort((windows, -scores))[:count]
        return windows[order].astype(np.int64), scores[order]

    def cosines(self, query: FloatArray, windows: IntArray) -> Floats:
        """Return the cosines of some windows. See `NodeSearch`."""
        return self.own.cosines(query, windows)

    def cosines_of_all_nodes(self, query: FloatArray) -> Floats | None:
        """Return the cosine of each node's best window if there are few. See `NodeSearch`."""
        return self.own.cosines_of_all_nodes(query)

    def cosines_of(self, queries: FloatArray, windows: IntArray) -> Floats:
        """Return the cosines of several vectors and some windows. See `NodeSearch`."""
        return self.own.cosines_of(queries, windows)
