"""What a question gets back: nodes with their exact sources and reasons, and the context text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from e2graphrag_integrations.retrieval.trace import Route, Trace
from e2graphrag_integrations.types import Span

GAP = " … "
"""Stands between the parts of a chunk that a token budget left."""


@dataclass(frozen=True, slots=True)
class RetrievedNode:
    """A node that answers, best first in its result.

    Attributes:
        node_id: Stable id of the chunk or summary.
        text: Its text, or the parts of it that a token budget left, `GAP` between them.
        level: 0 for a chunk, 1 and up for a summary.
        document_id: Its document.
        start, end: Characters of the document that the node covers, `[start, end)`.
        spans: What of them `text` stands for, in order: for a chunk, `text` is
            `GAP.join(document[start:end] for start, end in spans)`; all it covers for a summary.
        score: 1/rank where entities ranked it, cosine in [-1, 1] where vectors did, the sum of
            reciprocal ranks of `HybridStrategy`.
        route: The side that found it.
        reasons: Why it is here, in words.
        entities: Linked entities of the question that it holds, in the question's order.
        title: Its document's title.
        metadata: Its document's metadata with its segments' over it, as far as they agree.
        segment_metadata: Where the segments under it do not agree, the metadata of each, in order.
        position: Its place among the nodes of its document and level, from 0.
        parent_id: The summary above it.
        child_ids: The nodes that a summary was made of.
        best_span: The part of the document that earned a chunk its place, where the strategy knows.
    """

    node_id: str
    text: str
    level: int
    document_id: str
    start: int
    end: int
    spans: tuple[Span, ...]
    score: float
    route: Route
    reasons: tuple[str, ...]
    entities: tuple[str, ...] = ()
    title: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    segment_metadata: tuple[Mapping[str, Any], ...] = ()
    position: int = 0
    parent_id: str | None = None
    child_ids: tuple[str, ...] = ()
    best_span: Span | None = None

    @property
    def pieces(self) -> tuple[tuple[Span, str], ...]:
        """Return each span of a chunk with its text; of a summary, all of it."""
        if self.level or len(self.spans) == 1:
            return ((Span(self.start, self.end) if self.level else self.spans[0], self.text),)
        found, at = [], 0
        for span in self.spans:
            found.append((span, self.text[at : at + span.end - span.start]))
            at += span.end - span.start + len(GAP)
        return tuple(found)

    @property
    def differing_keys(self) -> tuple[str, ...]:
        """Keys of metadata on which the segments under the node do not agree."""
        keys = dict.fromkeys(key for part in self.segment_metadata for key in part)
        return tuple(key for key in keys if key not in self.metadata)


@dataclass(frozen=True, slots=True)
class RetrievalResult:
    """The nodes for a question, best first, with the route they came by and the trace of why."""

    question: str
    nodes: tuple[RetrievedNode, ...]
    trace: Trace

    @property
    def route(self) -> Route:
        """Whether entities (`local`) or vectors over the whole tree (`global`) gave the result."""
        return self.trace.route

    def context(self) -> str:
        """Return the nodes as text for a prompt (E2GraphRAG, section 3.3).

        Passages stand under the entities of the question that they hold, `a - b: passage`, best
        group first; nodes given twice are dropped and chunks that touch are merged by offsets.
        """
        return "\n\n".join(format_groups(self.nodes))


def header(entities: Sequence[str]) -> str:
    """Return what stands before the passages of a group."""
    return " - ".join(entities) + ": " if entities else ""


def format_groups(nodes: Iterable[RetrievedNode]) -> list[str]:
    """Return one text for each group of nodes that hold the same entities."""
    groups: dict[tuple[str, ...], list[RetrievedNode]] = {}
    seen: set[tuple[str, tuple[Span, ...]]] = set()
    for node in nodes:
        if (node.node_id, node.spans) not in seen:
            seen.add((node.node_id, node.spans))
            groups.setdefault(node.entities, []).append(node)
    return [header(entities) + "\n".join(_merged(members)) for entities, members in groups.items()]


@dataclass(frozen=True, slots=True)
class _Piece:
    """A span of a document with its text; where it lies in its chunk, if it begins or ends it."""

    node: RetrievedNode
    span: Span
    text: str

    def touches(self, after: _Piece) -> bool:
        """Tell whether nothing but white space, or less, lies between this piece and the next."""
        if self.node.document_id != after.node.document_id:
            return False
        if after.span.start <= self.span.end:
            return True
        return (
            after.node.position == self.node.position + 1
            and self.span.end == self.node.end
            and after.span.start == after.node.start
        )


def _merged(nodes: Sequence[RetrievedNode]) -> list[str]:
    """Return the passages of a group, pieces that touch or overlap joined where the first stood."""
    pieces = [_Piece(node, span, text) for node in nodes for span, text in node.pieces]
    runs: list[list[_Piece]] = []
    leaves = (piece for piece in pieces if piece.node.level == 0)
    for piece in sorted(leaves, key=lambda p: (p.node.document_id, p.span.start)):
        if runs and runs[-1][-1].touches(piece):
            runs[-1].append(piece)
        else:
            runs.append([piece])
    run_of = {id(piece): run for run in runs for piece in run}
    passages: list[str] = []
    done: set[int] = set()
    for piece in pieces:
        run = run_of.get(id(piece), [piece])
        if id(run[0]) not in done:
            done.add(id(run[0]))
            passages.append(_join(run))
    return passages


def _join(run: Sequence[_Piece]) -> str:
    text, end = run[0].text, run[0].span.end
    for piece in run[1:]:
        gap = piece.span.start - end
        if gap > 0:
            text += (" " if gap == 1 else "\n\n") + piece.text
        elif piece.span.end > end:
            text += piece.text[-gap:]
        end = max(end, piece.span.end)
    return text
