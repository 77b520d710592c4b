"""Writing a property graph as a folder of tables: CSV for `neo4j-admin`, and Parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from e2graphrag_integrations.errors import MissingDependencyError
from e2graphrag_integrations.portability.graph_writer import (
    RELATION_TYPES,
    GraphWriter,
    converted,
)
from e2graphrag_integrations.portability.property_graph import (
    PROPERTY_OF_RELATION,
    GraphNode,
    GraphRelation,
    PropertyGraph,
    Value,
)


class CsvFolder(GraphWriter):
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
        """Begin the file of a label."""
        typed = [f"{name}:{self._TYPES[kind]}" for name, kind in columns.items()]
        self._start(label, ["id:ID", *typed, ":LABEL"])

    def write_nodes(self, nodes: Sequence[GraphNode], columns: Mapping[str, type]) -> None:
        """Write one row per node."""
        for node in nodes:
            values = (converted(node.properties.get(n), kind) for n, kind in columns.items())
            self._write([node.id, *values, node.label])

    def start_relations(self, label: str) -> None:
        """Begin the file of a label."""
        name = PROPERTY_OF_RELATION.get(label)
        typed = [] if name is None else [f"{name}:{self._TYPES[RELATION_TYPES[name]]}"]
        self._start(label, [":START_ID", *typed, ":END_ID", ":TYPE"])

    def write_relations(self, relations: Sequence[GraphRelation]) -> None:
        """Write one row per relation."""
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

    def __exit__(self, *_: object) -> None:
        self._files.close()


class ParquetFolder(GraphWriter):
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
        """Begin the file of a label."""
        self._start(label, {"id": str, **columns})

    def write_nodes(self, nodes: Sequence[GraphNode], columns: Mapping[str, type]) -> None:
        """Write one row per node."""
        values = {
            name: [converted(node.properties.get(name), kind) for node in nodes]
            for name, kind in columns.items()
        }
        self._write({"id": [node.id for node in nodes], **values})

    def start_relations(self, label: str) -> None:
        """Begin the file of a label."""
        name = PROPERTY_OF_RELATION.get(label)
        own = {} if name is None else {name: RELATION_TYPES[name]}
        self._start(label, {"source": str, "target": str, **own})

    def write_relations(self, relations: Sequence[GraphRelation]) -> None:
        """Write one row per relation."""
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

    def __exit__(self, *_: object) -> None:
        self._files.close()
