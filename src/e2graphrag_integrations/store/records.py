"""The store's records as frozen dataclasses, and the encodings of cached content."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from e2graphrag_integrations._utils.decoding import decompress
from e2graphrag_integrations.errors import StoreError
from e2graphrag_integrations.types import Mention as _Mention
from e2graphrag_integrations.types import Node, Segment, Sentences, SourceDocument, Span

ATTACHED = "enriched"
"""Manifest key of an index in which a `ChunkStage` has attached contents to chunks."""


class LeaseLostError(StoreError):
    """Raised when a worker writes a document that it no longer holds; nothing is written."""


class StaleSnapshotError(LookupError):
    """Raised internally when the store has changed since the snapshot was built.

    Args:
        message: What was found.
        node_ids: Ids of the nodes whose documents were changed or deleted since. Empty if it is
            unknown which documents were.

    Attributes:
        documents: Rows of these documents in the snapshot.
    """

    def __init__(self, message: str, node_ids: Collection[str] = ()) -> None:
        super().__init__(message)
        self.node_ids = frozenset(node_ids)
        self.documents: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class StoredNode:
    """A node and the keys of its cached content.

    Attributes:
        node: The node. Its `child_ids` are empty, because `parent_id` already defines the tree.
        words: Number of words in the node's text.
        content_key: Key of the cached content: a chunk's extraction or a summary's text.
        windows: For each of the node's vectors, the span of text it covers and the vector's key.
        attached: Keys of the content that a `ChunkStage` has attached to the node.
    """

    node: Node
    words: int
    content_key: bytes
    windows: tuple[tuple[Span, bytes], ...] = ()
    attached: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class DocumentHeader:
    """A stored document without its text.

    Attributes:
        id: The document's id.
        title: The document's title.
        metadata: The document's metadata.
        segments: The document's segments.
        nodes: Number of nodes in the document's tree.
        windows: Number of vectors for the document's nodes.
        stamp: A random string, replaced whenever the document is written.
        language: Code of the language.
    """

    id: str
    title: str | None
    metadata: Mapping[str, Any]
    segments: tuple[Segment, ...]
    nodes: int
    windows: int
    stamp: str
    language: str


class ContentCache(Protocol):
    """Caches extractions, summaries and vectors by a hash of the inputs that produced them."""

    def cached(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the cached content by key; keys without cached content are omitted."""

    def put_cached(self, kind: str, contents: dict[bytes, bytes]) -> None:
        """Store content permanently."""


class DocumentSink(ContentCache, Protocol):
    """Receives indexed documents and writes each of them atomically."""

    def write_document(
        self,
        document: SourceDocument,
        nodes: Sequence[StoredNode],
        manifest: Mapping[str, str],
        replaces: str | None = None,
    ) -> Sequence[bytes]:
        """Write a document and the nodes of its tree, which reference cached content.

        Returns:
            Keys of cached content that may no longer be used.
        """

    def drop_unused(self, keys: Collection[bytes] | None = None) -> None:
        """Delete cached content that no node references."""


def canonical_json(value: Any) -> str:
    """Return compact JSON with sorted keys, so that equal values give equal strings."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def document_fields(document: SourceDocument) -> dict[str, Any]:
    """Return all fields of a document except its id, as JSON values, without unknown language."""
    fields: dict[str, Any] = {
        "title": document.title,
        "text": document.text,
        "metadata": dict(document.metadata),
        "segments": [[s[0], s[1], dict(s[2])] for s in document.segments],
    }
    return fields if document.language is None else fields | {"language": document.language}


def document_from_fields(document_id: str, fields: Mapping[str, Any]) -> SourceDocument:
    """Return the document with the given id and `document_fields`.

    Raises:
        InvalidInputError: If a field is invalid.
    """
    return SourceDocument(
        document_id,
        fields["text"],
        fields["title"],
        fields["metadata"],
        fields["segments"],
        fields.get("language"),
    )


def content_hash(document: SourceDocument) -> str:
    """Return the SHA-256 hash of a document without its id, so that copies have equal hashes.

    It does not cover the language, which may be detected; see `indexing/inputs.py`.
    """
    fields = document_fields(document)
    parts = [fields[name] for name in ("text", "title", "metadata", "segments")]
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()


def encode_sentences(sentences: Sentences) -> bytes:
    """Encode the mentions that an extractor found in each sentence."""
    return zlib.compress(canonical_json([[list(m) for m in s] for s in sentences]).encode(), 6)


def decode_sentences(value: bytes) -> list[list[_Mention]]:
    """Decode the mentions that `encode_sentences` encoded."""
    return [[_Mention(*m) for m in s] for s in json.loads(decompress(value))]
