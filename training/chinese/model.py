"""The tagger in PyTorch, for training. `entities/chinese/tagger.py` runs its weights with numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from lac import Lac
from torch import Tensor, nn

from data import TAGS

FORBIDDEN = -10_000.0


def _may_follow(tag: str, other: str) -> bool:
    if tag[0] in "OES":
        return other[0] in "OBS"
    return other[0] in "IE" and other[2:] == tag[2:]


class NameField(nn.Module):
    """A conditional random field over the tags of names."""

    def __init__(self) -> None:
        super().__init__()
        count = len(TAGS)
        self.transitions = nn.Parameter(torch.zeros(count, count))
        self.start = nn.Parameter(torch.zeros(count))
        self.end = nn.Parameter(torch.zeros(count))
        allowed = torch.tensor([[_may_follow(a, b) for b in TAGS] for a in TAGS])
        self.register_buffer("barred", (~allowed).float() * FORBIDDEN)
        self.register_buffer("no_start", torch.tensor([tag[0] in "IE" for tag in TAGS]) * FORBIDDEN)
        self.register_buffer("no_end", torch.tensor([tag[0] in "BI" for tag in TAGS]) * FORBIDDEN)

    def parts(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the scores of transitions, of first and of last tags."""
        return (
            self.transitions + self.barred,
            self.start + self.no_start,
            self.end + self.no_end,
        )

    def loss(self, scores: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """Return the negative log likelihood of each sentence."""
        transitions, start, end = self.parts()
        gold = start[tags[:, 0]] + scores[:, 0].gather(1, tags[:, :1])[:, 0]
        total = start + scores[:, 0]
        for place in range(1, scores.shape[1]):
            is_inside = mask[:, place]
            own = scores[:, place].gather(1, tags[:, place : place + 1])[:, 0]
            gold = gold + is_inside * (own + transitions[tags[:, place - 1], tags[:, place]])
            longer = torch.logsumexp(total[:, :, None] + transitions, 1) + scores[:, place]
            total = torch.where(is_inside[:, None].bool(), longer, total)
        last = tags.gather(1, (mask.sum(1).long() - 1)[:, None])[:, 0]
        return torch.logsumexp(total + end, 1) - gold - end[last]


class Tagger(nn.Module):
    """Embedding, two bidirectional GRUs, and the two output layers."""

    def __init__(self, lac: Lac, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.embedding = nn.Embedding.from_pretrained(torch.tensor(lac.embedding), freeze=False)
        width = lac.embedding.shape[1]
        self.gru = nn.GRU(width, width, num_layers=2, bidirectional=True, batch_first=True)
        self.gru.load_state_dict({name: torch.tensor(array) for name, array in lac.gru.items()})
        self.words = nn.Linear(2 * width, len(lac.tags))
        self.words.load_state_dict(
            {"weight": torch.tensor(lac.weight), "bias": torch.tensor(lac.bias)}
        )
        self.names = nn.Linear(2 * width, len(TAGS))
        self.field = NameField()

    def forward(self, rows: Tensor, lengths: Tensor) -> Tensor:
        """Return the states of all characters."""
        packed = nn.utils.rnn.pack_padded_sequence(
            self.dropout(self.embedding(rows)), lengths, batch_first=True, enforce_sorted=False
        )
        states, _ = self.gru(packed)
        padded, _ = nn.utils.rnn.pad_packed_sequence(
            states, batch_first=True, total_length=rows.shape[1]
        )
        return padded


def write(model: Tagger, lac: Lac, version: str, path: Path) -> None:
    """Write the weights for `entities/chinese/tagger.py`, in half precision."""
    state = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    transitions, start, end = (part.detach().numpy() for part in model.field.parts())
    arrays = {
        "embedding": state["embedding.weight"],
        "word_weight": state["words.weight"].T,
        "word_bias": state["words.bias"],
        "name_weight": state["names.weight"].T,
        "name_bias": state["names.bias"],
        "name_transitions": transitions,
        "name_start": start,
        "name_end": end,
    }
    for layer in (0, 1):
        for suffix, direction in (("", "forward"), ("_reverse", "backward")):
            for part, name in (("ih", "input"), ("hh", "hidden")):
                prefix = f"{layer}_{direction}_{name}"
                arrays[prefix] = state[f"gru.weight_{part}_l{layer}{suffix}"].T
                arrays[f"{prefix}_bias"] = state[f"gru.bias_{part}_l{layer}{suffix}"]
    np.savez_compressed(
        path,
        version=np.array(version),
        unknown=np.array(len(lac.embedding) - 1, dtype=np.int16),
        code_points=np.array(list(lac.rows), dtype=np.int32),
        code_point_rows=np.array(list(lac.rows.values()), dtype=np.int16),
        word_tags=np.array(lac.tags),
        name_tags=np.array(TAGS),
        **{name: array.astype(np.float16) for name, array in arrays.items()},
    )
