"""Stage `plan`: build each document's tree, and group documents into batches.

Planning is cheap and calls no model: summaries have no text yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from e2graphrag_integrations._utils.validation import wrap_errors
from e2graphrag_integrations.embedders.windowed import WindowedEmbedder
from e2graphrag_integrations.errors import IndexingError, InvalidInputError
from e2graphrag_integrations.indexing.cost import CostCounter
from e2graphrag_integrations.indexing.run import RunControl
from e2graphrag_integrations.protocols import TokenCounter
from e2graphrag_integrations.settings import Settings
from e2graphrag_integrations.tree import Tree, plan_tree
from e2graphrag_integrations.types import Node, SourceDocument, Span

_BATCH_CHUNKS = 256
"""A batch is full when it has this many chunks. Bounds memory."""

Splitter = Callable[[str], Sequence[tuple[int, int]]]
"""Returns the half-open chunk spans of a text, in order."""

Planner = Callable[[SourceDocument, Settings, TokenCounter], Tree]
"""Returns a document's tree; summaries have no text yet."""


@dataclass
class Batch:
    """Complete documents that pass through the stages together.

    Attributes:
        documents: The documents.
        trees: Their trees, in the same order.
        chunks: All chunks of the trees.
        prefixes: Text in front of each embedded window (the title), by document id.
    """

    documents: list[SourceDocument] = field(default_factory=list)
    trees: list[Tree] = field(default_factory=list)
    chunks: list[Node] = field(default_factory=list)
    prefixes: dict[str, str] = field(default_factory=dict)

    def add(self, document: SourceDocument, tree: Tree, prefix: str) -> None:
        """Append a document."""
        self.documents.append(document)
        self.trees.append(tree)
        self.chunks.extend(tree.levels[0] if tree.levels else ())
        self.prefixes[document.id] = prefix


def plan_batches(
    documents: Iterable[SourceDocument],
    plan: Callable[[SourceDocument], Tree],
    embedder: WindowedEmbedder,
    cost: CostCounter,
    control: RunControl,
) -> Iterator[Batch]:
    """Yield documents with their trees, in batches.

    Args:
        documents: Documents to index.
        plan: Returns a document's tree.
        embedder: Computes the title prefix of a document.
        cost: Counts the summaries of each tree that are not cached yet.
        control: Receives failures, times and progress.
    """
    batch = Batch()
    for document in documents:
        try:
            with control.timer.timed("chunk"):
                tree = plan(document)
                prefix = embedder.title_prefix(document.title)
            cost.add(tree)
        except (InvalidInputError, IndexingError) as error:  # a user's splitter or tokenizer failed
            control.failures.record_failure([document.id], error)
            continue
        control.failures.record_success(InvalidInputError)
        batch.add(document, tree, prefix)
        _announce(tree, control)
        if len(batch.chunks) >= _BATCH_CHUNKS:
            yield batch
            batch = Batch()
    if batch.documents:
        yield batch


def _announce(tree: Tree, control: RunControl) -> None:
    """Add the tree's items to the expected work of every stage."""
    chunks = len(tree.levels[0]) if tree.levels else 0
    control.timer.expect("chunk", chunks)
    control.timer.advance("chunk", chunks)
    control.timer.expect("extract", chunks)
    control.timer.expect("embed", len(tree.nodes))
    control.timer.expect("summarize", len(tree.nodes) - chunks)
    control.timer.expect("write", 1)


def plan_document(document: SourceDocument, settings: Settings, counter: TokenCounter) -> Tree:
    """Return the tree of a document that is split according to the settings."""
    spans = settings.spans(document.text, counter)
    return plan_tree(document.id, document.text, spans, settings.groups)


def make_planner(splitter: Splitter | None, *, split_segments: bool = False) -> Planner:
    """Return a planner.

    Args:
        splitter: User's splitter; None splits according to the settings.
        split_segments: Whether to split each segment of a document separately.
    """
    if splitter is None and not split_segments:
        return plan_document

    def plan(document: SourceDocument, settings: Settings, counter: TokenCounter) -> Tree:
        def split(text: str) -> Sequence[tuple[int, int]]:
            return settings.spans(text, counter) if splitter is None else splitter(text)

        spans = checked_spans(
            _split_by_segment(split, document) if split_segments else split, document
        )
        return plan_tree(document.id, document.text, spans, settings.groups)

    return plan


def _split_by_segment(split: Splitter, document: SourceDocument) -> Splitter:
    """Return a splitter that splits each segment, and the text between segments, separately."""
    boundaries = {0, len(document.text)}.union(*({s[0], s[1]} for s in document.segments))

    def split_segments(text: str) -> list[tuple[int, int]]:
        return [
            (start + first, start + last)
            for start, end in pairwise(sorted(boundaries))
            for first, last in split(text[start:end])
        ]

    return split_segments


def checked_spans(splitter: Splitter, document: SourceDocument) -> list[Span]:
    """Return the chunk spans of a document, checked.

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
