"""What an index knows of a document already, where the write path looks before it pays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from llama_index.core.schema import MetadataMode

from e2graphrag_integrations.components import Components
from e2graphrag_integrations.errors import StoreError
from e2graphrag_integrations.indexing.pipeline import extraction_key
from e2graphrag_integrations.indexing.summaries import SummaryBuilder
from e2graphrag_integrations.llama_index.storage.record import DocumentRecord
from e2graphrag_integrations.llama_index.storage.storage import IndexStorage
from e2graphrag_integrations.store.records import encode_sentences
from e2graphrag_integrations.tree import with_child_ids, without_overlap
from e2graphrag_integrations.types import Node


def known_contents(
    storage: IndexStorage, document_id: str, components: Components, maker: SummaryBuilder
) -> Iterator[dict[bytes, bytes]]:
    """Yield summaries, mentions and vectors of the stored version of a document, by cache keys.

    Nothing where its texts are gone from the docstore; no vectors where the store gives none out.
    """
    record = storage.struct.record(document_id)
    nodes = _nodes(storage, record)
    if nodes is None:
        return
    yield _summaries(nodes, maker)
    leaves = [node for node in nodes if node.level == 0]
    yield {
        extraction_key(components.extractor_print, leaf.text): encode_sentences(found)
        for leaf, found in zip(leaves, record.mentions.chunks(), strict=True)
    }
    yield _vectors(storage, record, nodes, components)


def known_summaries(
    storage: IndexStorage, document_id: str, maker: SummaryBuilder
) -> dict[bytes, bytes]:
    """Return the summaries of the stored version of a document, by cache keys."""
    return _summaries(_nodes(storage, storage.struct.record(document_id)) or [], maker)


def _summaries(nodes: list[Node], maker: SummaryBuilder) -> dict[bytes, bytes]:
    by_id = {node.id: node for node in nodes}
    summaries = {}
    for node in nodes:
        if node.level and node.child_ids:
            below = without_overlap([by_id[child] for child in node.child_ids])
            summaries[maker.key(below, node.level)] = node.text.encode()
    return summaries


def _nodes(storage: IndexStorage, record: DocumentRecord) -> list[Node] | None:
    """Return a document's nodes with their texts, None if some are gone from the docstore."""
    own = storage.docstore_nodes(record)
    if any(node.id not in own for node in record.nodes):
        return None
    return [
        replace(node, text=own[node.id].get_content(metadata_mode=MetadataMode.NONE))
        for node in with_child_ids(record.nodes)
    ]


def _vectors(
    storage: IndexStorage, record: DocumentRecord, nodes: list[Node], components: Components
) -> dict[bytes, bytes]:
    if not record.windows:
        return {}
    try:
        read = storage.vectors.read([window.stored for window in record.windows])
    except StoreError:
        return {}
    if read is None:
        return {}
    embedder = components.embedder
    prefix = embedder.prefix(record.title)
    return {
        embedder.key(
            prefix + nodes[window.node].text[window.span.start : window.span.end],
            components.embedder_print,
        ): vector.astype("<f4").tobytes()
        for window, vector in zip(record.windows, read, strict=True)
    }
