"""Stage `plan`: build each document's tree, and group documents into batches.

Planning is cheap and calls no model: summaries have no text yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from e2graphrag_integrations._utils.validation import wrap_errors
from e2graphrag_integrations.embedders.windowed import WindowedEmbedder
from e2graphrag_integrations.errors import IndexingError, InvalidInputError
from e2graphrag_integrations.indexing.run import RunControl, WorkStopped
from e2graphrag_integrations.indexing.stages.llm_calls import CostCounter
from e2graphrag_integrations.options import MayShareChunk
from e2graphrag_integrations.pages import copied
from e2graphrag_integrations.protocols import TokenCounter
from e2graphrag_integrations.reports import Stage
from e2graphrag_integrations.settings import Settings
from e2graphrag_integrations.tree import Tree, plan_tree
from e2graphrag_integrations.types import HEADINGS, Node, Segment, SourceDocument, Span

_NO_METADATA: Mapping[str, Any] = MappingProxyType({})

_BATCH_CHUNKS = 256
"""Number of chunks at which a batch is full, to bound memory use, unless the engine has its own."""

Splitter = Callable[[str], Sequence[tuple[int, int]]]
"""Returns the half-open chunk spans of a text, in order."""

IsChunk = Callable[[Mapping[str, Any]], bool]
"""Returns whether a segment with the given metadata is a chunk that must not be split."""

Planner = Callable[[SourceDocument], Tree]
"""Returns a document's tree; summaries have no text yet."""


@dataclass
class Batch:
    """Whole documents that go through the stages together.

    Attributes:
        documents: The documents.
        trees: Their trees, in the same order.
        chunks: All chunks of the trees.
        prefixes: Text prepended to each embedded window (the title), by document id.
    """

    documents: list[SourceDocument] = field(default_factory=list)
    trees: list[Tree] = field(default_factory=list)
    chunks: list[Node] = field(default_factory=list)
    prefixes: dict[str, str] = field(default_factory=dict)


def plan_batches(
    documents: Iterable[SourceDocument],
    planner: Planner,
    embedder: WindowedEmbedder,
    cost: CostCounter,
    control: RunControl,
) -> Iterator[Batch]:
    """Yield documents with their trees, in batches, and add their cost to `cost`."""
    batch = Batch()
    for document in documents:
        try:
            with control.timer.timed("chunk"):
                tree = planner(document)
                prefix = embedder.title_prefix(document.title)
            cost.add(document, tree)
        except (InvalidInputError, IndexingError) as error:  # a user's splitter or tokenizer failed
            control.failures.record_failure([document.id], error)
            continue
        control.failures.record_success(InvalidInputError)
        chunks = tree.levels[0] if tree.levels else ()
        batch.documents.append(document)
        batch.trees.append(tree)
        batch.chunks.extend(chunks)
        batch.prefixes[document.id] = prefix
        control.timer.advance("chunk", len(chunks))
        if len(batch.chunks) >= (control.runner.batch_chunks or _BATCH_CHUNKS):
            yield batch
            batch = Batch()
    if batch.documents:
        yield batch


def count_items(
    documents: Iterable[SourceDocument], planner: Planner, control: RunControl
) -> dict[Stage, int]:
    """Return the number of items of each stage, without documents that cannot be planned.

    Raises:
        WorkStopped: After a stop request.
    """
    written = chunks = nodes = 0
    for document in documents:
        if control.stop.no_new_work.is_set():
            raise WorkStopped
        try:
            with control.timer.timed("chunk"):
                tree = planner(document)
        except (InvalidInputError, IndexingError):
            continue  # `plan_batches` reports it
        written += 1
        chunks += len(tree.levels[0]) if tree.levels else 0
        nodes += len(tree.nodes)
    return {
        "chunk": chunks,
        "extract": chunks,
        "embed": nodes,
        "summarize": nodes - chunks,
        "write": written,
    }


def plan_document(
    document: SourceDocument,
    settings: Settings,
    counter: TokenCounter,
    segments: Sequence[tuple[int, int, Mapping[str, Any]]] = (),
    may_share_chunk: MayShareChunk | None = None,
) -> Tree:
    """Return the tree of a document that is split according to the settings.

    Args:
        document: The document.
        settings: Sizes of chunks and groups.
        counter: Counts tokens.
        segments: Its parts, as `(start, end, metadata)`.
        may_share_chunk: Returns whether two adjacent segments are split together; None means yes.
    """
    planner = DocumentPlanner(settings, counter, None, may_share_chunk or False)
    return planner(replace(document, segments=list(segments)))


@dataclass(frozen=True)
class DocumentPlanner:
    """Plans documents that are split with `splitter`, or by the settings if `splitter` is None.

    Attributes:
        settings, counter: Sizes of chunks and groups, and their unit.
        splitter: The user's splitter.
        split_segments: Whether to split each segment of a document separately. Segments that differ
            only in their `headings` are split together. A function selects the segments that are
            split together.
        is_chunk: Selects the segments, by their metadata, that are chunks already.
    """

    settings: Settings
    counter: TokenCounter
    splitter: Splitter | None
    split_segments: bool | MayShareChunk
    is_chunk: IsChunk | None = None
    _spans: dict[str, list[Span]] | None = None

    def for_run(self) -> DocumentPlanner:
        """Return a copy that calls the user's splitter once for each document.

        A run plans documents several times: to count the calls and the items, and to index. A
        splitter may be slow or call a paid model.
        """
        return replace(self, _spans={})

    def __call__(self, document: SourceDocument) -> Tree:
        """Return the tree of a document.

        Raises:
            InvalidInputError: If the splitter fails or returns invalid spans.
        """
        spans = self._spans.get(document.id) if self._spans is not None else None
        if spans is None:
            spans = self.split(document)
            if self._spans is not None and self._is_custom(document):
                self._spans[document.id] = spans
        return plan_tree(document.id, document.text, spans, self.settings.groups)

    def split(self, document: SourceDocument) -> list[Span]:
        """Return the spans of a document's chunks, like `__call__`, but always compute them."""
        if not self._is_custom(document):
            return self.settings.spans(document.text, self.counter)
        chunks = self._given_chunks(document)
        splitter = _split_around(chunks, self._boundaries(document), self._split)
        return checked_spans(splitter, document)

    def with_spans(self, spans: Mapping[str, list[Span]]) -> DocumentPlanner:
        """Return a copy for one run that knows the spans of some documents, by id."""
        return replace(self, _spans={**(self._spans or {}), **spans})

    def _is_custom(self, document: SourceDocument) -> bool:
        """Return whether a document is not split by the settings alone."""
        if self.splitter is not None or self.split_segments is True:
            return True
        return bool(self._given_chunks(document) or self._boundaries(document))

    def _given_chunks(self, document: SourceDocument) -> list[Span]:
        if self.is_chunk is None:
            return []
        segments = (Segment(*segment) for segment in document.segments)
        return [
            Span(segment.start, segment.end)
            for segment in segments
            if self.is_chunk(segment.metadata)
            and document.text[segment.start : segment.end].strip()
        ]

    def _boundaries(self, document: SourceDocument) -> set[int]:
        """Return where the text is divided before it is split."""
        if not self.split_segments:
            return set()
        segments = [Segment(*segment) for segment in document.segments]
        if callable(self.split_segments):
            adjacent = pairwise(segment for segment in segments if segment.end > segment.start)
            with wrap_errors(InvalidInputError, f"split_segments failed on {document.id!r}"):
                return {
                    second.start
                    for first, second in adjacent
                    if not self.split_segments(copied(first.metadata), copied(second.metadata))
                }
        offsets = {offset for start, end, _ in segments for offset in (start, end)}
        return offsets - set(_heading_starts(segments))

    def _split(self, text: str) -> Sequence[tuple[int, int]]:
        if self.splitter is None:
            return self.settings.spans(text, self.counter)
        return self.splitter(text)


def _heading_starts(segments: Sequence[Segment]) -> Iterator[int]:
    """Yield where a segment begins that differs from the text before it only in its headings."""
    end, before = 0, _NO_METADATA
    for segment in segments:
        if segment.start > end:  # text without a segment
            before = _NO_METADATA
        differs = before.get(HEADINGS) != segment.metadata.get(HEADINGS)
        if segment.start >= end and differs and _others(before) == _others(segment.metadata):
            yield segment.start
        end, before = segment.end, segment.metadata


def _others(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in metadata.items() if key != HEADINGS}


def _split_around(chunks: Sequence[Span], boundaries: set[int], split: Splitter) -> Splitter:
    """Return a splitter that keeps chunks and splits the text around them.

    Args:
        chunks: Spans to keep, ordered by start and by end.
        boundaries: Offsets at which the text is divided before it is split.
        split: Splits the parts of the text outside the chunks.
    """

    def split_part(text: str, first: int, last: int) -> Iterator[tuple[int, int]]:
        inner = {offset for offset in boundaries if first < offset < last}
        for start, end in pairwise(sorted(inner | {first, last})):
            yield from ((start + a, start + b) for a, b in split(text[start:end]))

    def split_all(text: str) -> list[tuple[int, int]]:
        spans: list[tuple[int, int]] = []
        covered = 0
        for start, end in chunks:
            if text[covered:start].strip():
                spans += split_part(text, covered, start)
            spans.append((start, end))
            covered = end
        if text[covered:].strip():
            spans += split_part(text, covered, len(text))
        return spans

    return split_all


def checked_spans(splitter: Splitter, document: SourceDocument) -> list[Span]:
    """Check a document's chunk spans and return them.

    Raises:
        InvalidInputError: If spans are out of order, lie outside the text, or omit text.
    """
    text = document.text
    with wrap_errors(InvalidInputError, f"the splitter failed on document {document.id!r}"):
        spans = [Span(int(start), int(end)) for start, end in splitter(text)]
    covered = 0
    for number, (start, end) in enumerate(spans):
        in_order = not number or start > spans[number - 1].start
        if not (0 <= start < end <= len(text) and in_order and not text[covered:start].strip()):
            raise InvalidInputError(
                f"the splitter returned the span {start}-{end} for document {document.id!r}: spans "
                "must be in order, lie within the text, and omit nothing but white space"
            )
        covered = max(covered, end)
    if text[covered:].strip():
        raise InvalidInputError(
            f"the splitter omitted the end of document {document.id!r}, from character {covered}"
        )
    return spans
