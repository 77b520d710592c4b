"""A small neural tagger for Chinese: words with their parts of speech, and names.

Two layers of bidirectional GRUs read the characters of a sentence. One output layer marks words and
their parts of speech, another one names, with a conditional random field. The weights are in
`models/zh_e2g_sm`, whose model card names their sources. The forward pass needs only numpy and
keeps no state, so that threads can share a tagger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray, exclusive_sums

FloatArray = NDArray[np.float32]

_BATCH = 4096
"""Maximum number of characters in a batch, which bounds the memory; a longer sentence is one."""

_LAYERS = 2
_DIRECTIONS = ("forward", "backward")


class Token(NamedTuple):
    """A word or a name in a sentence.

    Attributes:
        start, end: Its span in the sentence.
        label: The part of speech in the tag set of LAC ("n", "v", "nz", ...), or the type of name.
    """

    start: int
    end: int
    label: str


class TaggedSentence(NamedTuple):
    """The words of a sentence, which cover it, and the names in it, which may cross words."""

    words: list[Token]
    names: list[Token]


class _Batch(NamedTuple):
    """Sentences as a packed sequence: the first characters of all, then the second ones, ...

    Attributes:
        ids: The row of each character in the embedding.
        sizes: The number of sentences that have a first, a second, ... character.
        offsets: Where the first, the second, ... characters begin; ends with the total.
    """

    ids: IntArray
    sizes: IntArray
    offsets: IntArray


@dataclass(frozen=True, eq=False)
class ChineseTagger:
    """Finds words and names in Chinese sentences.

    Attributes:
        version: Version of the weights.
        rows: The row of each code point in the embedding.
        weights: The arrays of the model.
        word_tags: The labels of the first output layer, such as "n-B".
        name_tags: The labels of the second one, such as "B-PER".
    """

    version: str
    rows: NDArray[np.int32]
    weights: Mapping[str, FloatArray]
    word_tags: tuple[str, ...]
    name_tags: tuple[str, ...]

    @classmethod
    def from_folder(cls, folder: Path) -> Self:
        """Load the weights of a model."""
        with np.load(folder / "weights.npz", allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        rows = np.full(int(arrays["code_points"].max()) + 1, int(arrays.pop("unknown")), np.int32)
        rows[arrays.pop("code_points")] = arrays.pop("code_point_rows")
        word_tags, name_tags = (tuple(arrays.pop(k).tolist()) for k in ("word_tags", "name_tags"))
        version = str(arrays.pop("version"))
        weights = {name: array.astype(np.float32) for name, array in arrays.items()}
        return cls(version, rows, weights, word_tags, name_tags)

    def tag(self, sentences: Sequence[str]) -> list[TaggedSentence]:
        """Return the words and names of each sentence. The length of sentences is not limited."""
        found = [TaggedSentence([], []) for _ in sentences]
        # Sentences of similar length share a batch, so that few steps work on few sentences.
        order = sorted(range(len(sentences)), key=lambda i: -len(sentences[i]))
        for members in _batches([i for i in order if sentences[i]], sentences):
            batch = self._packed([sentences[i] for i in members])
            states = self._encode(batch)
            word_ids = (states @ self.weights["word_weight"] + self.weights["word_bias"]).argmax(1)
            name_ids = self._best_path(states, batch)
            for rank, i in enumerate(members):
                places = batch.offsets[: len(sentences[i])] + rank
                words = self._words(word_ids[places].tolist())
                found[i] = TaggedSentence(words, self._names(name_ids[places].tolist()))
        return found

    def _packed(self, sentences: Sequence[str]) -> _Batch:
        lengths = np.asarray([len(sentence) for sentence in sentences])
        longest = int(lengths[0])
        padded = np.zeros((len(sentences), longest), dtype=np.int64)
        for row, sentence in enumerate(sentences):
            codes = np.frombuffer(sentence.encode("utf-32-le", "surrogatepass"), dtype="<u4")
            padded[row, : len(codes)] = self.rows[np.minimum(codes, len(self.rows) - 1)]
        is_used = (np.arange(longest)[:, None] < lengths[None, :]).T
        sizes = is_used.sum(axis=0)
        return _Batch(padded.T[is_used.T], sizes, exclusive_sums(sizes))

    def _encode(self, batch: _Batch) -> FloatArray:
        states = self.weights["embedding"][batch.ids]
        for layer in range(_LAYERS):
            both = [self._recur(states, batch, f"{layer}_{name}_") for name in _DIRECTIONS]
            states = np.concatenate(both, axis=1)
        return states

    def _recur(self, inputs: FloatArray, batch: _Batch, prefix: str) -> FloatArray:
        """Return the states of one GRU (reset, update and new gate, in this order)."""
        of = {k: self.weights[prefix + k] for k in ("input", "input_bias", "hidden", "hidden_bias")}
        gates = inputs @ of["input"] + of["input_bias"]
        width = of["hidden"].shape[0]
        states = np.empty((len(inputs), width), dtype=np.float32)
        state = np.zeros((int(batch.sizes[0]), width), dtype=np.float32)
        steps = range(len(batch.sizes))
        for step in steps if "forward" in prefix else reversed(steps):
            size, start = int(batch.sizes[step]), int(batch.offsets[step])
            own = gates[start : start + size]
            previous = state[:size]
            recurrent = _product(previous, of["hidden"]) + of["hidden_bias"]
            both = np.tanh((own[:, : 2 * width] + recurrent[:, : 2 * width]) / 2) / 2 + 0.5
            new = np.tanh(own[:, 2 * width :] + both[:, :width] * recurrent[:, 2 * width :])
            state[:size] = new + both[:, width:] * (previous - new)
            states[start : start + size] = state[:size]
        return states

    def _best_path(self, states: FloatArray, batch: _Batch) -> IntArray:
        """Return the best sequence of name tags of each sentence (Viterbi), packed."""
        scores = states @ self.weights["name_weight"] + self.weights["name_bias"]
        transitions = self.weights["name_transitions"]
        best = scores[: int(batch.sizes[0])] + self.weights["name_start"]
        origins = np.zeros(scores.shape, dtype=np.int64)
        for step in range(1, len(batch.sizes)):
            size, start = int(batch.sizes[step]), int(batch.offsets[step])
            paths = best[:size, :, None] + transitions
            chosen = paths.argmax(axis=1)
            origins[start : start + size] = chosen
            best[:size] = np.take_along_axis(paths, chosen[:, None], axis=1)[:, 0]
            best[:size] += scores[start : start + size]
        tags = (best + self.weights["name_end"]).argmax(axis=1)
        path = np.empty(len(scores), dtype=np.int64)
        for step in reversed(range(len(batch.sizes))):
            size, start = int(batch.sizes[step]), int(batch.offsets[step])
            path[start : start + size] = tags[:size]
            own = origins[start : start + size]
            tags[:size] = own[np.arange(size), tags[:size]]
        return path

    def _words(self, ids: Sequence[int]) -> list[Token]:
        words: list[Token] = []
        start, current = 0, ""
        for place, tag in enumerate(map(self.word_tags.__getitem__, ids)):
            label, _, position = tag.rpartition("-")
            if position != "I" or label != current:
                if place:
                    words.append(Token(start, place, current))
                start, current = place, label
        words.append(Token(start, len(ids), current))
        return words

    def _names(self, ids: Sequence[int]) -> list[Token]:
        names: list[Token] = []
        start = 0
        for place, tag in enumerate(map(self.name_tags.__getitem__, ids)):
            if tag[0] in "BS":
                start = place
            if tag[0] in "ES":
                names.append(Token(start, place + 1, tag[2:]))
        return names


def _product(rows: FloatArray, matrix: FloatArray) -> FloatArray:
    """Return `rows @ matrix`, computed row by row.

    For thousands of small products, BLAS would start threads. On a busy machine, they mostly wait
    for each other: with two of them, tagging took a hundred times longer.
    """
    product: FloatArray = np.matmul(rows[:, None, :], matrix)[:, 0]
    return product


def _batches(order: Sequence[int], sentences: Sequence[str]) -> Iterator[list[int]]:
    batch: list[int] = []
    size = 0
    for i in order:
        if batch and size + len(sentences[i]) > _BATCH:
            yield batch
            batch, size = [], 0
        batch.append(i)
        size += len(sentences[i])
    if batch:
        yield batch
