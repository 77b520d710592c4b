"""The methods with which an index writes its property graph to files.

What writes the files is imported at first use.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from e2graphrag_integrations.settings import checked_path

if TYPE_CHECKING:
    from e2graphrag_integrations.portability.graph_formats import GraphFormat
    from e2graphrag_integrations.portability.property_graph import GraphOptions, PropertyGraph

T = TypeVar("T")


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
        from e2graphrag_integrations._utils.new_path import check_new
        from e2graphrag_integrations.portability.graph_files import write_graph
        from e2graphrag_integrations.portability.graph_formats import graph_format
        from e2graphrag_integrations.portability.property_graph import GraphOptions

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
