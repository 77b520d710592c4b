"""`InsertPipeline`: insertion of documents into an index, one write at a time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from llama_index.core.schema import BaseNode

from e2graphrag_integrations._utils.event_loop import AwaitableRunner, OwnLoop
from e2graphrag_integrations._utils.processes import ProcessLock, process_rlock
from e2graphrag_integrations.components import Components
from e2graphrag_integrations.errors import DuplicateDocumentError, ForkedProcessError
from e2graphrag_integrations.indexing.cost import CostCounter
from e2graphrag_integrations.indexing.llm_calls import announce_llm_calls, plan_llm_calls
from e2graphrag_integrations.indexing.open_index import IndexingContext, check_recorded
from e2graphrag_integrations.indexing.pipeline import index_documents
from e2graphrag_integrations.indexing.planning import plan_document
from e2graphrag_integrations.indexing.progress import ProgressBar, StageTimer
from e2graphrag_integrations.indexing.run import RunControl, StopSignal
from e2graphrag_integrations.indexing.summaries import SummaryBuilder
from e2graphrag_integrations.llama_index.indexing.assemble import assemble
from e2graphrag_integrations.llama_index.indexing.inputs import (
    DocumentInput,
    group_by_document,
    inputs_from_nodes,
)
from e2graphrag_integrations.llama_index.indexing.reuse import (
    stored_contents,
    stored_summaries,
    user_summaries,
)
from e2graphrag_integrations.llama_index.models import Models
from e2graphrag_integrations.llama_index.storage.nodes import node_text
from e2graphrag_integrations.llama_index.storage.storage import IndexStorage
from e2graphrag_integrations.reports import CostEstimate, IndexReport, ProgressListener
from e2graphrag_integrations.settings import Settings
from e2graphrag_integrations.store.records import StoredNode
from e2graphrag_integrations.store.sqlite import Store
from e2graphrag_integrations.summarizers.retry import RetryPolicy
from e2graphrag_integrations.tree import Tree
from e2graphrag_integrations.types import SourceDocument

Inputs = Sequence[DocumentInput] | Callable[[], Sequence[DocumentInput]]
"""Documents, or a function that returns them. The function is called under the write lock, so that
it sees the current state of the index."""


@dataclass
class InsertPipeline:
    """Inserts documents into one index.

    Args:
        storage: The storage of the index.
        settings: Settings for chunks, groups and summaries.
        models: The user's models.
        num_workers: Maximum number of concurrent summaries.
        max_llm_calls: Maximum number of LLM calls of one insertion; None means no limit.
        retry: Retry policy for transient LLM errors.
        cache: Stores finished summaries.
        show_progress: Whether to draw a progress bar.

    Attributes:
        report: Report of the last insertion.
        lock: Serializes all writes to the index.
        not_recorded: Arguments that only writes need and that were not in the pickle from which
            the index was opened.
    """

    storage: IndexStorage
    settings: Settings
    models: Models
    num_workers: int
    max_llm_calls: int | None
    retry: RetryPolicy
    cache: Store
    show_progress: bool
    report: IndexReport = field(default_factory=IndexReport)
    lock: ProcessLock = field(default_factory=process_rlock)
    not_recorded: tuple[str, ...] = ()
    _opened_in: int = field(default_factory=os.getpid)
    _query_components: tuple[object, dict[str, str], Components] | None = None

    def insert(
        self,
        inputs: Inputs,
        runner: AwaitableRunner,
        *,
        replace_changed: bool,
        is_async: bool = False,
        stop: StopSignal | None = None,
    ) -> set[str]:
        """Insert new and changed documents and return their ids.

        Args:
            inputs: The documents.
            runner: Runs the coroutines of the LLM.
            replace_changed: Whether to replace documents whose content has changed.
            is_async: Whether to call the LLM's async methods.
            stop: Stops the insertion when set.

        Raises:
            DuplicateDocumentError: If a document has changed and `replace_changed` is false.
            LLMCallLimitError: If the insertion needs more than `max_llm_calls` calls.
            IndexingError: If a model failed; nothing has changed.
            StoreError: If a store failed.
        """
        self.check_writable()
        with self.lock:
            self.storage.prepare_write()
            given = inputs() if callable(inputs) else inputs
            changed = {d.id: d for d in given if not self._is_unchanged(d)}
            skipped = tuple(d.id for d in given if d.id not in changed)
            for id_ in () if replace_changed else changed:
                if id_ in self.storage.struct.payloads:
                    raise DuplicateDocumentError(
                        f"{self.storage.where} contains document {id_!r} with different content: "
                        "call update_ref_doc() to replace it, or give the document another id_"
                    )
            self.report = IndexReport(skipped=skipped)
            if changed:
                self.models.check_llm(self.storage.where, self.storage.struct.made_with)
                components = self._components(is_async=is_async)
                documents = list(changed.values())
                report = self._insert(documents, components, runner, stop or StopSignal())
                self.report = replace(report, skipped=skipped)
            return set(changed)

    def check_writable(self) -> None:
        """Reject writes in a forked process, and through an index opened from a pickle.

        Raises:
            ForkedProcessError: If this process is a fork of the one that opened the index.
            SettingsMismatchError: If the pickle did not contain a model that writes need.
        """
        self.check_not_forked()
        check_recorded(self.storage.where, self.not_recorded)

    def check_not_forked(self) -> None:
        """Reject a write in a forked process, where it would change only a copy of the index.

        Raises:
            ForkedProcessError: If this process is a fork of the one that opened the index.
        """
        if self._opened_in != os.getpid():
            raise ForkedProcessError(
                f"{self.storage.where} was opened by process {self._opened_in}, of which this "
                "process is a fork: a forked process can only read; to write, load the index again "
                "in this process"
            )

    def _insert(
        self,
        documents: Sequence[DocumentInput],
        components: Components,
        runner: AwaitableRunner,
        stop: StopSignal,
    ) -> IndexReport:
        bar = ProgressBar() if self.show_progress else None
        with contextlib.closing(bar) if bar else contextlib.nullcontext():
            return self._insert_with(bar, documents, components, runner, stop)

    def _insert_with(
        self,
        progress: ProgressListener | None,
        documents: Sequence[DocumentInput],
        components: Components,
        runner: AwaitableRunner,
        stop: StopSignal,
    ) -> IndexReport:
        sink = MemorySink(self.cache)
        summaries = self._summary_builder(components, sink, runner)
        for document in documents:
            sink.put_cached("summary", user_summaries(document, summaries))
            if summaries.uses_llm:
                sink.contents |= stored_summaries(self.storage, document.id, summaries)
        trees = {document.id: document.tree for document in documents}

        def plan(source: SourceDocument) -> Tree:
            return trees[source.id] or plan_document(source, self.settings, components.counter)

        sources = [document.source for document in documents]
        # Before `check_for_writing`, which may call a paid embedder.
        cost = plan_llm_calls(sources, plan, summaries, self.max_llm_calls)
        manifest = components.check_for_writing() | self.settings.to_manifest()
        self.storage.vectors.check_dimension(components.embedder.dimension)
        for document in documents:
            sink.contents |= stored_contents(self.storage, document.id, components, summaries)
        context = IndexingContext(sink, components, manifest, summaries, plan, self.num_workers)
        control = RunControl(StageTimer(progress), stop=stop)
        announce_llm_calls(cost, summaries, control.timer)
        report = index_documents(sources, context, control)
        indexed = [assemble(d, sink.documents[d.id], sink) for d in documents]
        self.storage.put(indexed, manifest)
        return report

    def estimate(self, inputs: Sequence[DocumentInput]) -> CostEstimate:
        """Return the cost of inserting documents, without calling a model or writing.

        Raises:
            SettingsMismatchError: If an LLM wrote the summaries of the index and none was passed.
        """
        self.models.check_llm(self.storage.where, self.storage.struct.made_with)
        components = self._components()
        sink = MemorySink(self.cache)
        summaries = self._summary_builder(components, sink, OwnLoop())
        cost = CostCounter(summaries)
        for source in [d.source for d in inputs if not self._is_unchanged(d)]:
            sink.contents |= stored_summaries(self.storage, source.id, summaries)
            cost.add(plan_document(source, self.settings, components.counter))
        return cost.estimate()

    def query_components(self) -> Components:
        """Return the models for retrieval, cached until the embedder or the manifest changes."""
        key, made_with = self.models.embedder_key(), self.storage.struct.made_with
        cached = self._query_components
        if cached is None or cached[0] is not key or cached[1] != made_with:
            self._query_components = cached = (key, dict(made_with), self._components())
        return cached[2]

    def _components(self, *, is_async: bool = False) -> Components:
        return self.models.components(
            self.storage.where, self.storage.struct.made_with, is_async=is_async
        )

    def _summary_builder(
        self, components: Components, sink: MemorySink, runner: AwaitableRunner
    ) -> SummaryBuilder:
        return SummaryBuilder(
            components.summarizer,
            components.summarizer_fingerprint,
            components.counter,
            self.settings.summary_tokens,
            self.retry,
            sink,
            runner,
        )

    def contains(self, document_id: str, hash_: str) -> bool:
        """Return whether the index contains this version of a document."""
        struct = self.storage.struct
        return document_id in struct.payloads and struct.record(document_id).hash == hash_

    def _is_unchanged(self, document: DocumentInput) -> bool:
        return not document.extends and self.contains(document.id, document.hash)

    def inputs_from_nodes(self, nodes: Sequence[BaseNode]) -> list[DocumentInput]:
        """Convert nodes, together with the stored nodes of the documents that they extend.

        Nodes whose SOURCE has a different hash belong to a new version, which replaces the stored
        one. All other nodes extend the stored version. Documents without a new node are omitted.

        Raises:
            DuplicateDocumentError: If two different nodes have the same id.
        """
        groups = group_by_document(nodes)
        stored_nodes: list[BaseNode] = []
        extended: set[str] = set()
        for document_id in [id_ for id_ in groups if id_ in self.storage.struct.payloads]:
            group = groups[document_id]
            record = self.storage.struct.record(document_id)
            sources = [node.source_node for node in group.values()]
            hashes = {source.hash for source in sources if source is not None and source.hash}
            if len(hashes) == 1 and hashes != {record.hash}:
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


class MemorySink:
    """A `DocumentSink` that collects documents, extractions and vectors in memory.

    A failure therefore leaves no trace in the stores. Only summaries are saved, in the cache, so
    that a retry can reuse them without repeating LLM calls.

    Args:
        cache: Stores summaries.

    Attributes:
        contents: Extractions and vectors, and contents reused from the index, by cache key.
        documents: The nodes of each written document, by document id.
    """

    def __init__(self, cache: Store) -> None:
        self._cache = cache
        self.contents: dict[bytes, bytes] = {}
        self.documents: dict[str, Sequence[StoredNode]] = {}

    def cached(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the contents that are known, by key."""
        wanted = list(keys)
        found = {key: self.contents[key] for key in wanted if key in self.contents}
        return found | self._cache.cached(key for key in wanted if key not in found)

    def put_cached(self, kind: str, contents: dict[bytes, bytes]) -> None:
        """Add contents: summaries to the cache, everything else in memory."""
        if kind != "summary":
            self.contents |= contents
        elif contents:
            self._cache.put_cached(kind, contents)

    def write_document(
        self,
        document: SourceDocument,
        nodes: Sequence[StoredNode],
        manifest: Mapping[str, str],  # noqa: ARG002 - the index struct stores it
        replaces: str | None = None,  # noqa: ARG002 - the index storage replaces documents
    ) -> Sequence[bytes]:
        """Collect a document."""
        self.documents[document.id] = nodes
        return ()

    def drop_unused(self, keys: Collection[bytes] | None = None) -> None:
        """Do nothing: the sink is discarded after the insertion."""
