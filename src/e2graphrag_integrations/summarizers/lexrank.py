"""Extractive summaries: LexRank picks the most central sentences, without a language model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.embedders.fingerprints import embedder_fingerprint
from e2graphrag_integrations.embedders.windowed import WindowedEmbedder
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.protocols import Embedder, TokenCounter, object_fingerprint
from e2graphrag_integrations.text.broken_words import join_sentences, on_one_line
from e2graphrag_integrations.text.chunking import truncate
from e2graphrag_integrations.text.sentences import sentence_spans
from e2graphrag_integrations.text.tokens import ApproximateTokenCounter, count_tokens
from e2graphrag_integrations.text.words import count_words, has_unspaced, longest_terms
from e2graphrag_integrations.types import Span

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

_DAMPING = 0.85
"""PageRank's damping factor."""

_TOLERANCE = 1e-8
"""The power iteration stops when the total change in scores is less than this."""

_MAX_ITER = 200
"""Upper bound on power iterations."""

_MIN_WORDS, _MIN_CHARACTERS = 4, 7
"""Sentences with fewer words, such as headings, are used only if all sentences are that short. In
scripts without spaces, each character counts as a word, so the minimum is higher."""


_QUOTES = "\"”»’'"
"""Marks that may end a quoted sentence within another one."""

_RULES = 2
"""Version of the rules; part of the fingerprint. Raise it when they change."""


class ExtractiveSummarizer:
    """Summarizes with continuous LexRank (Erkan and Radev, 2004).

    Sentences are vectors, and edges are weighted by cosine similarity. A sentence's score is its
    PageRank with damping 0.85. Sentences are chosen by descending score within the length budget;
    a sentence is skipped if its cosine with a chosen sentence exceeds `redundancy`. The summary
    contains the chosen sentences in their original order. The result is deterministic: ties are
    broken in favor of the earlier sentence.

    Args:
        vectors: `"tfidf"` needs no model; `"embedder"` uses the vectors of `embedder`.
        embedder: Required for `vectors="embedder"`.
        redundancy: Cosine above which two sentences count as duplicates, in (0, 1].
        counter: Measures the length budget; the approximate counter by default.

    Raises:
        InvalidInputError: If `vectors` does not match `embedder`, or `redundancy` is out of range.
    """

    uses_llm = False

    def __init__(
        self,
        vectors: Literal["tfidf", "embedder"] = "tfidf",
        *,
        embedder: Embedder | None = None,
        redundancy: float = 0.6,
        counter: TokenCounter | None = None,
    ) -> None:
        if vectors not in ("tfidf", "embedder"):
            raise InvalidInputError(f"vectors={vectors!r} must be 'tfidf' or 'embedder'")
        if (vectors == "embedder") != bool(embedder):
            raise InvalidInputError("vectors='embedder' and embedder= must be given together")
        if not 0 < redundancy <= 1:
            raise InvalidInputError(f"redundancy={redundancy} must be greater than 0 and at most 1")
        self._embedder = embedder
        self._redundancy = redundancy
        self._counter = counter or ApproximateTokenCounter()

    @lazy
    def fingerprint(self) -> str:
        """The settings that determine which sentences are chosen."""
        source = embedder_fingerprint(self._embedder) if self._embedder else "tfidf"
        return (
            f"extractive:{_RULES}:{source}:{self._redundancy}:{object_fingerprint(self._counter)}"
        )

    def summarize(self, texts: Sequence[str], *, level: int, max_tokens: int) -> str:  # noqa: ARG002 - required by the Summarizer protocol
        """Return the chosen sentences, of at most `max_tokens` tokens in total."""
        sentences = [on_one_line(one) for text in texts for one in _sentences(text)]
        if not sentences:
            return ""
        vectors = self._vectors(sentences)
        scores = _lexrank(vectors if self._embedder is None else _nonnegative(vectors))
        order = np.argsort(-scores, kind="stable").tolist()
        long_enough = [i for i in order if _is_long_enough(sentences[i])]
        candidates = long_enough or order
        chosen = self._choose(sentences, vectors, candidates, max_tokens)
        if not chosen:
            return truncate(sentences[candidates[0]], max_tokens, self._counter)[0]
        return join_sentences(sentences[i] for i in sorted(chosen))

    def _vectors(self, sentences: list[str]) -> csr_array:
        from scipy.sparse import csr_array

        if self._embedder is None:
            return _tfidf(sentences)
        embedder = WindowedEmbedder(self._embedder)
        windows = [(i, s[a:b]) for i, s in enumerate(sentences) for a, b in embedder.windows(s)]
        dense = np.zeros((len(sentences), embedder.dimension))
        np.add.at(dense, [i for i, _ in windows], embedder.embed([text for _, text in windows]))
        return csr_array(dense / np.maximum(np.linalg.norm(dense, axis=1, keepdims=True), 1e-12))

    def _choose(
        self, sentences: list[str], vectors: csr_array, order: list[int], budget: int
    ) -> list[int]:
        """Return the sentences in `order` that fit the token budget, without duplicates."""
        chosen: list[int] = []
        for i in order:
            tokens = count_tokens(self._counter, sentences[i])
            if tokens > budget:
                continue
            if chosen:
                closest = (vectors[chosen] @ vectors[[i]].T).toarray().max()
                if closest > self._redundancy:
                    continue
            chosen.append(i)
            budget -= tokens
        return chosen


def _is_long_enough(sentence: str) -> bool:
    least = _MIN_CHARACTERS if has_unspaced(sentence) else _MIN_WORDS
    return count_words(sentence) >= least


def _sentences(text: str) -> list[str]:
    """Return the sentences of a text; `"Why?" said Ann.` is one, although a stop is inside it."""
    spans: list[Span] = []
    for start, end in sentence_spans(text, clauses=False):
        is_rest = bool(spans) and text[start].islower() and text[spans[-1].end - 1] in _QUOTES
        spans.append(Span(spans.pop().start if is_rest else start, end))
    return [text[start:end] for start, end in spans]


def _tfidf(sentences: list[str]) -> csr_array:
    """Return unit rows with weights tf * ln((n + 1) / df), shape (sentences, vocabulary)."""
    from scipy.sparse import csr_array

    counts = [Counter(longest_terms(sentence)) for sentence in sentences]
    doc_freq = Counter(term for count in counts for term in count)
    vocabulary = {term: i for i, term in enumerate(doc_freq)}
    idf = {term: math.log((len(sentences) + 1) / n) for term, n in doc_freq.items()}
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    for row, count in enumerate(counts):
        weights = {term: tf * idf[term] for term, tf in count.items()}
        norm = math.sqrt(sum(w * w for w in weights.values())) or 1.0
        rows.extend([row] * len(weights))
        columns.extend(vocabulary[term] for term in weights)
        values.extend(w / norm for w in weights.values())
    shape = (len(sentences), max(1, len(vocabulary)))
    return csr_array((np.asarray(values, dtype=np.float64), (rows, columns)), shape=shape)


def _nonnegative(vectors: csr_array) -> csr_array:
    """Return vectors whose dot products are (1 + cosine) / 2.

    PageRank needs nonnegative weights, and cosines of embeddings may be negative.
    """
    from scipy.sparse import csr_array, hstack

    ones = csr_array(np.ones((vectors.shape[0], 1)))
    return csr_array(hstack([vectors, ones]) / math.sqrt(2))


def _lexrank(vectors: csr_array) -> NDArray[np.float64]:
    """Return LexRank scores, shape (sentences,).

    The power iteration multiplies by the vectors twice and never forms the n x n similarity matrix.
    """
    n = vectors.shape[0]
    transposed = vectors.T.tocsr()
    self_similarity = np.asarray(vectors.multiply(vectors).sum(axis=1)).ravel()
    degree = vectors @ (transposed @ np.ones(n)) - self_similarity
    degree = np.where(degree > _TOLERANCE, degree, np.inf)
    scores = np.full(n, 1.0 / n)
    for _ in range(_MAX_ITER):
        normalized = scores / degree
        propagated = vectors @ (transposed @ normalized) - self_similarity * normalized
        dangling = scores[np.isinf(degree)].sum() / n
        updated: NDArray[np.float64] = (1 - _DAMPING) / n + _DAMPING * (propagated + dangling)
        change = np.abs(updated - scores).sum()
        scores = updated
        if change < _TOLERANCE:
            break
    return scores
