"""Which entities each sentence of a chunk mentions, to look up single chunks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from e2graphrag_integrations._utils.arrays import IntArray, concatenated_ranges, exclusive_sums
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.graph.builder import MentionTable


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
