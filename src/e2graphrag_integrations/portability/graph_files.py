"""Writing a property graph to files: CSV for `neo4j-admin`, GraphML, and Parquet.

The bytes depend only on the graph. Nodes and relations are written in batches.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Literal, Protocol, Self, TypeVar, get_args
from xml.sax.saxutils import escape, quoteattr

from e2graphrag_integrations._utils.new_path import check_new, new_path
from e2graphrag_integrations._utils.validation import check_choice
from e2graphrag_integrations.errors import MissingDependencyError
from e2graphrag_integrations.portability.property_graph import (
    CHUNK,
    COMMUNITY,
    DOCUMENT,
    ENTITY,
    NODE_LABELS,
    PROPERTY_OF_RELATION,
    SUMMARY,
    GraphNode,
    GraphOptions,
    GraphRelation,
    PropertyGraph,
    Value,
)
from e2graphrag_integrations.settings import checked_path

T = TypeVar("T")

GraphFormat = Literal["neo4j-csv", "graphml", "parquet"]
FORMATS: tuple[GraphFormat, ...] = get_args(GraphFormat)

_ROWS = 5_000
"""Number of nodes or relations in memory at once."""

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
    ENTITY: {"name": str, "named": bool, "mentions": int, "chunks": int, "degree": int},
    COMMUNITY: {"community_id": str, "title": str, "level": int, "size": int},
}
"""The properties of the nodes with each label, except text and metadata."""

_RELATION_TYPES: Mapping[str, type] = {"count": int, "weight": float}

_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


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
        format: GraphFormat = "neo4j-csv",  # noqa: A002 - the name that users know
        *,
        texts: bool = True,
        communities: bool = True,
        min_weight: float = 0.0,
    ) -> dict[str, int]:
        """Write the index as a property graph to a new file or folder, in one step.

        The nodes are documents, chunks, summaries, entities and communities. Equal indexes give
        equal bytes.

        Args:
            path: The file (GraphML) or folder (CSV, Parquet) to create.
            format: `neo4j-csv`, for `neo4j-admin database import`; `graphml`; or `parquet` (extra
                `parquet`).
            texts: Whether to include the texts of chunks and summaries.
            communities: Whether to include the communities of the entities.
            min_weight: Minimum weight of a co-occurrence.

        Returns:
            The number of nodes and relations, by label.

        Raises:
            InvalidInputError: If an argument is invalid, or the path already exists.
            MissingDependencyError: If pyarrow is needed and not installed.
            StoreError: If the path cannot be written. Nothing remains there.
        """
        options = GraphOptions(bool(texts), bool(communities), min_weight)
        check_choice("format", format, FORMATS)
        target = Path(checked_path(path))
        check_new(target)
        return self.read_graph(lambda graph: write_graph(graph, target, format), options)

    async def aexport_graph(
        self,
        path: str | os.PathLike[str],
        format: GraphFormat = "neo4j-csv",  # noqa: A002 - the name that users know
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
    """Write a graph to a new file (GraphML) or folder (CSV, Parquet), atomically.

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
            columns = _columns(graph, label)
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


def _columns(graph: PropertyGraph, label: str) -> dict[str, type]:
    columns = dict(_COLUMNS[label])
    if label in {CHUNK, SUMMARY} and graph.options.texts:
        columns["text"] = str
    return columns | ({} if label in {ENTITY, COMMUNITY} else dict(graph.metadata_types))


def _converted(value: Value | None, kind: type) -> Value | None:
    """Return a value with the type of its column."""
    if value is None or type(value) is kind:
        return value
    if kind is str:
        return str(value).lower() if isinstance(value, bool) else str(value)
    return float(value)  # the type of a column of integers and floats


class _Writer(Protocol):
    """Writes the nodes of one label after the other, then the relations."""

    def __init__(self, path: Path, graph: PropertyGraph) -> None: ...

    def start_nodes(self, label: str, columns: Mapping[str, type]) -> None: ...

    def write_nodes(self, nodes: Sequence[GraphNode], columns: Mapping[str, type]) -> None: ...

    def start_relations(self, label: str) -> None: ...

    def write_relations(self, relations: Sequence[GraphRelation]) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class _CsvWriter(_Writer):
    """One CSV file per label, with the headers of `neo4j-admin database import`.

    Strings are always quoted, so that an empty string differs from a missing value.
    """

    _TYPES: Mapping[type, str] = {str: "string", int: "long", float: "double", bool: "boolean"}

    def __init__(self, path: Path, graph: PropertyGraph) -> None:
        del graph
        path.mkdir()
        self._folder = path
        self._files = ExitStack()
        self._file: IO[str]

    def start_nodes(self, label: str, columns: Mapping[str, type]) -> None:
        typed = [f"{name}:{self._TYPES[kind]}" for name, kind in columns.items()]
        self._start(label, ["id:ID", *typed, ":LABEL"])

    def write_nodes(self, nodes: Sequence[GraphNode], columns: Mapping[str, type]) -> None:
        for node in nodes:
            values = (_converted(node.properties.get(n), kind) for n, kind in columns.items())
            self._write([node.id, *values, node.label])

    def start_relations(self, label: str) -> None:
        name = PROPERTY_OF_RELATION.get(label)
        typed = [] if name is None else [f"{name}:{self._TYPES[_RELATION_TYPES[name]]}"]
        self._start(label, [":START_ID", *typed, ":END_ID", ":TYPE"])

    def write_relations(self, relations: Sequence[GraphRelation]) -> None:
        for relation in relations:
            value = [] if relation.value is None else [relation.value]
            self._write([relation.source, *value, relation.target, relation.label])

    def _start(self, label: str, header: Sequence[str]) -> None:
        self._files.close()
        path = self._folder / f"{label.lower()}.csv"
        self._file = self._files.enter_context(path.open("w", encoding="utf-8", newline=""))
        self._file.write(",".join(header) + "\n")

    def _write(self, values: Sequence[Value | None]) -> None:
        self._file.write(",".join(map(self._field, values)) + "\n")

    @staticmethod
    def _field(value: Value | None) -> str:
        if value is None:
            return ""
        if isinstance(value, str):
            return '"' + value.replace('"', '""') + '"'
        return str(value).lower()  # true, false, 1e-05

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()


class _GraphMLWriter(_Writer):
    """One GraphML file, a directed multigraph. Characters that XML forbids become U+FFFD."""

    _TYPES: Mapping[type, str] = {str: "string", int: "long", float: "double", bool: "boolean"}

    def __init__(self, path: Path, graph: PropertyGraph) -> None:
        self._file = path.open("w", encoding="utf-8", newline="")
        self._keys: dict[tuple[str, str], str] = {}
        self._write('<?xml version="1.0" encoding="UTF-8"?>')
        self._write('<graphml xmlns="http://graphml.graphdrawing.org/xmlns">')
        columns: dict[str, type] = {"label": str}
        for label in NODE_LABELS:
            columns |= _columns(graph, label)
        self._declare("node", columns)
        self._declare("edge", {"label": str, **_RELATION_TYPES})
        self._write('<graph edgedefault="directed">')

    def _declare(self, element: str, columns: Mapping[str, type]) -> None:
        for name, kind in columns.items():
            key = self._keys[element, name] = f"d{len(self._keys)}"
            self._write(
                f'<key id="{key}" for="{element}" attr.name={quoteattr(name)} '
                f'attr.type="{self._TYPES[kind]}"/>'
            )

    def start_nodes(self, label: str, columns: Mapping[str, type]) -> None:
        """Do nothing: the file has one list of nodes."""

    def write_nodes(self, nodes: Sequence[GraphNode], columns: Mapping[str, type]) -> None:
        for node in nodes:
            values = {
                name: _converted(value, columns[name]) for name, value in node.properties.items()
            }
            data = self._data("node", {"label": node.label, **values})
            self._write(f"<node id={_attribute(node.id)}>{data}</node>")

    def start_relations(self, label: str) -> None:
        """Do nothing: the file has one list of edges."""

    def write_relations(self, relations: Sequence[GraphRelation]) -> None:
        for one in relations:
            ends = f"source={_attribute(one.source)} target={_attribute(one.target)}"
            data = self._data("edge", {"label": one.label, **one.properties})
            self._write(f"<edge {ends}>{data}</edge>")

    def _data(self, element: str, values: Mapping[str, Value | None]) -> str:
        return "".join(
            f'<data key="{self._keys[element, name]}">{_content(value)}</data>'
            for name, value in values.items()
            if value is not None
        )

    def _write(self, line: str) -> None:
        self._file.write(line + "\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        try:
            if error[0] is None:
                self._write("</graph>\n</graphml>")
        finally:
            self._file.close()


def _content(value: Value) -> str:
    if isinstance(value, str):
        return escape(_NOT_IN_XML.sub("\ufffd", value), {"\r": "&#13;"})
    return str(value).lower()


def _attribute(value: str) -> str:
    return quoteattr(_NOT_IN_XML.sub("\ufffd", value))


class _ParquetWriter(_Writer):
    """One Parquet file per label, compressed with Zstandard."""

    def __init__(self, path: Path, graph: PropertyGraph) -> None:
        del graph
        try:
            import pyarrow as pa
            from pyarrow.parquet import ParquetWriter
        except ImportError as error:
            raise MissingDependencyError(
                "Parquet needs pyarrow: pip install 'e2graphrag-integrations[parquet]', or choose "
                "another format"
            ) from error
        path.mkdir()
        self._folder, self._arrow, self._open = path, pa, ParquetWriter
        self._types = {
            str: pa.string(),
            int: pa.int64(),
            float: pa.float64(),
            bool: pa.bool_(),
        }
        self._files = ExitStack()
        self._writer: Any
        self._schema: Any

    def start_nodes(self, label: str, columns: Mapping[str, type]) -> None:
        self._start(label, {"id": str, **columns})

    def write_nodes(self, nodes: Sequence[GraphNode], columns: Mapping[str, type]) -> None:
        values = {
            name: [_converted(node.properties.get(name), kind) for node in nodes]
            for name, kind in columns.items()
        }
        self._write({"id": [node.id for node in nodes], **values})

    def start_relations(self, label: str) -> None:
        name = PROPERTY_OF_RELATION.get(label)
        own = {} if name is None else {name: _RELATION_TYPES[name]}
        self._start(label, {"source": str, "target": str, **own})

    def write_relations(self, relations: Sequence[GraphRelation]) -> None:
        columns: dict[str, list[Any]] = {
            "source": [one.source for one in relations],
            "target": [one.target for one in relations],
        }
        name = PROPERTY_OF_RELATION.get(relations[0].label)
        if name is not None:
            columns[name] = [one.value for one in relations]
        self._write(columns)

    def _start(self, label: str, columns: Mapping[str, type]) -> None:
        self._files.close()
        fields = [(name, self._types[kind]) for name, kind in columns.items()]
        self._schema = self._arrow.schema(fields)
        path = self._folder / f"{label.lower()}.parquet"
        writer = self._open(path, self._schema, compression="zstd")
        self._writer = self._files.enter_context(writer)

    def _write(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self._writer.write_table(self._arrow.table(dict(columns), schema=self._schema))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()


_WRITERS: Mapping[str, type[_Writer]] = {
    "neo4j-csv": _CsvWriter,
    "graphml": _GraphMLWriter,
    "parquet": _ParquetWriter,
}
