"""Summaries without a language model: the most central sentences, in their own words."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.embedders.fingerprints import embedder_fingerprint, object_fingerprint
from e2graphrag_integrations.embedders.windowed import WindowedEmbedder
from e2graphrag_integrations.entities.normalize import UNSPACED
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.protocols import Embedder, TokenCounter
from e2graphrag_integrations.text.chunking import truncate
from e2graphrag_integrations.text.sentences import sentence_spans
from e2graphrag_integrations.text.tokens import ApproximateTokenCounter, count_tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

_DAMPING = 0.85
_TOLERANCE = 1e-8
_MAX_STEPS = 200
_MIN_WORDS = 4
"""Shorter sentences (headings, interjections) are chosen only where there is nothing else."""

_WORD = re.compile(r"\w+")
_UNSPACED = re.compile(f"[{UNSPACED}]")


class ExtractiveSummarizer:
    """LexRank (Erkan and Radev, 2004): PageRank over sentence similarities.

    The continuous form: sentences are vectors, edges their cosines, rank is the stationary
    distribution of a walk with damping 0.85. Sentences are taken by rank while they fit the length
    budget, skipping any whose cosine with one taken already exceeds `redundancy`, and returned in
    their original order. Deterministic: ties go to the earlier sentence.

    Args:
        vectors: `"tfidf"` needs no model; `"embedder"` uses the given embedder's vectors.
        embedder: For `vectors="embedder"`.
        redundancy: Cosine above which two sentences say the same.
        counter: Measures the length budget.
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
        if vectors not in ("tfidf", "embedder") or (vectors == "embedder") != bool(embedder):
            raise InvalidInputError(
                f"vectors={vectors!r}: 'tfidf' takes no embedder, 'embedder' needs embedder="
            )
        if not 0 < redundancy <= 1:
            raise InvalidInputError(f"redundancy={redundancy} must lie in (0, 1]")
        self._embedder = embedder
        self._redundancy = redundancy
        self._counter = counter or ApproximateTokenCounter()

    @lazy
    def fingerprint(self) -> str:
        """Vectors, redundancy and counter: all that the choice of sentences depends on."""
        source = embedder_fingerprint(self._embedder) if self._embedder else "tfidf"
        return f"extractive:1:{source}:{self._redundancy}:{object_fingerprint(self._counter)}"

    def summarize(self, texts: Sequence[str], *, level: int, max_tokens: int) -> str:  # noqa: ARG002 - part of the port
        """Return the chosen sentences joined by spaces, at most `max_tokens` tokens."""
        sentences = [
            " ".join(text[start:end].split())
            for text in texts
            for start, end in sentence_spans(text)
        ]
        if not sentences:
            return ""
        vectors = self._vectors(sentences)
        rank = _centrality(vectors if self._embedder is None else _of_one_sign(vectors))
        order = np.argsort(-rank, kind="stable")
        long_enough = [i for i in order if len(_terms(sentences[i])) >= _MIN_WORDS]
        chosen = self._choose(sentences, vectors, long_enough or list(order), max_tokens)
        if not chosen:
            best = sentences[(long_enough or list(order))[0]]
            return truncate(best, max_tokens, self._counter)[0]
        return " ".join(sentences[i] for i in sorted(chosen))

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
        chosen: list[int] = []
        for i in order:
            tokens = count_tokens(self._counter, sentences[i])
            if tokens > budget:
                continue
            if chosen:
                closest = (vectors[chosen] @ vectors[[i]].T).toarray().max()
                if closest > self._redundancy:
                    continue
            chosen.append(int(i))
            budget -= tokens
        return chosen


def _terms(sentence: str) -> list[str]:
    """Return casefolded words; runs of a script without spaces give their character pairs."""
    terms: list[str] = []
    for word in _WORD.findall(sentence.casefold()):
        if _UNSPACED.search(word) and len(word) > 1:
            terms.extend(word[i : i + 2] for i in range(len(word) - 1))
        else:
            terms.append(word)
    return terms


def _tfidf(sentences: list[str]) -> csr_array:
    """Return unit rows of tf * ln((n + 1) / df): a word in every sentence weighs almost nothing."""
    from scipy.sparse import csr_array

    counts = [Counter(_terms(sentence)) for sentence in sentences]
    df = Counter(term for count in counts for term in count)
    vocabulary = {term: i for i, term in enumerate(df)}
    idf = {term: math.log((len(sentences) + 1) / n) for term, n in df.items()}
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


def _of_one_sign(vectors: csr_array) -> csr_array:
    """Return vectors whose products are (1 + cosine) / 2: a walk needs weights of one sign."""
    from scipy.sparse import csr_array, hstack

    ones = csr_array(np.ones((vectors.shape[0], 1)))
    return csr_array(hstack([vectors, ones]) / math.sqrt(2))


def _centrality(vectors: csr_array) -> NDArray[np.float64]:
    """Return LexRank scores by power iteration, never forming the n x n similarity matrix."""
    n = vectors.shape[0]
    transposed = vectors.T.tocsr()
    own = np.asarray(vectors.multiply(vectors).sum(axis=1)).ravel()
    degree = vectors @ (transposed @ np.ones(n)) - own
    degree = np.where(degree > _TOLERANCE, degree, np.inf)
    rank = np.full(n, 1.0 / n)
    for _ in range(_MAX_STEPS):
        share = rank / degree
        walked = vectors @ (transposed @ share) - own * share
        lost = rank[np.isinf(degree)].sum() / n
        updated: NDArray[np.float64] = (1 - _DAMPING) / n + _DAMPING * (walked + lost)
        change = np.abs(updated - rank).sum()
        rank = updated
        if change < _TOLERANCE:
            break
    return rank
