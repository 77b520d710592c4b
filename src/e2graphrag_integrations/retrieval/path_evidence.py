"""Finding the paths of a result, and a sentence in a visible chunk that proves each hop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.entities.edits import EntityEdits
from e2graphrag_integrations.entities.linking import Link
from e2graphrag_integrations.entities.subjects import split_subjects
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.graph.chains import Chain, find_chains
from e2graphrag_integrations.graph.visible_graph import VisibleGraph
from e2graphrag_integrations.retrieval.entity_paths import EntityPath, Hop
from e2graphrag_integrations.retrieval.entity_view import entity_name
from e2graphrag_integrations.retrieval.hydrate import NodeReader, NodeSource
from e2graphrag_integrations.retrieval.sentence_text import sentence_span
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
    texts = _read_sentences(proofs, reader)
    return tuple(_path(chain, texts, snapshot) for chain in proven)


def connect(snapshot: Snapshot, source: NodeSource, one: str, other: str) -> tuple[EntityPath, ...]:
    """Return the paths between the entities that two names mean, best first.

    Raises:
        InvalidInputError: If both names mean the same entity.
        UnknownEntityError: If a name means no entity.
        StaleSnapshotError: If the stored nodes are newer than the snapshot.
    """
    ends = [entity_name(snapshot, name) for name in (one, other)]
    if ends[0] == ends[1]:
        raise InvalidInputError(f"{one!r} and {other!r} mean the same entity, {ends[0]!r}")
    links = [Link(entity, entity, "exact", 1.0) for entity in ends]
    return find_paths(links, None, [], NodeReader(snapshot, source, {}))


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
            self.found[key] = self._search(*key)
        return self.found[key]

    def _search(self, one: int, other: int) -> _Sentence | None:
        of_one, of_other = (self._graph.chunks_of(np.asarray([end])) for end in (one, other))
        shared = of_one[np.isin(of_one, of_other, assume_unique=True)]
        in_hits = np.isin(shared, self._hits)
        candidates = [shared[in_hits]]
        rest = shared[~in_hits]
        candidates += [rest[first : first + _BATCH] for first in range(0, len(rest), _BATCH)]
        found = (self._best(chunks, one, other) for chunks in candidates if len(chunks))
        return next((sentence for sentence in found if sentence is not None), None)

    def _best(self, chunks: IntArray, one: int, other: int) -> _Sentence | None:
        rows = self._snapshot.sentences.of_chunks(chunks)
        has_both = np.flatnonzero(rows.entities[:, [one, other]].sum(axis=1) == 2)  # noqa: PLR2004
        if not len(has_both):
            return None
        best = has_both[np.argmin(rows.sizes[has_both])]  # the first of equal ones
        return _Sentence(int(rows.chunks[best]), int(rows.numbers[best]))


def _read_sentences(proofs: _Proofs, reader: NodeReader) -> dict[_Edge, tuple[str, str, Span, str]]:
    """Return the node id, the document id, the span and the text of the proof of each edge."""
    snapshot = reader.snapshot
    edges = {edge: sentence for edge, sentence in proofs.found.items() if sentence is not None}
    rows = [int(snapshot.chunk_nodes[sentence.chunk]) for sentence in edges.values()]
    nodes, mentions = reader.read(rows), reader.read_mentions(rows)
    texts = {}
    for (edge, sentence), node, sentences in zip(edges.items(), nodes, mentions, strict=True):
        own = split_subjects(sentences)[1][sentence.number]
        names = {snapshot.graph.names[entity] for entity in edge}
        start, end = _sentence_span(node.text, own, names, snapshot.edits)
        place = Span(node.start + start, node.start + end)
        texts[edge] = node.id, node.document_id, place, node.text[start:end]
    return texts


def _sentence_span(
    text: str, sentence: Sequence[Mention], names: set[str], edits: EntityEdits
) -> Span:
    """Return the span of the sentences that contain the mentions of two entities."""
    own = [mention for mention in sentence if edits.entity_of(mention.entity) in names]
    mentions = own if {edits.entity_of(one.entity) for one in own} == names else sentence
    return sentence_span(sentence_spans(text), mentions)


def _path(
    chain: Chain,
    texts: dict[_Edge, tuple[str, str, Span, str]],
    snapshot: Snapshot,
) -> EntityPath:
    names = snapshot.graph.names
    hops = []
    for (one, other), weight in zip(pairwise(chain.entities), chain.weights, strict=True):
        node_id, document_id, span, text = texts[min(one, other), max(one, other)]
        place = (node_id, document_id, span.start, span.end, text)
        hops.append(Hop(names[one], names[other], round(weight, 6), *place))
    return EntityPath(tuple(hops), round(chain.cost, 6))
