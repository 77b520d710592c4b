"""What a file does not say of its document: the title and the metadata that were given earlier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from e2graphrag_integrations.store.queue import read_queue
from e2graphrag_integrations.store.records import DocumentHeader
from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.types import SourceDocument


def keep_descriptions(store: Store, documents: Sequence[SourceDocument]) -> list[SourceDocument]:
    """Return new versions of documents with the titles and metadata of their old versions.

    A new version has precedence where it has a title or a metadata key of its own. An old version
    is indexed, or waits in the queue. Without this, a document whose tenant was given in Python
    would leave its scope when its file is read again.
    """
    ids = [document.id for document in documents]
    old: dict[str, DocumentHeader | SourceDocument] = {
        **{header.id: header for header in store.document_headers(ids)},
        **{document.id: document for document in read_queue(store, ids)},
    }

    def keep(document: SourceDocument) -> SourceDocument:
        before = old.get(document.id)
        if before is None:
            return document
        metadata = {**before.metadata, **document.metadata}
        return replace(document, title=document.title or before.title, metadata=metadata)

    return [keep(document) for document in documents]
