"""Breadth: results that together cover what a question asks for.

Ranking nodes one by one repeats what the best node already says. Three measures add breadth:

* `cover_question` selects nodes that together contain the words of the question;
* `spread_over_documents` discounts further windows of a document, unless it dominates the ranking;
* `cover_topics` selects windows that together contain the frequent words of the ranking, for
  questions about an entire text (`is_overview`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.retrieval.hydrate import NodeReader
from e2graphrag_integrations.retrieval.question_words import topic_terms
from e2graphrag_integrations.retrieval.ranking.question_terms import QuestionTerms
from e2graphrag_integrations.retrieval.request_kinds import request_kind
from e2graphrag_integrations.retrieval.strategy import Candidate
from e2graphrag_integrations.search.bm25 import BM25Index
from e2graphrag_integrations.search.fusion import Floats, first_occurrences
from e2graphrag_integrations.text.words import longest_terms

_DOMINANT_SHARE = 0.8
"""A document with this share of the ranking's scores is what the question is about: further windows
of it are not discounted. The shares are measured on the best 200 windows."""

_SHARE_WINDOWS = 200
"""Number of windows from which the shares of documents are computed."""

_MAX_SELECTED = 100
"""Number of texts that are selected one by one; the others follow by score. Bounds the time."""

_TOPIC_WINDOWS = 200
"""Number of windows among which an overview is selected."""

_TOPIC_WEIGHT = 2.5
"""Weight of coverage per unit of diversity in an overview, at most 1 in total. It is higher than
for other questions because "Summarize the meeting" hardly says which windows are relevant."""

_REPEATED = 0.3
"""Value of a word that a selected window already contains."""

_TRUSTED_SHARE, _TRUSTED_MOST = 0.05, 0.5
"""Share of the question in one text, by weight, from which coverage counts in full: that of an
average word with content, between these bounds. A text may have one of its words by chance."""

_MIN_SPECIFIC = 0.25
"""A question is specific if the relative IDF of its words, without request words, sums to this."""


@dataclass(frozen=True, eq=False)
class _Terms:
    """Words, their weights, and which texts contain them.

    Attributes:
        weights: Importance of each word, summing to 1, shape (words,).
        matches: How well each text matches each word, in [0, 1], shape (texts, words).
        repeated: Value of a word that a selected text matches completely, in [0, 1].
        least: Least best gain that counts in full; a lower one counts proportionally less.
    """

    weights: Floats
    matches: Floats
    repeated: float = 0.0
    least: float = 1e-9

    def select(self, scores: Floats, weight: float, count: int) -> tuple[list[int], list[float]]:
        """Select texts greedily by score and by the weight of the words that they add.

        The value of a text is `(1 - weight) * score + weight * gain`, where both parts are relative
        to their best text. Gains only shrink, so the values of the selected texts never increase.

        Returns:
            The selected texts, best first, and their values.
        """
        uncovered = self.weights.copy()
        kept = 1 - (1 - self.repeated) * self.matches
        gains = self.matches @ uncovered
        scale = weight / max(float(gains.max(initial=0.0)), self.least)
        parts = scores * ((1 - weight) / max(float(scores.max(initial=0.0)), 1e-9))
        selected: list[int] = []
        values: list[float] = []
        for _ in range(min(count, len(scores), _MAX_SELECTED)):
            all_values = parts + scale * gains
            text = int(all_values.argmax())
            selected.append(text)
            values.append(float(all_values[text]))
            parts[text] = -np.inf
            uncovered *= kept[text]
            gains = self.matches @ uncovered
        rest = np.argsort(-parts, kind="stable")[: min(count, len(scores)) - len(selected)]
        return [*selected, *rest.tolist()], [*values, *parts[rest].tolist()]


def cover_question(
    terms: QuestionTerms,
    scores: Floats,
    windows: IntArray,
    owners: IntArray,
    *,
    diversity: float,
    count: int,
) -> tuple[list[int], list[float]]:
    """Select nodes that together contain the words of the question.

    A greedy selection as in xQuAD (Santos et al. 2010), with the question's words as its aspects. A
    word is weighted by its squared IDF. A node matches a word as its best window does: by BM25's
    saturated term frequency of the word, or of its best other form.

    Args:
        terms: The words of the question.
        scores: Scores of the nodes, best first, shape (nodes,).
        windows: Windows of all nodes, shape (windows,).
        owners: The place in `scores` of each window's node, ascending, shape (windows,).
        diversity: Weight of the coverage, in [0, 1].
        count: Number of nodes to select.

    Returns:
        Places in `scores`, best first, and the new scores, which never increase.
    """
    bm25, factors = terms.bm25, terms.weights
    words = dict.fromkeys(terms.words)
    forms = {word: [one for one in terms.spelled(word) if bm25.idf(one)] for word in words}
    idf = [bm25.idf(own[0]) if own else bm25.idf_of_unique for own in forms.values()]
    weights = np.square(idf) * [factors.get(word, 1.0) for word in forms]
    weights /= max(weights.sum(), 1e-9)
    known = np.asarray([bool(own) for own in forms.values()], dtype=np.bool_)
    matches = np.zeros((len(scores), int(known.sum())))
    if len(owners) and known.any():
        found = [own for own in forms.values() if own]
        first = first_occurrences(owners)
        of_forms = bm25.saturations([one for own in found for one in own], windows)
        starts = np.cumsum([0, *map(len, found)])[:-1]
        of_windows = np.maximum.reduceat(of_forms, starts, axis=0)
        matches[owners[first]] = np.maximum.reduceat(of_windows, first, axis=1).T
    has_content = np.asarray([word not in factors for word in forms], dtype=np.bool_)
    of_word = float(weights[has_content].sum()) / max(1, int(has_content.sum()))
    trusted = min(_TRUSTED_MOST, max(_TRUSTED_SHARE, of_word))
    selected, values = _Terms(weights[known], matches, least=trusted).select(
        scores, diversity, count
    )
    return selected, [value * float(scores[0]) for value in values]


def spread_over_documents(scores: Floats, documents: IntArray, diversity: float) -> Floats:
    """Return the scores of windows, with further windows of the same document discounted.

    The n-th window of a document, from 0, is multiplied by `decay ** n`, where `decay` is
    `min(1, share / 0.8) ** diversity` and `share` is the document's share of the scores of
    the best 200 windows. Nothing changes if one document has 80 %: then the question is about that
    document.

    Args:
        scores: Scores of windows, best first, shape (windows,).
        documents: The document of each window, shape (windows,).
        diversity: Strength of the discount, in [0, 1].
    """
    top = scores[:_SHARE_WINDOWS]
    names, places = np.unique(documents, return_inverse=True)
    shares = np.bincount(places[:_SHARE_WINDOWS], top, len(names)) / max(float(top.sum()), 1e-9)
    if not diversity or not len(shares) or shares.max() >= _DOMINANT_SHARE:
        return scores
    decay = np.minimum(1, shares / _DOMINANT_SHARE) ** diversity
    by_document = np.argsort(places, kind="stable")
    starts = np.searchsorted(places[by_document], np.arange(len(names)))
    earlier = np.empty(len(places), dtype=np.int64)
    earlier[by_document] = np.arange(len(places)) - starts[places[by_document]]
    discounted: Floats = scores * decay[places] ** earlier
    return discounted


def is_overview(question: str, bm25: BM25Index, carried: Iterable[str] = ()) -> bool:
    """Return whether a question asks about an entire text.

    It does if the classifier of requests says so (`request_kinds.py`) and nothing is carried over,
    or if it has no specific words. Words are specific by their IDF relative to that of a word in a
    single window, or of an unknown word, which is 1. Words such as "summarize", "main" and
    "document" do not count.

    Args:
        question: The question.
        bm25: Knows the IDF of each word.
        carried: Words that are carried over from earlier turns.
    """
    unknown = bm25.idf_of_unique
    topic = topic_terms(" ".join(carried))
    if not unknown:
        return False
    if not topic and request_kind(question) == "overview":
        return True
    content = sorted({*topic_terms(question), *topic})
    return sum((bm25.idf(term) or unknown) / unknown for term in content) < _MIN_SPECIFIC


def cover_topics(
    candidates: Sequence[Candidate], reader: NodeReader, bm25: BM25Index, diversity: float
) -> Sequence[Candidate]:
    """Reorder the best 200 windows so that they cover the frequent words of all of them.

    A word is weighted by the number of these windows that contain it, at least two, times its IDF.
    Covering frequent words with few sentences is the objective of extractive summarization by
    concepts (Gillick and Favre 2009). A word that is already covered keeps 30 % of its value.

    Args:
        candidates: Windows, best first.
        reader: The texts.
        bm25: Knows the IDF of each word.
        diversity: Weight of coverage against relevance, in [0, 1].
    """
    top, rest = candidates[:_TOPIC_WINDOWS], candidates[_TOPIC_WINDOWS:]
    words = [set(longest_terms(text)) for text in _texts(top, reader)]
    frequency = Counter(word for of_window in words for word in of_window)
    shared = sorted(word for word, count in frequency.items() if count > 1)
    weights = np.asarray([frequency[word] * bm25.idf(word) for word in shared])
    if not weights.sum():
        return candidates
    matches = np.asarray([[float(word in own) for word in shared] for own in words])
    terms = _Terms(weights / weights.sum(), matches, _REPEATED)
    scores = np.asarray([one.score for one in top])
    selected, values = terms.select(scores, min(1.0, _TOPIC_WEIGHT * diversity), len(top))
    lowest = scores[-1]
    reordered = [
        replace(top[place], score=float(lowest + (scores[0] - lowest) * value))
        for place, value in zip(selected, values, strict=True)
    ]
    return [*reordered, *rest]


def _texts(candidates: Sequence[Candidate], reader: NodeReader) -> list[str]:
    """Return the text of each window."""
    nodes = reader.read([one.row for one in candidates])
    spans = [one.best_span for one in candidates]
    return [
        node.text if span is None else node.text[span.start : span.end]
        for node, span in zip(nodes, spans, strict=True)
    ]
