"""The index as canonical text: equal indexes give equal bytes, however they came about.

Documents, nodes, mentions, edges and vectors; no caches, no generation, no row ids.
"""

from __future__ import annotations

import base64
from typing import Any

from e2graphrag_integrations.snapshot.files import current_snapshot
from e2graphrag_integrations.store.records import (
    StoredNode,
    canonical_json,
    decode_sentences,
)
from e2graphrag_integrations.store.sqlite import Store
from e2graphrag_integrations.types import SourceDocument


def export_lines(store: Store) -> list[str]:
    """Return one JSON object a line: manifest, documents, nodes with all they hold, then edges."""
    with store.consistent():
        snapshot = current_snapshot(store)
        lines = [canonical_json({"manifest": store.manifest()})]
        lines.extend(canonical_json(document_record(store.document(h.id))) for h in store.heads())
        lines.extend(canonical_json(_node(store, stored)) for stored in store.all_nodes())
    graph = snapshot.graph
    edges = graph.edges.tocoo()
    for a, b, weight in zip(edges.row, edges.col, edges.data, strict=True):
        if a < b:
            edge = {"edge": [graph.names[a], graph.names[b]], "weight": float(weight)}
            lines.append(canonical_json(edge))
    return lines


def document_record(document: SourceDocument) -> dict[str, Any]:
    """Return a document as plain JSON values."""
    return {
        "document": document.id,
        "title": document.title,
        "text": document.text,
        "metadata": dict(document.metadata),
        "segments": [[s[0], s[1], dict(s[2])] for s in document.segments],
    }


def node_record(store: Store, stored: StoredNode) -> dict[str, Any]:
    """Return a node as plain JSON values, with a chunk's mentions and without vectors."""
    node = stored.node
    record: dict[str, Any] = {
        "node": node.id,
        "document": node.document_id,
        "level": node.level,
        "position": node.position,
        "span": [node.start, node.end],
        "parent": node.parent_id,
        "text": node.text,
    }
    if node.level == 0:
        sentences = decode_sentences(store.cached([stored.content_key])[stored.content_key])
        record["mentions"] = [[list(m) for m in sentence] for sentence in sentences]
    return record


def _node(store: Store, stored: StoredNode) -> dict[str, Any]:
    vectors = store.cached(key for _, key in stored.windows)
    windows = [[*span, base64.b64encode(vectors[key]).decode()] for span, key in stored.windows]
    return node_record(store, stored) | {"windows": windows}
