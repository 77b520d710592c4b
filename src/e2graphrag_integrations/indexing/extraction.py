"""Stage `extract`: find the entities in each chunk."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from e2graphrag_integrations.entities.spacy_extractor import extract_checked
from e2graphrag_integrations.errors import ExtractionError
from e2graphrag_integrations.indexing.isolation import WorkItem, run_in_slices
from e2graphrag_integrations.indexing.run import RunControl
from e2graphrag_integrations.protocols import EntityExtractor
from e2graphrag_integrations.snapshot.build import normalize_mentions
from e2graphrag_integrations.store.records import (
    ContentCache,
    decode_sentences,
    encode_sentences,
)
from e2graphrag_integrations.types import Node

Contribution = list[list[tuple[str, bool]]]
"""A chunk's mentions for the entity graph: per sentence, `(normal form, named)` of each."""


@dataclass(frozen=True, slots=True)
class Extractions:
    """The extractions of a batch.

    Attributes:
        keys: Cache key of each chunk's extraction, by node id.
        contributions: Mentions of each extraction for the entity graph, by cache key, without
            chunks that failed.
    """

    keys: Mapping[str, bytes]
    contributions: Mapping[bytes, Contribution]


def extraction_key(fingerprint: str, text: str) -> bytes:
    """Return the cache key of the extraction of a text."""
    return hashlib.sha256(f"extraction\0{fingerprint}\0{text}".encode()).digest()


def extract_chunks(
    chunks: Sequence[Node],
    *,
    extractor: EntityExtractor,
    fingerprint: str,
    cache: ContentCache,
    control: RunControl,
) -> Extractions:
    """Extract the entities of chunks that are not in the cache, and store them there.

    Args:
        chunks: Chunks of a batch.
        extractor: Finds entities.
        fingerprint: The extractor's part of the cache keys.
        cache: Stores extractions.
        control: Receives failures, times and progress.

    Raises:
        WorkStopped: After a stop request.
    """
    keys = {chunk.id: extraction_key(fingerprint, chunk.text) for chunk in chunks}
    cached = cache.cached(keys.values())
    missing = {keys[chunk.id]: chunk for chunk in chunks if keys[chunk.id] not in cached}
    owners: dict[bytes, dict[str, None]] = {}
    for chunk in chunks:
        owners.setdefault(keys[chunk.id], {})[chunk.document_id] = None
    forms: dict[str, str] = {}  # normal forms computed so far
    contributions = {
        key: normalize_mentions(decode_sentences(value), forms) for key, value in cached.items()
    }
    control.timer.advance("extract", len(chunks) - len(missing))

    def extract(part: Sequence[WorkItem[Node]]) -> None:
        with control.timer.timed("extract"):
            found = extract_checked(
                extractor,
                [item.value.text for item in part],
                [f"chunk {i.value.position} of document {i.value.document_id!r}" for i in part],
            )
        by_key = {item.key: sentences for item, sentences in zip(part, found, strict=True)}
        cache.put_cached("extraction", {k: encode_sentences(s) for k, s in by_key.items()})
        contributions.update({k: normalize_mentions(s, forms) for k, s in by_key.items()})

    items = [WorkItem(key, chunk, tuple(owners[key])) for key, chunk in missing.items()]
    for done in run_in_slices(items, extract, ExtractionError, "extraction", control):
        control.timer.advance("extract", done)
    return Extractions(keys, contributions)
