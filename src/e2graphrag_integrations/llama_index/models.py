"""Adapters from LlamaIndex models to this package's protocols."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llama_index.core import PromptTemplate, Settings
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.callbacks import CallbackManager
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import LLM, MockLLM

from e2graphrag_integrations._utils.validation import type_name
from e2graphrag_integrations.embedders.framework import FrameworkEmbedder
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.protocols import (
    Embedder,
    FloatArray,
    Summarizer,
    TokenCounter,
)
from e2graphrag_integrations.summarizers.callable import CallableSummarizer
from e2graphrag_integrations.summarizers.lexrank import ExtractiveSummarizer
from e2graphrag_integrations.summarizers.prompts import Prompts

EmbedModelType = BaseEmbedding | Embedder | str

EXTRACTIVE = "extractive"
"""Value of `llm` for summarizing without an LLM."""

_PLAIN_TEMPLATE = PromptTemplate("{text}")
"""Sends the rendered prompt unchanged."""


class EmbedModel(FrameworkEmbedder):
    """Adapt a LlamaIndex embedding model to `Embedder`, preserving callbacks and batching."""

    model: BaseEmbedding

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """Return one vector per text, shape (n, dimension)."""
        return np.asarray(self.model.get_text_embedding_batch(list(texts)), dtype=np.float32)

    def embed_query(self, text: str) -> FloatArray:
        """Return the vector of a query, shape (dimension,)."""
        return np.asarray(self.model.get_query_embedding(text), dtype=np.float32)


class LLMSummarizer(CallableSummarizer):
    """Summarizes through `predict` or `apredict`, which add the system prompt of a model."""

    def ask(self, prompt: str) -> Any:
        """Call the model."""
        predict = self.llm.apredict if self.is_async else self.llm.predict
        return predict(_PLAIN_TEMPLATE, text=prompt)


def summarizer_for(
    llm: LLM | str | None, prompts: Prompts, counter: TokenCounter, *, is_async: bool
) -> Summarizer:
    """Return a summarizer that calls the LLM that the user passed, or else an extractive one.

    `Settings.llm` is never used: it answers questions in every application, and summaries would
    cost money without notice.
    """
    if not isinstance(llm, LLM) or _is_disabled(llm):
        return ExtractiveSummarizer(counter=counter)
    return LLMSummarizer(llm, prompts=prompts, is_async=is_async)


def _is_disabled(llm: LLM) -> bool:
    """Return whether this is the model that `Settings.llm = None` stores, which repeats prompts."""
    return type(llm) is MockLLM and llm.max_tokens is None


def index_summarizer(
    llm: Any, prompts: Prompts, callback_manager: CallbackManager | None
) -> LLMSummarizer | None:
    """Return the summarizer of an index; None summarizes without an LLM.

    Raises:
        InvalidInputError: If `llm` is not an LLM, None or `"extractive"`.
    """
    if llm not in (None, EXTRACTIVE) and not isinstance(llm, LLM):
        raise InvalidInputError(
            f"llm is a {type_name(llm)}, not a LlamaIndex LLM: pass an object such as "
            f"OpenAILike(...), or {EXTRACTIVE!r} to summarize without an LLM"
        )
    if not isinstance(llm, LLM) or _is_disabled(llm):
        return None
    if callback_manager is not None:  # LlamaIndex's own indexes pass it on as well
        llm.callback_manager = callback_manager
    return LLMSummarizer(llm, prompts=prompts)


def index_embedder(
    model: Any, max_tokens: int | None, callback_manager: CallbackManager | None
) -> Embedder | str | None:
    """Return the embedder of an index; None means that the index decides.

    Args:
        model: A LlamaIndex embedding, an `Embedder` or a name; None means `Settings.embed_model`
            if the user assigned one.
        max_tokens: Maximum tokens per text of a LlamaIndex embedding without a known limit.
        callback_manager: LlamaIndex's callback manager for the model.

    Raises:
        InvalidInputError: If it is anything else.
    """
    if model is None and Settings._embed_model is not None:  # noqa: SLF001 - the property would look for OpenAI
        model = Settings.embed_model  # the property attaches the callback manager of Settings
        # `Settings.embed_model = None` stores a one-dimensional mock.
        if isinstance(model, MockEmbedding) and model.embed_dim == 1:
            model = None
    return None if model is None else as_embedder(model, max_tokens, callback_manager)


def as_embedder(
    model: Any, max_tokens: int | None, callback_manager: CallbackManager | None
) -> Embedder | str:
    """Return an embedding model of LlamaIndex as an `Embedder`; `index_embedder` has the arguments.

    Raises:
        InvalidInputError: If it is none, and neither an `Embedder` nor a name.
    """
    if isinstance(model, type) or not isinstance(model, BaseEmbedding | Embedder | str):
        raise InvalidInputError(
            f"embed_model is a {type_name(model)}: pass a LlamaIndex embedding, a model name, "
            "or an object with dimension, max_tokens, embed and embed_query"
        )
    if isinstance(model, BaseEmbedding):
        if callback_manager is not None:
            model.callback_manager = callback_manager
        return EmbedModel(model, max_tokens)
    return model.removeprefix("local:") if isinstance(model, str) else model
