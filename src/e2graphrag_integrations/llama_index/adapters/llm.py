"""`LLMSummarizer`: a LlamaIndex LLM as a summarizer of the core."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from llama_index.core import PromptTemplate, Settings
from llama_index.core.llms import LLM, MockLLM

from e2graphrag_integrations.embedders.fingerprints import output_settings, settings_digest
from e2graphrag_integrations.protocols import Summarizer, TokenCounter
from e2graphrag_integrations.summarizers.lexrank import ExtractiveSummarizer
from e2graphrag_integrations.summarizers.prompts import Prompts

_PLAIN_TEMPLATE = PromptTemplate("{text}")
"""Sends the rendered prompt unchanged."""


class LLMSummarizer:
    """Summarize with `llm.predict` or `llm.apredict`: any chat or completion model.

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

    def prompt(self, texts: Sequence[str], *, level: int, max_tokens: int) -> str:
        """Return the prompt that `summarize` sends."""
        return self._prompts.render(texts, level=level, max_tokens=max_tokens)

    def summarize(
        self, texts: Sequence[str], *, level: int, max_tokens: int
    ) -> str | Awaitable[str]:
        """Return the summary, or a coroutine for it if `is_async` is set."""
        prompt = self.prompt(texts, level=level, max_tokens=max_tokens)
        if self._is_async:
            return self._llm.apredict(_PLAIN_TEMPLATE, text=prompt)
        return self._llm.predict(_PLAIN_TEMPLATE, text=prompt)


def settings_llm() -> LLM | None:
    """Return the LLM that the user assigned to `Settings.llm`, or None.

    Reading the property while it is unset makes LlamaIndex look for an OpenAI key, so this function
    checks first. `Settings.llm = None` stores a bare MockLLM, which repeats its prompt: it counts
    as no LLM.
    """
    if Settings._llm is None:  # noqa: SLF001 - the public property has the side effect above
        return None
    llm = Settings.llm  # the property attaches the callback manager of Settings
    return None if type(llm) is MockLLM and llm.max_tokens is None else llm


def summarizer_for(
    llm: LLM | None, prompts: Prompts, counter: TokenCounter, *, is_async: bool
) -> Summarizer:
    """Return a summarizer that calls the LLM, or an extractive one if `llm` is None."""
    if llm is None:
        return ExtractiveSummarizer(counter=counter)
    return LLMSummarizer(llm, prompts, is_async=is_async)
