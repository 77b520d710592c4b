"""Stage `commit`: write each document in its own transaction, and count the results of a run."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from e2graphrag_integrations.graph.builder import GraphCounter
from e2graphrag_integrations.indexing.language_checks import ExtractionFit
from e2graphrag_integrations.indexing.open_index import IndexingContext
from e2graphrag_integrations.indexing.run import RunControl
from e2graphrag_integrations.indexing.stages.embedding import Embeddings
from e2graphrag_integrations.indexing.stages.extraction import Extractions
from e2graphrag_integrations.indexing.stages.llm_calls import CostCounter
from e2graphrag_integrations.indexing.stages.summaries import SummaryBuilder
from e2graphrag_integrations.languages.language import ENGLISH
from e2graphrag_integrations.reports import IndexReport
from e2graphrag_integrations.store.records import LeaseLostError, StoredNode
from e2graphrag_integrations.text.words import count_words
from e2graphrag_integrations.tree import without_overlap
from e2graphrag_integrations.types import Node, SourceDocument

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FinishedBatch:
    """A batch whose stages have finished.

    Attributes:
        documents: All documents in the batch, including failed ones.
        nodes: Nodes of each document, with texts, by document id.
        extractions: Extractions of the chunks.
        embeddings: Vectors of the nodes.
        attached: Keys of the contents that a `ChunkStage` has attached to chunks, by node id.
    """

    documents: Sequence[SourceDocument]
    nodes: Mapping[str, Sequence[Node]]
    extractions: Extractions
    embeddings: Embeddings
    attached: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)


@dataclass
class RunTotals:
    """Counts for all documents committed in a run; see `IndexReport`.

    Attributes:
        unlinked: Cache keys to which replaced document versions linked.
        graph: Counts the entities and edges of the documents; None counts neither.
        fit: Whether the extractors fit the languages of the documents.
    """

    documents: int = 0
    chunks: int = 0
    summaries: int = 0
    embedded: int = 0
    empty: list[str] = field(default_factory=list)
    unlinked: set[bytes] = field(default_factory=set)
    graph: GraphCounter | None = field(default_factory=GraphCounter)
    fit: ExtractionFit = field(default_factory=ExtractionFit)

    def report(
        self, cost: CostCounter, summaries: SummaryBuilder, control: RunControl, seconds: float
    ) -> IndexReport:
        """Return the report of a run that took `seconds`.

        `cost` contains the calls that the planned trees needed before the run; `summaries`
        contains the calls that were made.
        """
        entities, edges = (0, 0) if self.graph is None else self.graph.counts()
        failed, usage = control.failures.failed, summaries.usage
        answered = usage.calls - usage.retries
        timings = {**control.timer.seconds, "summarize": usage.seconds, "total": seconds}
        return IndexReport(
            documents=self.documents,
            empty=tuple(self.empty),
            chunks=self.chunks,
            summaries=self.summaries,
            entities=entities,
            edges=edges,
            failed={id_: str(error) for id_, error in failed.items()},
            embedded=self.embedded,
            llm_calls=usage.calls,
            saved_calls=max(0, cost.paid_calls - answered) if usage.calls and not failed else 0,
            retries=usage.retries,
            cut_summaries=usage.cut,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            seconds={stage: round(s, 4) for stage, s in timings.items()},
        )


def commit_batch(
    batch: FinishedBatch,
    context: IndexingContext,
    control: RunControl,
    stored_hashes: Mapping[str, str],
    totals: RunTotals,
) -> None:
    """Write each document in a batch in its own transaction, except failed documents.

    `stored_hashes` are the content hashes of the stored versions that may be replaced, by id.
    """
    totals.embedded += batch.embeddings.embedded
    stage = context.chunk_stage
    manifest = {**context.manifest, **({} if stage is None else stage.entries)}
    for document in batch.documents:
        if document.id in control.failures.failed:
            control.timer.advance("write", 1)
            continue
        nodes = batch.nodes[document.id]
        with control.timer.timed("write"):
            linked = _link_nodes(nodes, batch, context.summaries)
            replaces = stored_hashes.get(document.id)
            try:
                unlinked = context.store.write_document(document, linked, manifest, replaces)
            except LeaseLostError as error:  # another worker indexes it
                logger.info("%s", error)
                unlinked = None
        control.timer.advance("write", 1)
        if unlinked is None:
            continue
        totals.unlinked.update(unlinked)
        chunks = [node for node in nodes if not node.level]
        totals.documents += 1
        totals.chunks += len(chunks)
        totals.summaries += len(nodes) - len(chunks)
        if not chunks:
            totals.empty.append(document.id)
        for chunk in chunks:
            sentences = batch.extractions.contributions[batch.extractions.keys[chunk.id]]
            if totals.graph is not None:
                totals.graph.add(sentences)
            totals.fit.add(document.language or ENGLISH, chunk.text, sentences)


def _link_nodes(
    nodes: Sequence[Node], batch: FinishedBatch, summaries: SummaryBuilder
) -> list[StoredNode]:
    """Return nodes with the cache keys of their content and vectors."""
    by_id = {node.id: node for node in nodes}

    def content_key(node: Node) -> bytes:
        if node.level == 0:
            return batch.extractions.keys[node.id]
        children = [by_id[child] for child in node.child_ids]
        return summaries.key(without_overlap(children), node.level)

    windows, attached = batch.embeddings.windows, batch.attached
    return [
        StoredNode(
            node,
            count_words(node.text),
            content_key(node),
            windows[node.id],
            attached.get(node.id, ()),
        )
        for node in nodes
    ]
