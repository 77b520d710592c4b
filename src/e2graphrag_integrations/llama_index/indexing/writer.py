"""The write path of an index: what is new or changed is built, then stored; one writer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from llama_index.core.schema import BaseNode, MetadataMode

from e2graphrag_integrations._utils.event_loop import AwaitableRunner, OwnLoop
from e2graphrag_integrations.components import Components
from e2graphrag_integrations.errors import DuplicateDocumentError
from e2graphrag_integrations.indexing.cost import estimate_cost
from e2graphrag_integrations.indexing.progress import ProgressBar, StopSignal
from e2graphrag_integrations.indexing.summaries import SummaryBuilder
from e2graphrag_integrations.llama_index.adapters.models import Models
from e2graphrag_integrations.llama_index.indexing.builder import Builder, Collector
from e2graphrag_integrations.llama_index.indexing.reuse import known_contents, known_summaries
from e2graphrag_integrations.llama_index.indexing.sources import Source, of_nodes, once
from e2graphrag_integrations.llama_index.storage.storage import IndexStorage
from e2graphrag_integrations.reports import CostEstimate, IndexReport
from e2graphrag_integrations.settings import Settings
from e2graphrag_integrations.store.sqlite import Store
from e2graphrag_integrations.summarizers.callable import RetryPolicy


@dataclass(frozen=True)
class Write:
    """How one write is run.

    Attributes:
        bridge: Runs the LLM's coroutines.
        is_async: Whether it has any.
        replacing: Whether documents that are there may be replaced.
        show_progress: Draw a bar.
        save: Put the struct into the index store.
        stop: Set from outside, ends the work.
    """

    bridge: AwaitableRunner
    is_async: bool = False
    replacing: bool = False
    show_progress: bool = False
    save: bool = True
    stop: StopSignal = field(default_factory=StopSignal)


@dataclass
class IndexWriter:
    """Writes to one index.

    Args:
        storage: Of the index.
        settings: How documents are cut and summarized.
        models: The user's.
        num_workers: Summaries in the making at once.
        retry: Patience with transient errors of the LLM.
        cache: Keeps finished summaries.
    """

    storage: IndexStorage
    settings: Settings
    models: Models
    num_workers: int
    retry: RetryPolicy
    cache: Store
    report: IndexReport = field(default_factory=IndexReport)
    lock: threading.RLock = field(default_factory=threading.RLock)
    _reading: tuple[Any, Components] | None = None

    def components(self, *, is_async: bool = False) -> Components:
        """Return the models, held to what the index was made with."""
        made_with = self.storage.struct.made_with
        return self.models.components(self.storage.where, made_with, is_async=is_async)

    def reading_components(self) -> Components:
        """Return the models for retrieval: the same until they, or the index's own, change."""
        made_with = self.storage.struct.made_with
        held = self._reading
        if held is None or held[0][0] is not self.models.embedder_key() or held[0][1] != made_with:
            key = (self.models.embedder_key(), dict(made_with))
            self._reading = held = (key, self.components())
        return held[1]

    def is_there(self, source: Source) -> bool:
        """Tell whether a document is in the index, unchanged."""
        return not source.grown and self.has(source.document.id, source.hash)

    def has(self, document_id: str, hash_: str) -> bool:
        """Tell whether a version of a document is in the index."""
        struct = self.storage.struct
        return document_id in struct.payloads and struct.record(document_id).hash == hash_

    def with_known(self, nodes: Sequence[BaseNode]) -> list[Source]:
        """Return nodes as sources, together with what is there of their documents.

        Nodes of another version of a document, by the hash of their SOURCE, take the place of the
        old ones; others are added to them. Where all are there already nothing is to be done.

        Raises:
            DuplicateDocumentError: If two different nodes have one id.
        """
        groups: dict[str, dict[str, BaseNode]] = {}
        for node in once(nodes):
            groups.setdefault(node.ref_doc_id or node.node_id, {})[node.node_id] = node
        known: list[BaseNode] = []
        grown: set[str] = set()
        for document_id in [id_ for id_ in groups if id_ in self.storage.struct.payloads]:
            given = groups[document_id]
            record = self.storage.struct.record(document_id)
            if _version(given.values()) not in ("", record.hash):
                continue
            own = self.storage.docstore_nodes(record)
            if all(id_ in own and _text(node) == _text(own[id_]) for id_, node in given.items()):
                del groups[document_id]
                continue
            grown.add(document_id)
            known.extend(node for id_, node in own.items() if id_ not in given)
        wanted = [node for group in groups.values() for node in group.values()]
        sources = of_nodes([*known, *wanted], self.settings.groups)
        return [replace(source, grown=source.document.id in grown) for source in sources]

    def write(
        self, given: Sequence[Source] | Callable[[], Sequence[Source]], run: Write
    ) -> set[str]:
        """Index sources and return the ids of those that were new or changed.

        Args:
            given: The sources, or what makes them of the present state: called when it is this
                write's turn.
            run: How to go about it.

        Raises:
            DuplicateDocumentError: For a document that is there with another content.
            IndexingError: If a model failed; nothing has changed.
            StoreError: If a store failed.
        """
        with self.lock:
            if run.save:
                self.storage.begin()
            sources = given() if callable(given) else given
            wanted = [source for source in sources if not self.is_there(source)]
            if not run.replacing:
                self._refuse_changed(wanted)
            new = {source.document.id for source in wanted}
            skipped = tuple(s.document.id for s in sources if s.document.id not in new)
            self.report = IndexReport(skipped=skipped)
            if wanted:
                self.report = replace(self._write(wanted, run), skipped=skipped)
            return new

    def _write(self, sources: Sequence[Source], run: Write) -> IndexReport:
        self.models.check_llm(self.storage.where, self.storage.struct.made_with)
        components = self.components(is_async=run.is_async)
        manifest = components.check_for_writing() | self.settings.to_manifest()
        self.storage.vectors.check(components.embedder.dimension)
        builder = Builder(
            self.settings,
            components,
            manifest,
            self.cache,
            self.num_workers,
            self.retry,
            run.bridge,
            run.stop,
        )
        bar = ProgressBar(always=True) if run.show_progress else None
        try:
            built, report = builder.build(
                sources, bar, lambda id_, maker: self._known(id_, components, maker)
            )
        finally:
            if bar is not None:
                bar.close()
        self.storage.put(built, manifest, save=run.save)
        return report

    def _known(
        self, document_id: str, components: Components, maker: SummaryBuilder
    ) -> Iterable[Mapping[bytes, bytes]]:
        if document_id not in self.storage.struct.payloads:
            return ()
        return known_contents(self.storage, document_id, components, maker)

    def estimate(self, sources: Sequence[Source]) -> CostEstimate:
        """Return what indexing would cost; nothing is called and nothing is written."""
        components = self.components()
        collector = Collector(self.cache)
        maker = SummaryBuilder.of(
            components, self.settings, retry=self.retry, store=collector, bridge=OwnLoop()
        )
        new = [source.document for source in sources if not self.is_there(source)]
        for document in new:
            if document.id in self.storage.struct.payloads:
                collector.put_known(known_summaries(self.storage, document.id, maker))
        return estimate_cost(new, self.settings, components.counter, maker)

    def _refuse_changed(self, sources: Sequence[Source]) -> None:
        for source in sources:
            if source.document.id in self.storage.struct.payloads:
                raise DuplicateDocumentError(
                    f"document {source.document.id!r} is in {self.storage.where} with another "
                    "content: use update_ref_doc() to replace it, or give it another id_"
                )


def _version(nodes: Iterable[BaseNode]) -> str:
    """Return the hash of the document that nodes were made from, as far as they tell."""
    hashes = {n.source_node.hash or "" for n in nodes if n.source_node is not None} - {""}
    return hashes.pop() if len(hashes) == 1 else ""


def _text(node: BaseNode) -> str:
    return node.get_content(metadata_mode=MetadataMode.NONE)
