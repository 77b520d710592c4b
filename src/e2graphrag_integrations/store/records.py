"""What the store takes and gives: rows as frozen dataclasses, and encodings of cached content."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from e2graphrag_integrations.types import Mention as _Mention
from e2graphrag_integrations.types import Node, Segment, Sentences, SourceDocument, Span


class NodeGoneError(LookupError):
    """Raised within the package when a node of the snapshot is no longer in the store."""


@dataclass(frozen=True, slots=True)
class StoredNode:
    """A node with what it links to.

    Attributes:
        node: The node; its `child_ids` are empty, parents say it all.
        words: Words in its text.
        content_key: Of a chunk its extraction, of a summary its summary.
        windows: For each vector the span of the node's text that it covers, and its key.
    """

    node: Node
    words: int
    content_key: bytes
    windows: tuple[tuple[Span, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class DocumentHead:
    """A stored document without its text."""

    id: str
    title: str | None
    metadata: Mapping[str, Any]
    segments: tuple[Segment, ...]
    content_hash: str
    nodes: int
    windows: int
    stamp: str


class ContentCache(Protocol):
    """Keeps what was made of texts, by keys of what it was made from."""

    def cached(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the contents that are there."""
        ...

    def put_cached(self, kind: str, contents: dict[bytes, bytes]) -> None:
        """Keep contents, at once and for good."""
        ...


class DocumentSink(ContentCache, Protocol):
    """Where the write path puts documents, each whole or not at all."""

    def write_document(
        self,
        document: SourceDocument,
        nodes: Sequence[StoredNode],
        manifest: Mapping[str, str],
        replaces: str | None = None,
    ) -> Sequence[bytes]:
        """Write a document and all nodes of its tree, linked to cached content.

        Returns:
            Keys of content that may be without a link now.
        """
        ...

    def drop_unused(self, keys: Collection[bytes] | None = None) -> None:
        """Forget content that nothing links to."""
        ...


def canonical_json(value: Any) -> str:
    """Return JSON that is equal for equal values."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def content_hash(document: SourceDocument) -> str:
    """Return the hash of everything in a document but its id: copies of one have the same."""
    parts = [
        document.text,
        document.title,
        dict(document.metadata),
        [[s[0], s[1], dict(s[2])] for s in document.segments],
    ]
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()


def encode_sentences(sentences: Sentences) -> bytes:
    """Encode what an extractor found in a text."""
    return zlib.compress(canonical_json([[list(m) for m in s] for s in sentences]).encode(), 6)


def decode_sentences(value: bytes) -> list[list[_Mention]]:
    """Undo `encode_sentences`."""
    return [[_Mention(*m) for m in s] for s in json.loads(zlib.decompress(value))]


def decode_segments(value: str) -> tuple[Segment, ...]:
    """Read segments as the store writes them."""
    return tuple(Segment(*segment) for segment in json.loads(value))


def encode_segments(segments: Sequence[Any]) -> str:
    """Write segments for the store."""
    return canonical_json([[s[0], s[1], dict(s[2])] for s in segments])
