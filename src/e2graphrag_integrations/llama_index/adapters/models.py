"""The models of an index: the user's, or those in `Settings`, found out when they are needed."""

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
from e2graphrag_integrations.components import Components, embedder_from_name
from e2graphrag_integrations.embedders.sentence_transformers import DEFAULT_MODEL
from e2graphrag_integrations.errors import InvalidInputError, SettingsMismatchError
from e2graphrag_integrations.llama_index.adapters.embedding import EmbedModel
from e2graphrag_integrations.llama_index.adapters.llm import settings_llm, summarizer_for
from e2graphrag_integrations.protocols import Embedder, EntityExtractor, TokenCounter
from e2graphrag_integrations.summarizers.callable import Prompts
from e2graphrag_integrations.summarizers.lexrank import ExtractiveSummarizer
from e2graphrag_integrations.text.tokens import ApproximateTokenCounter

EmbedModelType = BaseEmbedding | Embedder | str
ExtractorType = EntityExtractor | str | os.PathLike[str]

EXTRACTIVE = "extractive"


@dataclass
class Models:
    """What the user gave, resolved late: loading an index and local retrieval need no LLM.

    Args:
        llm: Summarizes; `"extractive"` does without one. None goes on as the index was made; at
            first it takes `Settings.llm` where the user set it, else none.
        embed_model: A LlamaIndex embedding, an embedder of the core, or a sentence-transformers
            name; None takes `Settings.embed_model` where the user set it, else the model that the
            index was made with, at first all-MiniLM-L6-v2.
        embed_max_tokens: Longest text that a LlamaIndex embedding reads, if it does not tell.
        extractor: As the core's.
        prompts: For summaries.
        counter: Measures chunks and prompts.
        callback_manager: Told of every call of the LLM and of LlamaIndex's embedding.

    Raises:
        InvalidInputError: For a part of another kind.
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
                f"llm is a {type_name(self.llm)}, no LlamaIndex LLM: pass an object such as "
                f"OpenAILike(...), or {EXTRACTIVE!r} to summarize without one"
            )
        if self.callback_manager is not None:  # as LlamaIndex's own indexes hand it on
            for model in (self.llm, self.embed_model):
                if isinstance(model, LLM | BaseEmbedding):
                    model.callback_manager = self.callback_manager

    def components(
        self, where: str, manifest: Mapping[str, str], *, is_async: bool = False
    ) -> Components:
        """Return the parts, held to what the index was made with.

        Args:
            where: Names the index in messages.
            manifest: What it was made with, empty for a new one.
            is_async: Whether summaries are awaited in the caller's event loop.

        Raises:
            SettingsMismatchError: For a part that is plainly not the one it was made with.
        """
        held = dict(manifest)
        llm = self._resolved_llm(held)
        if llm is not None or self.llm is not None:
            # Models of applications change; that none is left by mistake is what matters.
            held.pop("summarizer", None)
        return Components(
            where,
            held,
            embedder=self._resolved_embedder(held),
            extractor=self.extractor,
            summarizer=summarizer_for(llm, self.prompts, self.counter, is_async=is_async),
            token_counter=self.counter,
        )

    def check_llm(self, where: str, manifest: Mapping[str, str]) -> None:
        """Refuse to go on without an LLM where an index was made with one.

        Raises:
            SettingsMismatchError: If there is none, and nobody said that none is wanted.
        """
        made = manifest.get("summarizer", "")
        if made.startswith("llama-index:") and self.llm is None and settings_llm() is None:
            model = made.split(":")[1]
            raise SettingsMismatchError(
                f"the summaries of {where} were made by {model}, and there is no LLM now: pass "
                f"llm= or set Settings.llm, or pass llm={EXTRACTIVE!r} to go on without one"
            )

    def _resolved_llm(self, manifest: Mapping[str, str]) -> LLM | None:
        if isinstance(self.llm, LLM):
            return self.llm
        made = manifest.get("summarizer")
        if self.llm == EXTRACTIVE or made == ExtractiveSummarizer(counter=self.counter).fingerprint:
            return None  # the LLM in Settings may be there for the answers alone
        return settings_llm()

    def embedder_key(self) -> object:
        """Return what the embedder is made from; another object means another embedder."""
        return self._given_embedder()

    def _given_embedder(self) -> Any:
        if self.embed_model is not None:
            return self.embed_model
        if LlamaSettings._embed_model is None:  # noqa: SLF001 - the property would look for OpenAI
            return None
        given = LlamaSettings.embed_model  # which has the callbacks of Settings by now
        # A mock of one dimension is what `Settings.embed_model = None` puts there.
        return None if isinstance(given, MockEmbedding) and given.embed_dim == 1 else given

    def _resolved_embedder(self, manifest: Mapping[str, str]) -> Embedder | None:
        given = self._given_embedder()
        if given is None and ("embedder" in manifest and not manifest.get("embedder_model")):
            return None
        with self._lock:
            if self._embedder is None or self._embedder[0] is not given:
                self._embedder = (given, self._made(given, manifest))
            return self._embedder[1]

    def _made(self, given: Any, manifest: Mapping[str, str]) -> Embedder:
        if isinstance(given, BaseEmbedding):
            return EmbedModel(given, self.embed_max_tokens)
        if given is None:
            return embedder_from_name(manifest.get("embedder_model") or DEFAULT_MODEL)
        if isinstance(given, str):
            return embedder_from_name(given.removeprefix("local:"))
        if not isinstance(given, Embedder):
            raise InvalidInputError(
                f"embed_model is a {type_name(given)}, no LlamaIndex embedding, no embedder with "
                "dimension, max_tokens, embed and embed_query, and no model's name"
            )
        return given
