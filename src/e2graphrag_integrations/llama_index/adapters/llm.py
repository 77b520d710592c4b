"""Any LlamaIndex LLM as a summarizer of the core."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from llama_index.core import PromptTemplate, Settings
from llama_index.core.llms import LLM, MockLLM

from e2graphrag_integrations.embedders.fingerprints import output_settings, settings_digest
from e2graphrag_integrations.protocols import Summarizer, TokenCounter
from e2graphrag_integrations.summarizers.callable import Prompts
from e2graphrag_integrations.summarizers.lexrank import ExtractiveSummarizer

_ASIS = PromptTemplate("{text}")


class LLMSummarizer:
    """Summarizes with `llm.predict`, or `llm.apredict`: chat and completion models, with callbacks.

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
        """Class of the model, those of its settings that shape its answers, and the prompts."""
        told = settings_digest(output_settings(self._llm.to_dict()))
        return f"llama-index:{self._llm.class_name()}:{told}:{self._prompts.fingerprint}"

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


def settings_llm() -> LLM | None:
    """Return the LLM that the user put in `Settings`.

    `Settings.llm` is read only where the user has set it: asking for it otherwise makes LlamaIndex
    look for an OpenAI key. Set to None it holds a bare MockLLM, which repeats its prompt: no LLM.
    """
    if Settings._llm is None:  # noqa: SLF001 - the public property has the side effect above
        return None
    given = Settings.llm  # with the callback manager of Settings
    return None if type(given) is MockLLM and given.max_tokens is None else given


def summarizer_for(
    llm: LLM | None, prompts: Prompts, counter: TokenCounter, *, is_async: bool
) -> Summarizer:
    """Return the summarizer of an LLM, or the extractive one."""
    if llm is None:
        return ExtractiveSummarizer(counter=counter)
    return LLMSummarizer(llm, prompts, is_async=is_async)
