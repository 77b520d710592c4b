"""BERT models on a CPU: read from their files, and computed without padding.

Importing sentence-transformers and transformers takes several seconds, which each command and each
process would pay. Only models whose files say that they consist of a BERT encoder, the mean of its
vectors and normalization are read here, such as all-MiniLM-L6-v2. The modules have the structure
and the names of `transformers.BertModel`, so that `PackedBert` can run them.

sentence-transformers pads the texts of a pass to the length of the longest, which adds 15 to 45% to
the work. PyTorch multiplies matrices with MKL, which is slow on AMD processors. `PackedBert`
concatenates the tokens of all texts instead, computes only attention for each text alone, and
multiplies with oneDNN, which is also part of PyTorch. The vectors are equal within 1e-6, and the
vector of a text does not depend on the other texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from e2graphrag_integrations._utils.concurrency import SingleThread
from e2graphrag_integrations.protocols import FloatArray

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
    if modules not in _MODULES or not _is_plain_bert(folder, config):
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


def _is_plain_bert(folder: Path, config: Mapping[str, Any]) -> bool:
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


_ARCHITECTURES = ("bert", "roberta", "xlm-roberta")
"""Model types whose layers have the structure and the names of BERT."""

_PASS_TOKENS = 512
"""Tokens in a pass: enough for fast matrix products, and few enough for the processor's caches."""

_ROWS = 256
"""Expected rows of a matrix, for which oneDNN arranges the weights."""

_PROBES = ("Who wrote it?", "A letter arrived on Monday morning, and nobody answered it. " * 4)
_MAX_DIFFERENCE = 1e-5
"""Largest accepted difference between the vectors of the probes, relative to their norm."""

_UNSUPPORTED = (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError)
"""Errors of versions of PyTorch, transformers or sentence-transformers that work differently."""


def packed_bert(model: Any) -> PackedBert | None:
    """Return a faster equivalent of a model, or None if there is none.

    There is one of a SentenceTransformer that is a BERT in float32 on a CPU, if it gives the same
    vectors for two texts. A model of `BertFiles` always has one: its parts are our own. The linear
    layers of the model are replaced in place, so that memory contains their weights only once.
    """
    if isinstance(model, BertFiles):
        packed = PackedBert(model)
        list(_replace_linear_layers(model))
        return packed
    if not _is_supported(model):
        return None
    expected = model.encode(list(_PROBES), prompt="", show_progress_bar=False)
    packed = PackedBert(model)
    replaced = list(_replace_linear_layers(model))
    with suppress(*_UNSUPPORTED):
        difference = np.abs(packed.encode(_PROBES, batch_size=len(_PROBES)) - expected).max()
        if difference <= _MAX_DIFFERENCE * np.linalg.norm(expected, axis=1).min():
            return packed
    for parent, name, layer in replaced:
        setattr(parent, name, layer)
    return None


class PackedBert:
    """Encodes texts with the modules of a sentence-transformers model, without padding.

    As many passes run at once as PyTorch has threads, each in one thread. Several threads in a pass
    would wait for each other after each operation, which takes long if the processor is busy.

    Args:
        model: A SentenceTransformer whose first module is a BERT model, or `BertFiles`.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._single_thread = SingleThread()
        self._bert = model[0].auto_model
        self._heads = int(self._bert.config.num_attention_heads)
        padding = self._bert.embeddings.word_embeddings.padding_idx
        # RoBERTa numbers positions from the id of the padding token.
        self._first_position = 0 if self._bert.config.model_type == "bert" else padding + 1

    def encode(self, texts: Sequence[str], *, batch_size: int) -> FloatArray:
        """Return one vector per text, shape (n, dimension).

        Args:
            texts: At least one text, with its prompt.
            batch_size: Maximum number of texts in a pass. A pass of several texts also has at most
                512 tokens.
        """
        passes = [
            tokens
            for start in range(0, len(texts), batch_size)
            for tokens in self._passes(texts[start : start + batch_size])
        ]
        workers = min(torch.get_num_threads(), len(passes))
        if workers == 1:
            return np.concatenate([self._encode(tokens) for tokens in passes])
        with ThreadPoolExecutor(workers) as pool:
            return np.concatenate(list(pool.map(self._encode, passes)))

    def _passes(self, texts: Sequence[str]) -> Iterator[list[Tensor]]:
        """Yield the token ids of the texts of each pass."""
        # sentence-transformers 6 renamed the method.
        preprocess = getattr(self._model, "preprocess", None) or self._model.tokenize
        features = preprocess(list(texts))
        chosen: list[Tensor] = []
        total = 0
        for row, mask in zip(features["input_ids"], features["attention_mask"], strict=True):
            tokens = row[mask.bool()]
            if chosen and total + len(tokens) > _PASS_TOKENS:
                yield chosen
                chosen, total = [], 0
            chosen.append(tokens)
            total += len(tokens)
        yield chosen

    def _encode(self, texts: Sequence[Tensor]) -> FloatArray:
        """Return the vector of each text, given its token ids."""
        with self._single_thread.active(), torch.inference_mode():
            vectors: FloatArray = torch.stack(list(self._vectors(texts))).numpy()
            return vectors

    def _vectors(self, texts: Sequence[Tensor]) -> Iterator[Tensor]:
        lengths = [len(tokens) for tokens in texts]
        positions = [torch.arange(length) + self._first_position for length in lengths]
        hidden = self._embed_tokens(torch.cat(list(texts)), torch.cat(positions))
        for layer in self._bert.encoder.layer:
            hidden = self._apply(layer, hidden, lengths)
        for tokens in torch.split(hidden, lengths):
            mask = torch.ones(1, len(tokens), dtype=torch.long)
            features = {"token_embeddings": tokens[None], "attention_mask": mask}
            for module in list(self._model)[1:]:  # such as pooling and normalization
                features = module(features)
            yield features["sentence_embedding"][0]

    def _embed_tokens(self, ids: Tensor, positions: Tensor) -> Tensor:
        embeddings = self._bert.embeddings
        hidden = embeddings.word_embeddings(ids) + embeddings.token_type_embeddings.weight[0]
        hidden = hidden + embeddings.position_embeddings(positions)
        normalized: Tensor = embeddings.LayerNorm(hidden)
        return normalized

    def _apply(self, layer: Any, hidden: Tensor, lengths: list[int]) -> Tensor:
        attended = layer.attention.output.dense(self._attend(layer.attention.self, hidden, lengths))
        hidden = layer.attention.output.LayerNorm(attended + hidden)
        inner = layer.intermediate.intermediate_act_fn(layer.intermediate.dense(hidden))
        result: Tensor = layer.output.LayerNorm(layer.output.dense(inner) + hidden)
        return result

    def _attend(self, attention: Any, hidden: Tensor, lengths: list[int]) -> Tensor:
        """Return the attention of each token to the tokens of its own text."""
        # Each has the shape (1, heads, tokens, dimension of a head).
        queries, keys, values = (
            linear(hidden).view(1, len(hidden), self._heads, -1).transpose(1, 2)
            for linear in (attention.query, attention.key, attention.value)
        )
        texts = zip(*(torch.split(x, lengths, 2) for x in (queries, keys, values)), strict=True)
        attended = torch.cat([scaled_dot_product_attention(*text) for text in texts], dim=2)
        return attended.transpose(1, 2).reshape(hidden.shape)


class OneDnnLinear(nn.Module):
    """A linear layer that oneDNN computes on a CPU.

    Args:
        linear: The layer with the weights.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        functions = torch.ops.mkldnn
        self._multiply = functions._linear_pointwise  # noqa: SLF001 # there is no public function
        self._weight = functions._reorder_linear_weight(linear.weight.detach(), _ROWS)  # noqa: SLF001 # same
        self._bias = None if linear.bias is None else linear.bias.detach()

    def forward(self, x: Tensor) -> Tensor:
        """Return the same as the original layer."""
        y: Tensor = self._multiply(x, self._weight, self._bias, "none", [], "")
        return y


def _is_supported(model: Any) -> bool:
    first = next(iter(model), None)
    config = getattr(getattr(first, "auto_model", None), "config", None)
    return (
        getattr(config, "model_type", None) in _ARCHITECTURES
        and getattr(config, "position_embedding_type", "absolute") == "absolute"
        and not getattr(config, "is_decoder", False)
        and not getattr(model, "truncate_dim", None)
        and all(getattr(module, "include_prompt", True) for module in model)
        and all(p.device.type == "cpu" and p.dtype == torch.float32 for p in model.parameters())
    )


def _replace_linear_layers(model: Any) -> Iterator[tuple[nn.Module, str, nn.Module]]:
    """Replace the encoder's linear layers; yield the parent, the name and the old layer of each."""
    for parent in list(model[0].auto_model.encoder.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear:
                with suppress(*_UNSUPPORTED):
                    setattr(parent, name, OneDnnLinear(child))
                    yield parent, name, child
