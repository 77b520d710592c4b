"""Writing a property graph to files: tables for databases, or one file for graph tools.

The bytes depend only on the graph. Nodes and relations are written in batches.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from e2graphrag_integrations._utils.new_path import check_new, new_path
from e2graphrag_integrations.portability.graph_documents import (
    GexfFile,
    GraphMLFile,
    JsonFile,
)
from e2graphrag_integrations.portability.graph_formats import GraphFormat, graph_format
from e2graphrag_integrations.portability.graph_tables import CsvFolder, ParquetFolder
from e2graphrag_integrations.portability.graph_writer import GraphWriter, columns_of
from e2graphrag_integrations.portability.property_graph import (
    NODE_LABELS,
    GraphOptions,
    PropertyGraph,
)
from e2graphrag_integrations.settings import checked_path

T = TypeVar("T")

_ROWS = 5_000
"""Number of nodes or relations in memory at once."""


class GraphExports:
    """The methods with which an index writes its property graph to files."""

    def read_graph(self, work: Callable[[PropertyGraph], T], options: GraphOptions) -> T:
        """Return the result of a function of the property graph, for exports and graph stores.

        The graph is that of a single state of the index. If a write changes the index in the
        meantime, the function may be called again.

        Args:
            work: The function.
            options: The contents of the graph.
        """
        raise NotImplementedError

    def export_graph(
        self,
        path: str | os.PathLike[str],
        format: GraphFormat | None = None,  # noqa: A002 - the name that users know
        *,
        texts: bool = True,
        communities: bool = True,
        min_weight: float = 0.0,
    ) -> dict[str, int]:
        """Write the index as a property graph to a new file or folder, in one step.

        The nodes are documents, chunks, summaries, entities and communities. Equal indexes give
        equal bytes.

        Args:
            path: The file or folder to create. Its suffix decides the format: `.graphml`, `.gexf`,
                or `.json` for node-link JSON, which networkx reads. Without a suffix, it is a
                folder of CSV files.
            format: `neo4j-csv`, a folder for `neo4j-admin database import`; `parquet`, a folder
                (extra `parquet`); `graphml`, `gexf` or `json`, a file. None means that of the path.
            texts: Whether to include the texts of chunks and summaries.
            communities: Whether to include the communities of the entities.
            min_weight: Minimum weight of a co-occurrence.

        Returns:
            The number of nodes and relations, by label.

        Raises:
            InvalidInputError: If an argument is invalid, the suffix is unknown or contradicts the
                format, or the path already exists.
            MissingDependencyError: If pyarrow is needed and not installed.
            StoreError: If the path cannot be written. Nothing remains there.
        """
        options = GraphOptions(bool(texts), bool(communities), min_weight)
        target = Path(checked_path(path))
        format_ = graph_format(target, format)
        check_new(target)
        return self.read_graph(lambda graph: write_graph(graph, target, format_), options)

    async def aexport_graph(
        self,
        path: str | os.PathLike[str],
        format: GraphFormat | None = None,  # noqa: A002 - the name that users know
        *,
        texts: bool = True,
        communities: bool = True,
        min_weight: float = 0.0,
    ) -> dict[str, int]:
        """Run `export_graph` in a thread."""
        return await asyncio.to_thread(
            self.export_graph,
            path,
            format,
            texts=texts,
            communities=communities,
            min_weight=min_weight,
        )


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
