"""Extracting all chunks of a LlamaIndex index again; only its records change."""

from __future__ import annotations

from dataclasses import replace

from e2graphrag_integrations.components import Components
from e2graphrag_integrations.entities.routing import without_extractors
from e2graphrag_integrations.indexing.reindex import (
    Reextraction,
    batches,
    needs_reindex,
)
from e2graphrag_integrations.indexing.run import RunControl
from e2graphrag_integrations.llama_index.storage.record import DocumentRecord, MentionColumns
from e2graphrag_integrations.llama_index.storage.storage import IndexStorage
from e2graphrag_integrations.reports import IndexReport
from e2graphrag_integrations.store.records import ContentCache, decode_sentences


def reindex_records(
    storage: IndexStorage, components: Components, cache: ContentCache, control: RunControl
) -> IndexReport:
    """Extract all chunks again; see `E2GraphRAGIndex.reindex`.

    Args:
        storage: The storage of the index.
        components: The models of the index.
        cache: Receives the extractions.
        control: Receives progress; ends the run after a stop request.
    """
    struct = storage.struct
    if not struct.payloads:
        return IndexReport()
    records = list(struct.records())
    languages = {record.id: record.language for record in records}
    entries = components.current_extractor_entries({*languages.values()})
    if not needs_reindex(struct.made_with, entries):
        return IndexReport(skipped=tuple(sorted(struct.payloads)))
    chunk_counts = [len(record.leaves) for record in records]
    control.timer.begin({"extract": sum(chunk_counts), "write": len(records)})
    reextraction = Reextraction(components, languages, cache, control)
    changed: list[DocumentRecord] = []
    for batch in batches(records, lambda record: len(record.nodes)):
        chunks = [
            [node for node in storage.tree_nodes(record) if node.level == 0] for record in batch
        ]
        reextraction.extract([chunk for own in chunks for chunk in own])
        for record, own in zip(batch, chunks, strict=True):
            keys = [reextraction.keys[chunk.id] for chunk in own]
            found = cache.cached(keys)
            mentions = MentionColumns.from_chunks([decode_sentences(found[key]) for key in keys])
            changed.append(replace(record, mentions=mentions))
    with control.timer.timed("write"):
        storage.put_mentions(changed, without_extractors(struct.made_with) | entries)
    control.timer.advance("write", len(records))
    return reextraction.report(len(records))
