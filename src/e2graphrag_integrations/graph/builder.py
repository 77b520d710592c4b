"""Building the entity graph from the mentions in each chunk, and finding those of a chunk."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from e2graphrag_integrations._utils.arrays import (
    IntArray,
    concatenated_ranges,
    exclusive_sums,
    smallest_int_type,
)
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.entities.edits import EntityEdits
from e2graphrag_integrations.graph.entity_graph import EntityGraph, PairWeights

MAX_NEIGHBORS = 1000
"""Maximum number of edges per entity; the heaviest are kept. The most frequent entity in a novel
has about this many neighbors. In a large corpus without this limit, the most frequent entity
would neighbor almost every other entity (docs/benchmark_details.md)."""


@dataclass(frozen=True, eq=False)
class MentionTable:
    """Every mention in the index, ordered by chunk and sentence, to compute the graph from.

    Attributes:
        entities: The entity row of each mention.
        label_numbers: The label of each mention: 0 for a common noun, n for the n-th of `labels`.
        sentence_sizes: Number of mentions per sentence.
        chunk_sizes: Number of sentences per chunk.
        labels: The labels of names, sorted; see `entities/entity_types.py`.
    """

    entities: IntArray
    label_numbers: NDArray[np.unsignedinteger]
    sentence_sizes: IntArray
    chunk_sizes: IntArray
    labels: Sequence[str]

    @lazy
    def named(self) -> NDArray[np.bool_]:
        """Whether each mention is a proper name."""
        mask: NDArray[np.bool_] = self.label_numbers > 0
        return mask

    def with_used_labels(self) -> MentionTable:
        """Return the same mentions without labels that none of them has."""
        used = np.unique(self.label_numbers[self.label_numbers > 0]) - 1
        labels = [self.labels[row] for row in used.tolist()]
        return replace(
            self, label_numbers=renumbered(self.label_numbers, self.labels, labels), labels=labels
        )


def renumbered(
    numbers: NDArray[np.unsignedinteger], labels: Sequence[str], new_labels: Sequence[str]
) -> NDArray[np.unsignedinteger]:
    """Return numbers of labels as those of other labels, which contain all that are used."""
    places = {label: place for place, label in enumerate(new_labels, 1)}
    new = np.asarray([0, *(places.get(label, 0) for label in labels)])
    kind = np.min_scalar_type(len(new_labels))
    moved: NDArray[np.unsignedinteger] = new.astype(kind)[numbers]
    return moved


def mention_table(
    chunks: Iterable[Sequence[Sequence[tuple[str, str]]]],
) -> tuple[list[str], MentionTable]:
    """Return the distinct normal forms, sorted, and the mentions as arrays.

    Args:
        chunks: The mentions in each sentence of each chunk, as pairs `(normal form, label)`. The
            label of a common noun is empty.
    """
    rows: dict[str, int] = {}
    numbers: dict[str, int] = {"": 0}
    # Lists of Python integers need far more memory.
    entities, label_numbers = array("q"), array("I")
    sentence_sizes, chunk_sizes = array("q"), array("q")
    for sentences in chunks:
        chunk_sizes.append(len(sentences))
        for sentence in sentences:
            sentence_sizes.append(len(sentence))
            entities.extend([rows.setdefault(name, len(rows)) for name, _ in sentence])
            label_numbers.extend([numbers.setdefault(label, len(numbers)) for _, label in sentence])
    names, sorted_row = _sort_names(rows)
    labels = [*numbers][1:]
    return names, MentionTable(
        sorted_row[np.asarray(entities, dtype=np.int64)],
        renumbered(np.asarray(label_numbers, dtype=np.uint32), labels, sorted(labels)),
        np.asarray(sentence_sizes, dtype=np.int64),
        np.asarray(chunk_sizes, dtype=np.int64),
        sorted(labels),
    )


def apply_edits(
    names: Sequence[str], mentions: MentionTable, edits: EntityEdits
) -> tuple[Sequence[str], MentionTable]:
    """Return the names of the entities after the edits, sorted, and their mentions.

    Mentions of an alias become mentions of its entity. Those of stopped names are omitted.

    Args:
        names: Distinct normal forms, sorted.
        mentions: The mentions; their `entities` refer to rows in `names`.
        edits: The edits.
    """
    if not edits:
        return names, mentions
    entities = [edits.resolve(name) for name in names]
    new_names = sorted({entity for entity in entities if entity})
    rows = {entity: row for row, entity in enumerate(new_names)}
    new_row = np.asarray([rows.get(entity, -1) for entity in entities], dtype=np.int64)
    moved = new_row[mentions.entities]
    kept = moved >= 0
    sentences = np.repeat(np.arange(len(mentions.sentence_sizes)), mentions.sentence_sizes)
    sizes = np.bincount(sentences[kept], minlength=len(mentions.sentence_sizes))
    return new_names, MentionTable(
        moved[kept],
        mentions.label_numbers[kept],
        sizes.astype(np.int64),
        mentions.chunk_sizes,
        mentions.labels,
    )


def graph_from_mentions(names: Sequence[str], mentions: MentionTable) -> EntityGraph:
    """Build the graph from a mention table. Equal tables give equal graphs.

    Args:
        names: Distinct normal forms, sorted. Each has at least one mention.
        mentions: The mentions; their `entities` refer to rows in `names`.
    """
    pairs = PairWeights.from_mentions(mentions.entities, mentions.sentence_sizes)
    return graph_of(names, mentions, pairs)


def build_graph(chunks: Iterable[Sequence[Sequence[tuple[str, str]]]]) -> EntityGraph:
    """Build the graph from chunks in the format that `mention_table` expects."""
    return graph_from_mentions(*mention_table(chunks))


class GraphCounter:
    """Counts the entities and the edges of a graph, chunk by chunk, as `build_graph` has them."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._entities = array("q")
        self._sentence_sizes = array("q")

    def add(self, sentences: Sequence[Sequence[tuple[str, str]]]) -> None:
        """Add the next chunk: the pairs `(normal form, label)` of the mentions in each sentence."""
        rows = self._rows
        for sentence in sentences:
            self._entities.extend([rows.setdefault(name, len(rows)) for name, _ in sentence])
        self._sentence_sizes.extend(map(len, sentences))

    def counts(self) -> tuple[int, int]:
        """Return the numbers of entities and edges."""
        names, sorted_row = _sort_names(self._rows)
        entities = sorted_row[np.asarray(self._entities, dtype=np.int64)]
        sizes = np.asarray(self._sentence_sizes, dtype=np.int64)
        pairs = PairWeights.from_mentions(entities, sizes).heaviest(len(names), MAX_NEIGHBORS)
        return len(names), len(pairs.keys)


def graph_of(names: Sequence[str], mentions: MentionTable, pairs: PairWeights) -> EntityGraph:
    """Build the graph from a mention table and the weights of all pairs in it.

    Args:
        names: Distinct normal forms, sorted. Each has at least one mention.
        mentions: The mentions; their `entities` refer to rows in `names`.
        pairs: The weights, as `PairWeights.from_mentions` returns them.
    """
    named = np.zeros(len(names), dtype=np.bool_)
    named[mentions.entities[mentions.named]] = True
    edges = pairs.heaviest(len(names), MAX_NEIGHBORS).matrix(len(names))
    return EntityGraph(names, named, edges, _count_mentions(mentions, len(names)), pairs)


def _count_mentions(mentions: MentionTable, n_entities: int) -> csr_array:
    """Return the number of mentions of each entity in each chunk, shape (entities, chunks)."""
    entities, n_chunks = mentions.entities, len(mentions.chunk_sizes)
    first_mentions = exclusive_sums(mentions.sentence_sizes)[exclusive_sums(mentions.chunk_sizes)]
    index_type = smallest_int_type(max(n_entities, n_chunks, len(entities)))
    by_chunk = csr_array(
        (
            np.ones(len(entities), dtype=np.int64),
            entities.astype(index_type),
            first_mentions.astype(index_type),
        ),
        shape=(n_chunks, n_entities),
    )
    postings = by_chunk.T.tocsr()
    postings.sum_duplicates()
    return postings


def _sort_names(rows: dict[str, int]) -> tuple[list[str], NDArray[np.int64]]:
    """Return the sorted names, and a mapping from each name's insertion row to its sorted row."""
    names = sorted(rows)
    sorted_row = np.empty(len(names), dtype=np.int64)
    sorted_row[[rows[name] for name in names]] = np.arange(len(names))
    return names, sorted_row


@dataclass(frozen=True, eq=False)
class SentenceRows:
    """Some sentences and the entities that they mention.

    Attributes:
        chunks: The chunk of each sentence.
        numbers: The position of each sentence among the sentences of its chunk, from 0.
        entities: 1 where a sentence mentions an entity, shape (sentences, entities).
    """

    chunks: IntArray
    numbers: IntArray
    entities: csr_array

    @lazy
    def sizes(self) -> IntArray:
        """The number of distinct entities in each sentence."""
        sizes: IntArray = np.diff(self.entities.indptr)
        return sizes


class SentenceTable:
    """Looks up the sentences of chunks.

    Args:
        mentions: Every mention in the index.
        entities: Number of entities.
    """

    def __init__(self, mentions: MentionTable, entities: int) -> None:
        self._mentions = mentions
        self._entities = entities
        self._first_sentence = exclusive_sums(mentions.chunk_sizes)
        self._first_mention = exclusive_sums(mentions.sentence_sizes)

    def of_chunks(self, chunks: IntArray) -> SentenceRows:
        """Return the sentences of chunks, in order."""
        counts = self._mentions.chunk_sizes[chunks]
        starts = self._first_sentence[chunks]
        sentences = concatenated_ranges(starts, counts)
        sizes = self._mentions.sentence_sizes[sentences]
        places = concatenated_ranges(self._first_mention[sentences], sizes)
        columns = self._mentions.entities[places]
        bounds: NDArray[np.int64] = exclusive_sums(sizes)
        ones = np.ones(len(columns))
        found = csr_array((ones, columns, bounds), shape=(len(sentences), self._entities))
        found.sum_duplicates()
        found.data[:] = 1.0
        return SentenceRows(np.repeat(chunks, counts), sentences - np.repeat(starts, counts), found)
