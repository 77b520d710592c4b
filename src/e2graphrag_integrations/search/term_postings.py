"""How often each term occurs in each text: the part of BM25 that other texts never change."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from e2graphrag_integrations._utils.arrays import IntArray, exclusive_sums, smallest_int_type
from e2graphrag_integrations._utils.concurrency import cached_method
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations._utils.strings import index_strings
from e2graphrag_integrations.text.broken_words import clean_text, parts_of_broken_words
from e2graphrag_integrations.text.codes import code_terms
from e2graphrag_integrations.text.contents import CONTENTS, is_table_of_contents
from e2graphrag_integrations.text.lines import row_pairs
from e2graphrag_integrations.text.spellings import PLAIN, joined_words, plain_terms
from e2graphrag_integrations.text.words import terms_of

_CACHED_TERMS = 1024
"""Number of terms for which the shortest texts are remembered."""

_CACHED_COLUMNS = 4096
"""Number of terms whose columns are remembered: looking one up among many takes 15 microseconds."""

_BLOCK = 1 << 22
"""Number of occurrences examined at a time, which limits memory."""


@dataclass(frozen=True, eq=False)
class TermPostings:
    """The terms of some texts.

    Attributes:
        vocabulary: The terms, sorted.
        counts: Term frequencies, shape (texts, terms).
        lengths: Number of terms per text, including repetitions, shape (texts,).
    """

    vocabulary: Sequence[str]
    counts: csc_array
    lengths: IntArray

    @lazy
    def columns(self) -> Mapping[str, int]:
        """The column of each term."""
        return index_strings(self.vocabulary)

    @cached_method(_CACHED_COLUMNS)
    def column_of(self, term: str) -> int | None:
        """Return the column of a term; None if no text contains it."""
        return self.columns.get(term)

    def of(self, column: int) -> tuple[IntArray, IntArray]:
        """Return the texts that contain the term of a column, ascending, and how often."""
        span = slice(self.counts.indptr[column], self.counts.indptr[column + 1])
        return self.counts.indices[span], self.counts.data[span]

    def doc_freq(self, column: int) -> int:
        """Return the number of texts that contain the term of a column."""
        return int(self.counts.indptr[column + 1] - self.counts.indptr[column])

    @cached_method(_CACHED_TERMS)
    def shortest(self, column: int) -> tuple[IntArray, IntArray]:
        """Return the distinct frequencies of a term, and the length of each one's shortest text."""
        texts, counts = self.of(column)
        shortest = np.full(int(counts.max()) + 1, np.iinfo(np.int64).max)
        np.minimum.at(shortest, counts, self.lengths[texts])
        frequencies = np.flatnonzero(shortest < np.iinfo(np.int64).max)
        return frequencies, shortest[frequencies]

    def doc_freq_in(self, texts: NDArray[np.bool_]) -> dict[int, int]:
        """Return the number of texts in a mask that contain each term, by column."""
        indices, starts = self.counts.indices, self.counts.indptr
        columns = [np.empty(0, dtype=np.int64)]
        for first in range(0, len(indices) if texts.any() else 0, _BLOCK):
            places = np.flatnonzero(texts[indices[first : first + _BLOCK]]) + first
            columns.append(np.searchsorted(starts, places, side="right") - 1)
        doc_freq = np.bincount(np.concatenate(columns))
        found = np.flatnonzero(doc_freq)
        return dict(zip(found.tolist(), doc_freq[found].tolist(), strict=True))


def read_postings(texts: Iterable[str]) -> TermPostings:
    """Return the terms of texts, reading each text once and one at a time."""
    ids: dict[str, int] = {}
    tokens, sizes, lengths = array("i"), array("q"), array("q")
    for text in texts:
        cleaned = clean_text(text)
        terms = terms_of(cleaned)
        lengths.append(len(terms))  # without the terms that follow, which repeat words
        codes = code_terms(cleaned, terms)
        if not cleaned.isascii():
            terms += plain_terms(terms)
        terms += [PLAIN + one for one in joined_words(cleaned)]
        terms += codes
        terms += row_pairs(cleaned)
        if is_table_of_contents(text):
            terms.append(CONTENTS)
        if cleaned is not text:
            terms += terms_of(parts_of_broken_words(text))
        sizes.append(len(terms))
        tokens.extend([ids.setdefault(term, len(ids)) for term in terms])
    vocabulary = sorted(ids)
    sorted_id = np.empty(len(ids), dtype=np.int32)
    sorted_id[[ids[term] for term in vocabulary]] = np.arange(len(ids))
    index_type = smallest_int_type(len(tokens))
    counts = csr_array(
        (
            np.ones(len(tokens), dtype=np.int32),
            sorted_id[np.asarray(tokens)].astype(index_type, copy=False),
            exclusive_sums(sizes).astype(index_type),
        ),
        shape=(len(lengths), len(vocabulary)),
    )
    counts.sum_duplicates()
    counts.data = _shrink(counts.data)
    return TermPostings(vocabulary, counts.tocsc(), np.asarray(lengths, dtype=np.int64))


def merge_postings(parts: Sequence[tuple[TermPostings, IntArray]], n_texts: int) -> TermPostings:
    """Return the result of `read_postings` for the texts of several parts.

    Args:
        parts: Each part with the new rows of its texts, ascending; -1 drops a text.
        n_texts: Number of texts in the result.
    """
    remaining = [_renumber(postings, rows) for postings, rows in parts]
    vocabulary = sorted({term for terms, *_ in remaining for term in terms})
    columns = {term: column for column, term in enumerate(vocabulary)}
    counts: csc_array | None = None
    lengths = np.zeros(n_texts, dtype=np.int64)
    for (terms, sizes, data, texts), (postings, rows) in zip(remaining, parts, strict=True):
        doc_freq = np.zeros(len(vocabulary), dtype=np.int64)
        doc_freq[[columns[term] for term in terms]] = sizes
        index_type = smallest_int_type(max(n_texts, len(data)))
        structure = (
            texts.astype(index_type, copy=False),
            exclusive_sums(doc_freq).astype(index_type),
        )
        part = csc_array((data, *structure), shape=(n_texts, len(vocabulary)))
        counts = part if counts is None else counts + part
        lengths[rows[rows >= 0]] = postings.lengths[rows >= 0]
    if counts is None:
        counts = csc_array((n_texts, len(vocabulary)), dtype=np.uint8)
    counts.data = _shrink(counts.data)
    return TermPostings(vocabulary, counts, lengths)


def _renumber(
    postings: TermPostings, rows: IntArray
) -> tuple[list[str], IntArray, IntArray, IntArray]:
    """Return the terms, document frequencies, counts and texts, given new rows; -1 drops a text."""
    counts = postings.counts
    texts = rows.astype(counts.indices.dtype)[counts.indices]
    if (rows >= 0).all():
        sizes = np.diff(counts.indptr)
        return list(postings.vocabulary), sizes, counts.data, texts
    kept = texts >= 0
    ends = np.zeros(len(kept) + 1, dtype=smallest_int_type(len(kept)))
    np.cumsum(kept, out=ends[1:])
    sizes = np.diff(ends[counts.indptr])
    terms = [term for term, size in zip(postings.vocabulary, sizes.tolist(), strict=True) if size]
    return terms, sizes[sizes > 0], counts.data[kept], texts[kept]


def _shrink(counts: IntArray) -> IntArray:
    """Return counts in the smallest integer type that can represent them."""
    return counts.astype(np.min_scalar_type(int(counts.max(initial=0))))
