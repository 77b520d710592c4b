"""Enriching the chunks of an index that exists, and removing what was added."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from e2graphrag_integrations._utils.concurrency import ContextThreads
from e2graphrag_integrations._utils.failures import on_error
from e2graphrag_integrations.enrichment.stage import Sentences, embed_sentences
from e2graphrag_integrations.errors import InvalidInputError, StoppedError
from e2graphrag_integrations.indexing.open_index import OpenIndex
from e2graphrag_integrations.indexing.run import (
    ChunkStage,
    FailurePolicy,
    IndexingRun,
    RunControl,
    StageTimer,
    WorkStopped,
)
from e2graphrag_integrations.indexing.stages.embedding import EmbedderSource
from e2graphrag_integrations.indexing.stages.llm_calls import announce_llm_calls, check_calls
from e2graphrag_integrations.indexing.stages.summaries import SummaryBuilder
from e2graphrag_integrations.reports import CostEstimate, IndexReport
from e2graphrag_integrations.store.records import ATTACHED
from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.tree import Tree
from e2graphrag_integrations.types import Node, SourceDocument

_BATCH_DOCUMENTS = 20
"""Documents that are read together; they may be long."""


def estimate_enrichment(index: OpenIndex) -> CostEstimate:
    """Return the cost of `enrich_index`; see `E2GraphRAG.estimate_enrichment`."""
    _, stage = _stage_of(index, IndexingRun())
    return _estimate(index.store, stage)


def enrich_index(index: OpenIndex, run: IndexingRun) -> IndexReport:
    """Enrich all chunks of an index; see `E2GraphRAG.enrich`."""
    started, store = time.perf_counter(), index.store
    index.components.revalidate(store.manifest())  # another process may have embedded it again
    summaries, stage = _stage_of(index, run)
    cost = _estimate(store, stage)
    check_calls(cost, stage.model, run.max_llm_calls, "answers")
    failures: dict[str, str] = {}
    policy = FailurePolicy(lambda id_, error: failures.update({id_: str(error)}))
    control = RunControl(StageTimer(run.progress), policy, run.stop)
    control.timer.begin({stage.stage: cost.chunks})
    announce_llm_calls(cost, stage.model, control.timer, what="enrichment")
    chunks = 0
    try:
        with (
            ContextThreads(index.writes.concurrency, "e2graphrag-llm") as pool,
            on_error(lambda _: control.stop.stop_all()),
        ):
            for documents, trees in _documents(store):
                answers = stage.ask(documents, trees, control, pool)
                attached = stage.attach(answers, _prefixes(index.components, documents), control)
                store.replace_attached(attached, lambda recorded: {**recorded, **stage.entries})
                chunks += len(attached)
    except WorkStopped as error:
        raise StoppedError(
            "enriching was stopped; finished answers are kept: call enrich() to continue"
        ) from error
    if failures and not chunks:
        raise next(iter(policy.failed.values()))
    usage = summaries.usage
    seconds = {**control.timer.seconds, "summarize": usage.seconds}
    seconds["total"] = time.perf_counter() - started
    return IndexReport(
        documents=cost.documents - len(failures),
        failed=failures,
        chunks=chunks,
        llm_calls=usage.calls,
        retries=usage.retries,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        seconds={name: round(spent, 4) for name, spent in seconds.items()},
    )


def remove_enrichment(index: OpenIndex) -> int:
    """Remove what was added to all chunks; see `E2GraphRAG.remove_enrichment`."""
    attached = index.store.attached()
    if attached or ATTACHED in index.store.manifest():
        index.store.replace_attached(dict.fromkeys(attached, ()), _without_entry)
    return len(attached)


def embedded_again(
    store: Store, source: EmbedderSource, control: RunControl
) -> dict[str, tuple[bytes, ...]]:
    """Embed the sentences of all chunks again; return what to attach, by node id.

    The answers are read from the file, so no language model is called.

    Args:
        store: The index.
        source: The new embedder.
        control: Ends the work after a stop request.
    """
    attached = store.attached()
    renewed: dict[str, tuple[bytes, ...]] = {}
    for documents, trees in _documents(store):
        prefixes = _prefixes(source, documents)
        own = {
            node.id: (node, attached[node.id][0])
            for tree in trees
            for node in (tree.levels[0] if tree.levels else ())
            if node.id in attached
        }
        answers = store.cached(key for _, key in own.values())
        sentences = {
            id_: Sentences.of(node, prefixes, answers[key].decode())
            for id_, (node, key) in own.items()
        }
        vectors = embed_sentences(source, sentences, store, control)
        renewed |= {id_: (key, *vectors[id_]) for id_, (_, key) in own.items()}
    return renewed


def _stage_of(index: OpenIndex, run: IndexingRun) -> tuple[SummaryBuilder, ChunkStage]:
    """Return the stage of the enricher, and the summary builder whose counts it shares."""
    summaries = index.summary_builder(run)
    stage = index.chunk_stage(summaries)
    if stage is None:
        raise InvalidInputError(
            "the index was opened without an enricher: open it with "
            "writes=WriteOptions(enricher=Enricher(llm))"
        )
    return summaries, stage


def _estimate(store: Store, stage: ChunkStage) -> CostEstimate:
    cost, documents = stage.cost(), 0
    for batch, trees in _documents(store):
        documents += len(batch)
        for document, tree in zip(batch, trees, strict=True):
            cost.add(document, tree)
    total = cost.total()
    return CostEstimate(
        documents=documents,
        chunks=total.summaries,
        summaries=0,
        llm_calls=total.llm_calls,
        prompt_tokens=total.prompt_tokens,
        completion_tokens=total.completion_tokens,
        chunk_calls=total,
    )


def _documents(store: Store) -> Iterator[tuple[list[SourceDocument], list[Tree]]]:
    """Yield the stored documents with their chunks, in batches."""
    ids = sorted(store.content_hashes())
    for first in range(0, len(ids), _BATCH_DOCUMENTS):
        batch = ids[first : first + _BATCH_DOCUMENTS]
        chunks: dict[str, list[Node]] = {id_: [] for id_ in batch}
        for stored in store.all_nodes(batch):
            if not stored.node.level:
                chunks[stored.node.document_id].append(stored.node)
        trees = [Tree(id_, (tuple(own),) if own else ()) for id_, own in chunks.items()]
        yield [store.document(id_) for id_ in batch], trees


def _prefixes(source: EmbedderSource, documents: Sequence[SourceDocument]) -> dict[str, str]:
    embedder = source.embedder
    return {one.id: embedder.title_prefix(one.title) for one in documents}


def _without_entry(recorded: Mapping[str, str]) -> Mapping[str, str]:
    return {name: value for name, value in recorded.items() if name != ATTACHED}
