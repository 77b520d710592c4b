"""The models of an index, and adapters from LlamaIndex models to this package's protocols."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from llama_index.core import PromptTemplate, Settings
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.callbacks import CallbackManager
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import LLM, MockLLM

from e2graphrag_integrations._utils.processes import process_lock
from e2graphrag_integrations._utils.validation import check_protocol, type_name
from e2graphrag_integrations.components import Components, embedder_from_name
from e2graphrag_integrations.embedders.fingerprints import output_settings, settings_digest
from e2graphrag_integrations.embedders.sentence_transformers import WrappedModel
from e2graphrag_integrations.entities.routing import Extractors
from e2graphrag_integrations.errors import InvalidInputError, SettingsMismatchError
from e2graphrag_integrations.languages.notices import LanguageNotices
from e2graphrag_integrations.protocols import (
    Embedder,
    EntityExtractor,
    FloatArray,
    Summarizer,
    TokenCounter,
)
from e2graphrag_integrations.summarizers.lexrank import ExtractiveSummarizer
from e2graphrag_integrations.summarizers.prompts import Prompts

EmbedModelType = BaseEmbedding | Embedder | str
ExtractorType = Extractors

EXTRACTIVE = "extractive"
"""Value of `llm` for summarizing without an LLM."""

_MAX_TOKENS = {"OpenAIEmbedding": 8191, "AzureOpenAIEmbedding": 8191}
"""Context length, in tokens, of models that have no `max_length`, by class name."""

_PLAIN_TEMPLATE = PromptTemplate("{text}")
"""Sends the rendered prompt unchanged."""


class EmbedModel:
    """Adapt a LlamaIndex embedding model to `Embedder`, preserving callbacks and batching.

    Args:
        model: The embedding model.
        max_tokens: Maximum number of tokens per text. None uses the model's own `max_length`.
    """

    def __init__(self, model: BaseEmbedding, max_tokens: int | None = None) -> None:
        self.model = model
        self._wrapped = WrappedModel(model)
        self._max_tokens = max_tokens
        self._dimension: int | None = None

    @property
    def dimension(self) -> int:
        """Length of each vector; the first access embeds one word to measure it."""
        if self._dimension is None:
            self._dimension = len(self.model.get_text_embedding("dimension"))
        return self._dimension

    @property
    def max_tokens(self) -> int | None:
        """Maximum number of tokens per text, or None if no limit is known."""
        if self._max_tokens is not None:
            return self._max_tokens
        if self._wrapped.max_tokens is not None:
            return self._wrapped.max_tokens
        max_length = getattr(self.model, "max_length", None)
        if isinstance(max_length, int) and max_length > 0:
            return max_length
        return _MAX_TOKENS.get(self.model.class_name())

    @property
    def tokens(self) -> TokenCounter | None:
        """A counter that uses the model's own tokenizer, or None if it has none in memory."""
        return self._wrapped.tokens

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """Return one vector per text, shape (n, dimension)."""
        return np.asarray(self.model.get_text_embedding_batch(list(texts)), dtype=np.float32)

    def embed_query(self, text: str) -> FloatArray:
        """Return the vector of a query, shape (dimension,)."""
        return np.asarray(self.model.get_query_embedding(text), dtype=np.float32)


class LLMSummarizer:
    """Summarize with any chat or completion model, through `llm.predict` or `llm.apredict`.

    Args:
        llm: The model.
        prompts: The prompts.
        is_async: Whether `summarize` returns coroutines for the caller to await.
    """

    def __init__(self, llm: LLM, prompts: Prompts, *, is_async: bool = False) -> None:
        self._llm = llm
        self._prompts = prompts
        self._is_async = is_async

    @property
    def fingerprint(self) -> str:
        """The model's class, the settings that affect its output, and the prompts."""
        digest = settings_digest(output_settings(self._llm.to_dict()))
        return f"llama-index:{self._llm.class_name()}:{digest}:{self._prompts.fingerprint}"

    @property
    def model(self) -> str:
        """The name of the model, or else its class."""
        return self._llm.metadata.model_name or self._llm.class_name()

    def prompt(self, texts: Sequence[str], *, level: int, max_tokens: int) -> str:
        """Return the prompt that `summarize` sends."""
        return self._prompts.render(texts, level=level, max_tokens=max_tokens)

    def summarize(
        self, texts: Sequence[str], *, level: int, max_tokens: int
    ) -> str | Awaitable[str]:
        """Return the summary, or a coroutine that returns it if `is_async` is set."""
        predict = self._llm.apredict if self._is_async else self._llm.predict
        prompt = self.prompt(texts, level=level, max_tokens=max_tokens)
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
    return LLMSummarizer(llm, prompts, is_async=is_async)


def _is_disabled(llm: LLM) -> bool:
    """Return whether this is the model that `Settings.llm = None` stores, which repeats prompts."""
    return type(llm) is MockLLM and llm.max_tokens is None


@dataclass
class Models:
    """The model arguments of an index, resolved lazily: loading and retrieval need no LLM.

    The constructor of `E2GraphRAGIndex` describes the arguments. If the embedder or the extractor
    is None, an existing index uses the one that built it.

    Raises:
        InvalidInputError: If a model has the wrong type.
    """

    llm: LLM | str | None
    embed_model: EmbedModelType | None
    embed_max_tokens: int | None
    extractor: ExtractorType | None
    prompts: Prompts
    counter: TokenCounter
    callback_manager: CallbackManager | None

    def __post_init__(self) -> None:
        self._lock = process_lock()
        self._embedder: tuple[object, Embedder] | None = None
        self._named_embedders: dict[str, Embedder] = {}
        self._language_notices: LanguageNotices | None = None
        if self.llm not in (None, EXTRACTIVE) and not isinstance(self.llm, LLM):
            raise InvalidInputError(
                f"llm is a {type_name(self.llm)}, not a LlamaIndex LLM: pass an object such as "
                f"OpenAILike(...), or {EXTRACTIVE!r} to summarize without an LLM"
            )
        check_protocol("token_counter", self.counter, TokenCounter)
        _check_embed_model(self.embed_model)
        if not isinstance(self.extractor, str | os.PathLike | Mapping | None):
            check_protocol("extractor", self.extractor, EntityExtractor)
        if self.callback_manager is not None:  # LlamaIndex's own indexes pass it on as well
            for model in (self.llm, self.embed_model):
                if isinstance(model, LLM | BaseEmbedding):
                    model.callback_manager = self.callback_manager

    def components(
        self, where: str, manifest: Mapping[str, str], *, is_async: bool = False
    ) -> Components:
        """Return the components, checked against the manifest of the index.

        Args:
            where: Name of the index in error messages.
            manifest: Settings and fingerprints of the index; empty for a new index.
            is_async: Whether summaries are awaited in the caller's event loop.

        Raises:
            SettingsMismatchError: If a component differs from the one that built the index.
        """
        expected = dict(manifest)
        if self.llm is not None:
            # An application may change its LLM; `check_llm` catches a missing one.
            expected.pop("summarizer", None)
        if self._language_notices is None:
            self._language_notices = LanguageNotices(where)
        return Components(
            where,
            expected,
            embedder=self._resolve_embedder(),
            extractor=self.extractor,
            summarizer=summarizer_for(self.llm, self.prompts, self.counter, is_async=is_async),
            token_counter=self.counter,
            embedder_parameter="embed_model",
            language_notices=self._language_notices,
            load_embedder=self._load_embedder,
        )

    def check_llm(self, where: str, manifest: Mapping[str, str]) -> None:
        """Raise if an LLM wrote the summaries of the index and `llm` is None now.

        Raises:
            SettingsMismatchError: If the index needs an LLM or the decision to go on without one.
        """
        summarizer = manifest.get("summarizer", EXTRACTIVE)
        if self.llm is None and not summarizer.startswith(EXTRACTIVE):
            model = summarizer.removeprefix("llama-index:").split(":")[0]
            raise SettingsMismatchError(
                f"{model} wrote the summaries of {where}, but no LLM was passed: pass that model "
                "as llm= (llm=Settings.llm if it is the LLM of the application), or "
                f"llm={EXTRACTIVE!r} to continue without an LLM"
            )

    def embedder_key(self) -> object:
        """Return the object that identifies the embedder; a new object means a new embedder."""
        if self.embed_model is not None:
            return self.embed_model
        if Settings._embed_model is None:  # noqa: SLF001 - the property would look for OpenAI
            return None
        model = Settings.embed_model  # the property attaches the callback manager of Settings
        # `Settings.embed_model = None` stores a one-dimensional mock.
        return None if isinstance(model, MockEmbedding) and model.embed_dim == 1 else model

    def _resolve_embedder(self) -> Embedder | None:
        """Return the embedder that the user passed; None means that of the index."""
        key = self.embedder_key()
        if key is None:
            return None
        with self._lock:
            if self._embedder is None or self._embedder[0] is not key:
                self._embedder = (key, self._create_embedder(key))
            return self._embedder[1]

    def _create_embedder(self, model: Any) -> Embedder:
        if isinstance(model, BaseEmbedding):
            return EmbedModel(model, self.embed_max_tokens)
        if isinstance(model, str):
            return embedder_from_name(model.removeprefix("local:"))
        _check_embed_model(model)
        return model  # type: ignore[no-any-return] # the check says so

    def _load_embedder(self, name: str) -> Embedder:
        """Return an embedder by name, the same one for all components of the index."""
        with self._lock:
            if name not in self._named_embedders:
                self._named_embedders[name] = embedder_from_name(name)
            return self._named_embedders[name]


def _check_embed_model(model: Any) -> None:
    if isinstance(model, type) or not isinstance(model, BaseEmbedding | Embedder | str | None):
        raise InvalidInputError(
            f"embed_model is a {type_name(model)}: pass a LlamaIndex embedding, a model name, "
            "or an object with dimension, max_tokens, embed and embed_query"
        )
