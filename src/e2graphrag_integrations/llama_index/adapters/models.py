"""The models of an index: the user's arguments or those of `Settings`, resolved at first use."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from llama_index.core import Settings as LlamaSettings
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.callbacks import CallbackManager
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import LLM

from e2graphrag_integrations._utils.validation import type_name
from e2graphrag_integrations.components import Components, RequestedComponents, embedder_from_name
from e2graphrag_integrations.embedders.sentence_transformers import DEFAULT_MODEL
from e2graphrag_integrations.errors import InvalidInputError, SettingsMismatchError
from e2graphrag_integrations.llama_index.adapters.embedding import EmbedModel
from e2graphrag_integrations.llama_index.adapters.llm import settings_llm, summarizer_for
from e2graphrag_integrations.protocols import Embedder, EntityExtractor, TokenCounter
from e2graphrag_integrations.summarizers.lexrank import ExtractiveSummarizer
from e2graphrag_integrations.summarizers.prompts import Prompts
from e2graphrag_integrations.text.tokens import ApproximateTokenCounter

EmbedModelType = BaseEmbedding | Embedder | str
ExtractorType = EntityExtractor | str | os.PathLike[str]

EXTRACTIVE = "extractive"
"""Value of `llm` that summarizes without an LLM."""


@dataclass
class Models:
    """The model arguments of an index, resolved late: loading and local retrieval need no LLM.

    Args:
        llm: Writes the summaries; `"extractive"` summarizes without an LLM. None continues as the
            index was built; a new index uses `Settings.llm` if the user assigned one, else no LLM.
        embed_model: A LlamaIndex embedding, an embedder of the core, or a sentence-transformers
            name. None uses `Settings.embed_model` if the user assigned one, else the model that
            built the index; a new index uses all-MiniLM-L6-v2.
        embed_max_tokens: Maximum tokens per text for a LlamaIndex embedding without `max_length`.
        extractor: An `EntityExtractor`, or the name or path of a spaCy pipeline.
        prompts: The prompts for summaries.
        counter: Measures chunks and prompts.
        callback_manager: Receives every call of the LLM and of a LlamaIndex embedding.

    Raises:
        InvalidInputError: If a model has the wrong type.
    """

    llm: LLM | str | None = None
    embed_model: EmbedModelType | None = None
    embed_max_tokens: int | None = None
    extractor: ExtractorType | None = None
    prompts: Prompts = field(default_factory=Prompts)
    counter: TokenCounter = field(default_factory=ApproximateTokenCounter)
    callback_manager: CallbackManager | None = None

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._embedder: tuple[object, Embedder] | None = None
        if self.llm not in (None, EXTRACTIVE) and not isinstance(self.llm, LLM):
            raise InvalidInputError(
                f"llm is a {type_name(self.llm)}, not a LlamaIndex LLM: pass an object such as "
                f"OpenAILike(...), or {EXTRACTIVE!r} to summarize without an LLM"
            )
        if self.callback_manager is not None:  # LlamaIndex's own indexes pass it on as well
            for model in (self.llm, self.embed_model):
                if isinstance(model, LLM | BaseEmbedding):
                    model.callback_manager = self.callback_manager

    def components(
        self, where: str, manifest: Mapping[str, str], *, is_async: bool = False
    ) -> Components:
        """Return the components, checked against the manifest of the index.

        Args:
            where: Name of the index, for messages.
            manifest: Settings and fingerprints of the index; empty for a new index.
            is_async: Whether summaries are awaited in the caller's event loop.

        Raises:
            SettingsMismatchError: If a component differs from the one that built the index.
        """
        expected = dict(manifest)
        llm = self._resolve_llm(expected)
        if llm is not None or self.llm is not None:
            # An application may change its LLM; `check_llm` catches a missing one.
            expected.pop("summarizer", None)
        requested = RequestedComponents(
            embedder=self._resolve_embedder(expected),
            extractor=self.extractor,
            summarizer=summarizer_for(llm, self.prompts, self.counter, is_async=is_async),
            token_counter=self.counter,
        )
        return Components(where, expected, requested)

    def check_llm(self, where: str, manifest: Mapping[str, str]) -> None:
        """Raise if an LLM built the index and none is configured now.

        Raises:
            SettingsMismatchError: If there is no LLM, and `llm` is not `"extractive"`.
        """
        summarizer = manifest.get("summarizer", "")
        if summarizer.startswith("llama-index:") and self.llm is None and settings_llm() is None:
            model = summarizer.split(":")[1]
            raise SettingsMismatchError(
                f"{model} wrote the summaries of {where}, but no LLM is configured: pass llm= or "
                f"set Settings.llm, or pass llm={EXTRACTIVE!r} to continue without an LLM"
            )

    def _resolve_llm(self, manifest: Mapping[str, str]) -> LLM | None:
        if isinstance(self.llm, LLM):
            return self.llm
        extractive = ExtractiveSummarizer(counter=self.counter).fingerprint
        if self.llm == EXTRACTIVE or manifest.get("summarizer") == extractive:
            return None  # the LLM of Settings may be meant for the answers only
        return settings_llm()

    def embedder_key(self) -> object:
        """Return the object that identifies the embedder; another object means another embedder."""
        if self.embed_model is not None:
            return self.embed_model
        if LlamaSettings._embed_model is None:  # noqa: SLF001 - the property would look for OpenAI
            return None
        model = LlamaSettings.embed_model  # the property attaches the callback manager of Settings
        # `Settings.embed_model = None` stores a mock with one dimension.
        return None if isinstance(model, MockEmbedding) and model.embed_dim == 1 else model

    def _resolve_embedder(self, manifest: Mapping[str, str]) -> Embedder | None:
        key = self.embedder_key()
        if key is None and "embedder" in manifest and not manifest.get("embedder_model"):
            return None
        with self._lock:
            if self._embedder is None or self._embedder[0] is not key:
                self._embedder = (key, self._create_embedder(key, manifest))
            return self._embedder[1]

    def _create_embedder(self, model: Any, manifest: Mapping[str, str]) -> Embedder:
        if isinstance(model, BaseEmbedding):
            return EmbedModel(model, self.embed_max_tokens)
        if model is None:
            return embedder_from_name(manifest.get("embedder_model") or DEFAULT_MODEL)
        if isinstance(model, str):
            return embedder_from_name(model.removeprefix("local:"))
        if not isinstance(model, Embedder):
            raise InvalidInputError(
                f"embed_model is a {type_name(model)}: pass a LlamaIndex embedding, a model name, "
                "or an object with dimension, max_tokens, embed and embed_query"
            )
        return model
