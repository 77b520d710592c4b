"""Extracting all chunks of an index again, with another extractor.

The new extractions are cached first. One transaction then links all chunks to them, so the index
contains the extractions of one extractor at any time, also after a crash. A later call reuses what
an interrupted one has cached. Nothing is embedded or summarized.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from e2graphrag_integrations.components import Components
from e2graphrag_integrations.entities.chunk_extractor import ChunkExtractor
from e2graphrag_integrations.entities.extractor_choice import MODEL, without_extractors
from e2graphrag_integrations.errors import StoppedError
from e2graphrag_integrations.graph.builder import GraphCounter
from e2graphrag_integrations.indexing.open_index import OpenIndex
from e2graphrag_integrations.indexing.run import IndexingRun, RunControl, StageTimer, WorkStopped
from e2graphrag_integrations.indexing.stages.extraction import extract_chunks
from e2graphrag_integrations.reports import IndexReport
from e2graphrag_integrations.snapshot.build import check_row_counts
from e2graphrag_integrations.store.records import ContentCache, DocumentHeader
from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.types import Node

_BATCH_NODES = 1000
"""Number of nodes at which a batch is full."""


def reindex_documents(index: OpenIndex, run: IndexingRun) -> IndexReport:
    """Extract all chunks of a file again; see `E2GraphRAG.reindex`."""
    store, components = index.store, index.components
    manifest = store.manifest()
    if not manifest:
        return IndexReport()
    languages = store.languages()
    entries = components.current_extractor_entries({*languages.values()})
    if not needs_reindex(manifest, entries):
        return IndexReport(skipped=tuple(sorted(languages)))
    control = RunControl(StageTimer(run.progress), stop=run.stop)
    control.timer.begin({"extract": store.counts()["chunks"], "write": len(languages)})
    reextraction = Reextraction(components, languages, store, control)
    for _, nodes in stored_documents(store):
        reextraction.extract([node for node in nodes if node.level == 0])
    with control.timer.timed("write"):
        store.replace_extractions(
            reextraction.keys, lambda recorded: without_extractors(recorded) | entries
        )
    control.timer.advance("write", len(languages))
    components.revalidate(store.manifest())
    return reextraction.report(len(languages))


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
        self._graph = GraphCounter()
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
        entities, edges = self._graph.counts()
        seconds = self._control.timer.seconds | {"total": time.perf_counter() - self._started}
        return IndexReport(
            documents=documents,
            chunks=len(self.keys),
            entities=entities,
            edges=edges,
            seconds={stage: round(spent, 4) for stage, spent in seconds.items()},
        )


def stored_documents(store: Store) -> Iterator[tuple[list[DocumentHeader], list[Node]]]:
    """Yield all documents with their nodes, in batches of about 1,000 nodes, which bounds memory.

    Raises:
        CorruptStoreError: If a row is damaged or missing.
    """
    batch: list[DocumentHeader] = []
    nodes = 0
    headers = store.document_headers()
    for number, header in enumerate(headers, 1):
        batch.append(header)
        nodes += header.nodes
        if nodes >= _BATCH_NODES or number == len(headers):
            stored = list(store.all_nodes([one.id for one in batch]))
            check_row_counts(store.path, batch, stored)
            yield batch, [one.node for one in stored]
            batch, nodes = [], 0
