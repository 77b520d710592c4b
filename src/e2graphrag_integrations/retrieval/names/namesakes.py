"""Namesakes: other people and things that share a word with a full name in the question.

"Ben Hamre" has two words, and a passage about Ben Nordli has one of them. Such a passage is about
somebody else, so the word counts little there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.entities.matching.linking import Link
from e2graphrag_integrations.graph.entity_graph import places_of_rows
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.text.words import terms_of

_KEPT = 0.2
"""Part of its BM25 score that a word keeps in the name of a namesake."""

_EXACT = frozenset({"exact", "stripped", "user alias", "homonym"})
"""The rules that link the whole name."""

_MAX_NAMES = 4
"""Number of names of a question whose namesakes are looked up, which limits the time."""


@dataclass(frozen=True, eq=False)
class FullName:
    """A name of several words in the question.

    Attributes:
        words: Its words.
        chunks: The chunks with the name, ascending.
        of_others: For each word, the chunks with other names of several words that contain it,
            ascending.
    """

    words: Sequence[str]
    chunks: IntArray
    of_others: Sequence[IntArray]


@dataclass(frozen=True, eq=False)
class Namesakes:
    """Lowers the BM25 scores of windows that have words of a name only in the names of others.

    Attributes:
        names: The full names in the question that have namesakes.
        snapshot: The search index.
    """

    names: Sequence[FullName]
    snapshot: Snapshot

    def lowered(
        self,
        windows: IntArray,
        scores: NDArray[np.float32],
        *,
        idf_power: float,
        weights: Mapping[str, float],
    ) -> tuple[IntArray, NDArray[np.float32]]:
        """Return a BM25 ranking in which the words of a name count less in those of namesakes.

        Args:
            windows: Window numbers, best first, shape (n,).
            scores: Their BM25 scores.
            idf_power: As for `BM25Index.search`.
            weights: As for `BM25Index.search`.
        """
        bm25, lowered = self.snapshot.bm25, scores
        nodes = self.snapshot.dense.window_nodes[windows]
        chunks = np.searchsorted(self.snapshot.chunk_nodes, nodes)
        is_chunk = self.snapshot.is_chunk[nodes]
        for name in self.names:
            about = is_chunk & ~_are_in(chunks, name.chunks)
            about &= self._have_only_namesakes(name, windows, chunks)
            places = np.flatnonzero(about)
            if len(places):
                own = bm25.score_rows(
                    name.words, windows[places], idf_power=idf_power, weights=weights
                )
                lowered = lowered.copy()
                lowered[places] -= (1 - _KEPT) * own
        if lowered is scores:
            return windows, scores
        order = np.lexsort((windows, -lowered))
        return windows[order], lowered[order]

    def _have_only_namesakes(
        self, name: FullName, windows: IntArray, chunks: IntArray
    ) -> NDArray[np.bool_]:
        """Return which windows have words of a name, and for each of them a namesake.

        Window numbers and their chunks have the shape (n,).
        """
        some = np.zeros(len(windows), dtype=np.bool_)
        only = np.ones(len(windows), dtype=np.bool_)
        for word, of_others in zip(name.words, name.of_others, strict=True):
            has = _are_in(windows, self.snapshot.bm25.texts_with(word))
            some |= has
            only &= ~has | _are_in(chunks, of_others)
        return some & only


def _are_in(values: IntArray, numbers: IntArray) -> NDArray[np.bool_]:
    """Return which values are among numbers, which ascend. This is faster than `np.isin`."""
    if not len(numbers):
        return np.zeros(len(values), dtype=np.bool_)
    places = np.minimum(np.searchsorted(numbers, values), len(numbers) - 1)
    mask: NDArray[np.bool_] = numbers[places] == values
    return mask


def find_namesakes(links: Sequence[Link], snapshot: Snapshot) -> Namesakes | None:
    """Return the namesakes of the full names in a question, or None if there are none."""
    found = (name for link in links for name in _full_names(link, snapshot))
    names = list(islice(found, _MAX_NAMES))
    return Namesakes(names, snapshot) if names else None


def _full_names(link: Link, snapshot: Snapshot) -> Iterator[FullName]:
    words = tuple(dict.fromkeys(terms_of(link.entity)))
    if link.how not in _EXACT or len(words) < 2:  # noqa: PLR2004 - a full name has two words
        return
    index, pagerank = snapshot.subjects.index, snapshot.personalized_pagerank
    own = snapshot.aliases.rows_with_words(words)
    of_others = []
    for word in words:
        rows = np.setdiff1d(snapshot.aliases.rows_with_word(word), own, assume_unique=True)
        rows = rows[rows != index.get(word, -1)]  # the word alone may mean this name
        entries, _ = places_of_rows(pagerank.entity_chunks, rows)
        of_others.append(np.unique(pagerank.entity_chunks.indices[entries]))
    if any(len(chunks) for chunks in of_others):
        yield FullName(words, pagerank.chunks_of(index[link.entity]), of_others)
