"""`InsertPipeline`: insertion of documents into an index, one write at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from llama_index.core.schema import BaseNode

from e2graphrag_integrations._utils.event_loop import AwaitableRunner, OwnLoop
from e2graphrag_integrations.components import Components
from e2graphrag_integrations.errors import DuplicateDocumentError
from e2graphrag_integrations.indexing.context import IndexingContext
from e2graphrag_integrations.indexing.cost import estimate_cost
from e2graphrag_integrations.indexing.pipeline import index_documents
from e2graphrag_integrations.indexing.planning import plan_document
from e2graphrag_integrations.indexing.progress import ProgressBar, StageTimer
from e2graphrag_integrations.indexing.run import RunControl, StopSignal
from e2graphrag_integrations.indexing.summaries import SummaryBuilder
from e2graphrag_integrations.llama_index.adapters.models import Models
from e2graphrag_integrations.llama_index.indexing.assemble import assemble
from e2graphrag_integrations.llama_index.indexing.inputs import (
    DocumentInput,
    group_by_document,
    inputs_from_nodes,
    node_text,
)
from e2graphrag_integrations.llama_index.indexing.memory_sink import MemorySink
from e2graphrag_integrations.llama_index.indexing.reuse import (
    stored_contents,
    stored_summaries,
    user_summaries,
)
from e2graphrag_integrations.llama_index.storage.storage import IndexStorage
from e2graphrag_integrations.protocols import TokenCounter
from e2graphrag_integrations.reports import CostEstimate, IndexReport
from e2graphrag_integrations.settings import Settings
from e2graphrag_integrations.store.sqlite import Store
from e2graphrag_integrations.summarizers.retry import RetryPolicy
from e2graphrag_integrations.tree import Tree
from e2graphrag_integrations.types import SourceDocument


@dataclass(frozen=True)
class InsertOptions:
    """Options of one insertion.

    Attributes:
        runner: Runs the coroutines of the LLM.
        is_async: Whether to call the LLM's async methods.
        replace: Whether to replace documents whose content has changed.
        show_progress: Whether to draw a progress bar.
        save: Whether to save the struct in the index store.
        stop: Stops the insertion when set.
    """

    runner: AwaitableRunner
    is_async: bool = False
    replace: bool = False
    show_progress: bool = False
    save: bool = True
    stop: StopSignal = field(default_factory=StopSignal)


@dataclass
class InsertPipeline:
    """Inserts documents into one index.

    Args:
        storage: The storage of the index.
        settings: Settings for chunks, groups and summaries.
        models: The user's models.
        num_workers: Maximum number of concurrent summaries.
        retry: Retry policy for transient LLM errors.
        cache: Stores finished summaries.

    Attributes:
        report: Report of the last insertion.
        lock: Serializes all writes to the index.
    """

    storage: IndexStorage
    settings: Settings
    models: Models
    num_workers: int
    retry: RetryPolicy
    cache: Store
    report: IndexReport = field(default_factory=IndexReport)
    lock: threading.RLock = field(default_factory=threading.RLock)
    _query_components: tuple[object, dict[str, str], Components] | None = None

    def insert(
        self,
        inputs: Sequence[DocumentInput] | Callable[[], Sequence[DocumentInput]],
        options: InsertOptions,
    ) -> set[str]:
        """Insert new and changed documents and return their ids.

        Args:
            inputs: The documents, or a function that returns them. The function is called under
                the lock, so that it sees the current state of the index.
            options: Options of this insertion.

        Raises:
            DuplicateDocumentError: If a document has changed and `options.replace` is false.
            IndexingError: If a model failed; nothing has changed.
            StoreError: If a store failed.
        """
        with self.lock:
            if options.save:
                self.storage.prepare_write()
            given = inputs() if callable(inputs) else inputs
            changed = [document for document in given if not self._is_unchanged(document)]
            changed_ids = {document.id for document in changed}
            skipped = tuple(d.id for d in given if d.id not in changed_ids)
            if not options.replace:
                self._reject_stored(changed)
            self.report = IndexReport(skipped=skipped)
            if changed:
                self.report = replace(self._insert(changed, options), skipped=skipped)
            return changed_ids

    def _insert(self, documents: Sequence[DocumentInput], options: InsertOptions) -> IndexReport:
        self.models.check_llm(self.storage.where, self.storage.struct.made_with)
        components = self.components(is_async=options.is_async)
        manifest = components.check_for_writing() | self.settings.to_manifest()
        self.storage.vectors.check_dimension(components.embedder.dimension)

        sink = MemorySink(self.cache)
        summaries = self._summary_builder(components, sink, options.runner)
        for document in documents:
            sink.put_cached("summary", user_summaries(document, summaries))
            known = stored_contents(self.storage, document.id, components, summaries)
            sink.put_in_memory(known)
        trees = {document.id: document.tree for document in documents}

        def plan(source: SourceDocument, settings: Settings, counter: TokenCounter) -> Tree:
            return trees[source.id] or plan_document(source, settings, counter)

        context = IndexingContext.create(
            components,
            self.settings,
            store=sink,
            manifest=manifest,
            summaries=summaries,
            concurrency=self.num_workers,
            planner=plan,
        )
        bar = ProgressBar(always=True) if options.show_progress else None
        control = RunControl(StageTimer(bar), stop=options.stop)
        try:
            report = index_documents([document.source for document in documents], context, control)
        finally:
            if bar is not None:
                bar.close()
        indexed = [assemble(d, sink.documents[d.id], sink) for d in documents]
        self.storage.put(indexed, manifest, save=options.save)
        return report

    def estimate(self, inputs: Sequence[DocumentInput]) -> CostEstimate:
        """Return the cost of inserting documents, without calling a model or writing."""
        components = self.components()
        sink = MemorySink(self.cache)
        summaries = self._summary_builder(components, sink, OwnLoop())
        trees = []
        for source in [d.source for d in inputs if not self._is_unchanged(d)]:
            sink.put_in_memory(stored_summaries(self.storage, source.id, summaries))
            trees.append(plan_document(source, self.settings, components.counter))
        return estimate_cost(trees, components.counter, summaries)

    def components(self, *, is_async: bool = False) -> Components:
        """Return the models, checked against those that built the index."""
        return self.models.components(
            self.storage.where, self.storage.struct.made_with, is_async=is_async
        )

    def query_components(self) -> Components:
        """Return the models for retrieval; the same object until the models or the index change."""
        made_with = self.storage.struct.made_with
        cached = self._query_components
        if cached is None or cached[0] is not self.models.embedder_key() or cached[1] != made_with:
            cached = (self.models.embedder_key(), dict(made_with), self.components())
            self._query_components = cached
        return cached[2]

    def _summary_builder(
        self, components: Components, sink: MemorySink, runner: AwaitableRunner
    ) -> SummaryBuilder:
        return SummaryBuilder.create(
            components, self.settings, retry=self.retry, store=sink, runner=runner
        )

    # Comparison with the index

    def contains(self, document_id: str, hash_: str) -> bool:
        """Return whether the index contains this version of a document."""
        struct = self.storage.struct
        return document_id in struct.payloads and struct.record(document_id).hash == hash_

    def _is_unchanged(self, document: DocumentInput) -> bool:
        return not document.extends and self.contains(document.id, document.hash)

    def _reject_stored(self, documents: Sequence[DocumentInput]) -> None:
        for document in documents:
            if document.id in self.storage.struct.payloads:
                raise DuplicateDocumentError(
                    f"{self.storage.where} contains document {document.id!r} with different "
                    "content: call update_ref_doc() to replace it, or give the document another id_"
                )

    def inputs_from_nodes(self, nodes: Sequence[BaseNode]) -> list[DocumentInput]:
        """Convert nodes, together with the stored nodes of the documents that they extend.

        Nodes whose SOURCE has another hash belong to a new version, which replaces the stored one.
        All other nodes extend the stored version. Documents without a new node are left out.

        Raises:
            DuplicateDocumentError: If two different nodes have the same id.
        """
        groups = group_by_document(nodes)
        stored_nodes: list[BaseNode] = []
        extended: set[str] = set()
        for document_id in [id_ for id_ in groups if id_ in self.storage.struct.payloads]:
            group = groups[document_id]
            record = self.storage.struct.record(document_id)
            if _source_hash(group.values()) not in ("", record.hash):
                continue
            own = self.storage.nodes.get(record)
            if all(id_ in own and node_text(n) == node_text(own[id_]) for id_, n in group.items()):
                del groups[document_id]
                continue
            extended.add(document_id)
            stored_nodes.extend(node for id_, node in own.items() if id_ not in group)
        new_nodes = [node for group in groups.values() for node in group.values()]
        documents = inputs_from_nodes([*stored_nodes, *new_nodes], self.settings.groups)
        return [replace(d, extends=d.id in extended) for d in documents]


def _source_hash(nodes: Iterable[BaseNode]) -> str:
    """Return the hash of the nodes' source document, or "" if unknown or ambiguous."""
    hashes = {n.source_node.hash or "" for n in nodes if n.source_node is not None} - {""}
    return hashes.pop() if len(hashes) == 1 else ""
