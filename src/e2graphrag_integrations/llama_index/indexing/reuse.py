"""Reuse of summaries, extractions and vectors that exist already."""

from __future__ import annotations

from dataclasses import replace

from e2graphrag_integrations.components import Components
from e2graphrag_integrations.errors import CorruptStoreError, StoreError
from e2graphrag_integrations.indexing.extraction import extraction_key
from e2graphrag_integrations.indexing.summaries import SummaryBuilder
from e2graphrag_integrations.llama_index.indexing.inputs import DocumentInput
from e2graphrag_integrations.llama_index.storage.nodes import texts_below
from e2graphrag_integrations.llama_index.storage.record import DocumentRecord
from e2graphrag_integrations.llama_index.storage.storage import IndexStorage
from e2graphrag_integrations.store.records import encode_sentences
from e2graphrag_integrations.types import Node


def user_summaries(document: DocumentInput, summaries: SummaryBuilder) -> dict[bytes, bytes]:
    """Return the summaries among a user's nodes, by cache key."""
    if document.tree is None or not document.summaries:
        return {}
    nodes = [replace(n, text=document.summaries.get(n.id, n.text)) for n in document.tree.nodes]
    below = texts_below(nodes)
    return {
        summaries.key(below[node.id], node.level): node.text.encode()
        for node in nodes
        if node.id in document.summaries
    }


def stored_summaries(
    storage: IndexStorage, document_id: str, summaries: SummaryBuilder
) -> dict[bytes, bytes]:
    """Return the summaries of the stored version of a document, by cache key.

    The result is empty if the document is new or the docstore lacks some of its nodes.
    """
    return _summaries(_stored_nodes(storage, document_id), summaries)


def stored_contents(
    storage: IndexStorage, document_id: str, components: Components, summaries: SummaryBuilder
) -> dict[bytes, bytes]:
    """Return the summaries, extractions and vectors of a stored document, by cache key.

    The result is empty if the document is new or the docstore lacks some of its nodes. It has no
    vectors if the vector store cannot return them.
    """
    nodes = _stored_nodes(storage, document_id)
    if not nodes:
        return {}
    record = storage.struct.record(document_id)
    chunks = [node for node in nodes if node.level == 0]
    extractions = {
        extraction_key(components.extractor_fingerprint, chunk.text): encode_sentences(sentences)
        for chunk, sentences in zip(chunks, record.mentions.to_chunks(), strict=True)
    }
    return _summaries(nodes, summaries) | extractions | _vectors(storage, record, nodes, components)


def _stored_nodes(storage: IndexStorage, document_id: str) -> list[Node]:
    if document_id not in storage.struct.payloads:
        return []
    record = storage.struct.record(document_id)
    try:
        return storage.tree_nodes(record)
    except CorruptStoreError:
        return []  # everything is built again


def _summaries(nodes: list[Node], summaries: SummaryBuilder) -> dict[bytes, bytes]:
    below = texts_below(nodes)
    return {
        summaries.key(below[node.id], node.level): node.text.encode()
        for node in nodes
        if node.id in below
    }


def _vectors(
    storage: IndexStorage, record: DocumentRecord, nodes: list[Node], components: Components
) -> dict[bytes, bytes]:
    if not record.windows:
        return {}
    try:
        vectors = storage.vectors.read([w.vector_id for w in record.windows])
    except StoreError:
        return {}
    if vectors is None:
        return {}
    embedder, fingerprint = components.embedder, components.embedder_fingerprint
    prefix = embedder.title_prefix(record.title)
    texts = [nodes[w.node_row].text[w.span.start : w.span.end] for w in record.windows]
    return {
        embedder.cache_key(prefix + text, fingerprint): vector.astype("<f4").tobytes()
        for text, vector in zip(texts, vectors, strict=True)
    }
