"""`E2GraphRAGIndexStruct`: trees, graph and ids of an index, as an index store keeps them.

Each document is encoded once, when it is inserted, and decoded when it is first needed: storing the
struct after an insert compresses what was inserted, and copies what is there.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from llama_index.core.data_structs.data_structs import IndexStruct
from llama_index.core.data_structs.struct_type import IndexStructType

from e2graphrag_integrations.errors import CorruptStoreError, SchemaVersionError
from e2graphrag_integrations.llama_index.storage.record import DocumentRecord

TYPE = "import e2graphrag_integrations.llama_index"
"""Where the package was not imported, loading fails with a KeyError of this name, which is why it
says what to do."""
SCHEMA_VERSION = 1


@dataclass
class E2GraphRAGIndexStruct(IndexStruct):
    """What the index knows of its documents, but for texts (docstore) and vectors (vector store).

    Attributes:
        made_with: Settings, and fingerprints of the models, that the documents were made with.
        generation: Changes with every write; not stored.
        payloads: Each document's record, encoded, by ref_doc_id.
        leftovers: Ids of `nodes`, `documents` and `vectors` that are no longer the index's and may
            still be in the stores: what a failed removal leaves, the next write removes.
    """

    made_with: dict[str, str] = field(default_factory=dict)
    generation: str = field(default_factory=lambda: uuid.uuid4().hex, compare=False)
    payloads: dict[str, str] = field(default_factory=dict)
    leftovers: dict[str, list[str]] = field(default_factory=dict)
    _decoded: dict[str, DocumentRecord] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def get_type(cls) -> IndexStructType:
        """Return the name that index stores know this struct by."""
        # LlamaIndex's enum cannot be extended; everything that reads it takes a plain string.
        return cast("IndexStructType", TYPE)

    def record(self, document_id: str) -> DocumentRecord:
        """Return a document's record.

        Raises:
            KeyError: If it is not there.
            CorruptStoreError: If it is damaged.
        """
        found = self._decoded.get(document_id)
        if found is None:
            where = f"document {document_id!r} of index {self.index_id}"
            found = DocumentRecord.decode(self.payloads[document_id], where)
            if found.id != document_id:  # the name is outside of the record's checksum
                raise CorruptStoreError(
                    f"{where} is damaged (its record is of {found.id!r}): restore a backup of the "
                    "index store, or index the document again"
                )
            self._decoded[document_id] = found
        return found

    def records(self) -> Iterator[DocumentRecord]:
        """Yield all records, by document id."""
        for document_id in sorted(self.payloads):
            yield self.record(document_id)

    def owe(self, kind: str, ids: Iterable[str]) -> None:
        """Note what is to be removed from the stores."""
        self.leftovers.setdefault(kind, []).extend(ids)

    def put(self, records: Iterable[DocumentRecord]) -> None:
        """Add or replace documents."""
        for record in records:
            self.payloads[record.id] = record.encode()
            self._decoded[record.id] = record
        self.advance()

    def drop(self, document_ids: Iterable[str]) -> None:
        """Remove documents."""
        for document_id in document_ids:
            self.payloads.pop(document_id, None)
            self._decoded.pop(document_id, None)
        self.advance()

    def take_over(self, other: E2GraphRAGIndexStruct) -> None:
        """Become what another handle of the same index has stored."""
        self.made_with = dict(other.made_with)
        self.payloads = dict(other.payloads)
        self.leftovers = {kind: list(ids) for kind, ids in other.leftovers.items()}
        self._decoded.clear()
        self.advance()

    def advance(self) -> None:
        """Give the present state a new name: what was read of the old one is read again."""
        self.generation = uuid.uuid4().hex

    def to_dict(self, encode_json: bool = False) -> dict[str, Any]:  # noqa: ARG002 - the mixin's signature
        """Return the struct as plain JSON values."""
        return {
            "index_id": self.index_id,
            "summary": self.summary,
            "schema_version": SCHEMA_VERSION,
            "made_with": dict(self.made_with),
            "documents": dict(self.payloads),
            "leftovers": {kind: list(ids) for kind, ids in self.leftovers.items()},
        }

    def to_json(self, **kwargs: Any) -> str:
        """Return the struct as JSON."""
        return json.dumps(self.to_dict(), **kwargs)

    @classmethod
    def from_dict(cls, kvs: Any, *, infer_missing: bool = False) -> E2GraphRAGIndexStruct:  # noqa: ARG003 - the mixin's signature
        """Undo `to_dict`.

        Raises:
            SchemaVersionError: If a newer version of this package made it.
            CorruptStoreError: If it is damaged.
        """
        if not isinstance(kvs, Mapping) or not isinstance(kvs.get("schema_version"), int):
            raise CorruptStoreError(
                "the index store holds an e2graphrag struct without a schema version: restore a "
                "backup, or build the index again"
            )
        if kvs["schema_version"] > SCHEMA_VERSION:
            raise SchemaVersionError(
                f"index {kvs.get('index_id')} has schema version {kvs['schema_version']}, this "
                f"package reads up to {SCHEMA_VERSION}: upgrade e2graphrag-integrations"
            )
        try:
            return cls(
                index_id=str(kvs["index_id"]),
                summary=kvs["summary"],
                made_with=_strings(kvs["made_with"]),
                payloads=_strings(kvs["documents"]),
                leftovers={str(k): [str(i) for i in ids] for k, ids in kvs["leftovers"].items()},
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise CorruptStoreError(
                f"index {kvs.get('index_id')} is damaged in the index store "
                f"({type(error).__name__}: {error}): restore a backup, or build it again"
            ) from error

    @classmethod
    def from_json(cls, s: str | bytes | bytearray, **kwargs: Any) -> E2GraphRAGIndexStruct:
        """Undo `to_json`.

        Raises:
            SchemaVersionError: If a newer version of this package made it.
            CorruptStoreError: If it is damaged.
        """
        try:
            plain = json.loads(s, **kwargs)
        except ValueError as error:
            raise CorruptStoreError(
                f"the index store holds an e2graphrag struct that is no JSON ({error}): restore a "
                "backup, or build the index again"
            ) from error
        return cls.from_dict(plain)


def _strings(given: Any) -> dict[str, str]:
    if not isinstance(given, Mapping) or not all(
        isinstance(k, str) and isinstance(v, str) for k, v in given.items()
    ):
        raise TypeError("a table is not one of strings")
    return dict(given)
