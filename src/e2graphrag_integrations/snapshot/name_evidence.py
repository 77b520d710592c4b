"""Whether the texts of an index use some words as a name or as common words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.concurrency import cached_method
from e2graphrag_integrations.entities.matching.aliases import Aliases
from e2graphrag_integrations.entities.matching.name_keys import key_letters
from e2graphrag_integrations.graph.entity_graph import places_of_rows
from e2graphrag_integrations.graph.pagerank import PersonalizedPageRank
from e2graphrag_integrations.search.bm25 import BM25Index
from e2graphrag_integrations.text.words import is_common_word, is_function_word, terms_of

_MIN_SHARE_OF_WORD = 0.8
"""Minimum share of the chunks with a word in which it is part of a name."""

_MIN_SHARE_OF_WORDS = 0.5
"""Minimum share of the chunks with all words of a name that contain the name."""

_MIN_SHARE_OF_ENTITY = 0.3
"""Minimum share of these chunks that contain the entity that is meant, not another one."""

_MIN_CHUNKS_OF_COMMON = 50
"""Minimum number of chunks that show that a common word, such as "rose" or "apple", is a name."""

_MIN_EVIDENT_WORDS = 3
"""Number of content words from which a question that contains the words of a name, in their order,
contains the name."""

_SAMPLE = 1_000
"""Number of texts with a word that are looked at."""

_CACHED_FORMS = 1024


class WordUse(NamedTuple):
    """Where texts have all of some words.

    Attributes:
        chunks: Number of chunks with the words, at most about 1,000.
        in_names: The share of them with a name that has all these words.
        in_own: The share of them with one of the entities that the words may mean.
    """

    chunks: int
    in_names: float
    in_own: float


@dataclass(frozen=True, eq=False)
class NameEvidence:
    """Compares where words occur with where the extractor found names of them.

    Attributes:
        bm25: The words of all windows.
        aliases: The names of the index.
        pagerank: The chunks of each entity.
        first_leaf, window_nodes, levels: The chunk of each node, the node of each window, and the
            level of each node.
        shares_named: The share of the mentions of each entity that are names.
    """

    bm25: BM25Index
    aliases: Aliases
    pagerank: PersonalizedPageRank
    first_leaf: IntArray
    window_nodes: IntArray
    levels: IntArray
    shares_named: NDArray[np.float32]

    def is_word(self, word: str) -> bool:
        """Return whether a text contains a folded word."""
        return any(self.bm25.doc_freq(term) for term in terms_of(word))

    def is_name(self, form: str, rows: IntArray) -> bool:
        """Return whether the texts use the words of a form almost only as names of some entities.

        Args:
            form: Folded words.
            rows: The entities that they may mean.
        """
        content = [word for word in form.split(" ") if not is_function_word(word)]
        if not content and not _is_spelled_out(form):
            return False
        if len(content) >= _MIN_EVIDENT_WORDS:
            return True
        use = self.use(form, tuple(rows.tolist()))
        if " " in form:
            are_names = (self.use(one, ()).in_names >= _MIN_SHARE_OF_WORD for one in content)
            is_evident = use.in_names >= _MIN_SHARE_OF_WORDS and use.in_own >= _MIN_SHARE_OF_ENTITY
            return is_evident or (len(content) > 1 and all(are_names))
        if is_common_word(form) and use.chunks < _MIN_CHUNKS_OF_COMMON:
            return False
        return use.in_names >= _MIN_SHARE_OF_WORD and use.in_own >= _MIN_SHARE_OF_ENTITY

    @cached_method(_CACHED_FORMS)
    def use(self, form: str, rows: tuple[int, ...]) -> WordUse:
        """Return where the texts have all words of a form, and names of them."""
        chunks = self._chunks_with(list(dict.fromkeys(terms_of(form))))
        if not len(chunks):
            return WordUse(0, 1.0, 1.0)  # the texts have the words only in another spelling
        words = [letters for word in form.split(" ") if (letters := key_letters(word))]
        same = self.aliases.rows_of_letters("".join(words))
        with_words = self.aliases.rows_with_words(words)
        in_longer = self._are_in(chunks, with_words[~np.isin(with_words, same)])
        in_same = self._are_in(chunks, same) * self._share_named(same)
        own = np.asarray(rows, dtype=np.int64)
        in_own = self._are_in(chunks, own) * self._share_named(own)
        in_names = np.maximum(in_longer, in_same)
        return WordUse(len(chunks), float(in_names.mean()), float(in_own.mean()))

    def _share_named(self, rows: IntArray) -> float:
        """Return the highest share of the mentions of an entity that are names."""
        return float(self.shares_named[rows].max(initial=0))

    def _are_in(self, chunks: IntArray, rows: IntArray) -> NDArray[np.bool_]:
        """Return which chunks contain one of some entities."""
        matrix = self.pagerank.entity_chunks
        places, _ = places_of_rows(matrix, rows)
        contain = np.zeros(matrix.shape[1], dtype=np.bool_)  # faster than sorting, as `isin` does
        contain[matrix.indices[places]] = True
        return contain[chunks]

    def _chunks_with(self, terms: list[str]) -> IntArray:
        """Return chunks with all terms, at most some."""
        terms.sort(key=self.bm25.doc_freq)
        texts = self.bm25.texts_with(terms[0]) if terms else np.empty(0, dtype=np.int64)
        texts = texts[:: max(1, len(texts) // _SAMPLE)]
        if len(terms) > 1 and len(texts):
            found = self.bm25.contain(terms[1:], texts)
            texts = texts[found.all(axis=0)]
        nodes = self.window_nodes[texts]
        chunks: IntArray = self.first_leaf[nodes[self.levels[nodes] == 0]]  # ascending
        return chunks[np.diff(chunks, prepend=-1) > 0]


def _is_spelled_out(form: str) -> bool:
    """Return whether a form consists of letters, as that of "U.S."."""
    letters = form.split(" ")
    return len(letters) > 1 and all(len(one) == 1 for one in letters)
