"""`E2GraphRAGIndexStruct`: the summary trees and the entity graph of an index."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from llama_index.core.data_structs.data_structs import IndexStruct
from llama_index.core.data_structs.struct_type import IndexStructType

from e2graphrag_integrations._utils.decoding import check_format_version
from e2graphrag_integrations.engine import E2GraphRAG
from e2graphrag_integrations.errors import CorruptStoreError, InvalidInputError
from e2graphrag_integrations.llama_index.hits import NodeIds
from e2graphrag_integrations.retrieval.entities.entity_view import describe_entity
from e2graphrag_integrations.retrieval.hydrate import NodeSource
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.store.connection import MEMORY

TYPE = "import e2graphrag_integrations.llama_index"
"""Type of the struct in index stores. LlamaIndex raises a KeyError with this text if the package is
not imported, so the text names the missing import."""

SCHEMA_VERSION = 6
"""Version of the JSON format. Other versions are refused."""

_FASTEST = 1
"""Level of compression: the vectors, most of the content, can hardly be compressed."""


@dataclass
class E2GraphRAGIndexStruct(IndexStruct):
    """The summary trees and the entity graph of an index, as LlamaIndex's index stores keep them.

    An index store contains the content of an index in memory, or else the location of the index.
    The methods need an open index: `index.index_struct`.

    Attributes:
        location: The path of the index file or the URL of the schema; `:memory:` for an index whose
            content the index store contains.
        tree_per: Name of the rule that decides which documents share a tree.
        made_with: The settings and the model fingerprints when it was last saved.
        counts: The numbers of documents, chunks and summaries when it was last saved.
        revision: Changes whenever a write is saved.
        encoded: The index file of an index in memory as text, when it was loaded; empty otherwise.
    """

    location: str = MEMORY
    tree_per: str = ""
    made_with: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    revision: str = ""
    encoded: str = field(default="", repr=False)
    _rag: E2GraphRAG | None = field(default=None, repr=False, compare=False)

    @classmethod
    def get_type(cls) -> IndexStructType:
        """Return the type of the struct in index stores."""
        # LlamaIndex's enum cannot be extended, but all code that reads it accepts a string.
        return cast("IndexStructType", TYPE)

    def attach(self, rag: E2GraphRAG) -> None:
        """Read from an open index."""
        self._rag = rag
        self.encoded = ""

    @property
    def content(self) -> bytes:
        """The index file of an index in memory, when it was loaded; empty otherwise.

        Raises:
            CorruptStoreError: If it is damaged.
        """
        try:
            return zlib.decompress(base64.b64decode(self.encoded, validate=True))
        except (ValueError, zlib.error) as error:
            raise _damaged(self.index_id, error) from error

    @property
    def rag(self) -> E2GraphRAG:
        """The open index.

        Raises:
            InvalidInputError: If the struct does not belong to an open index.
        """
        if self._rag is None:
            raise InvalidInputError(
                "the struct is not open: call load_index_from_storage(storage_context), and use "
                "index.index_struct"
            )
        return self._rag

    # Summary trees

    def roots(self) -> list[str]:
        """Return the ids of the nodes without a parent, document by document."""

        def read(snapshot: Snapshot, _: NodeSource) -> list[str]:
            return _shown(snapshot, snapshot.nodes.roots.tolist())

        return self.rag.read_snapshot(read)

    def children(self, node_id: str) -> list[str]:
        """Return the ids of the nodes that a summary summarizes, in text order."""

        def read(snapshot: Snapshot, _: NodeSource) -> list[str]:
            row = _row(snapshot, node_id)
            first, counts = (rows[row] for rows in snapshot.nodes.children)
            return _shown(snapshot, range(first, first + counts))

        return self.rag.read_snapshot(read)

    def parent(self, node_id: str) -> str | None:
        """Return the id of the summary above a node; None for a root."""

        def read(snapshot: Snapshot, _: NodeSource) -> str | None:
            parent = int(snapshot.nodes.parents[_row(snapshot, node_id)])
            return None if parent < 0 else snapshot.nodes.ids[parent]

        return self.rag.read_snapshot(read)

    def document(self, node_id: str) -> str:
        """Return the id of the document of the engine that a node belongs to."""

        def read(snapshot: Snapshot, _: NodeSource) -> str:
            return snapshot.documents[int(snapshot.nodes.document[_row(snapshot, node_id)])]

        return self.rag.read_snapshot(read)

    # Entity graph

    def entities(self) -> list[str]:
        """Return the names of the entities, most mentioned first."""
        return [one.name for one in self.rag.entities()]

    def neighbors(self, name: str) -> dict[str, float]:
        """Return the entities that co-occur with an entity, with the weights of the edges.

        Raises:
            UnknownEntityError: If the index does not contain the entity.
        """
        details = self.rag.read_snapshot(
            lambda snapshot, source: describe_entity(snapshot, source, None, name, None)
        )
        return {one.name: one.weight for one in details.neighbors}

    def chunks(self, name: str) -> list[str]:
        """Return the ids of the chunks that mention an entity.

        Raises:
            UnknownEntityError: If the index does not contain the entity.
        """
        details = self.rag.entity(name, top=None)
        found = dict.fromkeys(one.node_id for one in details.mentions)
        names = self.rag.read_snapshot(lambda snapshot, _: NodeIds.of(snapshot))
        return [names.show(id_) for id_ in found]

    # Serialization

    def to_dict(self, encode_json: bool = False) -> dict[str, Any]:  # noqa: ARG002 - the signature of the base class
        """Return the struct as plain JSON values."""
        encoded = self.encoded
        if self._rag is not None:
            encoded = _encode(self._rag.content() or b"")
            self.made_with, self.counts = dict(self._rag.made_with), self._rag.store.counts()
        return {
            "index_id": self.index_id,
            "summary": self.summary,
            "schema_version": SCHEMA_VERSION,
            "location": self.location,
            "tree_per": self.tree_per,
            "made_with": dict(self.made_with),
            "counts": dict(self.counts),
            "revision": self.revision,
            "content": encoded or _encode(b""),
        }

    def to_json(self, **kwargs: Any) -> str:
        """Return `to_dict` as JSON; `kwargs` are passed to `json.dumps`."""
        return json.dumps(self.to_dict(), **kwargs)

    @classmethod
    def from_dict(cls, kvs: Any, *, infer_missing: bool = False) -> E2GraphRAGIndexStruct:  # noqa: ARG003 - the signature of the base class
        """Decode the output of `to_dict`.

        Raises:
            SchemaVersionError: If the struct has another format version.
            CorruptStoreError: If the struct is damaged.
        """
        if not isinstance(kvs, Mapping) or not isinstance(kvs.get("schema_version"), int):
            raise CorruptStoreError(
                "the index store contains an e2graphrag struct without a schema version: restore "
                "a backup, or build the index again"
            )
        check_format_version(
            f"index {kvs.get('index_id')} of LlamaIndex", kvs["schema_version"], SCHEMA_VERSION
        )
        try:
            return cls(
                index_id=str(kvs["index_id"]),
                summary=kvs["summary"],
                location=str(kvs["location"]),
                tree_per=str(kvs["tree_per"]),
                made_with={str(key): str(value) for key, value in kvs["made_with"].items()},
                counts={str(key): int(value) for key, value in kvs["counts"].items()},
                revision=str(kvs["revision"]),
                encoded=str(kvs["content"]),
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise _damaged(kvs.get("index_id"), error) from error

    @classmethod
    def from_json(cls, s: str | bytes | bytearray, **kwargs: Any) -> E2GraphRAGIndexStruct:
        """Decode the output of `to_json` like `from_dict`; `kwargs` are passed to `json.loads`."""
        try:
            plain = json.loads(s, **kwargs)
        except ValueError as error:
            raise CorruptStoreError(
                f"the index store contains an e2graphrag struct that is not valid JSON ({error}): "
                "restore a backup, or build the index again"
            ) from error
        return cls.from_dict(plain)


def _encode(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, _FASTEST)).decode("ascii")


def _damaged(index_id: object, error: Exception) -> CorruptStoreError:
    return CorruptStoreError(
        f"index {index_id} of LlamaIndex is damaged in the index store ({type(error).__name__}: "
        f"{error}): restore a backup, or build the index again"
    )


def _row(snapshot: Snapshot, node_id: str) -> int:
    row = snapshot.nodes.row_of.get(NodeIds.of(snapshot).stored.get(node_id, node_id))
    if row is None:
        raise InvalidInputError(f"the index has no node {node_id!r}")
    return row


def _shown(snapshot: Snapshot, rows: Iterable[int]) -> list[str]:
    names = NodeIds.of(snapshot)
    return [names.show(snapshot.nodes.ids[row]) for row in rows]
