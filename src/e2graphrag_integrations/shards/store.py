"""`ShardedStore`: the stores of all shards, as far as one can read them together."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn, Self

from e2graphrag_integrations._utils.failures import CodedText
from e2graphrag_integrations.errors import InvalidInputError, UnknownDocumentError
from e2graphrag_integrations.reports import DeleteReport
from e2graphrag_integrations.shards.calls import Request, ShardCalls
from e2graphrag_integrations.shards.host import StaleShardError
from e2graphrag_integrations.shards.merging import generation_name, merged_manifest, shard_of
from e2graphrag_integrations.store.database import KnownGeneration, LeaseHolder, WriteLock, Writer
from e2graphrag_integrations.store.records import DocumentHeader, StaleSnapshotError, StoredNode
from e2graphrag_integrations.store.store import StampOf, Store
from e2graphrag_integrations.text.tags import TagSet
from e2graphrag_integrations.types import Node, Sentences, SourceDocument


def unsupported(what: str) -> InvalidInputError:
    """Return the error for what works only in an index of one file or schema."""
    return InvalidInputError(
        CodedText(
            "shards_unsupported",
            "{what} does not work across shards: open the shards one by one with E2GraphRAG.open, "
            "or use an index in one file or schema",
            what=what,
        )
    )


class _NoDatabase:
    """Stands for the database that several shards do not have in common."""

    newest = None
    is_forked = False

    def __init__(self, path: str, calls: ShardCalls) -> None:
        self.path = self.location = path
        self.is_closed = False
        self._calls = calls

    def size(self) -> int:
        """Return the size of all shards in bytes."""
        return sum(self._calls.all("size").values())

    def lease_holders(self) -> Mapping[str, LeaseHolder]:
        return {}

    def check_writable(self) -> None:
        """Do nothing: each shard checks this itself."""

    def close(self, *, merge_log: bool = True) -> None:
        del merge_log
        self.is_closed = True
        self._calls.close()

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise unsupported("this operation")


class _NoLock:
    """Stands for the lock that several shards do not have in common."""

    def __init__(self, calls: ShardCalls) -> None:
        self._calls = calls

    def acquire(self, cancelled: Callable[[], bool] | None = None) -> AbstractContextManager[None]:
        del cancelled
        raise unsupported("this write")

    def share(self, cancelled: Callable[[], bool] | None = None) -> AbstractContextManager[None]:
        return self.acquire(cancelled)

    def own(self) -> Writer | None:
        """Return None: nobody can hold the lock of all shards."""
        return None

    def holder(self) -> Writer | None:
        return next(filter(None, self._calls.all("read_index", "writer").values()), None)


class ShardedStore(Store):
    """Reads the stores of all shards. What needs one database raises an `InvalidInputError`.

    Args:
        path: Name of the shards, for messages.
        calls: Requests to the shards.
    """

    def __init__(self, path: str, calls: ShardCalls) -> None:
        database: Any = _NoDatabase(path, calls)
        self._open(database)
        self._calls = calls
        self._names: dict[int, str] = {}

    @property
    def index_lock(self) -> WriteLock:
        """The lock, which nobody can hold for all shards."""
        return _NoLock(self._calls)

    def read_transaction(self) -> AbstractContextManager[None]:
        """Do nothing: shards cannot be read in one transaction."""
        return nullcontext()

    def reopen(self) -> Self:
        """Return this store: requests to shards do not wait for one another."""
        return self

    # Generations

    def generations(self) -> tuple[str, ...]:
        """Return the newest generation of each shard; the last known one of a missing shard."""
        found = self._calls.all("generation")
        self._names |= found
        # Another thread may have stored an older one meanwhile.
        known = {**self._names, **found}
        return tuple(known.get(shard, "") for shard in range(len(self._calls.names)))

    @property
    def generation(self) -> str:
        """The name of the generation that consists of the newest one of each shard."""
        return generation_name(self.generations())

    def newest_generation(self, until: float) -> KnownGeneration:
        """Return the newest generation, which is always read."""
        del until
        began = time.monotonic()
        return KnownGeneration(self.generation, began)

    def listen(self, on_change: Callable[[], None]) -> None:
        """Do nothing: each question asks all shards for their generations."""

    # What is the same in all shards

    def manifest(self) -> dict[str, str]:
        """Return the settings and model fingerprints of the documents in all shards.

        Raises:
            SettingsMismatchError: If shards have different ones.
        """
        found = self._calls.all("read_store", "manifest")
        return merged_manifest({self._calls.names[shard]: one for shard, one in found.items()})

    def queue_manifest(self) -> dict[str, str]:
        """Return the settings and model fingerprints for the queues of all shards."""
        return self._joined("queue_manifest")

    def tag_set(self) -> TagSet:
        """Return the tags that chunks can have, which are the same in all shards."""
        shard = min(set(range(len(self._calls.names))) - self._calls.missing)
        found: TagSet = self._calls.one(shard, "read_store", "tag_set")
        return found

    def put_tag_set(self, tag_set: TagSet) -> None:
        """Set the tags of all shards, one after another."""
        for shard in range(len(self._calls.names)):
            self._calls.ask({shard: Request("put_tag_set", (tag_set,), writes=True)})

    # Documents

    def content_hashes(self) -> dict[str, str]:
        """Return the content hash of each document by id."""
        return self._joined("content_hashes")

    def languages(self) -> dict[str, str]:
        """Return the language of each document by id."""
        return self._joined("languages")

    def stamps(self) -> dict[str, str]:
        """Return the stamp of each document by id, ordered by id."""
        return dict(sorted(self._joined("stamps").items()))

    def hashes_and_languages(
        self, ids: Collection[str] | None = None
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Return the content hash and the language of each document by id."""
        parts = self._calls.all("read_store", "hashes_and_languages", ids).values()
        hashes = {id_: one for own, _ in parts for id_, one in own.items()}
        return hashes, {id_: one for _, own in parts for id_, one in own.items()}

    def counts(self) -> dict[str, int]:
        """Return the number of documents, chunks and summaries."""
        return self._summed("counts")

    def language_counts(self) -> dict[str, int]:
        """Return the number of documents in each language."""
        return self._summed("language_counts")

    def document_headers(self, ids: Sequence[str] | None = None) -> list[DocumentHeader]:
        """Return documents without their texts, ordered by id."""
        parts = self._calls.all("read_store", "document_headers", ids).values()
        return sorted((one for own in parts for one in own), key=lambda header: header.id)

    def document(self, document_id: str) -> SourceDocument:
        """Return a document.

        Raises:
            UnknownDocumentError: If there is no such document.
        """
        shard = shard_of(document_id, len(self._calls.names))
        try:
            found: SourceDocument = self._calls.one(shard, "read_store", "document", document_id)
        except UnknownDocumentError:
            message = f"no document {document_id!r} in {self.path}"
            raise UnknownDocumentError(message, document_id) from None
        return found

    # Nodes

    def nodes(self, ids: Sequence[str]) -> dict[str, Node]:
        """Return nodes by id; ids of nodes that do not exist are omitted."""
        return self._joined("nodes", list(ids))

    def nodes_at(
        self, generation: str, ids: Sequence[str], stamp_of: StampOf | None = None
    ) -> dict[str, Node]:
        """Return nodes by id, as they were in a merged generation.

        Raises:
            StaleSnapshotError: If documents were changed or deleted since. It names the nodes.
        """
        del stamp_of  # each shard knows the stamps of its generations
        return self._unchanged("nodes_at", generation, ids)

    def mentions_at(
        self, generation: str, ids: Sequence[str], stamp_of: StampOf | None = None
    ) -> dict[str, Sentences]:
        """Return the mentions in each sentence of chunks, by id; see `nodes_at`."""
        del stamp_of
        return self._unchanged("mentions_at", generation, ids)

    def all_nodes(self, document_ids: Sequence[str] | None = None) -> Iterator[StoredNode]:
        """Yield nodes with their windows, ordered by document, level and position."""
        parts = self._calls.all("read_store", "all_nodes", document_ids).values()
        nodes = [one for own in parts for one in own]
        return iter(sorted(nodes, key=lambda one: (one.node.document_id, one.node.level)))

    def cached(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the contents that any shard has, by key."""
        return self._joined("cached", list(keys))

    def delete_documents(self, ids: Sequence[str], *, with_pending: bool = True) -> DeleteReport:
        """Raise an error: `ShardedIndex.delete` asks the shards."""
        del ids, with_pending
        raise unsupported("this write")

    def _unchanged(self, method: str, generation: str, ids: Sequence[str]) -> dict[str, Any]:
        requests = {
            shard: Request(method, (list(ids),), name)
            for shard, name in enumerate(generation.split("."))
            if name  # a partial answer does without the others
        }
        try:
            found = self._calls.ask(requests)
        except StaleShardError as error:
            raise StaleSnapshotError("a shard has changed since the snapshot") from error
        results = {id_: one for own, _ in found.values() for id_, one in own.items()}
        changed = {id_ for _, own in found.values() for id_ in own}
        lost = changed.union(id_ for id_ in ids if id_ not in results)
        if lost:
            raise StaleSnapshotError("documents of the snapshot were changed or deleted", lost)
        return results

    def _joined(self, method: str, *arguments: Any) -> dict[Any, Any]:
        parts = self._calls.all("read_store", method, *arguments).values()
        return {key: value for one in parts for key, value in one.items()}

    def _summed(self, method: str) -> dict[str, int]:
        total: Counter[str] = Counter()
        for one in self._calls.all("read_store", method).values():
            total.update(one)
        return dict(total)
