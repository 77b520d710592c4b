"""What a question gets back: nodes with their exact sources and reasons, and the context text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from e2graphrag_integrations.retrieval.trace import Route, Trace
from e2graphrag_integrations.types import Span


@dataclass(frozen=True, slots=True)
class RetrievedNode:
    """A node that answers, best first in its result.

    Attributes:
        node_id: Stable id of the chunk or summary.
        text: Its text, or the part of it that a token budget left.
        level: 0 for a chunk, 1 and up for a summary.
        document_id: Its document.
        start, end: Characters of the document that the node covers, `[start, end)`.
        spans: What of them `text` stands for: `text == document[start:end]` of the one span of a
            chunk; all it covers for a summary.
        score: 1/rank where entities ranked it, cosine in [-1, 1] where vectors did.
        route: The side that found it.
        reasons: Why it is here, in words.
        entities: Linked entities of the question that it holds, in the question's order.
        title: Its document's title.
        metadata: Its document's metadata with its segments' over it, as far as they agree.
        parts: Where the segments under it do not agree, the metadata of each, in order.
        position: Its place among the nodes of its document and level, from 0.
        parent_id: The summary above it.
        child_ids: The nodes that a summary was made of.
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
    parts: tuple[Mapping[str, Any], ...] = ()
    position: int = 0
    parent_id: str | None = None
    child_ids: tuple[str, ...] = ()

    @property
    def differing(self) -> tuple[str, ...]:
        """Keys of metadata on which the segments under the node do not agree."""
        keys = dict.fromkeys(key for part in self.parts for key in part)
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


def _merged(nodes: Sequence[RetrievedNode]) -> list[str]:
    """Return the passages of a group, chunks that touch or overlap joined where the first stood."""
    runs: list[list[RetrievedNode]] = []
    by_place = sorted(
        (n for n in nodes if n.level == 0), key=lambda n: (n.document_id, n.spans[0].start)
    )
    for node in by_place:
        if runs and _touch(runs[-1][-1], node):
            runs[-1].append(node)
        else:
            runs.append([node])
    run_of = {id(node): run for run in runs for node in run}
    passages: list[str] = []
    done: set[int] = set()
    for node in nodes:
        run = run_of.get(id(node), [node])
        if id(run[0]) not in done:
            done.add(id(run[0]))
            passages.append(_join(run))
    return passages


def _touch(before: RetrievedNode, after: RetrievedNode) -> bool:
    if before.document_id != after.document_id:
        return False
    if after.spans[0].start <= before.spans[-1].end:
        return True
    # Neighbours in full have nothing but white space between them.
    return (
        after.position == before.position + 1
        and before.spans[-1].end == before.end
        and after.spans[0].start == after.start
    )


def _join(run: Sequence[RetrievedNode]) -> str:
    text, end = run[0].text, run[0].spans[-1].end
    for node in run[1:]:
        gap = node.spans[0].start - end
        if gap > 0:
            text += (" " if gap == 1 else "\n\n") + node.text
        elif node.spans[-1].end > end:
            text += node.text[-gap:]
        end = max(end, node.spans[-1].end)
    return text
