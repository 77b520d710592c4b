"""Synthetic corpora of any size: Zipf-distributed words and names, mixtures of real vectors.

Random vectors are all about equally far apart, which makes every approximate index look bad.
Therefore the vector of a passage is a mixture of the vectors of two real passages, plus noise. The
vectors of questions are mixtures of other real passages, so no question equals a stored vector.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations import Mention, SourceDocument, Span

NAMES_PER_CHUNK = 5
WORDS_PER_CHUNK = 40
CHUNKS_PER_DOCUMENT = 100
NOISE = 0.3
"""Length of the noise added to a vector of length 1."""

_SYLLABLES = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
_NAME = re.compile(r"[A-Z][a-z]+ [A-Z][a-z]+")

Floats = NDArray[np.float32]


def word(number: int) -> str:
    """Return the word with this number; all words differ."""
    syllables = []
    number += len(_SYLLABLES)
    while number:
        number, digit = divmod(number, len(_SYLLABLES))
        syllables.append(_SYLLABLES[digit])
    return "".join(syllables)


def name(number: int) -> str:
    return f"{word(number % 997).title()} {word(number).title()}"


class Zipf:
    """Draws numbers n below `size` with a probability proportional to 1 / (n + offset)."""

    def __init__(self, size: int, offset: float) -> None:
        self._bounds = np.cumsum(1 / (np.arange(size) + offset))
        self._bounds /= self._bounds[-1]

    def draw(self, random: np.random.Generator, count: int) -> NDArray[np.int64]:
        return np.searchsorted(self._bounds, random.random(count)).astype(np.int64)


@dataclass(frozen=True)
class Corpus:
    """Documents of `CHUNKS_PER_DOCUMENT` chunks, one per line.

    Attributes:
        chunks: Number of chunks of all documents.
        seed: Equal seeds give equal documents.
    """

    chunks: int
    seed: int = 0

    @property
    def entities(self) -> Zipf:
        return Zipf(max(100, self.chunks // 2), 10.0)

    @property
    def vocabulary(self) -> Zipf:
        return Zipf(max(1000, self.chunks // 5), 2.7)

    def documents(self, first: int = 0, end: int | None = None) -> Iterator[SourceDocument]:
        entities, vocabulary = self.entities, self.vocabulary
        if end is None:
            end = -(-self.chunks // CHUNKS_PER_DOCUMENT)
        for number in range(first, end):
            random = np.random.default_rng([self.seed, number])
            count = min(CHUNKS_PER_DOCUMENT, self.chunks - number * CHUNKS_PER_DOCUMENT)
            lines = [_line(random, entities, vocabulary) for _ in range(count)]
            [title] = entities.draw(random, 1).tolist()
            yield SourceDocument(
                f"d{number:07d}", "\n".join(lines), name(title), metadata={"part": number % 10}
            )

    def questions(self, count: int) -> list[str]:
        """Return questions of one to three names, drawn by their frequency, and eight words."""
        random = np.random.default_rng([self.seed + 1, 1 << 30])
        questions = []
        for _ in range(count):
            names = self.entities.draw(random, int(random.integers(1, 4)))
            words = self.vocabulary.draw(random, 8)
            terms = [*map(name, names.tolist()), *map(word, words.tolist())]
            questions.append(" ".join(terms) + "?")
        return questions


def _line(random: np.random.Generator, entities: Zipf, vocabulary: Zipf) -> str:
    parts = [word(n) for n in vocabulary.draw(random, WORDS_PER_CHUNK).tolist()]
    positions = random.integers(0, WORDS_PER_CHUNK, NAMES_PER_CHUNK).tolist()
    names = entities.draw(random, NAMES_PER_CHUNK).tolist()
    for position, entity in zip(positions, names, strict=True):
        parts[position] = f"{name(entity)} {parts[position]}"
    return " ".join(parts) + "."


class LineSplitter:
    """Splits at line ends."""

    def __call__(self, text: str) -> list[Span]:
        lines = text.split("\n")
        ends = accumulate(len(line) + 1 for line in lines)
        return [Span(end - 1 - len(line), end - 1) for end, line in zip(ends, lines, strict=True)]


class SyntheticNameExtractor:
    """Extracts the synthetic names; each chunk is one sentence."""

    fingerprint = "capital-pairs"

    def extract(self, texts: Sequence[str]) -> list[tuple[tuple[Mention, ...], ...]]:
        return [
            (tuple(Mention(m.group(), *m.span(), "PERSON") for m in _NAME.finditer(text)),)
            for text in texts
        ]


class FirstTextSummarizer:
    """Returns the first text as the summary."""

    uses_llm = False
    fingerprint = "beginning"

    def summarize(self, texts: Sequence[str], *, level: int, max_tokens: int) -> str:
        del max_tokens
        return f"{word(level)} {texts[0]}"


class MixtureEmbedder:
    """Embeds a text as a mixture of two real vectors, which its hash selects.

    Args:
        passages: Real vectors for passages, of shape (n, dimension).
        questions: Other real vectors, for questions.
        max_tokens: Maximum length of a window.
    """

    fingerprint = "mixed"

    def __init__(self, passages: Floats, questions: Floats, max_tokens: int | None = None) -> None:
        self.max_tokens = max_tokens
        self._passages = passages
        self._questions = questions

    @property
    def dimension(self) -> int:
        return int(self._passages.shape[1])

    def embed(self, texts: Sequence[str]) -> Floats:
        return _mixed(texts, self._passages)

    def embed_query(self, text: str) -> Floats:
        return _mixed([text], self._questions)[0]


def _mixed(texts: Sequence[str], real: Floats) -> Floats:
    seeds = [int.from_bytes(hashlib.blake2b(t.encode(), digest_size=8).digest()) for t in texts]
    keys = np.asarray(seeds, dtype=np.uint64)
    first, second = keys % len(real), (keys >> np.uint64(20)) % len(real)
    weight = (0.5 + (keys >> np.uint64(40)) % 1000 / 2000).astype(np.float32)[:, None]
    mixed = weight * real[first] + (1 - weight) * real[second]
    # One generator per text: a shared one would make a vector depend on the rest of the batch.
    size = real.shape[1]
    noise = [np.random.default_rng(seed).standard_normal(size, np.float32) for seed in seeds]
    mixed += np.stack(noise) * (NOISE / np.sqrt(size))
    unit: Floats = mixed / np.linalg.norm(mixed, axis=1, keepdims=True)
    return unit
