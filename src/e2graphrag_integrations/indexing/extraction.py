"""Stage `extract`: find the entities in each chunk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from e2graphrag_integrations.entities.versions import ChunkExtractor
from e2graphrag_integrations.errors import ExtractionError
from e2graphrag_integrations.indexing.run import RunControl, run_in_slices
from e2graphrag_integrations.snapshot.build import normalize_mentions
from e2graphrag_integrations.store.records import ContentCache, decode_sentences, encode_sentences
from e2graphrag_integrations.types import Node

_SLICE_SIZE = 16
"""Chunks per call of the extractor; a call takes a second or two with a spaCy pipeline."""

Contribution = list[list[tuple[str, bool]]]
"""A chunk's mentions for the entity graph: a list of `(normal form, named)` per sentence."""


@dataclass(frozen=True, slots=True)
class Extractions:
    """The extractions of a batch.

    Attributes:
        keys: Cache key of each chunk's extraction, by node id.
        contributions: Mentions in each extraction for the entity graph, by cache key, without
            chunks that failed.
    """

    keys: Mapping[str, bytes]
    contributions: Mapping[bytes, Contribution]


def extraction_key(fingerprint: str, text: str) -> bytes:
    """Return the cache key of the extraction of a text."""
    return hashlib.sha256(f"extraction\0{fingerprint}\0{text}".encode()).digest()


def extract_chunks(
    chunks: Sequence[Node],
    extractor_of: Callable[[Node], ChunkExtractor],
    cache: ContentCache,
    control: RunControl,
) -> Extractions:
    """Extract the entities in chunks without a cached extraction, and cache the results.

    Args:
        chunks: The chunks.
        extractor_of: Returns the extractor of a chunk, by the language of its document.
        cache: Receives the extractions.
        control: Receives failures and progress; ends the run after a stop request.

    Raises:
        WorkStopped: After a stop request.
    """
    by_extractor: dict[ChunkExtractor, list[Node]] = {}
    for chunk in chunks:
        by_extractor.setdefault(extractor_of(chunk), []).append(chunk)
    keys: dict[str, bytes] = {}
    contributions: dict[bytes, Contribution] = {}
    for extractor, own in by_extractor.items():
        found = _extract(own, extractor, cache, control)
        keys |= found.keys
        contributions |= found.contributions
    return Extractions(keys, contributions)


def _extract(
    chunks: Sequence[Node], extractor: ChunkExtractor, cache: ContentCache, control: RunControl
) -> Extractions:
    fingerprint = extractor.fingerprint
    keys = {chunk.id: extraction_key(fingerprint, chunk.text) for chunk in chunks}
    cached = cache.cached(keys.values())
    missing = {keys[chunk.id]: chunk for chunk in chunks if keys[chunk.id] not in cached}
    owners: dict[bytes, list[str]] = {}
    for chunk in chunks:
        owners.setdefault(keys[chunk.id], []).append(chunk.document_id)
    forms: dict[str, str] = {}  # normal forms computed so far
    contributions = {
        key: normalize_mentions(decode_sentences(value), forms) for key, value in cached.items()
    }
    control.timer.advance("extract", len(chunks) - len(missing))

    def extract(part: Mapping[bytes, Node]) -> None:
        with control.timer.timed("extract"):
            found = extractor.extract(
                [chunk.text for chunk in part.values()],
                [f"chunk {c.position} of document {c.document_id!r}" for c in part.values()],
            )
        by_key = dict(zip(part, found, strict=True))
        cache.put_cached("extraction", {k: encode_sentences(s) for k, s in by_key.items()})
        contributions.update({k: normalize_mentions(s, forms) for k, s in by_key.items()})

    failed = len(missing)
    for done in run_in_slices(
        missing,
        owners,
        extract,
        ExtractionError,
        stage="extraction",
        slice_size=_SLICE_SIZE,
        control=control,
    ):
        control.timer.advance("extract", done)
        failed -= done
    control.timer.advance("extract", failed)
    return Extractions(keys, contributions)
