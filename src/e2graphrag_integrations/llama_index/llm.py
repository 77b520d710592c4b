"""Any LlamaIndex LLM as a summariser of the core."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Sequence

from llama_index.core import PromptTemplate, Settings
from llama_index.core.llms import LLM

from e2graphrag_integrations.extractive import ExtractiveSummarizer
from e2graphrag_integrations.protocols import Summarizer, TokenCounter
from e2graphrag_integrations.summarizers import Prompts

_ASIS = PromptTemplate("{text}")
_SECRET = ("key", "token", "secret", "password", "credential")


class LLMSummarizer:
    """Summarises with `llm.predict`, or `llm.apredict`: chat and completion models, with callbacks.

    Args:
        llm: The model.
        prompts: The prompts.
        is_async: Whether `summarize` gives coroutines, for a caller that has a loop.
    """

    def __init__(self, llm: LLM, prompts: Prompts, *, is_async: bool = False) -> None:
        self._llm = llm
        self._prompts = prompts
        self._is_async = is_async

    @property
    def fingerprint(self) -> str:
        """Class and settings of the model without its secrets, and the prompts."""
        settings = {
            name: value
            for name, value in self._llm.to_dict().items()
            if not any(word in name.lower() for word in _SECRET)
        }
        text = json.dumps(settings, sort_keys=True, default=str)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return f"llama-index:{self._llm.class_name()}:{digest}:{self._prompts.fingerprint}"

    def prompt(self, texts: Sequence[str], *, level: int, max_tokens: int) -> str:
        """Return the prompt that `summarize` sends."""
        return self._prompts.render(texts, level=level, max_tokens=max_tokens)

    def summarize(
        self, texts: Sequence[str], *, level: int, max_tokens: int
    ) -> str | Awaitable[str]:
        """Return the model's answer, or its coroutine."""
        prompt = self.prompt(texts, level=level, max_tokens=max_tokens)
        if self._is_async:
            return self._llm.apredict(_ASIS, text=prompt)
        return self._llm.predict(_ASIS, text=prompt)


def summarizer_for(
    llm: LLM | None, prompts: Prompts, counter: TokenCounter, *, is_async: bool
) -> Summarizer:
    """Return the summariser of an LLM, of the one the user put in `Settings`, or the extractive.

    `Settings.llm` is read only where the user has set it: asking for it otherwise makes LlamaIndex
    look for an OpenAI key.
    """
    chosen = llm or Settings._llm  # noqa: SLF001 - the public property has the side effect above
    if chosen is None:
        return ExtractiveSummarizer(counter=counter)
    return LLMSummarizer(chosen, prompts, is_async=is_async)
