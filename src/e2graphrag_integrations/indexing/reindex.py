"""Extracting all chunks of an index again, with another extractor.

The new extractions are cached first. One transaction then links all chunks to them, so the index
contains the extractions of one extractor at any time, also after a crash. A later call reuses what
an interrupted one has cached. Nothing is embedded or summarized.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from e2graphrag_integrations.components import Components
from e2graphrag_integrations.entities.chunk_extractor import ChunkExtractor
from e2graphrag_integrations.entities.extractor_choice import MODEL, without_extractors
from e2graphrag_integrations.errors import StoppedError
from e2graphrag_integrations.graph.builder import GraphBuilder
from e2graphrag_integrations.indexing.open_index import OpenIndex
from e2graphrag_integrations.indexing.run import IndexingRun, RunControl, StageTimer, WorkStopped
from e2graphrag_integrations.indexing.stages.extraction import extract_chunks
from e2graphrag_integrations.reports import IndexReport
from e2graphrag_integrations.snapshot.build import check_row_counts
from e2graphrag_integrations.store.records import ContentCache
from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.types import Node

_BATCH_NODES = 1000
"""Number of nodes at which a batch is full."""

T = TypeVar("T")


def reindex_documents(index: OpenIndex, run: IndexingRun) -> IndexReport:
    """Extract all chunks of a file again; see `E2GraphRAG.reindex`."""
    store, components = index.store, index.components
    documents = store.content_hashes()
    manifest = store.manifest()
    if not manifest:
        return IndexReport()
    languages = store.languages()
    entries = components.current_extractor_entries({*languages.values()})
    if not needs_reindex(manifest, entries):
        return IndexReport(skipped=tuple(sorted(documents)))
    control = RunControl(StageTimer(run.progress), stop=run.stop)
    control.timer.begin({"extract": store.count_chunks(), "write": len(documents)})
    reextraction = Reextraction(components, languages, store, control)
    for batch in _chunks(store):
        reextraction.extract(batch)
    with control.timer.timed("write"):
        store.replace_extractions(
            reextraction.keys, lambda recorded: without_extractors(recorded) | entries
        )
    control.timer.advance("write", len(documents))
    components.revalidate(store.manifest())
    return reextraction.report(len(documents))


def needs_reindex(manifest: Mapping[str, str], entries: Mapping[str, str]) -> bool:
    """Return whether an index was extracted by other extractors than a new one would be.

    Args:
        manifest: The manifest of the index.
        entries: The manifest entries of the extractors that a new index would have.
    """
    return any(manifest.get(k) != fp for k, fp in entries.items() if not k.endswith(MODEL))


class Reextraction:
    """One run that extracts chunks again, and counts the results.

    Args:
        components: The models of the index.
        languages: The language of each document by id.
        cache: Receives the extractions.
        control: Receives progress; ends the run after a stop request.

    Attributes:
        keys: Cache key of each chunk's extraction, by node id.
    """

    def __init__(
        self,
        components: Components,
        languages: Mapping[str, str],
        cache: ContentCache,
        control: RunControl,
    ) -> None:
        self.keys: dict[str, bytes] = {}
        self._extractors = {
            language: components.reindex_extractor(language)
            for language in sorted({*languages.values()})
        }
        self._languages = languages
        self._cache = cache
        self._control = control
        self._graph = GraphBuilder()
        self._started = time.perf_counter()

    def extract(self, chunks: Sequence[Node]) -> None:
        """Extract some chunks.

        Raises:
            ExtractionError: If the extractor fails.
            StoppedError: After a stop request.
        """
        try:
            found = extract_chunks(chunks, self._extractor_of, self._cache, self._control)
        except WorkStopped as error:
            raise StoppedError(
                "reindexing was stopped and the index is as before: call reindex() to continue"
            ) from error
        self.keys |= found.keys
        for chunk in chunks:
            self._graph.add(found.contributions[found.keys[chunk.id]])

    def _extractor_of(self, chunk: Node) -> ChunkExtractor:
        return self._extractors[self._languages[chunk.document_id]]

    def report(self, documents: int) -> IndexReport:
        """Return the report of the run, which extracted this number of documents."""
        graph = self._graph.finish()
        seconds = self._control.timer.seconds | {"total": time.perf_counter() - self._started}
        return IndexReport(
            documents=documents,
            chunks=len(self.keys),
            entities=len(graph.names),
            edges=graph.edges.nnz // 2,
            seconds={stage: round(spent, 4) for stage, spent in seconds.items()},
        )


def _chunks(store: Store) -> Iterator[list[Node]]:
    """Yield all chunks, in batches of whole documents.

    Raises:
        CorruptStoreError: If a row is damaged or missing.
    """
    for headers in batches(store.document_headers(), lambda header: header.nodes):
        stored = list(store.all_nodes([header.id for header in headers]))
        check_row_counts(store.path, headers, stored)
        yield [one.node for one in stored if one.node.level == 0]


def batches(documents: Iterable[T], count_nodes: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield documents in batches that are full at about 1,000 nodes, which bounds memory use."""
    batch: list[T] = []
    nodes = 0
    for document in documents:
        batch.append(document)
        nodes += count_nodes(document)
        if nodes >= _BATCH_NODES:
            yield batch
            batch, nodes = [], 0
    if batch:
        yield batch
