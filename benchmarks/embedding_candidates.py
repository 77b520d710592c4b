"""Ways to run all-MiniLM-L6-v2 on a CPU, for `embedding_speed.py`.

Each candidate maps texts to unit vectors. Those of ONNX Runtime and OpenVINO sort the texts by
length and pad them in batches of at most 512 tokens.
"""

from __future__ import annotations

import copy
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from e2graphrag_integrations.embedders.packed_bert import PackedBert, packed_bert
from e2graphrag_integrations.embedders.sentence_transformers import DEFAULT_MODEL, find_model
from e2graphrag_integrations.protocols import FloatArray

Embed = Callable[[Sequence[str]], FloatArray]

BEFORE = "sentence-transformers"
PACKAGE = "this package"
BFLOAT16 = "packed, bfloat16"
INT8 = "packed, int8 per token"

_BATCH_SIZE = 32
_BATCH_TOKENS = 512


def load() -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(find_model(DEFAULT_MODEL)), device="cpu")


class Bfloat16Linear(nn.Module):
    """A linear layer whose weights and inputs are rounded to bfloat16."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self._weight = linear.weight.detach().bfloat16()
        self._bias = linear.bias.detach().bfloat16()

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x.bfloat16(), self._weight, self._bias).float()


class Int8Linear(nn.Module):
    """A linear layer in 8 bits, with one scale for each output and each token."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach()
        self._scale = weight.abs().amax(1) / 127
        self._weight = (weight / self._scale[:, None]).round().to(torch.int8).t().contiguous()
        self._bias = linear.bias.detach()

    def forward(self, x: Tensor) -> Tensor:
        scale = x.abs().amax(1, keepdim=True).clamp_(min=1e-12).div_(127)
        tokens = (x / scale).round_().to(torch.int8)
        product = torch._int_mm(tokens, self._weight).float()  # noqa: SLF001 # the only int8 product
        return product.mul_(scale).mul_(self._scale).add_(self._bias)


def packed(layer: Callable[[nn.Linear], nn.Module] | None) -> Embed:
    """Return a packed model whose encoder has other linear layers."""
    model = load()
    if layer:
        for parent in list(model[0].auto_model.encoder.modules()):
            for name, child in list(parent.named_children()):
                if type(child) is nn.Linear:
                    setattr(parent, name, layer(child))
    bert = PackedBert(model)
    return lambda texts: bert.encode(texts, batch_size=_BATCH_SIZE)


def this_package() -> Embed:
    bert = packed_bert(load())
    if bert is None:
        raise SystemExit("this processor or this version of PyTorch is not supported")
    return lambda texts: bert.encode(texts, batch_size=_BATCH_SIZE)


def sentence_transformers() -> Embed:
    model = load()
    return lambda texts: model.encode(list(texts), batch_size=_BATCH_SIZE, show_progress_bar=False)


class Padded:
    """Embeds texts, sorted by length, in padded batches.

    Args:
        forward: Maps token ids and the mask to token vectors.
    """

    def __init__(self, forward: Callable[[Tensor, Tensor], Tensor]) -> None:
        self._forward = forward
        self._model = load()

    def __call__(self, texts: Sequence[str]) -> FloatArray:
        features = self._model.preprocess(list(texts))
        ids, mask = features["input_ids"], features["attention_mask"]
        lengths = mask.sum(1).tolist()
        vectors = np.empty((len(texts), 384), dtype=np.float32)
        with torch.inference_mode():
            for rows in _batches(lengths):
                length = lengths[rows[-1]]
                kept = mask[rows, :length]
                tokens = self._forward(ids[rows, :length], kept)
                mean = (tokens * kept[:, :, None]).sum(1) / kept.sum(1)[:, None]
                vectors[rows] = nn.functional.normalize(mean, dim=1).numpy()
        return vectors


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and lengths[row] * (len(batch) + 1) > _BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(row)
    yield batch


class _Encoder(nn.Module):
    """The encoder with two inputs and one output."""

    def __init__(self) -> None:
        super().__init__()
        self.bert = load()[0].auto_model
        self.bert.set_attn_implementation("eager")  # can be exported

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        tokens: Tensor = self.bert(input_ids=ids, attention_mask=mask).last_hidden_state
        return tokens


def length_batches() -> Embed:
    bert = load()[0].auto_model
    return Padded(lambda ids, mask: bert(input_ids=ids, attention_mask=mask).last_hidden_state)


def torch_dynamic_int8() -> Embed:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bert = torch.ao.quantization.quantize_dynamic(
            copy.deepcopy(load()[0].auto_model), {nn.Linear}, dtype=torch.qint8
        )
    return Padded(lambda ids, mask: bert(input_ids=ids, attention_mask=mask).last_hidden_state)


def onnx_runtime(folder: Path, *, int8: bool) -> Embed:
    """Return the model in ONNX Runtime, with its fusions for BERT."""
    import onnxruntime
    from onnxruntime.quantization import QuantType, quantize_dynamic

    path = folder / "optimized.onnx"
    if not path.exists():
        _export(folder / "model.onnx")
        # A process of its own: the optimizer imports a module with the name of one here.
        sizes = ["--model_type", "bert", "--num_heads", "12", "--hidden_size", "384"]
        files = ["--input", str(folder / "model.onnx"), "--output", str(path)]
        module = "onnxruntime.transformers.optimizer"
        subprocess.run([sys.executable, "-m", module, *files, *sizes], check=True)
    if int8:
        quantize_dynamic(
            path,
            folder / "int8.onnx",
            weight_type=QuantType.QInt8,
            per_channel=True,
            op_types_to_quantize=["MatMul", "Attention"],
            extra_options={"DefaultTensorType": 1},  # float32, for the outputs of fused nodes
        )
        path = folder / "int8.onnx"
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def forward(ids: Tensor, mask: Tensor) -> Tensor:
        [tokens] = session.run(None, {"ids": ids.numpy(), "mask": mask.numpy()})
        return torch.from_numpy(tokens)

    return Padded(forward)


def _export(path: Path) -> None:
    ids = torch.randint(1000, 2000, (2, 9))
    axes = {name: {0: "texts", 1: "tokens"} for name in ("ids", "mask", "tokens")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _Encoder().eval(),
            (ids, torch.ones_like(ids)),
            str(path),
            input_names=["ids", "mask"],
            output_names=["tokens"],
            dynamic_axes=axes,
            opset_version=17,
            dynamo=False,
        )


def openvino(precision: str, *, int8: bool = False) -> Embed:
    """Return the model in OpenVINO.

    Args:
        precision: "f32" or "bf16".
        int8: Whether to round the weights to 8 bits, and the inputs of products while running.
    """
    import openvino as ov

    ids = torch.randint(1000, 2000, (2, 9))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ov.convert_model(_Encoder().eval(), example_input=(ids, torch.ones_like(ids)))
    if int8:
        import nncf

        model = nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_SYM)
    settings = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": precision}
    if int8:
        settings["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = 384
    compiled = ov.compile_model(model, "CPU", settings)

    def forward(ids: Tensor, mask: Tensor) -> Tensor:
        return torch.from_numpy(compiled([ids.numpy(), mask.numpy()])[0])

    return Padded(forward)


def candidates(folder: Path) -> Mapping[str, Callable[[], Embed]]:
    """Return functions that load the candidates.

    Args:
        folder: An empty folder for converted models.
    """
    return {
        BEFORE: sentence_transformers,
        "batches by length": length_batches,
        "packed, MKL": lambda: packed(None),
        PACKAGE: this_package,
        BFLOAT16: lambda: packed(Bfloat16Linear),
        INT8: lambda: packed(Int8Linear),
        "PyTorch dynamic int8": torch_dynamic_int8,
        "ONNX Runtime": lambda: onnx_runtime(folder, int8=False),
        "ONNX Runtime int8": lambda: onnx_runtime(folder, int8=True),
        "OpenVINO": lambda: openvino("f32"),
        "OpenVINO bfloat16": lambda: openvino("bf16"),
        "OpenVINO int8": lambda: openvino("f32", int8=True),
    }
