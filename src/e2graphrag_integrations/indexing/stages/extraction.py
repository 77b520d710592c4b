"""Stage `extract`: find the entities in each chunk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from e2graphrag_integrations.entities.chunk_extractor import ChunkExtractor, normalize_mentions
from e2graphrag_integrations.errors import ExtractionError, IndexingError, SettingsMismatchError
from e2graphrag_integrations.indexing.run import RunControl, run_in_slices
from e2graphrag_integrations.indexing.stages.work import ComponentName, StageWork
from e2graphrag_integrations.protocols import EntityExtractor
from e2graphrag_integrations.reports import Stage
from e2graphrag_integrations.store.records import ContentCache, decode_sentences, encode_sentences
from e2graphrag_integrations.types import Node

_SLICE_SIZE = 16
"""Chunks per call of the extractor; a call takes a second or two with a spaCy pipeline."""

Contribution = list[list[tuple[str, str]]]
"""A chunk's mentions for the entity graph: a list of `(normal form, label)` per sentence."""


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
    missing = {
        keys[c.id]: (c.text, f"chunk {c.position} of document {c.document_id!r}")
        for c in chunks
        if keys[c.id] not in cached
    }
    owners: dict[bytes, list[str]] = {}
    for chunk in chunks:
        owners.setdefault(keys[chunk.id], []).append(chunk.document_id)
    forms: dict[str, str] = {}  # normal forms computed so far
    contributions: dict[bytes, Contribution] = {}

    def add(values: Mapping[bytes, bytes]) -> None:
        for key, value in values.items():
            contributions[key] = normalize_mentions(decode_sentences(value), forms)

    def store(values: dict[bytes, bytes]) -> None:
        cache.put_cached("extraction", values)
        add(values)

    add(cached)
    control.timer.advance("extract", len(chunks) - len(missing), reused=True)
    failed = len(missing)
    work = ExtractionWork(extractor)
    for done in run_in_slices(
        missing, owners, work, store, slice_size=_SLICE_SIZE, control=control
    ):
        control.timer.advance("extract", done)
        failed -= done
    control.timer.advance("extract", failed)
    return Extractions(keys, contributions)


@dataclass(frozen=True)
class ExtractionWork(StageWork[tuple[str, str]]):
    """Extracts texts. An input is a text and its place, for error messages."""

    stage: ClassVar[Stage] = "extract"
    name: ClassVar[str] = "extraction"
    component_name: ClassVar[ComponentName] = "extractor"
    error_type: ClassVar[type[IndexingError]] = ExtractionError

    extractor: ChunkExtractor

    def __call__(self, inputs: Sequence[tuple[str, str]]) -> list[bytes]:
        """Return the encoded mentions of each text."""
        texts, places = [text for text, _ in inputs], [place for _, place in inputs]
        return [encode_sentences(one) for one in self.extractor.extract(texts, places)]

    @property
    def component(self) -> EntityExtractor:
        """The extractor, without the rules for subjects."""
        return self.extractor.extractor

    def recipe(self) -> Callable[[EntityExtractor], ExtractionWork]:
        """Return a function that creates this work with an extractor."""
        return partial(_extraction_work, fingerprint=self.extractor.fingerprint)


def _extraction_work(extractor: EntityExtractor, fingerprint: str) -> ExtractionWork:
    found = ChunkExtractor(extractor)
    if found.fingerprint != fingerprint:
        raise SettingsMismatchError(f"the extractor is {found.fingerprint}, not {fingerprint}")
    return ExtractionWork(found)
