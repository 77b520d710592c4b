"""Made-up corpora of any size: Zipf-distributed words and names, vectors mixed of real ones.

Random vectors lie all equally far from each other, which makes every approximate index look bad;
so a passage's vector is that of two real passages, mixed, with noise. Questions are mixed of other
real passages, so that none is a copy of what is stored.
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

NAMES_A_CHUNK = 5
WORDS_A_CHUNK = 40
CHUNKS_A_DOCUMENT = 100
NOISE = 0.3
"""Length of the noise added to a vector of length 1."""

_SYLLABLES = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
_NAME = re.compile(r"[A-Z][a-z]+ [A-Z][a-z]+")

Floats = NDArray[np.float32]


def word(number: int) -> str:
    """Return a word for each number, all different."""
    syllables = []
    number += len(_SYLLABLES)
    while number:
        number, at = divmod(number, len(_SYLLABLES))
        syllables.append(_SYLLABLES[at])
    return "".join(syllables)


def name(number: int) -> str:
    return f"{word(number % 997).title()} {word(number).title()}"


class Zipf:
    """Draws numbers below `size`, the n-th with a share of 1 / (n + offset)."""

    def __init__(self, size: int, offset: float) -> None:
        self._bounds = np.cumsum(1 / (np.arange(size) + offset))
        self._bounds /= self._bounds[-1]

    def draw(self, random: np.random.Generator, count: int) -> NDArray[np.int64]:
        return np.searchsorted(self._bounds, random.random(count)).astype(np.int64)


@dataclass(frozen=True)
class Corpus:
    """Documents of `CHUNKS_A_DOCUMENT` chunks, a line each.

    Attributes:
        chunks: Of all documents.
        seed: Two with the same give the same.
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
        whole = -(-self.chunks // CHUNKS_A_DOCUMENT)
        for number in range(first, whole if end is None else end):
            random = np.random.default_rng([self.seed, number])
            count = min(CHUNKS_A_DOCUMENT, self.chunks - number * CHUNKS_A_DOCUMENT)
            lines = [_line(random, entities, vocabulary) for _ in range(count)]
            [title] = entities.draw(random, 1).tolist()
            yield SourceDocument(
                f"d{number:07d}", "\n".join(lines), name(title), metadata={"part": number % 10}
            )

    def questions(self, count: int) -> list[str]:
        """Return questions: one to three names, drawn as they are mentioned, and some words."""
        random = np.random.default_rng([self.seed + 1, 1 << 30])
        found = []
        for _ in range(count):
            names = self.entities.draw(random, int(random.integers(1, 4)))
            words = self.vocabulary.draw(random, 8)
            found.append(" ".join([*map(name, names.tolist()), *map(word, words.tolist())]) + "?")
        return found


def _line(random: np.random.Generator, entities: Zipf, vocabulary: Zipf) -> str:
    parts = [word(n) for n in vocabulary.draw(random, WORDS_A_CHUNK).tolist()]
    at = random.integers(0, WORDS_A_CHUNK, NAMES_A_CHUNK).tolist()
    for place, entity in zip(at, entities.draw(random, NAMES_A_CHUNK).tolist(), strict=True):
        parts[place] = f"{name(entity)} {parts[place]}"
    return " ".join(parts) + "."


class Lines:
    """Cuts at line ends."""

    def __call__(self, text: str) -> list[Span]:
        lines = text.split("\n")
        ends = accumulate(len(line) + 1 for line in lines)
        return [Span(end - 1 - len(line), end - 1) for end, line in zip(ends, lines, strict=True)]


class CapitalPairs:
    """Finds the made-up names, each chunk a sentence."""

    fingerprint = "capital-pairs"

    def extract(self, texts: Sequence[str]) -> list[tuple[tuple[Mention, ...], ...]]:
        return [
            (tuple(Mention(m.group(), *m.span(), "PERSON") for m in _NAME.finditer(text)),)
            for text in texts
        ]


class Beginning:
    """Summarizes by the first text."""

    uses_llm = False
    fingerprint = "beginning"

    def summarize(self, texts: Sequence[str], *, level: int, max_tokens: int) -> str:
        del max_tokens
        return f"{word(level)} {texts[0]}"


class MixedVectors:
    """Gives each text a vector mixed of two real ones, which its hash chooses.

    Args:
        stored: Real vectors that passages are mixed of.
        asked: Others, for questions.
        max_tokens: Longest window.
    """

    fingerprint = "mixed"

    def __init__(self, stored: Floats, asked: Floats, max_tokens: int | None = None) -> None:
        self.max_tokens = max_tokens
        self._stored = stored
        self._asked = asked

    @property
    def dimension(self) -> int:
        return int(self._stored.shape[1])

    def embed(self, texts: Sequence[str]) -> Floats:
        return _mixed(texts, self._stored)

    def embed_query(self, text: str) -> Floats:
        return _mixed([text], self._asked)[0]


def _mixed(texts: Sequence[str], real: Floats) -> Floats:
    seeds = [int.from_bytes(hashlib.blake2b(t.encode(), digest_size=8).digest()) for t in texts]
    keys = np.asarray(seeds, dtype=np.uint64)
    one, other = keys % len(real), (keys >> np.uint64(20)) % len(real)
    share = (0.5 + (keys >> np.uint64(40)) % 1000 / 2000).astype(np.float32)[:, None]
    mixed = share * real[one] + (1 - share) * real[other]
    # One generator a batch would make a text's vector depend on its neighbors.
    size = real.shape[1]
    noise = [np.random.default_rng(seed).standard_normal(size, np.float32) for seed in seeds]
    mixed += np.stack(noise) * (NOISE / np.sqrt(size))
    unit: Floats = mixed / np.linalg.norm(mixed, axis=1, keepdims=True)
    return unit
