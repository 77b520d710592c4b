"""`update_index`: brings a vector index to the state of an index, document by document.

The vector index itself says which documents it contains, with their stamps. So an update writes
only what changed, continues after an interruption, and repairs what somebody deleted. Several
machines may update the same vector index at once: they write the same vectors to the same places.
"""

from __future__ import annotations

import hashlib
import logging
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.decoding import invalid_rows
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.reports import VectorReport
from e2graphrag_integrations.search.vector_index import IndexContents, IndexedDocument, VectorIndex
from e2graphrag_integrations.store.rows import checked_row, put_manifest
from e2graphrag_integrations.store.store import Store

logger = logging.getLogger(__name__)

_IDENTITY = "identity"
"""Manifest key of the identity of an index: a random name, which moving or renaming the index does
not change. It is missing until a vector index refers to it."""

_BATCH = 2_000
"""Number of windows after which a batch of documents is written."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a vector index should contain.

    Attributes:
        owner: Identifies the index that the vectors belong to.
        embedder: Fingerprint of the embedder.
        dimension: Dimension of the vectors.
        windows: Number of vectors.
    """

    owner: str
    embedder: str
    dimension: int
    windows: int


@dataclass(frozen=True, eq=False)
class NewDocument:
    """A document to write to a vector index.

    Attributes:
        id: Id of the document.
        stamp: Its stamp.
        digest: Identifies its windows.
        vectors: The vectors, shape (windows, dimension); None to change only the stamp.
        old: The version in the vector index, if there is one.
    """

    id: str
    stamp: str
    digest: str
    vectors: FloatArray | None
    old: IndexedDocument | None


class WritableVectorIndex(VectorIndex, Protocol):
    """A vector index that can be updated."""

    def prepare(self, target: Target, *, replace: bool) -> IndexContents:
        """Create the vector index if it is missing or was made by another embedder.

        Args:
            target: What it should contain.
            replace: Whether to delete the vectors of another index.

        Returns:
            Its contents.

        Raises:
            VectorIndexError: If it contains the vectors of another index, or cannot be created.
        """

    def count(self) -> int:
        """Return the number of vectors."""

    def places(self) -> NDArray[np.int64]:
        """Return the places of all vectors, in any order."""

    def delete_places(self, places: NDArray[np.int64]) -> None:
        """Delete vectors that belong to no document."""

    def put(self, documents: Sequence[NewDocument]) -> None:
        """Write documents, and delete their old versions."""

    def remove(self, documents: Mapping[str, IndexedDocument]) -> None:
        """Delete documents."""

    def finish(self) -> None:
        """Make all changes visible to searches."""


def new_token(previous: str = "") -> str:
    """Return the token of an update; without a previous one, that of a new build."""
    build = previous.partition(".")[0] or uuid.uuid4().hex
    return f"{build}.{uuid.uuid4().hex}"


def read_identity(store: Store) -> str:
    """Return the identity of an index, or an empty string if it has none yet."""
    rows = store.read("SELECT * FROM manifest WHERE key = ?", (_IDENTITY,))
    return str(checked_row(rows[0], store.path, "identity in the manifest")[1]) if rows else ""


def ensure_identity(store: Store) -> str:
    """Return the identity of an index; give it one if it has none yet."""
    found = read_identity(store)
    if found:
        return found
    with store.transaction() as db:
        if not db.execute("SELECT 1 FROM manifest WHERE key = ?", (_IDENTITY,)).fetchone():
            put_manifest(db, _IDENTITY, uuid.uuid4().hex)
    return read_identity(store)


def update_index(store: Store, index: WritableVectorIndex, *, replace: bool) -> VectorReport:
    """Bring a vector index to the current state of a store.

    Args:
        store: The store.
        index: The vector index.
        replace: Whether to delete the vectors of another index.

    Raises:
        StoreError: If the store or the vector index fails. The next call continues.
    """
    started = time.perf_counter()
    made_with = store.manifest()
    if made_with:
        [(windows,)] = store.read("SELECT count(*) FROM windows")
        dimension = int(made_with["dimension"])
        target = Target(ensure_identity(store), made_with["embedder"], dimension, int(windows))
        contents = index.prepare(target, replace=replace)
    else:  # there are no documents
        found = index.contents()
        if found is None:
            return VectorReport()
        contents = found
    known = dict(contents.documents)
    damaged = _repair(index, known)
    # Read after the contents: a document that is in both, and differs, is outdated for good.
    current = store.stamps()
    obsolete = {id_: one for id_, one in known.items() if id_ not in current}
    if obsolete:
        index.remove(obsolete)
    changed = [
        id_
        for id_, stamp in current.items()
        if id_ in damaged or id_ not in known or known[id_].stamp != stamp
    ]
    added = written = 0
    for batch in _read(store, changed, known, damaged):
        index.put(batch)
        vectors = sum(len(one.vectors) for one in batch if one.vectors is not None)
        added += sum(one.vectors is not None for one in batch)
        written += vectors
        logger.info("%s: wrote the vectors of %d of %d documents", index.name, added, len(changed))
    if changed or obsolete or not contents.is_ready:
        index.finish()
    return VectorReport(
        documents=len(current),
        written=added,
        removed=len(obsolete),
        vectors=written,
        seconds=time.perf_counter() - started,
    )


def _repair(index: WritableVectorIndex, known: Mapping[str, IndexedDocument]) -> frozenset[str]:
    """Delete vectors of no document, and return the ids of documents that lack vectors."""
    if index.count() == sum(one.windows for one in known.values()):
        return frozenset()
    places = np.sort(index.places())
    firsts = np.asarray([one.first for one in known.values()], dtype=np.int64)
    ends = firsts + np.asarray([one.windows for one in known.values()], dtype=np.int64)
    begin, end = np.searchsorted(places, firsts), np.searchsorted(places, ends)
    lacking = [
        id_ for id_, is_short in zip(known, end - begin < ends - firsts, strict=True) if is_short
    ]
    unknown = _outside(places, known)
    later = index.contents()  # another process may have written some of them meanwhile
    unknown = unknown if later is None else _outside(unknown, later.documents)
    logger.warning(
        "%s: %d documents lacked vectors, and %d vectors belonged to no document (repaired)",
        index.name,
        len(lacking),
        len(unknown),
    )
    if len(unknown):
        index.delete_places(unknown)
    return frozenset(lacking)


def _outside(
    places: NDArray[np.int64], documents: Mapping[str, IndexedDocument]
) -> NDArray[np.int64]:
    """Return those of ascending places that belong to none of the documents."""
    firsts = np.asarray([one.first for one in documents.values()], dtype=np.int64)
    sizes = np.asarray([one.windows for one in documents.values()], dtype=np.int64)
    changes = np.zeros(len(places) + 1, dtype=np.int64)
    np.add.at(changes, np.searchsorted(places, firsts), 1)
    np.add.at(changes, np.searchsorted(places, firsts + sizes), -1)
    outside: NDArray[np.int64] = places[np.cumsum(changes)[:-1] == 0]
    return outside


def _read(
    store: Store,
    ids: Sequence[str],
    known: Mapping[str, IndexedDocument],
    damaged: frozenset[str],
) -> Iterator[list[NewDocument]]:
    """Yield documents in batches; those that were deleted since are left out."""
    sizes = dict(store.read("SELECT id, windows FROM documents"))
    batch, size = list[str](), 0
    for id_ in ids:
        batch.append(id_)
        size += sizes.get(id_, 0)
        if size >= _BATCH:
            yield _read_batch(store, batch, known, damaged)
            batch, size = [], 0
    if batch:
        yield _read_batch(store, batch, known, damaged)


def _read_batch(
    store: Store,
    ids: Sequence[str],
    known: Mapping[str, IndexedDocument],
    damaged: frozenset[str],
) -> list[NewDocument]:
    with store.read_transaction():
        stamps = {header.id: header.stamp for header in store.document_headers(ids)}
        keys: dict[str, list[bytes]] = {id_: [] for id_ in stamps}
        for stored in store.all_nodes(sorted(stamps)):
            keys[stored.node.document_id] += [key for _, key in stored.windows]
        digests = {id_: _digest(id_, own) for id_, own in keys.items()}
        rewritten = {
            id_
            for id_, digest in digests.items()
            if id_ in damaged or id_ not in known or known[id_].digest != digest
        }
        contents = store.cached(key for id_ in rewritten for key in keys[id_])
    documents = []
    for id_, stamp in stamps.items():
        vectors = None
        if id_ in rewritten:
            with invalid_rows(store.path, f"the vectors of document {id_!r}"):
                rows = [np.frombuffer(contents[key], dtype="<f4") for key in keys[id_]]
                vectors = np.stack(rows) if rows else np.empty((0, 0), dtype=np.float32)
        documents.append(NewDocument(id_, stamp, digests[id_], vectors, known.get(id_)))
    return documents


def _digest(document_id: str, keys: Sequence[bytes]) -> str:
    hashed = hashlib.sha256(document_id.encode("utf-8", "surrogatepass"))
    for key in keys:
        hashed.update(len(key).to_bytes(4) + key)
    return hashed.hexdigest()
