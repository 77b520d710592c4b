"""Cross-encoder rerankers, and validation of any reranker's scores."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from e2graphrag_integrations._utils.concurrency import (
    process_lock,
    use_one_thread_after_fork,
)
from e2graphrag_integrations._utils.validation import wrap_errors
from e2graphrag_integrations.embedders.sentence_transformers import (
    INSTALL_LOCAL,
    find_model,
    no_loading_bar,
)
from e2graphrag_integrations.errors import MissingDependencyError, RerankError
from e2graphrag_integrations.protocols import Reranker


class CrossEncoderReranker:
    """Reranks with a sentence-transformers cross-encoder.

    The model loads on first use and is never downloaded: a model given by name must be in the
    Hugging Face cache.

    Args:
        model: Name (`"cross-encoder/ms-marco-MiniLM-L6-v2"`) or folder of the model.
        batch_size: Number of query-text pairs per forward pass.
        device: A torch device such as `"cuda"`; None lets sentence-transformers choose.

    Raises:
        MissingDependencyError: On first use, if sentence-transformers or the model is missing.
    """

    def __init__(
        self, model: str | Path, *, batch_size: int = 32, device: str | None = None
    ) -> None:
        self.model = str(model)
        self._batch_size = batch_size
        self._device = device
        self._loaded: Any = None
        self._loaded_in = os.getpid()
        self._lock = process_lock()  # loading and fast tokenizers are not thread-safe

    def __reduce__(self) -> tuple[Any, ...]:
        """Reduce to the arguments of the constructor; a copy loads the model again on first use."""
        create = partial(type(self), self.model, batch_size=self._batch_size, device=self._device)
        return create, ()

    def rerank(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return one relevance score per text; higher is better."""
        if not texts:
            return []
        with self._lock:
            if self._loaded is None:
                self._loaded = _load_model(self.model, self._device)
                self._loaded_in = os.getpid()
            use_one_thread_after_fork(self._loaded_in)
            scores = self._loaded.predict(
                [(question, text) for text in texts],
                batch_size=self._batch_size,
                show_progress_bar=False,
            )
        return [float(score) for score in scores]


def _load_model(name: str, device: str | None) -> Any:
    try:
        from sentence_transformers import CrossEncoder
    except ImportError as error:
        raise MissingDependencyError(
            f"CrossEncoderReranker needs sentence-transformers: {INSTALL_LOCAL}, or pass another "
            "reranker"
        ) from error
    folder = find_model(name)
    if folder is None:
        raise MissingDependencyError(
            f"cross-encoder {name!r} is neither a folder nor in the Hugging Face cache: run "
            f"`hf download {name}` once while online (nothing is downloaded at run time)"
        )
    with wrap_errors(MissingDependencyError, f"cannot load cross-encoder {name!r} from {folder}"):
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        architectures = config.get("architectures") or []
        # sentence-transformers would give any other model a randomly initialized scoring head.
        if not any("Classification" in architecture for architecture in architectures):
            raise MissingDependencyError(
                f"{name!r} in {folder} is not a cross-encoder "
                f"(architecture: {', '.join(architectures) or 'unknown'}): choose a model for "
                "sequence classification"
            )
        with no_loading_bar():
            return CrossEncoder(str(folder), device=device, local_files_only=True)


def rerank_scores(reranker: Reranker, question: str, texts: Sequence[str]) -> list[float]:
    """Return the reranker's scores, one per text, after validating them.

    Raises:
        RerankError: If the reranker fails, or does not return one finite number per text.
    """
    name = type(reranker).__name__
    with wrap_errors(RerankError, f"{name}.rerank() failed or did not return numbers"):
        scores = np.asarray(reranker.rerank(question, list(texts)))  # it may consume its list
    numeric = scores.dtype.kind in "iuf" and scores.shape == (len(texts),)
    if not numeric or not np.isfinite(scores).all():
        raise RerankError(
            f"{name}.rerank() must return one finite number for each of {len(texts)} texts; it "
            f"returned {scores.dtype} of shape {scores.shape}"
        )
    return [float(score) for score in scores]
