"""Stage `plan`: build each document's tree, and group documents into batches.

Planning is cheap and calls no model: summaries have no text yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from e2graphrag_integrations._utils.validation import wrap_errors
from e2graphrag_integrations.embedders.windowed import WindowedEmbedder
from e2graphrag_integrations.errors import IndexingError, InvalidInputError
from e2graphrag_integrations.indexing.cost import CostCounter
from e2graphrag_integrations.indexing.run import RunControl, WorkStopped
from e2graphrag_integrations.protocols import TokenCounter
from e2graphrag_integrations.reports import Stage
from e2graphrag_integrations.settings import Settings
from e2graphrag_integrations.tree import Tree, plan_tree
from e2graphrag_integrations.types import Node, SourceDocument, Span

_BATCH_CHUNKS = 256
"""Number of chunks at which a batch is full, to bound memory use."""

Splitter = Callable[[str], Sequence[tuple[int, int]]]
"""Returns the half-open chunk spans of a text, in order."""

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
            cost.add(tree)
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
        if len(batch.chunks) >= _BATCH_CHUNKS:
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


def plan_document(document: SourceDocument, settings: Settings, counter: TokenCounter) -> Tree:
    """Return the tree of a document that is split according to the settings."""
    spans = settings.spans(document.text, counter)
    return plan_tree(document.id, document.text, spans, settings.groups)


@dataclass(frozen=True)
class DocumentPlanner:
    """Plans documents that are split with `splitter`, or by the settings if `splitter` is None.

    Attributes:
        settings, counter: Sizes of chunks and groups, and their unit.
        splitter: The user's splitter.
        split_segments: Whether to split each segment of a document separately.
    """

    settings: Settings
    counter: TokenCounter
    splitter: Splitter | None
    split_segments: bool
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
        if self.splitter is None and not self.split_segments:
            return plan_document(document, self.settings, self.counter)
        spans = self._spans.get(document.id) if self._spans is not None else None
        if spans is None:
            split = self._split
            splitter = _split_by_segment(split, document) if self.split_segments else split
            spans = checked_spans(splitter, document)
            if self._spans is not None:
                self._spans[document.id] = spans
        return plan_tree(document.id, document.text, spans, self.settings.groups)

    def _split(self, text: str) -> Sequence[tuple[int, int]]:
        if self.splitter is None:
            return self.settings.spans(text, self.counter)
        return self.splitter(text)


def _split_by_segment(split: Splitter, document: SourceDocument) -> Splitter:
    """Return a splitter that splits each segment, and the text between segments, separately."""
    boundaries = {0, len(document.text)}.union(*({s[0], s[1]} for s in document.segments))
    return lambda text: [
        (start + first, start + last)
        for start, end in pairwise(sorted(boundaries))
        for first, last in split(text[start:end])
    ]


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
