"""`ShardedSession`: answers from one generation of each shard."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.concurrency import process_lock
from e2graphrag_integrations.components import Components
from e2graphrag_integrations.errors import (
    ShardUnavailableError,
    UnknownDocumentError,
    UnknownEntityError,
    UnknownNodeError,
)
from e2graphrag_integrations.options import FreshnessPolicy
from e2graphrag_integrations.retrieval.generations import Generation, Served
from e2graphrag_integrations.retrieval.hydrate import NodeSource
from e2graphrag_integrations.retrieval.result import RetrievalResult
from e2graphrag_integrations.retrieval.scopes import Scope, ScopedSnapshots
from e2graphrag_integrations.retrieval.session import (
    ATTEMPTS,
    RetrievalSession,
    UnfinishedDocuments,
    View,
    without_changed_documents,
)
from e2graphrag_integrations.retrieval.strategy import Query, Strategy
from e2graphrag_integrations.search.bm25 import CorpusStatistics
from e2graphrag_integrations.shards.calls import Request, ShardCalls
from e2graphrag_integrations.shards.host import WordCounts
from e2graphrag_integrations.shards.merging import (
    ShardRows,
    check_edits,
    check_placement,
    generation_name,
    merge_snapshots,
    replace_shard,
    shard_of,
    without_shards,
)
from e2graphrag_integrations.shards.search import ShardedBM25, ShardedSearch, ShardRequests
from e2graphrag_integrations.shards.store import ShardedStore
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.store.index_state import count_documents
from e2graphrag_integrations.store.records import StaleSnapshotError
from e2graphrag_integrations.store.store import Store

T = TypeVar("T")

logger = logging.getLogger(__name__)


class ShardedSession(RetrievalSession):
    """Retrieves from all shards; safe for concurrent use by several threads.

    The coordinator keeps the nodes, the names, the entity graph and the merged statistics. The
    shards keep the vectors, the words and the texts.

    Args:
        store: The stores of the shards.
        components: The models of the index.
        policy: How old an answer may be.
        calls: Requests to the shards, which say whether it answers without some of them.
    """

    def __init__(
        self,
        store: ShardedStore,
        components: Components,
        policy: FreshnessPolicy | None,
        calls: ShardCalls,
    ) -> None:
        super().__init__(store, components, None, policy)
        self._unfinished = _UnfinishedInShards(store, calls)
        self._shards = calls
        self._words: dict[int, WordCounts] = {}
        self._words_lock = process_lock()
        self._remaining: Generation | None = None  # the last one without missing shards

    def retrieve(
        self, query: Query, strategy: Strategy, scope: Scope | None = None
    ) -> RetrievalResult:
        """Return the result of a query, read from one generation of each shard.

        Raises:
            ShardUnavailableError: If a shard cannot be asked, unless `partial` is true and others
                can. The trace then names the missing shards.
        """
        return self._shards.partially(lambda: self._retrieve(query, strategy, scope))

    def _retrieve(self, query: Query, strategy: Strategy, scope: Scope | None) -> RetrievalResult:
        result = super().retrieve(query, strategy, scope)
        if len(result.trace.missing_shards) > len(self._shards.missing):
            self.snapshot()  # shards have come back since the last generation
            result = super().retrieve(query, strategy, scope)
        return result

    def close(self) -> None:
        """Release the snapshots."""
        super().close()
        with self._words_lock:
            self._remaining = None

    def read(self, work: Callable[[Snapshot, NodeSource], T], scope: Scope | None = None) -> T:
        """Return the result of a function of the newest generation; see `RetrievalSession`.

        Raises:
            ShardUnavailableError: If a shard cannot be asked, unless `partial` is true and others
                can. It is also raised if what the function looks for is in none of the others.
        """
        excluded = self._shards.missing

        def read() -> T:
            try:
                return super(ShardedSession, self).read(work, scope)
            except (UnknownDocumentError, UnknownEntityError, UnknownNodeError) as error:
                missing = self._shards.missing
                if missing == excluded or self._is_asked(error, missing):
                    raise
                names = ", ".join(self._shards.names[one] for one in sorted(missing))
                raise ShardUnavailableError(
                    f"{error}; it may be in shards that cannot be asked: {names}", tuple(missing)
                ) from error

        return self._shards.partially(read)

    def _is_asked(self, error: Exception, missing: frozenset[int]) -> bool:
        """Return whether what is unknown would be in a shard that was asked."""
        id_ = error.document_id if isinstance(error, UnknownDocumentError) else ""
        return bool(id_) and shard_of(id_, len(self._shards.names)) not in missing

    def snapshot(self) -> Snapshot:
        """Return the snapshot of the newest generation, without missing shards."""
        return self._remaining_of(self._generations.newest()).snapshot

    def _view(
        self,
        generation: Generation,
        scope: Scope | None,
        scopes: Callable[[], ScopedSnapshots] | None = None,
    ) -> View:
        """Return the part of a generation that a scope contains, without missing shards."""
        remaining = self._remaining_of(generation)
        view = super()._view(remaining, scope, scopes)
        return view if remaining is generation else View(generation, view.seen)

    def _remaining_of(self, generation: Generation) -> Generation:
        """Return a generation without the documents of missing shards."""
        missing = self._shards.missing
        parts = generation.name.split(".")
        names = tuple("" if shard in missing else name for shard, name in enumerate(parts))
        name = generation_name(names)
        if name == generation.name:
            return generation
        with self._words_lock:
            if self._remaining is None or self._remaining.name != name:
                rows = ShardRows(generation.snapshot, len(names))
                left = without_shards(generation.snapshot, rows, missing, name)
                left = self._searchable(left, names)
                self._remaining = Generation(left, left, generation.complete_until)
            remaining = self._remaining
        return replace(remaining, left_out=generation.left_out_in(remaining.snapshot))

    def _prepare_in_background(self, prepare: Callable[[], object]) -> None:
        """Prepare a generation, without changes of shards that cannot be asked."""
        self._shards.partially(prepare)

    def _with_freshness(
        self, result: RetrievalResult, served: Served, scope: Scope | None
    ) -> RetrievalResult:
        """Return a result whose trace also names the shards that it does without."""
        result = super()._with_freshness(result, served, scope)
        generations = served.generation.name.split(".")
        lacking = {shard for shard, name in enumerate(generations) if not name}
        names = tuple(self._shards.names[one] for one in sorted(lacking | self._shards.missing))
        return replace(result, trace=replace(result.trace, missing_shards=names))

    def _answer_at_last(
        self, query: Query, strategy: Strategy, scope: Scope | None, served: Served
    ) -> RetrievalResult:
        """Return a result without all documents that change meanwhile.

        Nothing blocks the writers of all shards. Each attempt leaves out more of one generation.
        """
        generation, left = self._generations.newest(), ATTEMPTS
        while True:
            try:
                view = self._view(generation, scope)
                asked = without_changed_documents(query, view.seen)
                result = self._answer(asked, strategy, view)
            except StaleSnapshotError as error:
                changed = error.documents and view.rows_in_generation(error.documents)
                if changed - generation.left_out:
                    generation = self._generations.leave_out(generation, changed)
                elif left:  # a shard does not have this generation any more
                    generation, left = self._generations.newest(), left - 1
                else:
                    self._corrupt(error)
            else:
                served = replace(served, generation=generation)
                return self._with_freshness(result, self._generations.answered(served), scope)

    def _corrupt(self, error: StaleSnapshotError) -> NoReturn:
        """Raise an error: nothing blocks the writers of all shards during a last attempt."""
        raise ShardUnavailableError(
            f"{self._store.path}: {error}, in each attempt to answer: ask again"
        ) from error

    def _build(self, store: Store, older: Snapshot | None) -> tuple[Snapshot, Snapshot]:
        """Return the merged snapshot of the newest generations, twice: it is its own base."""
        del store
        with self._words_lock:
            merged = self._merged(older)
        return merged, merged

    def _merged(self, older: Snapshot | None) -> Snapshot:
        calls = self._shards
        asked = {shard for shard in range(len(calls.names)) if shard not in calls.missing}
        before = [""] * len(calls.names) if older is None else older.generation.split(".")
        newest = calls.all("generation")
        changed = sorted(one for one in asked if newest[one] != before[one])
        found = calls.ask(dict.fromkeys(changed, Request("directory")))
        for shard, one in found.items():
            check_placement(one.snapshot.documents, shard, calls.names)
            before[shard] = one.snapshot.generation
            self._words[shard] = one.words
        own = {calls.names[shard]: one.snapshot for shard, one in found.items()}
        others = {} if older is None or set(changed) == asked else {"the other shards": older}
        if own:
            check_edits({**own, **others})
        name, parts = generation_name(before), {n: one.snapshot for n, one in found.items()}
        if older is None or not older.documents or set(before) == {""}:
            merged = merge_snapshots(parts, name, calls.names)
        else:
            merged = older
            for shard, part in parts.items():
                rows = ShardRows(merged, len(calls.names))
                merged = replace_shard(merged, rows, shard, part, name)
        return self._searchable(merged, tuple(before))

    def _searchable(self, merged: Snapshot, generations: tuple[str, ...]) -> Snapshot:
        """Return a merged snapshot that searches in the shards."""
        calls = self._shards
        rows = ShardRows(merged, len(calls.names))
        requests = ShardRequests(calls, rows, generations)
        dimension = int(merged.made_with.get("dimension", 0))

        def chunk_tags(snapshot: Snapshot) -> NDArray[np.int16]:
            filled = [shard for shard, own in enumerate(rows.chunks) if len(own)]
            found = requests.ask(dict.fromkeys(filled, ("chunk_tags", snapshot.tag_set)))
            width = max((one.shape[1] for one in found.values()), default=0)
            tags = np.full((len(snapshot.chunk_nodes), width), -1, dtype=np.int16)
            for shard, one in found.items():
                tags[rows.chunks[shard]] = one
            return tags

        return replace(
            merged,
            dense=ShardedSearch(requests, np.asarray(merged.dense.window_nodes), dimension),
            prebuilt_bm25=ShardedBM25(
                (),
                len(merged.dense.window_nodes),
                corpus=self._statistics(),
                requests=requests,
                version=generation_name(generations),
            ),
            tags_factory=chunk_tags,
        )

    def _statistics(self) -> CorpusStatistics:
        parts = self._words.values()
        n_texts = sum(one.n_texts for one in parts)
        frequencies: Counter[str] = Counter()
        for one in parts:
            frequencies.update(one.doc_freq)
        mean = sum(one.n_terms for one in parts) / n_texts if n_texts else 0.0
        return CorpusStatistics(n_texts, mean, frequencies)


class _UnfinishedInShards(UnfinishedDocuments):
    """Counts the documents of all shards that wait to be indexed."""

    def __init__(self, store: Store, calls: ShardCalls) -> None:
        super().__init__(store)
        self._calls = calls
        self._path = store.path

    def check(self, generation: str) -> None:
        """Warn if documents wait, before a question to a generation that was not checked yet."""
        if self._checked_at == generation:
            return
        self._checked_at = generation
        if self.recount() and not self._has_warned:
            self._has_warned = True
            waiting = count_documents(self.count)
            logger.warning("%s: answers lack %s in the queue: call resume()", self._path, waiting)

    def recount(self) -> int:
        """Return the number of documents that wait now."""
        self.count = sum(self._calls.all("unfinished").values())
        return self.count
