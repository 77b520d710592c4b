"""Extracting all chunks of an index again, with another extractor.

The new extractions are cached first. One transaction then links all chunks to them, so the index
contains the extractions of one extractor at any time, also after a crash. A later call reuses what
an interrupted one has cached. Nothing is embedded or summarized.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from e2graphrag_integrations.entities.extractor_choice import MODEL, without_extractors
from e2graphrag_integrations.errors import StoppedError
from e2graphrag_integrations.graph.builder import GraphCounter
from e2graphrag_integrations.indexing.open_index import OpenIndex
from e2graphrag_integrations.indexing.run import IndexingRun, RunControl, StageTimer, WorkStopped
from e2graphrag_integrations.indexing.stages.extraction import extract_chunks
from e2graphrag_integrations.reports import IndexReport
from e2graphrag_integrations.snapshot.build import check_row_counts
from e2graphrag_integrations.store.records import DocumentHeader
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
    if all(manifest.get(k) == fp for k, fp in entries.items() if not k.endswith(MODEL)):
        return IndexReport(skipped=tuple(sorted(languages)))
    control = RunControl(StageTimer(run.progress), stop=run.stop)
    control.timer.begin({"extract": store.counts()["chunks"], "write": len(languages)})
    extractors = {one: components.reindex_extractor(one) for one in sorted({*languages.values()})}
    graph, keys, started = GraphCounter(), dict[str, bytes](), time.perf_counter()
    for _, nodes in stored_documents(store):
        chunks = [node for node in nodes if node.level == 0]
        try:
            found = extract_chunks(
                chunks, lambda one: extractors[languages[one.document_id]], store, control
            )
        except WorkStopped as error:
            raise StoppedError(
                "reindexing was stopped and the index is as before: call reindex() to continue"
            ) from error
        keys |= found.keys
        for chunk in chunks:
            graph.add(found.contributions[found.keys[chunk.id]])
    with control.timer.timed("write"):
        store.replace_extractions(keys, lambda recorded: without_extractors(recorded) | entries)
    control.timer.advance("write", len(languages))
    components.revalidate(store.manifest())
    entities, edges = graph.counts()
    seconds = control.timer.seconds | {"total": time.perf_counter() - started}
    return IndexReport(
        documents=len(languages),
        chunks=len(keys),
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
