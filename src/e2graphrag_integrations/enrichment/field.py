"""What enrichment adds to the chunks of a snapshot, as a field in which questions find them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.enrichment.answers import read_answer
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.retrieval.reasons import Reason
from e2graphrag_integrations.retrieval.strategy import ChunkField, Query
from e2graphrag_integrations.search.bm25 import BM25Index, Weights, build_bm25
from e2graphrag_integrations.search.dense import DenseIndex
from e2graphrag_integrations.search.fusion import Floats
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.text.words import is_function_word

_BATCH = 2_000
"""Chunks per query of the store."""

_MAX_WORDS = 5
"""Maximum number of words in a reason."""

_NOTHING: tuple[IntArray, Floats] = (np.empty(0, dtype=np.int64), np.empty(0))


def load_field(store: Store, snapshot: Snapshot) -> EnrichedField:
    """Read the answers and the vectors of the chunks of a snapshot.

    The store may be newer than the snapshot: chunks of the snapshot that it no longer contains have
    no field, and no result.

    Raises:
        CorruptStoreError: If a row does not match its checksum.
    """
    rows_of = snapshot.nodes.row_of
    # An answer may repeat the beginning of its document, which a scope need not contain.
    hidden = set(snapshot.partial_documents)
    rows: list[int] = []
    words: list[str] = []
    sentences: list[tuple[str, ...]] = []
    vectors: list[FloatArray] = []
    owners: list[int] = []
    with store.read_transaction():
        attached = store.attached()
        known = sorted(
            (rows_of[id_], keys)
            for id_, keys in attached.items()
            if id_ in rows_of and snapshot.nodes.document[rows_of[id_]] not in hidden
        )
        for first in range(0, len(known), _BATCH):
            batch = known[first : first + _BATCH]
            contents = store.cached(key for _, keys in batch for key in keys)
            for row, (answer_key, *vector_keys) in batch:
                answer = read_answer(contents[answer_key].decode())
                rows.append(row)
                words.append(answer.words)
                sentences.append(answer.sentences)
                vectors += [np.frombuffer(contents[key], dtype="<f4") for key in vector_keys]
                owners += [row] * len(vector_keys)
    stacked = np.stack(vectors) if vectors else np.empty((0, 0), dtype=np.float32)
    return EnrichedField(
        snapshot,
        np.asarray(rows, dtype=np.int64),
        tuple(sentences),
        build_bm25(words),
        DenseIndex(stacked, np.asarray(owners, dtype=np.int64)),
    )


@dataclass(frozen=True, eq=False)
class EnrichedField(ChunkField):
    """The words and sentences of enriched chunks.

    Attributes:
        snapshot: The snapshot.
        rows: The rows of the enriched chunks, ascending.
        sentences: The sentences of each of them.
        bm25: The words of each of them.
        dense: The vectors of the sentences.
    """

    snapshot: Snapshot
    rows: IntArray
    sentences: Sequence[tuple[str, ...]]
    bm25: BM25Index
    dense: DenseIndex

    def nearest(
        self, vector: FloatArray, count: int, allowed: NDArray[np.bool_] | None
    ) -> tuple[IntArray, Floats]:
        """Return the chunks with the nearest sentences, best first; see `ChunkField`."""
        found = self.dense.search(vector, count, allowed) if len(self.dense.vectors) else []
        if not found:
            return _NOTHING
        rows, cosines = zip(*found, strict=True)
        return np.asarray(rows, dtype=np.int64), np.asarray(cosines, dtype=np.float64)

    def matching(
        self,
        terms: Sequence[str],
        weights: Weights,
        idf_power: float,
        count: int,
        allowed: NDArray[np.bool_] | None,
    ) -> tuple[IntArray, Floats]:
        """Return the chunks whose words match best, best first; see `ChunkField`."""
        mask = None if allowed is None else allowed[self.rows]
        texts, scores = self.bm25.search(terms, count, mask, idf_power=idf_power, weights=weights)
        return self.rows[texts], scores.astype(np.float64)

    def reasons(self, query: Query, rows: Sequence[int]) -> Mapping[int, tuple[Reason, ...]]:
        """Return the sentence that is nearer than the text, and the words that only it has."""
        found = {}
        for row in self._enriched(rows):
            reasons = (*self._nearer(query, row), *self._only_words(query, row))
            if reasons:
                found[row] = reasons
        return found

    def _enriched(self, rows: Iterable[int]) -> list[int]:
        wanted = np.asarray([*dict.fromkeys(rows)], dtype=np.int64)
        enriched: list[int] = wanted[np.isin(wanted, self.rows)].tolist()
        return enriched

    def _nearer(self, query: Query, row: int) -> tuple[Reason, ...]:
        """Return the reason for a sentence that is nearer to the question than the text."""
        place = np.asarray([row])
        windows, _ = self.dense.windows_of(place)
        if query.vector is None or not len(windows):
            return ()
        cosines = self.dense.cosines(query.vector, windows)
        best = int(np.argmax(cosines))
        [own] = self.snapshot.dense.best_cosines(query.vector, place)
        sentences = self.sentences[int(np.searchsorted(self.rows, row))]
        if cosines[best] <= own or best >= len(sentences):
            return ()
        return (Reason("enriched_sentence", sentence=sentences[best]),)

    def _only_words(self, query: Query, row: int) -> tuple[Reason, ...]:
        """Return the reason for words of the question that only the added words contain."""
        terms = [one for one in dict.fromkeys(query.terms) if not is_function_word(one)]
        if not terms:
            return ()
        windows, _ = self.snapshot.dense.windows_of(np.asarray([row]))
        in_text = self.snapshot.bm25.contain(terms, windows).any(axis=1)
        added = self.bm25.contain(terms, np.searchsorted(self.rows, [row])).any(axis=1)
        words = tuple(np.asarray(terms, dtype=object)[added & ~in_text].tolist()[:_MAX_WORDS])
        return (Reason("enriched_words", words=words),) if words else ()
