"""The result of a retrieval: nodes with sources and reasons, and the context for a prompt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from e2graphrag_integrations._utils.display import (
    MAX_ITEMS,
    block,
    heading,
    more_items,
    muted,
    passage,
    ruled,
)
from e2graphrag_integrations.languages.language import ENGLISH
from e2graphrag_integrations.pages import describe_pages, merge_metadata
from e2graphrag_integrations.retrieval.trace import Mixture, Route, Trace
from e2graphrag_integrations.types import Segment, Span

if TYPE_CHECKING:
    import networkx as nx

    from e2graphrag_integrations.retrieval.entities.entity_paths import EntityPath

GAP = " … "
"""Separates the spans of a chunk that a token budget has shortened."""


@dataclass(frozen=True, slots=True)
class RetrievedNode:
    """A chunk or summary in a result.

    Attributes:
        node_id: Stable id.
        text: The text, or its spans that fit the token budget, joined by `GAP`.
        level: 0 for a chunk, 1 and higher for a summary.
        document_id: Id of the document.
        start, end: Character range of the node in the document, `[start, end)`.
        spans: Character ranges of the document in `text`, in order. For a chunk, `text` equals
            `GAP.join(document[start:end] for start, end in spans)`; for a summary, the only
            span is the range that it covers.
        score: The strategy's own score; higher is better, and the nodes are in this order. It is
            1/rank if entities ranked the node, cosine in [-1, 1] if vectors did, or a sum of
            weighted reciprocal ranks from `HybridStrategy`. Not comparable across questions.
        found_by: Name of the list that contributes most to the node's score, such as `relevance`
            (vectors and BM25), `entities` or `title_links`. `reasons` has its rank in each list.
        reasons: Why the node was found, in words.
        entities: Linked entities of the question that the node mentions, in question order.
        title: Title of the document.
        metadata: Metadata of the document and its segments, without the keys on which segments
            disagree. For a page key (`page`, `page_number`, `page_label`) on which they disagree,
            it has the first value, and the plural key (`pages`, ...) lists all values.
        segments: The parts of the node that have different metadata, such as its pages, in order.
            The spans refer to the document and are clipped to the node. White space between two
            segments of a document belongs to the first.
        position: Position among the nodes of the same document and level, from 0.
        parent_id: Id of the summary above.
        child_ids: Ids of the nodes that a summary summarizes.
        best_span: Character range of the document that matches best; None for a summary, or if the
            strategy does not know it.
        relevance: How relevant the node is to the question, in [0, 1], comparable across questions
            and independent of the order. It depends on the cosine of the node's best window: with
            a calibrated embedder, such as all-MiniLM-L6-v2, it is the estimated probability that
            the node is evidence for the answer; otherwise, it is the cosine, or 0 if that is
            negative. docs/retrieval.md describes the calibration, and the relevance of questions
            that are answered without vectors.
        tags: Tags of the index that the node has; see `E2GraphRAG.set_tags`.
        language: Code of the language of the document (ISO 639-1).
        also_in: Ids of other documents that the question found with the same text, sorted.
        superseded_by: Id of the newest version of the document that the question may find; None if
            the document is that, or has no other versions.
        previous_id: Id of the node before on the same level of the document.
        next_id: Id of the node after on that level.
        segment_start: Start of the first of the `segments` in the document, before it was clipped.
            Offsets in a page are relative to it.
    """

    node_id: str
    text: str
    level: int
    document_id: str
    start: int
    end: int
    spans: tuple[Span, ...]
    score: float
    found_by: str
    reasons: tuple[str, ...]
    entities: tuple[str, ...] = ()
    title: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    segments: tuple[Segment, ...] = ()
    position: int = 0
    parent_id: str | None = None
    child_ids: tuple[str, ...] = ()
    best_span: Span | None = None
    relevance: float = 0.0
    tags: tuple[str, ...] = ()
    language: str = ENGLISH
    also_in: tuple[str, ...] = ()
    superseded_by: str | None = None
    previous_id: str | None = None
    next_id: str | None = None
    segment_start: int = 0

    @property
    def pieces(self) -> tuple[tuple[Span, str], ...]:
        """Each span of a chunk with its text; a summary is a single piece."""
        if self.level or len(self.spans) == 1:
            return ((Span(self.start, self.end) if self.level else self.spans[0], self.text),)
        pieces, offset = [], 0
        for span in self.spans:
            length = span.end - span.start
            pieces.append((span, self.text[offset : offset + length]))
            offset += length + len(GAP)
        return tuple(pieces)

    @property
    def differing_keys(self) -> tuple[str, ...]:
        """Metadata keys on which the segments under the node disagree."""
        keys = dict.fromkeys(key for segment in self.segments for key in segment.metadata)
        return tuple(key for key in keys if key not in self.metadata)

    def _repr_html_(self) -> str:
        return block(_node_html(self))


@dataclass(frozen=True, slots=True)
class RetrievalResult:
    """The nodes for a question, best first, and the trace of the retrieval.

    Attributes:
        question: The question as asked.
        nodes: The nodes.
        trace: The steps of the retrieval.
        paths: The chains of entities that join the names of the question, best first, if `retrieve`
            was called with `paths=True`; otherwise None.
    """

    question: str
    nodes: tuple[RetrievedNode, ...]
    trace: Trace
    paths: tuple[EntityPath, ...] | None = None

    @property
    def route(self) -> Route:
        """What the question is about: something particular (`local`) or a text (`global`)."""
        return self.trace.route

    @property
    def mixture(self) -> Mixture | None:
        """The mixture of summaries and windows of chunks; None if there was none."""
        return self.trace.mixture

    def context(self) -> str:
        """Return the nodes as text for a prompt (E2GraphRAG, arXiv 2505.24226, section 3.3).

        Passages that mention the same entities of the question form a group, `a - b: passage`, best
        group first. Duplicates are dropped, and chunks that touch or overlap are merged.
        """
        return "\n\n".join(format_groups(self.nodes))

    def cited_context(self) -> str:
        """Return the nodes as numbered passages with their sources, so that a model can cite them.

        Above each passage is its number, the title and id of its document, its pages and its range
        of characters, and the other documents that contain it. The best passage is first. Chunks
        that touch or overlap are merged. The lines with the sources do not count as tokens of a
        `token_budget`.
        """
        return "\n\n".join(
            f"[{number}] {place}\n{text}"
            for number, (place, text) in enumerate(cited_passages(self.nodes), 1)
        )

    def subgraph(self) -> nx.Graph:
        """Return the nodes, their entities and the paths as a `networkx.Graph`.

        Chunks and summaries are named by their ids, and entities by their normal forms. Each has
        the attribute `kind`: `chunk`, `summary` or `entity`. The `kind` of an edge is `mentions`
        (a node and an entity of the question or of a path), `summarizes` (a summary and a node
        under it) or `hop` (two entities of a path; the other attributes are those of `Hop`). All
        attributes are strings and numbers, so that every format of networkx can store the graph.
        """
        return _subgraph(self.nodes, self.paths or ())

    def _repr_html_(self) -> str:
        nodes = (
            ruled(_node_html(node, f"{rank}. ", self.trace.relevance_name))
            for rank, node in enumerate(self.nodes[:MAX_ITEMS], 1)
        )
        return block(
            heading(self.question),
            muted(f"{self.route}: {self.trace.reason}"),
            *(
                muted(f"path: {' - '.join(path.entities)}")
                for path in (self.paths or ())[:MAX_ITEMS]
            ),
            *nodes,
            "" if self.nodes else muted("nothing found"),
            more_items(len(self.nodes)),
        )


def _node_html(node: RetrievedNode, rank: str = "", relevance: str = "relevance") -> str:
    """Return a node as HTML: its place, its figures, and its text with the best window marked."""
    kind = f"summary (level {node.level})" if node.level else "chunk"
    title = f"{node.title} · " if node.title else ""
    spans = ", ".join(f"{start}-{end}" for start, end in node.spans)
    place = [f"{kind} {node.position}", describe_pages(node.metadata), f"span {spans}"]
    figures = [
        f"{relevance} {node.relevance:.2f}",
        f"score {node.score:.4f}",
        f"found by {node.found_by}",
        *([f"entities: {', '.join(node.entities)}"] if node.entities else []),
        *([f"tags: {', '.join(node.tags)}"] if node.tags else []),
        *([f"language: {node.language}"] if node.language != ENGLISH else []),
        *([f"also in {', '.join(node.also_in)}"] if node.also_in else []),
    ]
    return "".join(
        (
            heading(f"{rank}{title}{node.document_id}"),
            muted(" · ".join(filter(None, place))),
            muted(" · ".join(figures)),
            muted("; ".join(node.reasons)),
            passage(node.text, best_window(node) or (0, 0)),
        )
    )


def best_window(node: RetrievedNode) -> Span | None:
    """Return the range of the best window in the text of the node, or None if it is not known."""
    best, offset = node.best_span, 0
    if best is None or node.level:
        return None
    for span, text in node.pieces:
        if span.start <= best.start < span.end:
            first = offset + best.start - span.start
            return Span(first, min(first + best.end - best.start, offset + len(text)))
        offset += len(text) + len(GAP)
    return None


def _subgraph(nodes: Sequence[RetrievedNode], paths: Iterable[EntityPath]) -> nx.Graph:
    import networkx as nx

    graph = nx.Graph()
    for node in nodes:
        graph.add_node(
            node.node_id,
            kind="summary" if node.level else "chunk",
            document_id=node.document_id,
            level=node.level,
            start=node.start,
            end=node.end,
            score=float(node.score),
            relevance=float(node.relevance),
            text=node.text,
        )
        for entity in node.entities:
            graph.add_node(entity, kind="entity")
            graph.add_edge(node.node_id, entity, kind="mentions")
    for node in nodes:
        for child in node.child_ids:
            if child in graph:
                graph.add_edge(node.node_id, child, kind="summarizes")
    for path in paths:
        _add_path(graph, path)
    return graph


def _add_path(graph: nx.Graph, path: EntityPath) -> None:
    graph.add_nodes_from(path.entities, kind="entity")
    for hop in path.hops:
        attributes = asdict(hop)
        ends = attributes.pop("source"), attributes.pop("target")
        graph.add_edge(*ends, kind="hop", **attributes)
        if hop.node_id in graph:
            graph.add_edges_from([(hop.node_id, entity) for entity in ends], kind="mentions")


def header(entities: Sequence[str]) -> str:
    """Return the text before the passages of a group."""
    return " - ".join(entities) + ": " if entities else ""


def format_groups(nodes: Iterable[RetrievedNode]) -> list[str]:
    """Return one text per group of nodes that mention the same entities."""
    groups: dict[tuple[str, ...], list[RetrievedNode]] = {}
    added: set[tuple[str, tuple[Span, ...]]] = set()
    for node in nodes:
        if (node.node_id, node.spans) not in added:
            added.add((node.node_id, node.spans))
            groups.setdefault(node.entities, []).append(node)
    return [
        header(entities) + "\n".join(map(_join, _merged_runs(group)))
        for entities, group in groups.items()
    ]


@dataclass(frozen=True, slots=True)
class _Piece:
    """A span of a node with its text."""

    node: RetrievedNode
    span: Span
    text: str

    def touches(self, later: _Piece) -> bool:
        """Return whether the two pieces overlap, touch, or are separated only by white space.

        Only white space lies between the end of a chunk and the start of the next one.
        """
        if self.node.document_id != later.node.document_id:
            return False
        if later.span.start <= self.span.end:
            return True
        return (
            later.node.position == self.node.position + 1
            and self.span.end == self.node.end
            and later.span.start == later.node.start
        )


def cited_passages(nodes: Sequence[RetrievedNode]) -> list[tuple[str, str]]:
    """Return the place and the text of each passage; see `RetrievalResult.cited_context`."""
    distinct = list({(node.node_id, node.spans): node for node in nodes}.values())
    return [(_place_of(run), _join(run)) for run in _merged_runs(distinct)]


def describe_place(nodes: Sequence[RetrievedNode], spans: Sequence[Span]) -> str:
    """Return where a text is, for readers: its document, its pages and its ranges of characters.

    Args:
        nodes: The nodes that contain the text, in order, all of one document.
        spans: The ranges of the text in the document.
    """
    node = nodes[0]
    has_title = node.title is not None and node.title != node.document_id
    document = f"{node.title} ({node.document_id})" if has_title else node.document_id
    source = f"summary (level {node.level}) of {document}" if node.level else document
    touched = [
        segment.metadata
        for node in nodes
        for segment in node.segments
        if any(segment.start < end and start < segment.end for start, end in spans)
    ]
    pages = describe_pages(merge_metadata(touched) if touched else node.metadata)
    ranges = ", ".join(f"{start}-{end}" for start, end in spans)
    newer = f"superseded by {node.superseded_by}" if node.superseded_by else ""
    return ", ".join(filter(None, (source, pages, f"characters {ranges}", newer)))


def _place_of(run: Sequence[_Piece]) -> str:
    span = Span(run[0].span.start, max(piece.span.end for piece in run))
    place = describe_place([piece.node for piece in run], [span])
    also_in = dict.fromkeys(name for piece in run for name in piece.node.also_in)
    return f"{place} (also in {', '.join(also_in)})" if also_in else place


def _merged_runs(nodes: Sequence[RetrievedNode]) -> list[list[_Piece]]:
    """Return the pieces of each passage, in the order of the first piece of each."""
    pieces = [_Piece(node, span, text) for node in nodes for span, text in node.pieces]
    runs: list[list[_Piece]] = []
    last: list[_Piece] = []  # the piece of each run that reaches the farthest
    chunk_pieces = (piece for piece in pieces if piece.node.level == 0)
    for piece in sorted(chunk_pieces, key=lambda p: (p.node.document_id, p.span.start)):
        if runs and last[-1].touches(piece):
            runs[-1].append(piece)
            last[-1] = max(last[-1], piece, key=lambda one: one.span.end)
        else:
            runs.append([piece])
            last.append(piece)
    run_of = {id(piece): run for run in runs for piece in run}
    ordered = (run_of.get(id(piece), [piece]) for piece in pieces)
    return list({id(run[0]): run for run in ordered}.values())


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
