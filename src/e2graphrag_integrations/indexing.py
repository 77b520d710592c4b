"""The write path: documents in, nodes in the store; a document is there whole or not at all.

Three stages run side by side, each in threads of its own: extraction, embedding, summarising. Work
goes in batches of whole documents, two at a time, so that the stages overlap across batches and
memory stays bounded. What a stage makes goes to the store's cache as it arrives; the document's
transaction only links to it.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeVar

from e2graphrag_integrations.bridge import ContextThreads
from e2graphrag_integrations.checks import blamed
from e2graphrag_integrations.embedding import WindowedEmbedder
from e2graphrag_integrations.errors import (
    E2GraphRAGError,
    EmbeddingError,
    ExtractionError,
    IndexingError,
    InvalidInputError,
    StoppedError,
)
from e2graphrag_integrations.extraction import checked_extraction
from e2graphrag_integrations.graph import GraphBuilder
from e2graphrag_integrations.normalize import count_words
from e2graphrag_integrations.progress import StageWatch, Stop
from e2graphrag_integrations.protocols import EntityExtractor, TokenCounter
from e2graphrag_integrations.reports import IndexReport, ProgressListener
from e2graphrag_integrations.settings import Settings
from e2graphrag_integrations.store.records import (
    DocumentSink,
    StoredNode,
    decode_sentences,
    encode_sentences,
)
from e2graphrag_integrations.store.snapshot import contribution
from e2graphrag_integrations.summarising import Stopped, SummaryMaker, fill_tree
from e2graphrag_integrations.tree import Tree, plan_tree, without_overlap
from e2graphrag_integrations.types import Node, SourceDocument, Span

_BATCH_CHUNKS = 256
"""Chunks after which a batch of documents is full."""

_SLICE = 64
"""Texts given to extractor or embedder at once: what a crash can cost of their work."""

Windows = tuple[tuple[Span, bytes], ...]
T = TypeVar("T")


Splitter = Callable[[str], Sequence[tuple[int, int]]]
"""Cuts a text into the half-open spans of its chunks, in order."""

Planner = Callable[[SourceDocument, Settings, TokenCounter], Tree]
"""Makes a document's tree, its summaries still without text."""


def planner_of(splitter: Splitter | None, *, by_segment: bool = False) -> Planner:
    """Return the planner that cuts with a user's splitter, or else with our own.

    Args:
        splitter: The user's.
        by_segment: Whether each segment of a document is cut by itself.
    """
    if splitter is None and not by_segment:
        return plan

    def planned(document: SourceDocument, settings: Settings, counter: TokenCounter) -> Tree:
        def cut(text: str) -> Sequence[tuple[int, int]]:
            return settings.spans(text, counter) if splitter is None else splitter(text)

        whole = _by_segment(cut, document) if by_segment else cut
        spans = checked_spans(whole, document)
        return plan_tree(document.id, document.text, spans, settings.groups)

    return planned


def _by_segment(cut: Splitter, document: SourceDocument) -> Splitter:
    """Return a splitter that cuts each segment, and what lies between them, by itself."""
    size = len(document.text)
    borders = {0, size}.union(*({s[0], s[1]} for s in document.segments))

    def split(text: str) -> list[tuple[int, int]]:
        return [
            (start + a, start + b)
            for start, end in pairwise(sorted(borders))
            for a, b in cut(text[start:end])
        ]

    return split


def checked_spans(splitter: Splitter, document: SourceDocument) -> list[Span]:
    """Return where a splitter cuts a document.

    Raises:
        InvalidInputError: If the spans are not in order, not in the text, or leave text out.
    """
    with blamed(InvalidInputError, f"the splitter failed on document {document.id!r}"):
        spans = [Span(int(start), int(end)) for start, end in splitter(document.text)]
    text, at = document.text, 0
    for number, (start, end) in enumerate(spans):
        after = not number or start > spans[number - 1].start
        if not (0 <= start < end <= len(text) and after and not text[at:start].strip()):
            raise InvalidInputError(
                f"the splitter cut document {document.id!r} at {start}-{end}: spans must be in "
                "order, within the text, and leave nothing but white space out"
            )
        at = max(at, end)
    if text[at:].strip():
        raise InvalidInputError(
            f"the splitter left the end of document {document.id!r} out, from {at}"
        )
    return spans


def plan(document: SourceDocument, settings: Settings, counter: TokenCounter) -> Tree:
    """Return a document's tree, its summaries still without text."""
    spans = settings.spans(document.text, counter)
    return plan_tree(document.id, document.text, spans, settings.groups)


@dataclass(frozen=True)
class Writer:
    """Everything that indexing needs, resolved and checked.

    Attributes:
        manifest: Settings and fingerprints, written with the documents.
        embedder_print, extractor_print: Their parts of the cache keys.
        concurrency: Summaries in the making at once.
        replaces: Of documents that are there, the content hash of the version to replace, by id.
        planner: Makes a document's tree, its summaries without text.
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
    summaries: SummaryMaker
    concurrency: int
    replaces: Mapping[str, str] = field(default_factory=dict)
    planner: Planner = plan
    stop: Stop = field(default_factory=Stop)


def extraction_key(fingerprint: str, text: str) -> bytes:
    """Return the cache key of what an extractor finds in a text."""
    return hashlib.sha256(f"extraction\0{fingerprint}\0{text}".encode()).digest()


def write_documents(
    writer: Writer, documents: Iterable[SourceDocument], listener: ProgressListener | None = None
) -> IndexReport:
    """Index documents that are not in the store yet.

    Raises:
        IndexingError: When a stage failed; documents before the failing batch are there.
    """
    return _Run(writer, listener).run(documents)


class _Run:
    def __init__(self, writer: Writer, listener: ProgressListener | None) -> None:
        self.writer = writer
        self.watch = StageWatch(listener)
        self.graph = GraphBuilder()
        self.counts: Counter[str] = Counter()
        self.pinned: set[bytes] = set()  # content that documents still to be written link to
        self.empty: list[str] = []

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
                    batch.extracted = extracting.submit(self._extract, batch.chunks)
                    batch.embedded = embedding.submit(self._embed, batch, batch.chunks)
                    batch.summarised = coordinating.submit(self._summarise, batch, calling)
                    running.append(batch)
                    if len(running) > 1:
                        self._finish(running.popleft(), embedding)
                while running:
                    self._finish(running.popleft(), embedding)
            except BaseException as error:
                self.writer.stop.all()  # what is not begun is not paid for
                if not isinstance(error, Stopped):
                    raise
                raise StoppedError(
                    "indexing was stopped; what is finished is kept: call add() again to go on"
                ) from error
        return self._report(time.perf_counter() - began)

    def _batches(self, documents: Iterable[SourceDocument]) -> Iterator[_Batch]:
        batch = _Batch()
        for document in documents:
            with self.watch.timed("chunk"):
                tree = self.writer.planner(document, self.writer.settings, self.writer.counter)
            batch.add(document, tree, self.writer.embedder.prefix(document.title))
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
        self.watch.expect("summarise", len(tree.nodes) - chunks)
        self.watch.expect("write", 1)

    def _extract(self, chunks: Sequence[Node]) -> dict[str, bytes]:
        """Return for each chunk the key of its extraction, which is in the cache."""
        writer = self.writer
        keys = {chunk.id: self._extraction_key(chunk.text) for chunk in chunks}
        self.pinned.update(keys.values())
        known = writer.store.cached(keys.values())
        missing = {keys[c.id]: c for c in chunks if keys[c.id] not in known}
        self.watch.advance("extract", len(chunks) - len(missing))
        for part in _slices(list(missing.items())):
            if self.writer.stop.everything.is_set():
                raise Stopped
            with self.watch.timed("extract"):
                found = checked_extraction(
                    writer.extractor,
                    [chunk.text for _, chunk in part],
                    [f"chunk {c.position} of document {c.document_id!r}" for _, c in part],
                )
            writer.store.put_cached(
                "extraction",
                {key: encode_sentences(s) for (key, _), s in zip(part, found, strict=True)},
            )
            self.watch.advance("extract", len(part))
        return keys

    def _extraction_key(self, text: str) -> bytes:
        return extraction_key(self.writer.extractor_print, text)

    def _embed(self, batch: _Batch, nodes: Sequence[Node]) -> dict[str, Windows]:
        """Return for each node its windows and the keys of their vectors, in the cache."""
        embedder = self.writer.embedder
        windows: dict[str, Windows] = {}
        texts: dict[bytes, str] = {}
        with self.watch.timed("embed"):
            for node in nodes:
                prefix = batch.prefixes[node.document_id]
                pieces = []
                for span in embedder.windows(node.text, prefix):
                    text = prefix + node.text[span.start : span.end]
                    key = embedder.key(text, self.writer.embedder_print)
                    texts[key] = text
                    pieces.append((span, key))
                windows[node.id] = tuple(pieces)
        self.pinned.update(texts)
        known = self.writer.store.cached(texts)
        missing = [(key, text) for key, text in texts.items() if key not in known]
        for part in _slices(missing):
            if self.writer.stop.everything.is_set():
                raise Stopped
            with self.watch.timed("embed"):
                vectors = embedder.embed([text for _, text in part])
            self.writer.store.put_cached(
                "vector",
                {key: v.astype("<f4").tobytes() for (key, _), v in zip(part, vectors, strict=True)},
            )
            self.watch.advance("embed", len(nodes) * len(part) / len(missing))
        if not missing:
            self.watch.advance("embed", len(nodes))
        return windows

    def _summarise(self, batch: _Batch, pool: Executor) -> list[Mapping[str, str]]:
        return fill_tree(
            batch.trees,
            self.writer.summaries,
            pool,
            lambda: self.watch.advance("summarise", 1),
            self.writer.stop.calls,
        )

    def _finish(self, batch: _Batch, embedding: Executor) -> None:
        """Wait for a batch and write its documents, one transaction each."""
        texts = batch.summarised.result()
        filled = [
            [replace(n, text=made.get(n.id, n.text)) for n in tree.nodes]
            for tree, made in zip(batch.trees, texts, strict=True)
        ]
        summaries = [node for nodes in filled for node in nodes if node.level]
        above = embedding.submit(self._embed, batch, summaries)
        keys = _outcome(batch.extracted, ExtractionError, "extraction")
        windows = _outcome(batch.embedded, EmbeddingError, "embedding chunks") | _outcome(
            above, EmbeddingError, "embedding summaries"
        )
        for document, nodes in zip(batch.documents, filled, strict=True):
            children = _texts_below(nodes)
            keys |= {
                node.id: self.writer.summaries.key(children[node.id], node.level)
                for node in nodes
                if node.level
            }
            with self.watch.timed("write"):
                self.writer.store.write_document(
                    document,
                    [
                        StoredNode(node, count_words(node.text), keys[node.id], windows[node.id])
                        for node in nodes
                    ],
                    self.writer.manifest,
                    self.writer.replaces.get(document.id),
                    pinned=(self.pinned, self.writer.summaries.given),
                )
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
                self.graph.add(contribution(decode_sentences(found[keys[chunk.id]])))

    def _report(self, seconds: float) -> IndexReport:
        graph, usage = self.graph.finish(), self.writer.summaries.usage
        timings = dict(self.watch.seconds) | {"summarise": usage.seconds, "total": seconds}
        return IndexReport(
            documents=self.counts["documents"],
            empty=tuple(self.empty),
            chunks=self.counts["chunks"],
            summaries=self.counts["summaries"],
            entities=len(graph.names),
            edges=graph.edges.nnz // 2,
            llm_calls=usage.calls,
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
    summarised: Future[list[Mapping[str, str]]]

    def __init__(self) -> None:
        self.documents: list[SourceDocument] = []
        self.trees: list[Tree] = []
        self.chunks: list[Node] = []
        self.prefixes: dict[str, str] = {}

    def add(self, document: SourceDocument, tree: Tree, prefix: str) -> None:
        self.documents.append(document)
        self.trees.append(tree)
        self.chunks.extend(tree.levels[0] if tree.levels else ())
        self.prefixes[document.id] = prefix


def _texts_below(nodes: Sequence[Node]) -> dict[str, list[str]]:
    """Return for each summary the texts it was made of."""
    by_id = {node.id: node for node in nodes}
    return {
        node.id: without_overlap([by_id[child] for child in node.child_ids])
        for node in nodes
        if node.level
    }


def _outcome(future: Future[T], kind: type[IndexingError], stage: str) -> T:
    """Return a stage's result; an error of the user's own part comes as one of this package."""
    error = future.exception()
    if isinstance(error, E2GraphRAGError | Stopped) or not isinstance(error, Exception):
        return future.result()
    raise kind(f"{stage} failed: {type(error).__name__}: {error}") from error


def _slices(items: list[tuple[bytes, T]]) -> Iterator[list[tuple[bytes, T]]]:
    for at in range(0, len(items), _SLICE):
        yield items[at : at + _SLICE]
