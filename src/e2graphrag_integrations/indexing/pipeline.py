"""The write path: documents in, nodes in the store; a document is there whole or not at all.

Three stages run side by side, each in threads of its own: extraction, embedding, summarizing. Work
goes in batches of whole documents, two at a time, so that the stages overlap across batches and
memory stays bounded. What a stage makes goes to the store's cache as it arrives; the document's
transaction only links to it.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter, deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from typing import TypeVar

from e2graphrag_integrations._utils.event_loop import ContextThreads
from e2graphrag_integrations._utils.validation import wrap_errors
from e2graphrag_integrations.embedders.windowed import WindowedEmbedder
from e2graphrag_integrations.entities.normalize import count_words
from e2graphrag_integrations.entities.spacy_extractor import extract_checked
from e2graphrag_integrations.errors import (
    EmbeddingError,
    ExtractionError,
    IndexingError,
    InvalidInputError,
    StoppedError,
)
from e2graphrag_integrations.graph.entity_graph import GraphBuilder
from e2graphrag_integrations.indexing.cost import CostCounter
from e2graphrag_integrations.indexing.failure_policy import FailFast, FailurePolicy
from e2graphrag_integrations.indexing.planning import Planner, plan_document
from e2graphrag_integrations.indexing.progress import StageTimer, StopSignal
from e2graphrag_integrations.indexing.summaries import SummaryBuilder, WorkStopped, summarize_trees
from e2graphrag_integrations.protocols import EntityExtractor, TokenCounter
from e2graphrag_integrations.reports import IndexReport, ProgressListener
from e2graphrag_integrations.settings import Settings
from e2graphrag_integrations.snapshot.snapshot import graph_contribution
from e2graphrag_integrations.store.records import (
    DocumentSink,
    StoredNode,
    decode_sentences,
    encode_sentences,
)
from e2graphrag_integrations.tree import Tree, without_overlap
from e2graphrag_integrations.types import Node, SourceDocument, Span

_BATCH_CHUNKS = 256
"""Chunks after which a batch of documents is full."""

_SLICE = 64
"""Texts given to extractor or embedder at once: what a crash can cost of their work."""

Windows = tuple[tuple[Span, bytes], ...]
T = TypeVar("T")


def _nothing(ids: Sequence[str]) -> None:
    """Do nothing."""


@dataclass(frozen=True)
class IndexingContext:
    """Everything that indexing needs, resolved and checked.

    Attributes:
        manifest: Settings and fingerprints, written with the documents.
        embedder_print, extractor_print: Their parts of the cache keys.
        concurrency: Summaries in the making at once.
        replaces: Of documents that are there, the content hash of the version to replace, by id.
        planner: Makes a document's tree, its summaries without text.
        failures: Says what becomes of the others when a document fails.
        begun: Called with the ids of documents that are worked on from now on.
        stop: Set from outside, ends the work.
    """

    store: DocumentSink
    manifest: Mapping[str, str]
    settings: Settings
    counter: TokenCounter
    embedder: WindowedEmbedder
    embedder_print: str
    extractor: EntityExtractor
    extractor_print: str
    summaries: SummaryBuilder
    concurrency: int
    replaces: Mapping[str, str] = field(default_factory=dict)
    planner: Planner = plan_document
    failures: FailurePolicy = field(default_factory=FailFast)
    begun: Callable[[Sequence[str]], None] = _nothing
    stop: StopSignal = field(default_factory=StopSignal)


def extraction_key(fingerprint: str, text: str) -> bytes:
    """Return the cache key of what an extractor finds in a text."""
    return hashlib.sha256(f"extraction\0{fingerprint}\0{text}".encode()).digest()


def write_documents(
    writer: IndexingContext,
    documents: Iterable[SourceDocument],
    listener: ProgressListener | None = None,
) -> IndexReport:
    """Index documents that are not in the store yet.

    Raises:
        IndexingError: When a stage failed and `writer.failures` ends the work for it; documents
            before the failing batch are there.
    """
    return _Run(writer, listener).run(documents)


class _Run:
    def __init__(self, writer: IndexingContext, listener: ProgressListener | None) -> None:
        self.writer = writer
        self.watch = StageTimer(listener)
        self.graph = GraphBuilder()
        self.counts: Counter[str] = Counter()
        self.unlinked: set[bytes] = set()  # content that versions which were replaced linked to
        self.empty: list[str] = []
        self.cost = CostCounter(writer.settings, writer.counter, writer.summaries)

    def run(self, documents: Iterable[SourceDocument]) -> IndexReport:
        began = time.perf_counter()
        with (
            ContextThreads(1, "e2graphrag-extract") as extracting,
            ContextThreads(1, "e2graphrag-embed") as embedding,
            ContextThreads(1, "e2graphrag-summaries") as coordinating,
            ContextThreads(self.writer.concurrency, "e2graphrag-llm") as calling,
        ):
            running: deque[_Batch] = deque()
            try:
                for batch in self._batches(documents):
                    self.writer.begun([document.id for document in batch.documents])
                    batch.extracted = extracting.submit(self._extract, batch.chunks)
                    batch.embedded = embedding.submit(self._embed, batch, batch.chunks)
                    batch.summarized = coordinating.submit(self._summarize, batch, calling)
                    running.append(batch)
                    if len(running) > 1:
                        self._finish(running.popleft(), embedding)
                while running:
                    self._finish(running.popleft(), embedding)
            except BaseException as error:
                self.writer.stop.all()  # what is not begun is not paid for
                if not isinstance(error, WorkStopped):
                    raise
                raise StoppedError(
                    "indexing was stopped; what is finished is kept: call resume(), or add() again"
                ) from error
        # Only now: documents may have taken over each other's texts.
        failed = bool(self.writer.failures.failed)  # nothing tells what was made of those
        self.writer.store.drop_unused(None if failed else self.unlinked)
        return self._report(time.perf_counter() - began)

    def _batches(self, documents: Iterable[SourceDocument]) -> Iterator[_Batch]:
        batch = _Batch()
        for document in documents:
            try:
                with self.watch.timed("chunk"):
                    tree = self.writer.planner(document, self.writer.settings, self.writer.counter)
                    prefix = self.writer.embedder.prefix(document.title)
                self.cost.add(tree)
            except (InvalidInputError, IndexingError) as error:  # of a user's splitter, tokenizer
                self.writer.failures.note([document.id], error)
                continue
            self.writer.failures.worked(InvalidInputError)
            batch.add(document, tree, prefix)
            self._announce(tree)
            if len(batch.chunks) >= _BATCH_CHUNKS:
                yield batch
                batch = _Batch()
        if batch.documents:
            yield batch

    def _announce(self, tree: Tree) -> None:
        chunks = len(tree.levels[0]) if tree.levels else 0
        self.watch.expect("chunk", chunks)
        self.watch.advance("chunk", chunks)
        self.watch.expect("extract", chunks)
        self.watch.expect("embed", len(tree.nodes))
        self.watch.expect("summarize", len(tree.nodes) - chunks)
        self.watch.expect("write", 1)

    def _extract(self, chunks: Sequence[Node]) -> dict[str, bytes]:
        """Return for each chunk the key of its extraction, which is in the cache."""
        writer = self.writer
        keys = {chunk.id: self._extraction_key(chunk.text) for chunk in chunks}
        known = writer.store.cached(keys.values())
        missing = {keys[c.id]: c for c in chunks if keys[c.id] not in known}
        owners: dict[bytes, dict[str, None]] = {}
        for chunk in chunks:
            owners.setdefault(keys[chunk.id], {})[chunk.document_id] = None
        self.watch.advance("extract", len(chunks) - len(missing))

        def extract(part: Sequence[tuple[bytes, Node]]) -> None:
            with self.watch.timed("extract"):
                found = extract_checked(
                    writer.extractor,
                    [chunk.text for _, chunk in part],
                    [f"chunk {c.position} of document {c.document_id!r}" for _, c in part],
                )
            writer.store.put_cached(
                "extraction",
                {key: encode_sentences(s) for (key, _), s in zip(part, found, strict=True)},
            )

        owned = [(tuple(owners[key]), (key, chunk)) for key, chunk in missing.items()]
        for done in self._in_slices(owned, extract, ExtractionError, "extraction"):
            self.watch.advance("extract", done)
        return keys

    def _in_slices(
        self,
        owned: Sequence[tuple[tuple[str, ...], tuple[bytes, T]]],
        work: Callable[[Sequence[tuple[bytes, T]]], None],
        kind: type[IndexingError],
        stage: str,
    ) -> Iterator[int]:
        """Do work on items slice by slice; where it fails, find out whose fault it is.

        Yields how many items each slice had.

        Args:
            owned: Items by keys, each with the documents that need it.
            work: Does a slice.
            kind: Of the error of what is no error of this package.
            stage: Named in it.
        """
        failures = self.writer.failures
        finished: set[bytes] = set()
        for at in range(0, len(owned), _SLICE):
            slices = deque([owned[at : at + _SLICE]])
            while slices:
                if self.writer.stop.everything.is_set():
                    raise WorkStopped
                part = [
                    (owners, item)
                    for owners, item in slices.popleft()
                    if item[0] not in finished
                    and any(owner not in failures.failed for owner in owners)
                ]
                if not part:
                    continue
                try:
                    with wrap_errors(kind, f"{stage} failed"):
                        work([item for _, item in part])
                except IndexingError as error:
                    suspects = dict.fromkeys(owner for owners, _ in part for owner in owners)
                    if not failures.note(list(suspects), error):
                        slices.extend(
                            [((s,), item) for o, item in part if s in o] for s in suspects
                        )
                    continue
                failures.worked(kind)
                finished.update(item[0] for _, item in part)
                yield len(part)

    def _extraction_key(self, text: str) -> bytes:
        return extraction_key(self.writer.extractor_print, text)

    def _embed(self, batch: _Batch, nodes: Sequence[Node]) -> dict[str, Windows]:
        """Return for each node its windows and the keys of their vectors, in the cache."""
        embedder = self.writer.embedder
        windows: dict[str, Windows] = {}
        texts: dict[bytes, str] = {}
        owners: dict[bytes, dict[str, None]] = {}
        for node in nodes:
            if node.document_id in self.writer.failures.failed:
                continue
            prefix = batch.prefixes[node.document_id]
            pieces = []
            for span in self._spans(embedder, node, prefix):
                text = prefix + node.text[span.start : span.end]
                key = embedder.key(text, self.writer.embedder_print)
                texts[key] = text
                owners.setdefault(key, {})[node.document_id] = None
                pieces.append((span, key))
            windows[node.id] = tuple(pieces)
        known = self.writer.store.cached(texts)
        missing = {key: text for key, text in texts.items() if key not in known}
        batch.embedded_nodes += _first_users(windows.values(), missing)

        def embed(part: Sequence[tuple[bytes, str]]) -> None:
            with self.watch.timed("embed"):
                vectors = embedder.embed([text for _, text in part])
            self.writer.store.put_cached(
                "vector",
                {key: v.astype("<f4").tobytes() for (key, _), v in zip(part, vectors, strict=True)},
            )

        owned = [(tuple(owners[key]), (key, text)) for key, text in missing.items()]
        for done in self._in_slices(owned, embed, EmbeddingError, "embedding"):
            self.watch.advance("embed", len(nodes) * done / len(missing))
        if not missing:
            self.watch.advance("embed", len(nodes))
        return windows

    def _spans(self, embedder: WindowedEmbedder, node: Node, prefix: str) -> Sequence[Span]:
        try:
            with self.watch.timed("embed"), wrap_errors(EmbeddingError, "finding windows failed"):
                return embedder.windows(node.text, prefix)
        except (InvalidInputError, EmbeddingError) as error:  # of the embedder's own tokenizer
            self.writer.failures.note([node.document_id], error)
            return ()

    def _summarize(self, batch: _Batch, pool: Executor) -> list[Mapping[str, str] | None]:
        return summarize_trees(
            batch.trees,
            self.writer.summaries,
            pool,
            lambda: self.watch.advance("summarize", 1),
            self.writer.stop.calls,
            failures=self.writer.failures,
        )

    def _finish(self, batch: _Batch, embedding: Executor) -> None:
        """Wait for a batch and write its documents, one transaction each."""
        texts = batch.summarized.result()
        filled = {
            tree.document_id: [replace(n, text=made.get(n.id, n.text)) for n in tree.nodes]
            for tree, made in zip(batch.trees, texts, strict=True)
            if made is not None
        }
        summaries = [node for nodes in filled.values() for node in nodes if node.level]
        above = embedding.submit(self._embed, batch, summaries)
        keys = batch.extracted.result()
        windows = batch.embedded.result() | above.result()
        self.counts["embedded"] += batch.embedded_nodes
        for document in batch.documents:
            if document.id in self.writer.failures.failed:
                continue
            nodes = filled[document.id]
            children = _texts_below(nodes)
            keys |= {
                node.id: self.writer.summaries.key(children[node.id], node.level)
                for node in nodes
                if node.level
            }
            with self.watch.timed("write"):
                before = self.writer.store.write_document(
                    document,
                    [
                        StoredNode(node, count_words(node.text), keys[node.id], windows[node.id])
                        for node in nodes
                    ],
                    self.writer.manifest,
                    self.writer.replaces.get(document.id),
                )
            self.unlinked.update(before)
            self.watch.advance("write", 1)
            self._count(document, nodes, keys)

    def _count(
        self, document: SourceDocument, nodes: Sequence[Node], keys: Mapping[str, bytes]
    ) -> None:
        chunks = [node for node in nodes if not node.level]
        self.counts.update(documents=1, chunks=len(chunks), summaries=len(nodes) - len(chunks))
        if not chunks:
            self.empty.append(document.id)
        found = self.writer.store.cached(keys[chunk.id] for chunk in chunks)
        for chunk in chunks:
            if keys[chunk.id] in found:  # else another writer has deleted the document by now
                self.graph.add(graph_contribution(decode_sentences(found[keys[chunk.id]])))

    def _report(self, seconds: float) -> IndexReport:
        graph, usage = self.graph.finish(), self.writer.summaries.usage
        failed = self.writer.failures.failed
        asked = usage.calls - usage.retries
        timings = dict(self.watch.seconds) | {"summarize": usage.seconds, "total": seconds}
        return IndexReport(
            documents=self.counts["documents"],
            empty=tuple(self.empty),
            chunks=self.counts["chunks"],
            summaries=self.counts["summaries"],
            entities=len(graph.names),
            edges=graph.edges.nnz // 2,
            failed={id_: str(error) for id_, error in failed.items()},
            embedded=self.counts["embedded"],
            llm_calls=usage.calls,
            saved_calls=max(0, self.cost.calls - asked) if usage.calls and not failed else 0,
            retries=usage.retries,
            cut_summaries=usage.cut,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            seconds={stage: round(s, 4) for stage, s in timings.items()},
        )


class _Batch:
    """Whole documents that go through the stages together."""

    extracted: Future[dict[str, bytes]]
    embedded: Future[dict[str, Windows]]
    summarized: Future[list[Mapping[str, str] | None]]

    def __init__(self) -> None:
        self.documents: list[SourceDocument] = []
        self.trees: list[Tree] = []
        self.chunks: list[Node] = []
        self.prefixes: dict[str, str] = {}
        self.embedded_nodes = 0

    def add(self, document: SourceDocument, tree: Tree, prefix: str) -> None:
        self.documents.append(document)
        self.trees.append(tree)
        self.chunks.extend(tree.levels[0] if tree.levels else ())
        self.prefixes[document.id] = prefix


def _first_users(windows: Iterable[Windows], missing: Container[bytes]) -> int:
    """Return how many nodes are the first to need a vector that is missing."""
    seen: set[bytes] = set()
    count = 0
    for pieces in windows:
        new = {key for _, key in pieces if key in missing} - seen
        seen |= new
        count += bool(new)
    return count


def _texts_below(nodes: Sequence[Node]) -> dict[str, list[str]]:
    """Return for each summary the texts it was made of."""
    by_id = {node.id: node for node in nodes}
    return {
        node.id: without_overlap([by_id[child] for child in node.child_ids])
        for node in nodes
        if node.level
    }
