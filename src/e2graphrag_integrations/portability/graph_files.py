"""Writing a property graph to files: tables for databases, or one file for graph tools.

The bytes depend only on the graph. Nodes and relations are written in batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from e2graphrag_integrations._utils.new_path import new_path
from e2graphrag_integrations.portability.graph_documents import (
    GexfFile,
    GraphMLFile,
    JsonFile,
)
from e2graphrag_integrations.portability.graph_formats import GraphFormat
from e2graphrag_integrations.portability.graph_tables import CsvFolder, ParquetFolder
from e2graphrag_integrations.portability.graph_writer import GraphWriter, columns_of
from e2graphrag_integrations.portability.property_graph import (
    NODE_LABELS,
    PropertyGraph,
)

_ROWS = 5_000
"""Number of nodes or relations in memory at once."""


def write_graph(graph: PropertyGraph, target: Path, format_: GraphFormat) -> dict[str, int]:
    """Write a graph to a new file or folder, atomically.

    Returns:
        The number of nodes and relations, by label.

    Raises:
        InvalidInputError: If the target exists.
        MissingDependencyError: If Parquet is asked for and pyarrow is not installed.
        StoreError: If the target cannot be written.
        StaleSnapshotError: If the stored texts are newer than the snapshot.
    """
    counts: dict[str, int] = {}
    with new_path(target) as temporary, _WRITERS[format_](temporary, graph) as writer:
        for label in NODE_LABELS:
            numbers = graph.numbers_of_labels[label]
            columns = columns_of(graph, label)
            writer.start_nodes(label, columns)
            for first in range(0, len(numbers), _ROWS):
                writer.write_nodes(list(graph.nodes(numbers[first : first + _ROWS])), columns)
            counts[label] = len(numbers)
        for table in graph.relations:
            writer.start_relations(table.label)
            for first in range(0, len(table.sources), _ROWS):
                rows = slice(first, first + _ROWS)
                writer.write_relations(list(table.selected(rows, graph.ids)))
            counts[table.label] = len(table.sources)
    return counts


_WRITERS: Mapping[GraphFormat, type[GraphWriter]] = {
    "neo4j-csv": CsvFolder,
    "graphml": GraphMLFile,
    "gexf": GexfFile,
    "json": JsonFile,
    "parquet": ParquetFolder,
}
