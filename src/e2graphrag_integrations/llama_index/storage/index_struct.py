"""`E2GraphRAGIndexStruct`: the trees, entity mentions and ids of an index in an index store.

Each document is encoded once, on insertion, and decoded on first use. Saving the struct after an
insertion compresses only the inserted documents.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from llama_index.core.data_structs.data_structs import IndexStruct
from llama_index.core.data_structs.struct_type import IndexStructType

from e2graphrag_integrations._utils.decoding import invalid_rows
from e2graphrag_integrations._utils.format_versions import check_format_version
from e2graphrag_integrations.entities.edits import NO_EDITS, EntityEdits
from e2graphrag_integrations.errors import CorruptStoreError
from e2graphrag_integrations.llama_index.storage.record import DocumentRecord
from e2graphrag_integrations.text.tags import TagSet

TYPE = "import e2graphrag_integrations.llama_index"
"""Type of the struct in index stores. LlamaIndex raises a KeyError with this text if the package is
not imported, so the text names the missing import."""
SCHEMA_VERSION = 5
"""Version of the JSON format. Other versions are refused."""


@dataclass
class E2GraphRAGIndexStruct(IndexStruct):
    """The documents of an index without their texts (docstore) and vectors (vector store).

    Attributes:
        made_with: Settings and model fingerprints of the index.
        generation: Id that changes with every write; not stored.
        payloads: The encoded record of each tree, keyed by its id.
        tree_per: Name of the rule that decides which documents share a tree; empty if the index has
            no documents.
        pages: For each tree that documents share, their ids.
        digest: SHA-256 of all records and edits when the struct was last saved; the docstore notes
            it too.
        leftovers: Ids to remove from the stores, under the keys `nodes`, `documents` and
            `vectors`. If a removal fails, the next write tries again.
        edits: The user's entity edits.
        tag_set: The tags that chunks can have, as `TagSet.to_json` encodes them; empty if none.
    """

    made_with: dict[str, str] = field(default_factory=dict)
    generation: str = field(default_factory=lambda: uuid.uuid4().hex, compare=False)
    payloads: dict[str, str] = field(default_factory=dict)
    digest: str = ""
    tree_per: str = ""
    pages: dict[str, list[str]] = field(default_factory=dict)
    leftovers: dict[str, list[str]] = field(default_factory=dict)
    edits: EntityEdits = NO_EDITS
    tag_set: str = ""
    _decoded: dict[str, DocumentRecord] = field(default_factory=dict, repr=False, compare=False)
    _trees: dict[str, str] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def get_type(cls) -> IndexStructType:
        """Return the type of the struct in index stores."""
        # LlamaIndex's enum cannot be extended, but all code that reads it accepts a string.
        return cast("IndexStructType", TYPE)

    def tree_of(self, document_id: str) -> str | None:
        """Return the id of the tree that contains a document, or None if there is none."""
        if self._trees is None:
            self._trees = {page: tree for tree, pages in self.pages.items() for page in pages}
        tree = self._trees.get(document_id)
        is_alone = document_id in self.payloads and document_id not in self.pages
        return document_id if tree is None and is_alone else tree

    def documents_of(self, tree_id: str) -> list[str]:
        """Return the ids of the documents in a tree."""
        return self.pages.get(tree_id, [tree_id])

    def record(self, document_id: str) -> DocumentRecord:
        """Return the record of a tree.

        Raises:
            KeyError: If the tree is not in the index.
            CorruptStoreError: If the record is damaged.
        """
        record = self._decoded.get(document_id)
        if record is None:
            where = f"document {document_id!r} of index {self.index_id}"
            record = DocumentRecord.decode(self.payloads[document_id], where)
            if record.id != document_id:  # the checksum does not cover the dictionary key
                raise CorruptStoreError(
                    f"{where} is damaged: its record belongs to document {record.id!r}. Restore a "
                    "backup of the index store, or insert the document again"
                )
            self._decoded[document_id] = record
        return record

    def records(self) -> Iterator[DocumentRecord]:
        """Yield all records in the order of their document ids."""
        for document_id in sorted(self.payloads):
            yield self.record(document_id)

    def put_records(self, records: Iterable[DocumentRecord]) -> None:
        """Add or replace documents."""
        for record in records:
            self.payloads[record.id] = record.encode()
            self._decoded[record.id] = record
            self.pages.pop(record.id, None)
            if record.pages:
                self.pages[record.id] = [page.id for page in record.pages]
        self._trees = None
        self.start_generation()

    def remove_records(self, document_ids: Iterable[str]) -> None:
        """Remove documents; unknown ids are ignored."""
        for document_id in document_ids:
            self.payloads.pop(document_id, None)
            self._decoded.pop(document_id, None)
            self.pages.pop(document_id, None)
        self._trees = None
        self.start_generation()

    def copy_from(self, other: E2GraphRAGIndexStruct) -> None:
        """Replace the content with that of another struct for the same index."""
        self.made_with = dict(other.made_with)
        self.payloads = dict(other.payloads)
        self.digest = other.digest
        self.tree_per = other.tree_per
        self.pages = {tree: list(pages) for tree, pages in other.pages.items()}
        self._trees = None
        self.leftovers = {kind: list(ids) for kind, ids in other.leftovers.items()}
        self.edits = other.edits
        self.tag_set = other.tag_set
        self._decoded.clear()
        self.start_generation()

    def tags(self) -> TagSet:
        """Return the tags that chunks can have.

        Raises:
            CorruptStoreError: If they are damaged.
        """
        with invalid_rows(f"index {self.index_id}", "the tag set in the index store"):
            return TagSet.from_json(self.tag_set)

    def put_tags(self, tag_set: TagSet) -> None:
        """Replace the tags that chunks can have."""
        self.tag_set = tag_set.to_json()
        self.start_generation()

    def update_digest(self) -> None:
        """Compute the digest, before the struct is saved."""
        digest = hashlib.sha256()
        for document_id in sorted(self.payloads):
            digest.update(
                f"{document_id}\0{self.payloads[document_id]}\0".encode("utf-8", "surrogatepass")
            )
        if self.edits:
            digest.update(json.dumps(self.edits.to_json()).encode())
        self.digest = digest.hexdigest()

    def start_generation(self) -> None:
        """Give the struct a new generation, so that readers rebuild their snapshots."""
        self.generation = uuid.uuid4().hex

    def to_dict(self, encode_json: bool = False) -> dict[str, Any]:  # noqa: ARG002 - the signature of the base class
        """Return the struct as plain JSON values."""
        edits = {"edits": self.edits.to_json()} if self.edits else {}
        tags = {"tag_set": self.tag_set} if self.tag_set else {}
        return edits | {
            "index_id": self.index_id,
            "summary": self.summary,
            "schema_version": SCHEMA_VERSION,
            "made_with": dict(self.made_with),
            "documents": dict(self.payloads),
            "digest": self.digest,
            "tree_per": self.tree_per,
            "pages": {tree: list(pages) for tree, pages in self.pages.items()},
            "leftovers": {kind: list(ids) for kind, ids in self.leftovers.items()},
            **tags,
        }

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
        where = f"index {kvs.get('index_id')} of LlamaIndex"
        check_format_version(where, kvs["schema_version"], SCHEMA_VERSION)
        try:
            return cls(
                index_id=str(kvs["index_id"]),
                summary=kvs["summary"],
                made_with=_checked_strings(kvs["made_with"]),
                payloads=_checked_strings(kvs["documents"]),
                digest=str(kvs["digest"]),
                tree_per=str(kvs["tree_per"]),
                pages={str(k): [str(i) for i in ids] for k, ids in kvs["pages"].items()},
                leftovers={str(k): [str(i) for i in ids] for k, ids in kvs["leftovers"].items()},
                edits=EntityEdits.from_json(kvs.get("edits", [])),
                tag_set=str(kvs.get("tag_set", "")),
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise CorruptStoreError(
                f"index {kvs.get('index_id')} is damaged in the index store "
                f"({type(error).__name__}: {error}): restore a backup, or build the index again"
            ) from error

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


def _checked_strings(given: Any) -> dict[str, str]:
    if not isinstance(given, Mapping) or not all(
        isinstance(k, str) and isinstance(v, str) for k, v in given.items()
    ):
        raise TypeError("expected an object with string values")
    return dict(given)
