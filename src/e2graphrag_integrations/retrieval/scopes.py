"""Scopes: the parts of an index that a reader may see, each with a snapshot of its own.

A scope is a filter that nothing in a question can widen. Its snapshot contains only the nodes that
match, so that whatever answers a question has neither names nor statistics of other nodes in
memory. A summary matches only if all chunks under it do.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.concurrency import process_lock
from e2graphrag_integrations._utils.validation import check_choice, short_repr
from e2graphrag_integrations.errors import CorruptStoreError, InvalidInputError
from e2graphrag_integrations.languages.language import ENGLISH
from e2graphrag_integrations.retrieval.filters.pages import all_pass
from e2graphrag_integrations.retrieval.filters.tree import Filter, Group, distinct_parts
from e2graphrag_integrations.retrieval.filters.where import Predicate, RecordsFilter, compile_where
from e2graphrag_integrations.retrieval.hydrate import NodeSource
from e2graphrag_integrations.search.bm25 import BM25Index, CorpusStatistics
from e2graphrag_integrations.search.dense import NodeSearch
from e2graphrag_integrations.snapshot.metadata import LANGUAGE_KEY, MetadataRecords
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.snapshot.subset import SnapshotSubsets, with_edits
from e2graphrag_integrations.store.records import canonical_json
from e2graphrag_integrations.text.span_sets import is_covered
from e2graphrag_integrations.types import Node, Segment, Sentences, SourceDocument

T = TypeVar("T")

Statistics = Literal["scope", "index"]
"""Whose document frequencies BM25 uses: those of the scope, or those of the entire index."""

_MAX_WINDOWS = 100_000
"""Maximum number of windows in all cached snapshots of scopes, unless one alone has more. With 384
dimensions, they take about half a gigabyte."""

_MAX_SCOPES = 10_000
"""Maximum number of cached snapshots of scopes; those without windows take little memory."""

_LOCKS = 16
"""Number of locks, so that different scopes are usually prepared at the same time."""


@dataclass(frozen=True, eq=False)
class Scope:
    """The part of an index that a reader may see; see `Scope.of`.

    Attributes:
        given: The filters as given, outermost first, as JSON values.
        filters: The compiled filters, which a metadata record must all pass.
        statistics: Whose document frequencies BM25 uses.
    """

    given: tuple[Any, ...]
    filters: tuple[Predicate, ...]
    statistics: Statistics = "scope"

    @classmethod
    def of(
        cls,
        where: Mapping[str, Any],
        statistics: Statistics | None = None,
        *,
        within: Scope | None = None,
        adapt: Callable[[Mapping[str, Any]], Predicate] = compile_where,
    ) -> Scope:
        """Return the scope of the nodes that match a filter.

        All metadata records of a node must match, each with its own pages.

        Args:
            where: Conditions on metadata keys; see `compile_where`. It is copied.
            statistics: Whose document frequencies BM25 uses; None means those of `within`, or of
                the scope.
            within: A scope that this one narrows.
            adapt: For integrations: compiles a filter on the metadata that users see.

        Raises:
            InvalidInputError: If the filter is invalid, or if a part of it is empty, or if
                `statistics` is invalid, or wider than those of `within`.
        """
        if not isinstance(where, Mapping):
            raise InvalidInputError(
                f"where={short_repr(where)} must map metadata keys to conditions, as in "
                "{'tenant': 'a'}: a scope cannot be a function, because it must stay the same"
            )
        compiled = compile_where(where)
        given = json.loads(json.dumps(where, default=_plain))
        parts = distinct_parts(compiled.root) if isinstance(compiled, Filter) else ()
        if not parts or any(isinstance(one, Group) and not one.parts for one in parts):
            raise InvalidInputError(
                f"where={short_repr(given)} contains an empty filter, which would match every "
                "document or none: a scope needs conditions on metadata keys, as in {'tenant': 'a'}"
            )
        if statistics is not None:
            check_choice("statistics", statistics, get_args(Statistics))
        outer = "scope" if within is None else within.statistics
        if within is not None and outer == "scope" and statistics == "index":
            raise InvalidInputError(
                "statistics='index' is wider than the statistics of the scope that this one is in: "
                "omit it"
            )
        before = () if within is None else (within.given, within.filters)
        return cls(
            (*(before[0] if before else ()), given),
            (*(before[1] if before else ()), adapt(given)),
            statistics or outer,
        )

    @classmethod
    def rebuild(
        cls,
        given: Sequence[Mapping[str, Any]],
        statistics: Statistics,
        adapt: Callable[[Mapping[str, Any]], Predicate] = compile_where,
    ) -> Scope:
        """Return the scope with these `given` filters, outermost first."""
        scope: Scope | None = None
        for where in given:
            scope = cls.of(where, statistics, within=scope, adapt=adapt)
        if scope is None:
            raise InvalidInputError("a scope needs a filter")
        return scope

    @property
    def key(self) -> str:
        """A key that is equal for equal scopes."""
        content = canonical_json([self.statistics, *self.given])
        return hashlib.blake2b(content.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def where(self) -> dict[str, Any]:
        """A copy of the filters, as one."""
        given: list[Any] = json.loads(json.dumps(self.given))
        return dict(given[0]) if len(given) == 1 else {"$and": given}

    def allows_document(self, document: SourceDocument) -> bool:
        """Return whether all metadata records of a document pass, also those of empty segments."""
        own = {
            LANGUAGE_KEY: document.language or ENGLISH,
            **document.metadata,
            "document_id": document.id,
        }
        segments = [Segment(*segment) for segment in document.segments]
        records = [{**own, **segment.metadata} for segment in segments]
        spans = [(segment.start, segment.end) for segment in segments]
        if not segments or not is_covered(document.text, spans):
            records.append(own)
        return all(predicate(record) for predicate in self.filters for record in records)

    def visible_nodes(self, records: MetadataRecords) -> NDArray[np.bool_]:
        """Return the mask of the nodes of which all records pass."""
        passes = np.ones(len(records.values), dtype=np.bool_)
        for predicate in self.filters:
            passes &= _passing(records, predicate)
        visible: NDArray[np.bool_] = all_pass(records, passes) & (records.ends > records.starts)
        return visible


def _passing(records: MetadataRecords, predicate: Predicate) -> NDArray[np.bool_]:
    if isinstance(predicate, RecordsFilter):
        predicate = predicate.for_records(records)
    if isinstance(predicate, Filter):
        return predicate.mask(records)
    rows = range(len(records.values))
    return np.asarray([bool(predicate(records.filterable(row))) for row in rows], dtype=np.bool_)


def _plain(value: object) -> Any:
    """Return a value of a filter that JSON does not know, but filters accept."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value, key=lambda one: (type(one).__name__, repr(one)))
    if isinstance(value, range):
        return list(value)
    raise TypeError(f"{type(value).__name__} is not a JSON type")


@dataclass(frozen=True, eq=False)
class _Entry:
    """The snapshot of a scope.

    Attributes:
        generation: Name of the generation that it is known to belong to.
        content: Hash of everything that it was made from.
        snapshot: The snapshot.
    """

    generation: str
    content: str
    snapshot: Snapshot


class ScopedSnapshots:
    """Makes and caches the snapshots of scopes; safe for concurrent use by several threads.

    A snapshot is made by the first question in a scope. After a change of the index, it is made
    again only if the scope changed.

    Args:
        max_windows: Maximum number of windows in all cached snapshots, unless one alone has more.
        node_search: Returns the vector search to use with a snapshot; None searches its vectors.
    """

    def __init__(
        self,
        max_windows: int = _MAX_WINDOWS,
        node_search: Callable[[Snapshot], NodeSearch] | None = None,
    ) -> None:
        self._node_search = node_search
        self._max_windows = max_windows
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._windows = 0
        self._lock = process_lock()  # guards the attributes above
        self._locks = [process_lock() for _ in range(_LOCKS)]
        self._subsets: tuple[str, SnapshotSubsets] | None = None

    def get(
        self, scope: Scope, whole: Snapshot, bm25_of: Callable[[Snapshot], BM25Index]
    ) -> Snapshot:
        """Return the snapshot of a scope.

        Args:
            scope: The scope.
            whole: The snapshot of the index.
            bm25_of: Builds the BM25 index of a snapshot from its texts.

        Raises:
            StaleSnapshotError: If texts changed since `whole` was made.
        """
        key = scope.key
        entry = self._entry(key)
        if entry is not None and entry.generation == whole.generation:
            return entry.snapshot
        with self._locks[int(key[:8], 16) % _LOCKS]:
            entry = self._entry(key)
            if entry is not None and entry.generation == whole.generation:
                return entry.snapshot
            visible = scope.visible_nodes(whole.records)
            content = _content(scope, whole, np.unique(whole.nodes.document[visible]))
            if entry is not None and entry.content == content:
                snapshot = entry.snapshot
            else:
                snapshot = self._make(scope, whole, visible, bm25_of)
            self._put(key, _Entry(whole.generation, content, snapshot))
            return snapshot

    def _make(
        self,
        scope: Scope,
        whole: Snapshot,
        visible: NDArray[np.bool_],
        bm25_of: Callable[[Snapshot], BM25Index],
    ) -> Snapshot:
        known = self._subsets
        subsets = known[1] if known is not None and known[0] == whole.generation else None
        if subsets is None:
            subsets = SnapshotSubsets(whole)
            self._subsets = whole.generation, subsets
        snapshot = subsets.take(visible, whole.edits.reading_alike())
        if whole.edits:
            from e2graphrag_integrations.retrieval.entities.entity_editing import known_forms

            forms = frozenset(known_forms(snapshot.edits, snapshot))
            snapshot = with_edits(
                snapshot, whole.edits.restricted_to(forms, frozenset(snapshot.documents))
            )
        bm25 = bm25_of(snapshot)
        if scope.statistics == "index":
            bm25 = replace(bm25, corpus=_corpus(bm25, whole.bm25))
        return replace(
            snapshot,
            dense=snapshot.dense if self._node_search is None else self._node_search(snapshot),
            generation=_name(scope, whole, snapshot),
            prebuilt_bm25=bm25,
            tags=replace(whole.tag_set, is_listed=False),
            question_languages=frozenset(snapshot.languages),
        )

    def _entry(self, key: str) -> _Entry | None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
            return entry

    def _put(self, key: str, entry: _Entry) -> None:
        with self._lock:
            former = self._entries.pop(key, None)
            self._windows += _size(entry) - (0 if former is None else _size(former))
            self._entries[key] = entry
            while len(self._entries) > 1 and (
                self._windows > self._max_windows or len(self._entries) > _MAX_SCOPES
            ):
                _, oldest = self._entries.popitem(last=False)
                self._windows -= _size(oldest)


def shielded(work: Callable[[], T], name: str) -> T:
    """Return the result of a function; if the index is damaged, do not show where.

    Args:
        work: The function.
        name: Name of the index.

    Raises:
        CorruptStoreError: If the index is damaged.
    """
    try:
        return work()
    except CorruptStoreError:
        pass
    # Raised outside of the handler, so that the error does not refer to the original one.
    raise damaged(name)


def damaged(name: str) -> CorruptStoreError:
    """Return the error for readers of a scope of a damaged index."""
    return CorruptStoreError(f"{name} is damaged: the owner of the index can call verify()")


class ScopedNodes:
    """Reads the stored nodes of a scope.

    Args:
        source: Reads the nodes of the entire index.
        generation: Name of the generation of the entire index.
        snapshot: The snapshot of the scope.
    """

    def __init__(self, source: NodeSource, generation: str, snapshot: Snapshot) -> None:
        self._source = source
        self._generation = generation
        self._snapshot = snapshot

    def nodes_at(self, generation: str, ids: Sequence[str]) -> Mapping[str, Node]:
        """Return nodes by id, without parents outside of the scope; see `NodeSource`."""
        del generation
        known = self._snapshot.nodes.row_of
        nodes = self._source.nodes_at(self._generation, self._own(ids))
        return {
            id_: node if node.parent_id in known else replace(node, parent_id=None)
            for id_, node in nodes.items()
        }

    def mentions_at(self, generation: str, ids: Sequence[str]) -> Mapping[str, Sentences]:
        """Return the mentions in each sentence of chunks, by id; see `NodeSource`."""
        del generation
        return self._source.mentions_at(self._generation, self._own(ids))

    def _own(self, ids: Sequence[str]) -> list[str]:
        known = self._snapshot.nodes.row_of
        return [id_ for id_ in ids if id_ in known]


def _size(entry: _Entry) -> int:
    return len(entry.snapshot.dense.window_nodes)


def _content(scope: Scope, whole: Snapshot, documents: IntArray) -> str:
    """Return a hash of everything that the snapshot of a scope depends on."""
    depends_on_others = scope.statistics == "index" or whole.own_vectors is None
    parts = [
        whole.generation if depends_on_others else "",
        dict(whole.made_with),
        whole.edits.to_json(),
        whole.tag_set.to_json(),
        [[whole.documents[row], whole.stamps[row]] for row in documents.tolist()],
    ]
    return _hash(parts)


def _name(scope: Scope, whole: Snapshot, snapshot: Snapshot) -> str:
    """Return the name of the generation of a scope, which changes with the scope alone.

    A document that is partly visible may change where it is not.
    """
    nodes, records = snapshot.nodes, snapshot.records
    stamps: list[Any] = list(snapshot.stamps)
    for document in snapshot.partial_documents:
        first, end = np.searchsorted(nodes.document, [document, document + 1]).tolist()
        under = records.indices[int(records.starts[first]) : int(records.ends[end - 1])].tolist()
        stamps[document] = [
            [nodes.ids[row] for row in range(first, end)],
            [nodes.start[first:end].tolist(), nodes.end[first:end].tolist()],
            [dict(records.values[record]) for record in under],
        ]
    return _hash(
        [
            whole.generation if scope.statistics == "index" else "",
            snapshot.edits.to_json(),
            list(zip(snapshot.documents, stamps, strict=True)),
        ]
    )[:32]


def _hash(parts: list[Any]) -> str:
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode()).hexdigest()


def _corpus(bm25: BM25Index, whole: BM25Index) -> CorpusStatistics:
    """Return the statistics of an index for the terms of a scope."""
    terms = bm25.postings.vocabulary
    return CorpusStatistics(
        whole.n_texts, whole.mean_length, {term: whole.doc_freq(term) for term in terms}
    )
