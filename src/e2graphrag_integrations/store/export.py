"""The index as canonical text: equal indexes give equal bytes, however they came about.

Documents, nodes, mentions, edges and vectors; no caches, no generation, no row ids.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from e2graphrag_integrations.store.records import canonical_json, decode_sentences
from e2graphrag_integrations.store.snapshot import Snapshot
from e2graphrag_integrations.store.sqlite import Store

_NOT_EXPORTED = frozenset({"generation"})


def export_lines(store: Store, snapshot: Snapshot) -> Iterator[str]:
    """Yield one JSON object a line: manifest, documents, nodes with all they hold, then edges."""
    manifest = {k: v for k, v in store.manifest().items() if k not in _NOT_EXPORTED}
    yield canonical_json({"manifest": manifest})
    for head in store.heads():
        document = store.document(head.id)
        yield canonical_json(
            {
                "document": document.id,
                "title": document.title,
                "text": document.text,
                "metadata": dict(document.metadata),
                "segments": [[s[0], s[1], dict(s[2])] for s in document.segments],
            }
        )
    for stored in list(store.all_nodes()):
        yield canonical_json(_node(store, stored))
    graph = snapshot.graph
    edges = graph.edges.tocoo()
    for a, b, weight in zip(edges.row, edges.col, edges.data, strict=True):
        if a < b:
            yield canonical_json(
                {"edge": [graph.names[a], graph.names[b]], "weight": float(weight)}
            )


def _node(store: Store, stored: Any) -> dict[str, Any]:
    node = stored.node
    contents = store.cached([stored.content_key, *(key for _, key in stored.windows)])
    record: dict[str, Any] = {
        "node": node.id,
        "document": node.document_id,
        "level": node.level,
        "position": node.position,
        "span": [node.start, node.end],
        "parent": node.parent_id,
        "text": node.text,
        "windows": [
            [*span, base64.b64encode(contents[key]).decode()] for span, key in stored.windows
        ],
    }
    if node.level == 0:
        sentences = decode_sentences(contents[stored.content_key])
        record["mentions"] = [[list(m) for m in sentence] for sentence in sentences]
    return record
