"""The vector index of an open index: searches for its snapshots, and updates."""

from __future__ import annotations

import logging
from typing import TypeGuard

from e2graphrag_integrations._utils.concurrency import BackgroundTask
from e2graphrag_integrations._utils.failures import redact
from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.errors import InvalidInputError, StoreError, VectorIndexError
from e2graphrag_integrations.reports import VectorReport
from e2graphrag_integrations.search.dense import NodeSearch
from e2graphrag_integrations.search.vector_index import (
    Connection,
    IndexContents,
    VectorIndexSearch,
)
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.store.sqlite import SQLiteDatabase
from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.vectors.qdrant import QdrantIndex, QdrantVectors
from e2graphrag_integrations.vectors.writer import (
    WritableVectorIndex,
    read_identity,
    update_index,
)

logger = logging.getLogger(__name__)

PGVECTOR = "pgvector"
"""The value of `vectors=` that means the database of the index."""

VectorsArgument = QdrantVectors | str


def is_vectors(value: object) -> TypeGuard[VectorsArgument]:
    """Return whether a value may be an argument `vectors`, rather than a framework's store."""
    return isinstance(value, str | QdrantVectors)


def as_vectors(vectors: VectorsArgument, name: str = "vectors") -> QdrantVectors | None:
    """Check the argument `vectors`; return the collection, or None for pgvector.

    Args:
        vectors: The argument.
        name: Its name, for the error message.

    Raises:
        InvalidInputError: If it is invalid.
    """
    if isinstance(vectors, QdrantVectors):
        return vectors
    if vectors == PGVECTOR:
        return None
    if isinstance(vectors, str) and vectors.startswith(("http://", "https://")):
        return QdrantVectors(vectors)
    raise InvalidInputError(
        f"{name}={redact(short_repr(vectors))} must be 'int8', {PGVECTOR!r}, or the URL "
        "of a Qdrant collection such as http://localhost:6333/novels"
    )


def open_vectors(vectors: VectorsArgument, store: Store) -> OpenVectors:
    """Return the vector index that the argument `vectors` of an index means.

    Raises:
        InvalidInputError: If it is invalid, or means pgvector and the index is a file.
        MissingDependencyError: If a package is not installed.
        VectorIndexError: If the database does not have the extension.
    """
    collection = as_vectors(vectors)
    if collection is not None:
        return OpenVectors(QdrantIndex(collection, lambda: read_identity(store)), store)
    if isinstance(store.database, SQLiteDatabase):
        raise InvalidInputError(
            f"vectors={PGVECTOR!r} needs an index in Postgres, and {store.path} is a file: copy it "
            "with copy_index, or use Qdrant"
        )
    from e2graphrag_integrations.store.postgres.database import PostgresDatabase
    from e2graphrag_integrations.vectors.pgvector import PgVectorIndex

    if not isinstance(store.database, PostgresDatabase):
        raise InvalidInputError(f"{store.path} is not an index in Postgres")
    return OpenVectors(PgVectorIndex(store.database), store)


class OpenVectors:
    """A vector index that answers the questions to one open index.

    Args:
        index: The vector index.
        store: The index.
    """

    def __init__(self, index: WritableVectorIndex, store: Store) -> None:
        self._index = index
        self._store = store
        self._connection = Connection(index, self._request_reload, self._warn)
        self._task = BackgroundTask("e2graphrag-vectors")
        self._current: tuple[VectorIndexSearch, str] | None = None  # and the embedder

    def search(self, snapshot: Snapshot) -> NodeSearch:
        """Return the search of a snapshot.

        Raises:
            VectorIndexError: If the vector index cannot be used until somebody changes it.
        """
        _, own = snapshot.stored_parts()
        if not len(own.window_nodes):
            return own
        document_of = snapshot.nodes.document[own.window_nodes]
        search = VectorIndexSearch(
            self._connection, own, snapshot.documents, snapshot.stamps, document_of
        )
        current = search, snapshot.made_with.get("embedder", "")
        self._current = current
        self._load(*current)
        return search

    def _load(self, search: VectorIndexSearch, embedder: str) -> None:
        """Read the contents of the vector index for a search.

        It reads the store, so no lock may be held: a thread that waits for the lock can be in a
        read transaction, for which this one would wait. If older contents replace newer ones, the
        next search finds another token.
        """
        try:
            contents = self._index.contents()
        except VectorIndexError:
            raise
        except StoreError as error:
            self._connection.failed(error)
            search.use_contents(None, str(error))
            return
        search.use_contents(contents, _mismatch(contents, embedder))

    def _request_reload(self) -> None:
        self._task.request(self._reload_quietly)

    def _reload_quietly(self) -> None:
        """Read the contents again after an update; runs in the background."""
        try:
            self.reload()
        except StoreError as error:  # the next question meets it, too
            self._connection.failed(error)

    def reload(self) -> None:
        """Read the contents of the vector index again.

        Raises:
            VectorIndexError: If the vector index cannot be used until somebody changes it.
        """
        current = self._current
        if current is not None:
            self._load(*current)

    def update(self, *, replace: bool) -> VectorReport:
        """Bring the vector index to the current state of the index.

        Args:
            replace: Whether to delete the vectors of another index.

        Raises:
            StoreError: If the index or the vector index fails. The next call continues.
        """
        report = update_index(self._store, self._index, replace=replace)
        self._connection.succeeded()
        self.reload()
        return report

    def update_after_write(self) -> None:
        """Update the vector index; log a failure, because the index itself is complete."""
        try:
            self.update(replace=False)
        except StoreError as error:
            logger.warning(
                "%s: %s was not updated (%s); the next write or update_vectors() tries again",
                self._store.path,
                self._index.name,
                error,
            )

    def _warn(self, problem: str) -> None:
        logger.warning(
            "%s: %s cannot be searched (%s); the index's own vectors answer until it can",
            self._store.path,
            self._index.name,
            problem,
        )

    def close(self) -> None:
        """Stop the background thread."""
        self._task.stop()


def _mismatch(contents: IndexContents | None, embedder: str) -> str:
    if contents is None or contents.embedder == embedder:
        return ""
    return "it has the vectors of another embedder: call update_vectors()"
