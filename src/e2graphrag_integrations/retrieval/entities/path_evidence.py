"""Finding the paths of a result, and a sentence in a visible chunk that proves each hop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.entities.edits import EntityEdits
from e2graphrag_integrations.entities.matching.linking import Link
from e2graphrag_integrations.entities.subjects import split_subjects
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.graph.builder import SentenceRows
from e2graphrag_integrations.graph.chains import Chain, find_chains
from e2graphrag_integrations.graph.visible_graph import VisibleGraph
from e2graphrag_integrations.retrieval.entities.entity_paths import EntityPath, Hop
from e2graphrag_integrations.retrieval.entities.entity_view import entity_name
from e2graphrag_integrations.retrieval.entities.sentence_text import sentence_span
from e2graphrag_integrations.retrieval.hydrate import NodeReader, NodeSource
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.text.sentences import sentence_spans
from e2graphrag_integrations.types import Mention, Span

_BATCH = 2_000
"""Number of chunks in which a sentence for a hop is sought at once."""

_Edge = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence as its chunk and its position among the chunk's sentences."""

    chunk: int
    number: int


@dataclass(frozen=True, slots=True)
class _Evidence:
    """The text of a sentence and its place in a document."""

    node_id: str
    document_id: str
    span: Span
    text: str

    def hop(self, snapshot: Snapshot, edge: _Edge, weight: float) -> Hop:
        """Return the sentence as the evidence of an edge."""
        source, target = (snapshot.graph.names[end] for end in edge)
        place = self.node_id, self.document_id, self.span.start, self.span.end, self.text
        return Hop(source, target, round(weight, 6), *place)


def find_paths(
    links: Iterable[Link],
    allowed: NDArray[np.bool_] | None,
    hits: Sequence[str],
    reader: NodeReader,
) -> tuple[EntityPath, ...]:
    """Return the paths between the entities of a question, best first.

    Args:
        links: The entities of the question. Those that occur only as subjects of documents are
            ignored, because no sentence joins them with others.
        allowed: Mask of the nodes that match the filter; None allows all. Other chunks prove
            nothing.
        hits: Ids of the result nodes. Their sentences are preferred as proofs.
        reader: Reads texts and mentions.
    """
    snapshot = reader.snapshot
    index = snapshot.graph.index
    entities = [index[link.entity] for link in links if link.entity in index]
    chunks = None if allowed is None else allowed[snapshot.chunk_nodes]
    graph = VisibleGraph(snapshot.graph, lambda: snapshot.sentences, chunks)
    chains = find_chains(graph, entities)
    proofs = _Proofs(graph, snapshot, hits)
    proven = [chain for chain in chains if all(map(proofs.find, pairwise(chain.entities)))]
    found = [(edge, sentence) for edge, sentence in proofs.found.items() if sentence is not None]
    evidence = {
        edge: one for (edge, _), one in zip(found, _read_sentences(found, reader), strict=True)
    }
    return tuple(_path(chain, evidence, snapshot) for chain in proven)


def connect(snapshot: Snapshot, source: NodeSource, one: str, other: str) -> tuple[EntityPath, ...]:
    """Return the paths between the entities that two names mean, best first.

    Raises:
        InvalidInputError: If both names mean the same entity.
        UnknownEntityError: If a name means no entity.
        StaleSnapshotError: If the stored nodes are newer than the snapshot.
    """
    links = [Link(name, name, "exact", 1.0) for name in _two_names(snapshot, one, other)]
    return find_paths(links, None, [], NodeReader(snapshot, source))


def shared_sentences(
    snapshot: Snapshot, source: NodeSource, one: str, other: str, top: int
) -> tuple[Hop, ...]:
    """Return the first sentences that mention both entities, as hops, each sentence once.

    Raises:
        InvalidInputError: If both names mean the same entity.
        UnknownEntityError: If a name means no entity.
        StaleSnapshotError: If the stored nodes are newer than the snapshot.
    """
    names = _two_names(snapshot, one, other)
    index = snapshot.graph.index
    rows = [index[name] for name in names if name in index]
    if len(rows) < len(names):  # the subject of a document that no sentence mentions
        return ()
    edge = rows[0], rows[1]
    graph = VisibleGraph(snapshot.graph, lambda: snapshot.sentences, None)
    [weight] = graph.weights(np.asarray([edge[0]]), np.asarray([edge[1]])).sum(axis=1).tolist()
    reader = NodeReader(snapshot, source)
    hops: dict[tuple[str, int, int], Hop] = {}
    chunks = _shared_chunks(graph, edge)
    for first in range(0, len(chunks), _BATCH):
        found = _sentences_with_both(snapshot, chunks[first : first + _BATCH], edge)
        for start in range(0, len(found), top):
            part = [(edge, sentence) for sentence in found[start : start + top]]
            for evidence in _read_sentences(part, reader):
                hop = evidence.hop(snapshot, edge, weight)
                hops.setdefault((hop.document_id, hop.start, hop.end), hop)
                if len(hops) == top:
                    return tuple(hops.values())
    return tuple(hops.values())


def _sentences_with_both(snapshot: Snapshot, chunks: IntArray, edge: _Edge) -> list[_Sentence]:
    """Return the sentences of chunks that mention both entities, in order."""
    rows, found = _rows_with_both(snapshot, chunks, edge)
    places = zip(rows.chunks[found].tolist(), rows.numbers[found].tolist(), strict=True)
    return [_Sentence(chunk, number) for chunk, number in places]


def _two_names(snapshot: Snapshot, one: str, other: str) -> list[str]:
    names = [entity_name(snapshot, name) for name in (one, other)]
    if names[0] == names[1]:
        raise InvalidInputError(f"{one!r} and {other!r} mean the same entity, {names[0]!r}")
    return names


def _shared_chunks(graph: VisibleGraph, edge: _Edge) -> IntArray:
    """Return the allowed chunks that mention both entities, ascending."""
    of_one, of_other = (graph.chunks_of(np.asarray([end])) for end in edge)
    return of_one[np.isin(of_one, of_other, assume_unique=True)]


class _Proofs:
    """Finds the best sentence for each edge: in a hit if possible, with few other entities."""

    def __init__(self, graph: VisibleGraph, snapshot: Snapshot, hits: Sequence[str]) -> None:
        self._graph = graph
        self._snapshot = snapshot
        row_of = snapshot.nodes.row_of
        rows = np.asarray([row_of[id_] for id_ in hits], dtype=np.int64)
        leaves = rows[snapshot.nodes.level[rows] == 0]
        self._hits = snapshot.nodes.first_leaf[leaves]
        self.found: dict[_Edge, _Sentence | None] = {}

    def find(self, edge: tuple[int, int]) -> _Sentence | None:
        """Return the best sentence that mentions both ends of an edge, or None."""
        key = (min(edge), max(edge))
        if key not in self.found:
            self.found[key] = self._search(key)
        return self.found[key]

    def _search(self, edge: _Edge) -> _Sentence | None:
        shared = _shared_chunks(self._graph, edge)
        in_hits = np.isin(shared, self._hits)
        candidates = [shared[in_hits]]
        rest = shared[~in_hits]
        candidates += [rest[first : first + _BATCH] for first in range(0, len(rest), _BATCH)]
        found = (self._best(chunks, edge) for chunks in candidates if len(chunks))
        return next((sentence for sentence in found if sentence is not None), None)

    def _best(self, chunks: IntArray, edge: _Edge) -> _Sentence | None:
        rows, has_both = _rows_with_both(self._snapshot, chunks, edge)
        if not len(has_both):
            return None
        best = has_both[np.argmin(rows.sizes[has_both])]  # the first of equal ones
        return _Sentence(int(rows.chunks[best]), int(rows.numbers[best]))


def _rows_with_both(
    snapshot: Snapshot, chunks: IntArray, edge: _Edge
) -> tuple[SentenceRows, IntArray]:
    """Return the sentences of chunks, and which of them mention both entities."""
    rows = snapshot.sentences.of_chunks(chunks)
    found: IntArray = np.flatnonzero(rows.entities[:, list(edge)].sum(axis=1) == len(edge))
    return rows, found


def _read_sentences(
    found: Sequence[tuple[_Edge, _Sentence]], reader: NodeReader
) -> Iterator[_Evidence]:
    """Yield the text and the place of a sentence for each edge."""
    snapshot = reader.snapshot
    rows = [int(snapshot.chunk_nodes[sentence.chunk]) for _, sentence in found]
    nodes, mentions = reader.read(rows), reader.read_mentions(rows)
    for (edge, sentence), node, sentences in zip(found, nodes, mentions, strict=True):
        own = split_subjects(sentences)[1][sentence.number]
        names = {snapshot.graph.names[entity] for entity in edge}
        start, end = _sentence_span(node.text, own, names, snapshot.edits)
        place = Span(node.start + start, node.start + end)
        yield _Evidence(node.id, node.document_id, place, node.text[start:end])


def _sentence_span(
    text: str, sentence: Sequence[Mention], names: set[str], edits: EntityEdits
) -> Span:
    """Return the span of the sentences that contain the mentions of two entities."""
    own = [mention for mention in sentence if edits.entity_of(mention.entity) in names]
    mentions = own if {edits.entity_of(one.entity) for one in own} == names else sentence
    return sentence_span(sentence_spans(text), mentions)


def _path(chain: Chain, evidence: Mapping[_Edge, _Evidence], snapshot: Snapshot) -> EntityPath:
    hops = [
        evidence[min(edge), max(edge)].hop(snapshot, edge, weight)
        for edge, weight in zip(pairwise(chain.entities), chain.weights, strict=True)
    ]
    return EntityPath(tuple(hops), round(chain.cost, 6))
