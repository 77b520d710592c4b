"""The canonical export: equal indexes give equal bytes, regardless of the order of past changes.

The export contains documents, nodes, mentions, entity edits, edges and vectors, but no caches,
generations or row ids. Its bytes are equal only if the vectors are: most embedding models round
differently in different batches.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from e2graphrag_integrations.entities.edits import EntityEdit
from e2graphrag_integrations.entities.extractor_choice import used_entries
from e2graphrag_integrations.languages.language import ENGLISH
from e2graphrag_integrations.snapshot.files import load_or_build_snapshot
from e2graphrag_integrations.store.records import (
    ATTACHED,
    StoredNode,
    canonical_json,
    decode_sentences,
    document_fields,
)
from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.store.tables.entity_edits import read_edits
from e2graphrag_integrations.types import SourceDocument


def export_lines(store: Store) -> list[str]:
    """Return the index as JSON lines: manifest, tags, documents, nodes, edits and edges."""
    with store.read_transaction():
        snapshot = load_or_build_snapshot(store)
        manifest = exported_manifest(store, snapshot.languages)
        lines = [canonical_json({"manifest": manifest})]
        if snapshot.tag_set.tags:
            tags = [asdict(tag) for tag in snapshot.tag_set.tags]
            lines.append(canonical_json({"tags": tags}))
        lines.extend(
            canonical_json(document_record(store.document(header.id)))
            for header in store.document_headers()
        )
        lines.extend(canonical_json(_node_with_vectors(store, node)) for node in store.all_nodes())
        lines.extend(canonical_json(edit_record(edit)) for edit in read_edits(store))
    graph = snapshot.graph
    edges = graph.edges.tocoo()
    for a, b, weight in zip(edges.row, edges.col, edges.data, strict=True):
        if a < b:
            edge = {"edge": [graph.names[a], graph.names[b]], "weight": float(weight)}
            lines.append(canonical_json(edge))
    return lines


def exported_manifest(store: Store, languages: Iterable[str]) -> dict[str, str]:
    """Return the entries of the manifest that concern what is exported.

    Args:
        store: The index.
        languages: The languages of all documents.
    """
    used = used_entries(store.manifest(), {*languages})
    return {key: value for key, value in used.items() if key != ATTACHED}


def document_record(document: SourceDocument) -> dict[str, Any]:
    """Return a document as JSON values, without the language if it is English."""
    fields = document_fields(document)
    if document.language == ENGLISH:
        del fields["language"]
    return {"document": document.id, **fields}


def edit_record(edit: EntityEdit) -> dict[str, Any]:
    """Return an entity edit as JSON values."""
    return {"edit": edit.kind, "names": list(edit.names)}


def node_record(store: Store, stored: StoredNode) -> dict[str, Any]:
    """Return a node as JSON values, without vectors. A chunk's mentions are included."""
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


def _node_with_vectors(store: Store, stored: StoredNode) -> dict[str, Any]:
    vectors = store.cached(key for _, key in stored.windows)
    windows = [[*span, base64.b64encode(vectors[key]).decode()] for span, key in stored.windows]
    return node_record(store, stored) | {"windows": windows}
