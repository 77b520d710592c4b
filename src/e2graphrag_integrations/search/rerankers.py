"""Rerankers: cross-encoders by name, and any reranker held to its port."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from e2graphrag_integrations._utils.validation import wrap_errors
from e2graphrag_integrations.embedders.sentence_transformers import find_model, no_loading_bar
from e2graphrag_integrations.errors import MissingDependencyError, RerankError
from e2graphrag_integrations.protocols import Reranker


class CrossEncoderReranker:
    """A sentence-transformers cross-encoder, by name or path; loaded at first use.

    Nothing is downloaded: a name must be in the Hugging Face cache.

    Args:
        model: Name (`"cross-encoder/ms-marco-MiniLM-L6-v2"`) or path.
        batch_size: Pairs per forward pass.
        device: As torch names it; None takes what sentence-transformers picks.

    Raises:
        MissingDependencyError: At first use, if sentence-transformers or the model is missing.
    """

    def __init__(
        self, model: str | Path, *, batch_size: int = 32, device: str | None = None
    ) -> None:
        self.model = str(model)
        self._batch_size = batch_size
        self._device = device
        self._loaded: Any = None
        self._lock = threading.Lock()  # loads once; fast tokenizers take one thread at a time

    def rerank(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return for each text how well it answers, higher is better."""
        if not texts:
            return []
        with self._lock:
            if self._loaded is None:
                self._loaded = _load(self.model, self._device)
            scores = self._loaded.predict(
                [(question, text) for text in texts],
                batch_size=self._batch_size,
                show_progress_bar=False,
            )
        return [float(score) for score in scores]


def _load(name: str, device: str | None) -> Any:
    try:
        from sentence_transformers import CrossEncoder
    except ImportError as error:
        raise MissingDependencyError(
            "CrossEncoderReranker needs sentence-transformers: "
            "pip install 'e2graphrag-integrations[local]', or pass a reranker of your own"
        ) from error
    folder = find_model(name)
    if folder is None:
        raise MissingDependencyError(
            f"cross-encoder {name!r} is neither a folder nor in the Hugging Face cache: run "
            f"`hf download {name}` once while online (nothing is downloaded at run time)"
        )
    with wrap_errors(
        MissingDependencyError, f"cross-encoder {name!r} in {folder} cannot be loaded"
    ):
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        kinds = config.get("architectures") or []
    # Of any other model the weights that score would be random.
    if not any("Classification" in kind for kind in kinds):
        raise MissingDependencyError(
            f"{name!r} in {folder} is no cross-encoder but {', '.join(kinds) or 'unknown'}: name "
            "one that ends in a sequence classification"
        )
    with (
        wrap_errors(MissingDependencyError, f"cross-encoder {name!r} in {folder} cannot be loaded"),
        no_loading_bar(),
    ):
        return CrossEncoder(str(folder), device=device, local_files_only=True)


def rerank_scores(reranker: Reranker, question: str, texts: Sequence[str]) -> list[float]:
    """Return the scores of any reranker.

    Raises:
        RerankError: If it fails, or returns anything but one finite number a text.
    """
    name = type(reranker).__name__
    with wrap_errors(RerankError, f"{name}.rerank() failed or returned no numbers"):
        scores = np.asarray(reranker.rerank(question, texts))
    numbers = scores.dtype.kind in "iuf" and scores.shape == (len(texts),)
    if not numbers or not np.isfinite(scores).all():
        raise RerankError(
            f"{name}.rerank() must return one finite number for each of {len(texts)} texts; it "
            f"returned {scores.dtype} of shape {scores.shape}"
        )
    return [float(score) for score in scores]
