"""What a file does not say of its document: the title and the metadata that were given earlier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from e2graphrag_integrations.errors import UnknownDocumentError
from e2graphrag_integrations.store.queue import read_queue
from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.types import SourceDocument


def keep_descriptions(store: Store, documents: Sequence[SourceDocument]) -> list[SourceDocument]:
    """Return new versions of documents with the titles and metadata of their old versions.

    A new version has precedence where it has a title or a metadata key of its own. An old version
    is indexed, or waits in the queue. Without this, a document whose tenant was given in Python
    would leave its scope when its file is read again.
    """
    waiting = {
        entry.document.id: entry.document
        for entry in read_queue(store, [document.id for document in documents])
    }

    def keep(document: SourceDocument) -> SourceDocument:
        try:
            old = waiting.get(document.id) or store.document(document.id)
        except UnknownDocumentError:
            return document
        metadata = {**old.metadata, **document.metadata}
        return replace(document, title=document.title or old.title, metadata=metadata)

    return [keep(document) for document in documents]
