"""`InsertPipeline`: insertion of documents into an index, one write at a time."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from llama_index.core.schema import Document

from e2graphrag_integrations._utils.event_loop import AwaitableRunner, OwnLoop
from e2graphrag_integrations._utils.processes import ProcessLock, process_rlock
from e2graphrag_integrations.components import Components
from e2graphrag_integrations.entities.edits import EntityEdits
from e2graphrag_integrations.errors import ForkedProcessError
from e2graphrag_integrations.indexing.community_reports import (
    Reports,
    ReportWriter,
    check_reports,
)
from e2graphrag_integrations.indexing.cost import CostCounter
from e2graphrag_integrations.indexing.inputs import (
    declare_language,
    languages_of,
    with_languages,
)
from e2graphrag_integrations.indexing.language_checks import warn_about_languages
from e2graphrag_integrations.indexing.llm_calls import (
    announce_llm_calls,
    check_call_limit,
    plan_llm_calls,
)
from e2graphrag_integrations.indexing.open_index import IndexingContext, check_recorded
from e2graphrag_integrations.indexing.pipeline import index_documents
from e2graphrag_integrations.indexing.progress import ProgressBar, StageTimer
from e2graphrag_integrations.indexing.run import RunControl, StopSignal
from e2graphrag_integrations.indexing.stages import IndexingEngine, LocalEngine
from e2graphrag_integrations.indexing.summaries import SummaryBuilder
from e2graphrag_integrations.languages.language import AUTO, metadata_language
from e2graphrag_integrations.llama_index.indexing.assemble import assemble
from e2graphrag_integrations.llama_index.indexing.inputs import DocumentInput
from e2graphrag_integrations.llama_index.indexing.pages import TreePer
from e2graphrag_integrations.llama_index.indexing.planner import TreeChanges, TreePlanner
from e2graphrag_integrations.llama_index.indexing.reindex import reindex_records
from e2graphrag_integrations.llama_index.indexing.reuse import (
    stored_contents,
    stored_summaries,
    user_summaries,
)
from e2graphrag_integrations.llama_index.models import Models
from e2graphrag_integrations.llama_index.storage.storage import IndexStorage
from e2graphrag_integrations.reports import CostEstimate, IndexReport, ProgressListener
from e2graphrag_integrations.retrieval.communities import (
    Community,
    CommunitySelection,
    communities_with_sources,
    select_communities,
)
from e2graphrag_integrations.settings import Settings
from e2graphrag_integrations.store.records import StoredNode
from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.summarizers.retry import RetryPolicy
from e2graphrag_integrations.tree import Tree
from e2graphrag_integrations.types import SourceDocument

Plan = Callable[[TreePlanner], TreeChanges]
"""Returns the changes to make. It is called under the write lock, so that it sees the current state
of the index."""


@dataclass
class InsertPipeline:
    """Inserts documents into one index.

    Args:
        storage: The storage of the index.
        tree_per: Decides which documents share a tree; None if the index was built with a function
            that the user did not pass again.
        settings: Settings for chunks, groups and summaries.
        models: The user's models.
        num_workers: Maximum number of concurrent summaries.
        max_llm_calls: Maximum number of LLM calls of one insertion; None means no limit.
        retry: Retry policy for transient LLM errors.
        cache: Stores finished summaries.
        show_progress: Whether to draw a progress bar.
        language: Language of the documents that do not say theirs; "auto" detects it.
        engine: Provides the runner of the stages.

    Attributes:
        report: Report of the last insertion.
        lock: Serializes all writes to the index.
        not_recorded: Arguments that only writes need and that were not in the pickle from which
            the index was opened.
    """

    storage: IndexStorage
    tree_per: TreePer | None
    settings: Settings
    models: Models
    num_workers: int
    max_llm_calls: int | None
    retry: RetryPolicy
    cache: Store
    show_progress: bool
    language: str = AUTO
    engine: IndexingEngine = field(default_factory=LocalEngine)
    report: IndexReport = field(default_factory=IndexReport)
    lock: ProcessLock = field(default_factory=process_rlock)
    not_recorded: tuple[str, ...] = ()
    _opened_in: int = field(default_factory=os.getpid)
    _query_components: tuple[object, dict[str, str], Components] | None = None

    @property
    def planner(self) -> TreePlanner:
        """Decides which trees a write changes."""
        return TreePlanner(self.storage, self.tree_per, self.settings, self.models.counter)

    def write(
        self,
        plan: Plan,
        runner: AwaitableRunner,
        *,
        is_async: bool = False,
        stop: StopSignal | None = None,
    ) -> Collection[str]:
        """Make changes and return the ids of the new and changed documents.

        Args:
            plan: Returns the changes.
            runner: Runs the coroutines of the LLM.
            is_async: Whether to call the LLM's async methods.
            stop: Stops the insertion when set.

        Raises:
            InvalidInputError: If a document or a node is invalid.
            LLMCallLimitError: If the insertion needs more than `max_llm_calls` calls.
            IndexingError: If a model failed; nothing has changed.
            StoreError: If a store failed.
        """
        self.check_writable()
        with self.lock:
            self.storage.prepare_write()
            changes = plan(self.planner)
            self.planner.check_scope_keys(changes)
            self.report = IndexReport(skipped=changes.skipped)
            if changes.inputs:
                self.models.check_llm(self.storage.where, self.storage.struct.made_with)
                components = self._components(is_async=is_async)
                report = self._insert(changes, components, runner, stop or StopSignal())
                self.report = replace(report, skipped=changes.skipped)
            elif changes.removed:
                self.storage.delete_documents(changes.removed, from_docstore=changes.from_docstore)
            return changes.changed

    def reindex(
        self, progress: ProgressListener | None = None, stop: StopSignal | None = None
    ) -> IndexReport:
        """Extract all chunks again and return a report; see `E2GraphRAGIndex.reindex`."""
        self.check_writable()
        with self.lock:
            self.storage.prepare_write()
            with self._progress() as bar:
                control = RunControl(StageTimer(progress or bar), stop=stop or StopSignal())
                sink = MemorySink(self.cache)
                self.report = reindex_records(self.storage, self._components(), sink, control)
            return self.report

    def edit(self, change: Callable[[EntityEdits], EntityEdits]) -> EntityEdits:
        """Change the entity edits and return them; see `E2GraphRAGIndex.edit_entities`."""
        self.check_writable()
        with self.lock:
            self.storage.prepare_write()
            current = self.storage.struct.edits
            edits = change(current)
            if edits != current:
                self.storage.put_edits(edits)
            return edits

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
        changes: TreeChanges,
        components: Components,
        runner: AwaitableRunner,
        stop: StopSignal,
    ) -> IndexReport:
        with self._progress() as progress, self.engine.start(stop.no_new_work) as stages:
            control = RunControl(StageTimer(progress), stop=stop, runner=stages)
            return self._insert_with(control, changes, components, runner)

    @contextlib.contextmanager
    def _progress(self) -> Iterator[ProgressListener | None]:
        """Return a progress bar, if the user wants one."""
        bar = ProgressBar() if self.show_progress else None
        with contextlib.closing(bar) if bar else contextlib.nullcontext():
            yield bar

    def _insert_with(
        self,
        control: RunControl,
        changes: TreeChanges,
        components: Components,
        runner: AwaitableRunner,
    ) -> IndexReport:
        documents = self._with_languages(changes.inputs)
        sink = MemorySink(self.cache)
        summaries = self._summary_builder(components, sink, runner)
        for document in documents:
            sink.put_cached("summary", user_summaries(document, summaries))
            if summaries.uses_llm:
                for tree in document.previous:
                    sink.contents |= stored_summaries(self.storage, tree, summaries)
        by_id = {document.id: document for document in documents}

        def plan(source: SourceDocument) -> Tree:
            return by_id[source.id].planned(self.settings, components.counter)

        sources = [document.source for document in documents]
        # Before `check_for_writing`, which may call a paid embedder.
        cost = plan_llm_calls(sources, plan, summaries, self.max_llm_calls)
        components.choose_embedder(sources, self.storage.struct.made_with)
        languages = languages_of(sources)
        manifest = components.check_for_writing(languages) | self.settings.to_manifest()
        components.warn_if_unfit(sources)
        warn_about_languages(sources, components)
        renewed_tags = components.renewed_tags(self.storage.struct.tags())
        self.storage.vectors.check_dimension(components.embedder.dimension)
        for document in documents:
            for tree in document.previous:
                sink.contents |= stored_contents(self.storage, tree, components, summaries)
        context = IndexingContext(sink, components, manifest, summaries, plan, self.num_workers)
        announce_llm_calls(cost, summaries, control.timer)
        report = index_documents(sources, context, control)
        indexed = [assemble(d, sink.documents[d.id], sink) for d in documents]
        self.storage.put(
            indexed,
            manifest,
            self.planner.name,
            removed=changes.removed,
            from_docstore=changes.from_docstore,
        )
        if renewed_tags is not None:
            self.storage.put_tags(renewed_tags)
        return report

    def _with_languages(self, documents: Sequence[DocumentInput]) -> list[DocumentInput]:
        """Return documents whose sources have their languages.

        They are the ones that the metadata of a document or of all its pages name, or else that of
        the index, or else detected.
        """
        known = Counter(record.language for record in self.storage.struct.records())
        declared = declare_language(map(_declared_source, documents), self.language)
        sources = with_languages(declared, known)
        return [replace(one, source=source) for one, source in zip(documents, sources, strict=True)]

    def estimate(self, documents: Sequence[Document]) -> CostEstimate:
        """Return the cost of inserting documents, without calling a model or writing.

        Raises:
            SettingsMismatchError: If an LLM wrote the summaries of the index and none was passed.
        """
        self.models.check_llm(self.storage.where, self.storage.struct.made_with)
        components = self._components()
        sink = MemorySink(self.cache)
        summaries = self._summary_builder(components, sink, OwnLoop())
        cost = CostCounter(summaries)
        with self.lock:
            changes = self.planner.plan_documents(documents, replace_changed=True)
            for document in changes.inputs:
                for tree in document.previous:
                    sink.contents |= stored_summaries(self.storage, tree, summaries)
                cost.add(document.planned(self.settings, components.counter))
        return cost.estimate()

    def communities(
        self,
        selection: CommunitySelection,
        reports: Reports | None,
        max_llm_calls: int | None,
        runner: AwaitableRunner,
        *,
        is_async: bool = False,
        stop: StopSignal | None = None,
    ) -> tuple[Community, ...]:
        """Return communities; see `E2GraphRAGIndex.communities`."""
        check_reports(reports)
        check_call_limit(max_llm_calls)

        if reports is None:
            return tuple(
                self.storage.read(lambda one, _: select_communities(selection, one), self.lock)
            )
        found, sources = self.storage.read(
            lambda one, reader: communities_with_sources(selection, one, reader), self.lock
        )
        components = self._components(is_async=is_async)
        summaries = self._summary_builder(components, MemorySink(self.cache), runner)
        writer = ReportWriter.of(reports, summaries, self.cache, selection.level)
        with self.lock if writer.uses_llm else contextlib.nullcontext():
            texts = writer.write(
                sources,
                concurrency=self.num_workers,
                max_llm_calls=max_llm_calls,
                stopping=(stop or StopSignal()).no_new_calls,
            )
        return tuple(replace(one, report=text) for one, text in zip(found, texts, strict=True))

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


def _declared_source(document: DocumentInput) -> SourceDocument:
    """Return the source of a document with the language that its metadata names."""
    tree = document.page_tree
    metadata = [document.metadata] if tree is None else [page.metadata for page in tree.pages]
    return replace(document.source, language=metadata_language(metadata))
