"""What a writer of a property graph does, and the columns of its nodes and relations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, Self

from e2graphrag_integrations.portability.property_graph import (
    CHUNK,
    COMMUNITY,
    DOCUMENT,
    ENTITY,
    SUMMARY,
    GraphNode,
    GraphRelation,
    PropertyGraph,
    Value,
)

_TEXT_COLUMNS = {
    "node_id": str,
    "document_id": str,
    "level": int,
    "position": int,
    "start": int,
    "end": int,
}
_COLUMNS: Mapping[str, Mapping[str, type]] = {
    DOCUMENT: {"document_id": str, "title": str, "language": str, "chunks": int},
    CHUNK: _TEXT_COLUMNS,
    SUMMARY: _TEXT_COLUMNS,
    ENTITY: {
        "name": str,
        "named": bool,
        "type": str,
        "mentions": int,
        "chunks": int,
        "degree": int,
    },
    COMMUNITY: {"community_id": str, "title": str, "level": int, "size": int},
}
"""The properties of the nodes with each label, except text and metadata."""

RELATION_TYPES: Mapping[str, type] = {"count": int, "weight": float}
"""The properties of relations."""


def columns_of(graph: PropertyGraph, label: str) -> dict[str, type]:
    """Return the properties of the nodes with a label, and their types."""
    columns = dict(_COLUMNS[label])
    if label in {CHUNK, SUMMARY} and graph.options.texts:
        columns["text"] = str
    return columns | ({} if label in {ENTITY, COMMUNITY} else dict(graph.metadata_types))


def converted(value: Value | None, kind: type) -> Value | None:
    """Return a value with the type of its column."""
    if value is None or type(value) is kind:
        return value
    if kind is str:
        return str(value).lower() if isinstance(value, bool) else str(value)
    return float(value)  # the type of a column of integers and floats


class GraphWriter(Protocol):
    """Writes the nodes of one label after the other, then the relations."""

    def __init__(self, path: Path, graph: PropertyGraph) -> None: ...

    def start_nodes(self, label: str, columns: Mapping[str, type]) -> None:
        """Begin the nodes with a label, which have these properties."""

    def write_nodes(self, nodes: Sequence[GraphNode], columns: Mapping[str, type]) -> None:
        """Write nodes with the label that was begun last."""

    def start_relations(self, label: str) -> None:
        """Begin the relations with a label."""

    def write_relations(self, relations: Sequence[GraphRelation]) -> None:
        """Write relations with the label that was begun last."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...
