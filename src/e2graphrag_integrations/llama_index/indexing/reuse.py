"""Reuse of existing summaries, extractions and vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from e2graphrag_integrations.components import Components
from e2graphrag_integrations.errors import CorruptStoreError, StoreError
from e2graphrag_integrations.indexing.extraction import extraction_key
from e2graphrag_integrations.indexing.summaries import SummaryBuilder
from e2graphrag_integrations.llama_index.indexing.inputs import DocumentInput
from e2graphrag_integrations.llama_index.storage.nodes import node_text, texts_below
from e2graphrag_integrations.llama_index.storage.storage import IndexStorage
from e2graphrag_integrations.store.records import encode_sentences
from e2graphrag_integrations.types import Node


def user_summaries(document: DocumentInput, summaries: SummaryBuilder) -> dict[bytes, bytes]:
    """Return the summaries among a user's nodes, by cache key."""
    if document.tree is None:
        return {}
    texts = {id_: node_text(node) for id_, node in document.user_nodes.items()}
    nodes = [replace(n, text=texts.get(n.id, n.text)) for n in document.tree.nodes]
    return _summaries(nodes, summaries)


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

    The result is empty if the document is new or the docstore lacks some of its nodes. It
    contains no vectors if the vector store cannot return them.
    """
    nodes = _stored_nodes(storage, document_id)
    if not nodes:
        return {}
    record = storage.struct.record(document_id)
    chunks = [node for node in nodes if node.level == 0]
    extractor = components.extractor_fingerprint(record.language)
    contents = _summaries(nodes, summaries) | {
        extraction_key(extractor, chunk.text): encode_sentences(sentences)
        for chunk, sentences in zip(chunks, record.mentions.to_chunks(), strict=True)
    }
    try:
        vectors = storage.read_vectors(record)
    except StoreError:
        vectors = None
    if vectors is None:
        return contents
    embedder, fingerprint = components.embedder, components.embedder_fingerprint
    prefix = embedder.title_prefix(record.title)
    return contents | {
        embedder.cache_key(prefix + text, fingerprint): vector.astype("<f4").tobytes()
        for text, vector in zip(record.window_texts(nodes), vectors, strict=True)
    }


def _stored_nodes(storage: IndexStorage, document_id: str) -> list[Node]:
    if document_id not in storage.struct.payloads:
        return []
    try:
        return storage.tree_nodes(storage.struct.record(document_id))
    except CorruptStoreError:
        return []  # everything is rebuilt


def _summaries(nodes: Sequence[Node], summaries: SummaryBuilder) -> dict[bytes, bytes]:
    below = texts_below(nodes)
    return {
        summaries.key(below[node.id], node.level): node.text.encode()
        for node in nodes
        if node.id in below and node.text.strip()
    }
