"""`MemorySink`: a sink that collects indexed documents in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from e2graphrag_integrations.store.records import StoredNode
from e2graphrag_integrations.store.sqlite import Store
from e2graphrag_integrations.types import SourceDocument

_SUMMARY = "summary"
"""Kind of content that goes to the cache file."""


class MemorySink:
    """A `DocumentSink` for the core's indexing pipeline.

    Documents, extractions and vectors stay in memory, so a failure leaves no trace in the stores.
    Summaries cost LLM calls and go to the cache, so that a second try can reuse them.

    Args:
        cache: Stores summaries.

    Attributes:
        documents: The nodes of each written document, by document id.
    """

    def __init__(self, cache: Store) -> None:
        self._cache = cache
        self._contents: dict[bytes, bytes] = {}
        self.documents: dict[str, Sequence[StoredNode]] = {}

    def cached(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return known contents by key."""
        wanted = list(keys)
        found = {key: self._contents[key] for key in wanted if key in self._contents}
        return found | self._cache.cached(key for key in wanted if key not in found)

    def put_cached(self, kind: str, contents: dict[bytes, bytes]) -> None:
        """Add contents: summaries to the cache, everything else in memory."""
        if kind != _SUMMARY:
            self._contents |= contents
        elif contents:
            self._cache.put_cached(kind, contents)

    def put_in_memory(self, contents: Mapping[bytes, bytes]) -> None:
        """Add contents of the index in memory only."""
        self._contents |= contents

    def write_document(
        self,
        document: SourceDocument,
        nodes: Sequence[StoredNode],
        manifest: Mapping[str, str],  # noqa: ARG002 - the index struct stores it
        replaces: str | None = None,  # noqa: ARG002 - the index storage replaces documents
    ) -> Sequence[bytes]:
        """Collect a document."""
        self.documents[document.id] = nodes
        return ()

    def drop_unused(self, keys: Collection[bytes] | None = None) -> None:
        """Do nothing: the sink is dropped after the insertion."""
