"""Names and codes that a question only mentions.

"I use version 4.2.1. How do I export to PDF?" does not ask about the version. The notes on this
version have nothing else of the question, and another text has the rest of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.entities.matching.linking import Link
from e2graphrag_integrations.retrieval.names.code_matches import CodeMatch, CodeMatches
from e2graphrag_integrations.retrieval.question_words import topic_terms
from e2graphrag_integrations.retrieval.ranking.relevance import Relevance
from e2graphrag_integrations.search.fusion import Floats
from e2graphrag_integrations.text.words import terms_of

_COMPARED = 30
"""Number of the most relevant nodes that may have the rest of the question."""

_MIN_WORDS = 2
"""Minimum number of other words. A single one, such as "said", may be in any text."""


class Background:
    """Compares the chunks with the names and codes of a question by the rest of its words.

    Args:
        relevance: Knows the words of the question.
        links: The names of the question.
        codes: Its codes.
    """

    def __init__(self, relevance: Relevance, links: Sequence[Link], codes: CodeMatches) -> None:
        terms, question = relevance.terms, relevance.query.question
        named = {
            word
            for text in [
                *(text for one in links for text in (one.mention, one.entity)),
                *(text for one in codes.found for text in (one.text, *_labels(one, question))),
            ]
            for word in terms_of(text)
        }
        topic = set(topic_terms(question)).difference(named)
        words = dict.fromkeys(terms.words)
        self._words = [one for one in words if one in topic and one not in terms.weights]
        self._weights = terms.rarity(self._words)
        self._relevance, self._links, self._codes = relevance, links, codes

    @property
    def weight_of_names(self) -> float:
        """The IDF of the name with the rarest words."""
        bm25 = self._relevance.terms.bm25
        names = (dict.fromkeys(terms_of(one.entity)) for one in self._links)
        return max((sum(bm25.idf(word) for word in words) for words in names), default=0.0)

    @property
    def weight_of_codes(self) -> float:
        """The IDF of the rarest code."""
        bm25 = self._relevance.terms.bm25
        return max((bm25.idf(one.term) for one in self._codes.found), default=0.0)

    def factors(self, rows: IntArray, weight: float) -> Floats:
        """Return how much each node's name or code counts, in [0, 1], shape (rows,).

        A text that has more of the rest of the question, by the sum of the IDF of its words, lowers
        it: to 0, if the difference is the weight of the name.

        Args:
            rows: Rows of nodes.
            weight: The IDF of the name or code.
        """
        if len(self._words) < _MIN_WORDS or not len(rows) or not weight:
            return np.ones(len(rows))
        lead = np.maximum(0.0, self._most - self._rest_in(rows))
        return np.asarray(np.maximum(0.0, 1 - lead / weight))

    @lazy
    def _most(self) -> float:
        nodes, _, _ = self._relevance.nodes
        return float(self._rest_in(nodes[:_COMPARED]).max(initial=0.0))

    def _rest_in(self, rows: IntArray) -> Floats:
        """Return the IDF of the rest of the question in the best window of each node."""
        windows, owners = self._relevance.snapshot.dense.windows_of(rows)
        values = np.zeros(len(rows))
        if len(windows):
            found = self._relevance.terms.contain(self._words, windows)
            np.maximum.at(values, owners, self._weights @ found)
        return values


def _labels(code: CodeMatch, question: str) -> list[str]:
    """Return the word before a code, which says what it is, as in "clause 12.3"."""
    before, found, _ = question.partition(code.text)
    return before.split()[-1:] if found else []
