"""BERT models read from their files, without sentence-transformers and transformers.

Importing these two packages takes several seconds, which each command and each process would pay.
Only models whose files say that they consist of a BERT encoder, the mean of its vectors and
normalization are read here, such as all-MiniLM-L6-v2. The modules have the structure and the names
of `transformers.BertModel`, so that `PackedBert` can run them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn

_MODULES = (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])

_REQUIRED = {"model_type": "bert", "architectures": ["BertModel"], "hidden_act": "gelu"}
"""Values that `config.json` must contain."""

_DEFAULTS = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}
"""Values that it must not contradict."""

_IGNORED = ("pooler.", "embeddings.position_ids")
"""Weights that the vectors do not depend on."""


def read_bert(folder: Path) -> BertFiles | None:
    """Return the model in a folder, or None if only sentence-transformers can load it."""
    try:
        return _read(folder)
    except Exception:  # noqa: BLE001 - of missing and damaged files; tokenizers raises `Exception`
        return None  # sentence-transformers reports what is wrong


@dataclass(frozen=True, eq=False)
class BertFiles:
    """A model with the attributes of a SentenceTransformer that the embedder uses.

    Attributes:
        modules: The encoder, with the attribute `auto_model`, and the modules after it.
        tokenizer: The tokenizer.
        max_seq_length: Maximum number of tokens in a text, special tokens included.
        dimension: Length of a vector.
    """

    modules: tuple[nn.Module, ...]
    tokenizer: Tokenizer
    max_seq_length: int
    dimension: int

    def __iter__(self) -> Iterator[nn.Module]:
        return iter(self.modules)

    def __getitem__(self, number: int) -> nn.Module:
        return self.modules[number]

    def get_embedding_dimension(self) -> int:
        """Return the length of a vector."""
        return self.dimension

    def preprocess(self, texts: Sequence[str]) -> dict[str, list[Tensor]]:
        """Return the token ids of each text, without padding, and masks that select all of them."""
        encoded = self.tokenizer.encode_batch([text.strip() for text in texts])
        ids = [torch.tensor(one.ids) for one in encoded]
        return {"input_ids": ids, "attention_mask": [torch.ones_like(one) for one in ids]}


def _read(folder: Path) -> BertFiles | None:
    config = _json(folder / "config.json")
    limit = _json(folder / "sentence_bert_config.json").get("max_seq_length")
    modules = _module_types(folder)
    if modules not in _MODULES or not _is_supported(folder, config):
        return None
    if limit not in range(3, config["max_position_embeddings"] + 1):
        return None
    weights = load_file(folder / "model.safetensors")
    used = {name: one for name, one in weights.items() if not name.startswith(_IGNORED)}
    if any(one.dtype != torch.float32 for one in used.values()):
        return None
    bert = _Bert(config)
    bert.load_state_dict(used, assign=True)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(limit)
    after = [_Mean(), _Normalize()][: len(modules) - 1]
    return BertFiles(
        (_group(auto_model=bert), *after), tokenizer, limit, int(config["hidden_size"])
    )


def _is_supported(folder: Path, config: Mapping[str, Any]) -> bool:
    settings = _json(folder / "sentence_bert_config.json")
    pooling = _json(folder / "1_Pooling" / "config.json")
    modes = {name for name, value in pooling.items() if name.startswith("pooling_mode") and value}
    return (
        not (folder / "adapter_config.json").exists()
        and all(config.get(name) == value for name, value in _REQUIRED.items())
        and all(config.get(name, value) == value for name, value in _DEFAULTS.items())
        and settings.keys() <= {"max_seq_length", "do_lower_case"}
        and not settings.get("do_lower_case")
        and modes == {"pooling_mode_mean_tokens"}
        and pooling.get("include_prompt", True) is True
        and pooling["word_embedding_dimension"] == config["hidden_size"]
    )


def _module_types(folder: Path) -> list[str]:
    """Return the classes of the modules, without their packages; none if they are elsewhere."""
    modules = _json(folder / "modules.json")
    if [one["path"] for one in modules[:2]] != ["", "1_Pooling"]:
        return []
    return [one["type"].rpartition(".")[2] for one in modules]


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


class _Bert(nn.Module):
    """The parts of `transformers.BertModel`, with the same names, and weights to be loaded."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        size, inner = config["hidden_size"], config["intermediate_size"]
        self.config = SimpleNamespace(
            model_type="bert", num_attention_heads=config["num_attention_heads"]
        )

        def norm() -> nn.LayerNorm:
            return nn.LayerNorm(size, eps=config["layer_norm_eps"])

        # Without memory: `load_state_dict` assigns the tensors of the file.
        with torch.device("meta"):
            self.embeddings = _group(
                word_embeddings=nn.Embedding(config["vocab_size"], size),
                position_embeddings=nn.Embedding(config["max_position_embeddings"], size),
                token_type_embeddings=nn.Embedding(config["type_vocab_size"], size),
                LayerNorm=norm(),
            )
            layers = [
                _group(
                    attention=_group(
                        self=_group(
                            query=nn.Linear(size, size),
                            key=nn.Linear(size, size),
                            value=nn.Linear(size, size),
                        ),
                        output=_group(dense=nn.Linear(size, size), LayerNorm=norm()),
                    ),
                    intermediate=_group(
                        dense=nn.Linear(size, inner), intermediate_act_fn=nn.GELU()
                    ),
                    output=_group(dense=nn.Linear(inner, size), LayerNorm=norm()),
                )
                for _ in range(config["num_hidden_layers"])
            ]
        self.encoder = _group(layer=nn.ModuleList(layers))


def _group(**modules: nn.Module) -> nn.Module:
    group = nn.Module()
    for name, module in modules.items():
        group.add_module(name, module)
    return group


class _Mean(nn.Module):
    """Adds the mean of the vectors of the tokens, all of which count."""

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        return features | {"sentence_embedding": features["token_embeddings"].mean(1)}


class _Normalize(nn.Module):
    """Gives the vectors the length 1."""

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        vectors = nn.functional.normalize(features["sentence_embedding"], p=2, dim=1)
        return features | {"sentence_embedding": vectors}
