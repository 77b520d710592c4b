"""From documents and nodes to everything an index stores of them, nothing of it stored yet.

The core's write path does the work; what it would write to its file is collected here, so that a
failure anywhere leaves no trace but finished summaries.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from llama_index.core.schema import BaseNode, TextNode

from e2graphrag_integrations._utils.event_loop import AwaitableRunner
from e2graphrag_integrations.components import Components
from e2graphrag_integrations.indexing.pipeline import IndexingContext, write_documents
from e2graphrag_integrations.indexing.planning import plan_document
from e2graphrag_integrations.indexing.progress import StopSignal
from e2graphrag_integrations.indexing.summaries import SummaryBuilder
from e2graphrag_integrations.llama_index.indexing.sources import Source
from e2graphrag_integrations.llama_index.storage.nodes import NODE, window_node
from e2graphrag_integrations.llama_index.storage.record import DocumentRecord, Mentions, Window
from e2graphrag_integrations.protocols import FloatArray, TokenCounter
from e2graphrag_integrations.reports import IndexReport, ProgressListener
from e2graphrag_integrations.settings import Settings
from e2graphrag_integrations.store.records import (
    ContentCache,
    StoredNode,
    canonical_json,
    decode_sentences,
)
from e2graphrag_integrations.store.sqlite import Store
from e2graphrag_integrations.summarizers.callable import RetryPolicy
from e2graphrag_integrations.tree import Tree, without_overlap
from e2graphrag_integrations.types import SourceDocument

_NAMESPACE = uuid.UUID("5b0c7f9e-2d34-5a6e-8f1b-7c9d0e2a4b61")
"""Fixed for ever: the ids of vectors derive from it."""

_SUMMARY = "summary"

Contents = Mapping[bytes, bytes]
"""What was made of texts, by the keys of what it was made from."""


@dataclass(frozen=True, slots=True)
class Built:
    """One document, ready to be stored.

    Attributes:
        record: For the index struct.
        nodes: For the docstore.
        vectors: For the vector store, with embeddings; in the order of the record's windows.
    """

    record: DocumentRecord
    nodes: Sequence[BaseNode]
    vectors: Sequence[TextNode]


class Collector:
    """Stands where the core's file would: keeps contents, collects documents.

    Args:
        cache: Keeps summaries beyond this build; what the index will have itself is kept here.
    """

    def __init__(self, cache: Store) -> None:
        self._cache = cache
        self._own: dict[bytes, bytes] = {}
        self.documents: dict[str, Sequence[StoredNode]] = {}

    def cached(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the contents that are there."""
        wanted = list(keys)
        found = {key: self._own[key] for key in wanted if key in self._own}
        return found | self._cache.cached(key for key in wanted if key not in found)

    def put_cached(self, kind: str, contents: dict[bytes, bytes]) -> None:
        """Keep contents."""
        if kind == _SUMMARY:
            self._cache.put_cached(kind, contents)
        else:
            self._own |= contents

    def put_known(self, contents: Mapping[bytes, bytes]) -> None:
        """Take over what the index has; for this build only."""
        self._own |= contents

    def write_document(
        self,
        document: SourceDocument,
        nodes: Sequence[StoredNode],
        manifest: Mapping[str, str],  # noqa: ARG002 - the index struct has it
        replaces: str | None = None,  # noqa: ARG002 - the index sees to it
    ) -> Sequence[bytes]:
        """Collect a document."""
        self.documents[document.id] = nodes
        return ()

    def drop_unused(self, keys: Collection[bytes] | None = None) -> None:
        """Keep everything."""


@dataclass(frozen=True)
class Builder:
    """Makes trees, mentions and vectors of documents.

    Args:
        settings: How they are cut and summarized.
        components: The models.
        manifest: What the models are held to.
        cache: Keeps finished summaries for a second try.
        concurrency: Summaries in the making at once.
        retry: Patience with transient errors of the LLM.
        bridge: Runs the LLM's coroutines.
        stop: Set from outside, ends the work.
    """

    settings: Settings
    components: Components
    manifest: Mapping[str, str]
    cache: Store
    concurrency: int
    retry: RetryPolicy
    bridge: AwaitableRunner
    stop: StopSignal

    def build(
        self,
        sources: Sequence[Source],
        progress: ProgressListener | None,
        known: Callable[[str, SummaryBuilder], Iterable[Contents]],
    ) -> tuple[list[Built], IndexReport]:
        """Return everything to store of the documents, and what making it took.

        Args:
            sources: New and changed ones.
            progress: Called with each step.
            known: Returns what the index has of a document already.

        Raises:
            IndexingError: When a model failed; finished summaries are in the cache.
        """
        collector = Collector(self.cache)
        maker = SummaryBuilder.of(
            self.components, self.settings, retry=self.retry, store=collector, bridge=self.bridge
        )
        by_id = {source.document.id: source for source in sources}
        self._keep_given(sources, maker)
        for source in sources:
            for contents in known(source.document.id, maker):
                collector.put_known(contents)
        writer = IndexingContext(
            store=collector,
            manifest=self.manifest,
            settings=self.settings,
            counter=self.components.counter,
            embedder=self.components.embedder,
            embedder_print=self.components.embedder_print,
            extractor=self.components.extractor,
            extractor_print=self.components.extractor_print,
            summaries=maker,
            concurrency=self.concurrency,
            planner=_Planner(by_id),
            stop=self.stop,
        )
        report = write_documents(writer, [source.document for source in sources], progress)
        built = [assemble(s, collector.documents[s.document.id], collector) for s in sources]
        return built, report

    def _keep_given(self, sources: Sequence[Source], maker: SummaryBuilder) -> None:
        """Put the summaries that came with the nodes where they are looked for before any call."""
        for source in sources:
            if source.tree is None or not source.summaries:
                continue
            texts = {n.id: source.summaries.get(n.id, n.text) for n in source.tree.nodes}
            nodes = {n.id: replace(n, text=texts[n.id]) for n in source.tree.nodes}
            given = {}
            for node in nodes.values():
                if node.id in source.summaries:
                    below = without_overlap([nodes[child] for child in node.child_ids])
                    given[maker.key(below, node.level)] = node.text.encode()
            self.cache.put_cached(_SUMMARY, given)


def assemble(source: Source, stored: Sequence[StoredNode], contents: ContentCache) -> Built:
    """Return a document's finished tree as everything that an index stores of it.

    Args:
        source: What the document came as.
        stored: All nodes of its tree, by level and position, with `child_ids`.
        contents: Has their extractions and vectors.
    """
    nodes = [s.node for s in stored]
    text_nodes = source.to_nodes(nodes)
    chunks = [s for s in stored if s.node.level == 0]
    found = contents.cached(s.content_key for s in chunks)
    vectors = contents.cached(key for s in stored for _, key in s.windows)
    windows: list[Window] = []
    entries: list[TextNode] = []
    for row, (s, text_node) in enumerate(zip(stored, text_nodes, strict=True)):
        for number, (span, key) in enumerate(s.windows):
            vector: FloatArray = np.frombuffer(vectors[key], dtype="<f4")
            entry = window_node(text_node, s.node, span, vector)
            entry.id_ = _vector_id(s.node.id, number, vectors[key], entry.metadata)
            windows.append(Window(row, span, entry.id_, entry.id_))
            entries.append(entry)
    record = DocumentRecord(
        id=source.document.id,
        hash=source.hash,
        title=source.document.title,
        metadata=source.metadata,
        leaf_metadata=source.leaf_metadata,
        of_leaf=source.of_leaf(nodes),
        segments=source.segments,
        gaps=_gaps(source.document.text, stored),
        nodes=[replace(node, text="", child_ids=()) for node in nodes],
        words=[s.words for s in chunks],
        windows=windows,
        mentions=Mentions.of([decode_sentences(found[s.content_key]) for s in chunks]),
    )
    return Built(record, text_nodes, entries)


@dataclass(frozen=True)
class _Planner:
    """Gives nodes that came as nodes the tree they came with, and plans all others."""

    sources: Mapping[str, Source]

    def __call__(self, document: SourceDocument, settings: Settings, counter: TokenCounter) -> Tree:
        given = self.sources[document.id].tree
        return plan_document(document, settings, counter) if given is None else given


def _vector_id(node_id: str, number: int, vector: bytes, metadata: Mapping[str, Any]) -> str:
    """Return an id that is the same only for the same vector with the same metadata.

    So an update adds what is new before it removes what is old, in any store.
    """
    plain = canonical_json({k: v for k, v in metadata.items() if k != NODE})
    digest = hashlib.sha256(vector).hexdigest()
    return str(uuid.uuid5(_NAMESPACE, f"{node_id}\0{number}\0{digest}\0{plain}"))


def _gaps(text: str, stored: Sequence[StoredNode]) -> list[str]:
    """Return what lies before, between and after the chunks of a text."""
    gaps, at = [], 0
    for node in (s.node for s in stored if s.node.level == 0):
        gaps.append(text[at : max(at, node.start)])
        at = max(at, node.end)
    return [*gaps, text[at:]]
