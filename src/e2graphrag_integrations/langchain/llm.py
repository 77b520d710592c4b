"""Any LangChain model, or runnable around one, as a summarizer of the core."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from langchain_core.language_models import BaseLanguageModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig

from e2graphrag_integrations.embedders.fingerprints import output_settings, settings_digest
from e2graphrag_integrations.errors import SummaryError
from e2graphrag_integrations.summarizers.prompts import Prompts

_TRACED = ("ls_model_name", "ls_temperature", "ls_max_tokens")
"""What every model tells tracers; `_identifying_params` of some (ChatOllama) are empty."""


class RunnableSummarizer:
    """Summarizes with `llm.invoke`, or `llm.ainvoke`: chat models, plain ones, and what wraps them.

    Args:
        llm: A model, also `.bind()`, `.with_retry()` or `.with_fallbacks()` of one.
        prompts: The prompts.
        name: Tells the model from others in the cache; None makes a name of its class and settings,
            where it has any.
        config: Passed along with every call: callbacks, tags, metadata.
        is_async: Whether `summarize` returns coroutines.
    """

    def __init__(
        self,
        llm: Runnable[Any, Any],
        prompts: Prompts,
        name: str | None = None,
        *,
        config: RunnableConfig | None = None,
        is_async: bool = False,
    ) -> None:
        self._llm = llm
        self._prompts = prompts
        self._name = name
        self._config = config
        self._is_async = is_async

    def for_run(self, config: RunnableConfig | None, *, is_async: bool) -> RunnableSummarizer:
        """Return a copy for one run.

        Args:
            config: Passed along with every call: callbacks, tags, metadata.
            is_async: Whether `summarize` returns coroutines.
        """
        return RunnableSummarizer(
            self._llm, self._prompts, self._name, config=config, is_async=is_async
        )

    @property
    def fingerprint(self) -> str | None:
        """Name of model and prompts; None for a runnable that tells nothing of itself."""
        name = self._name or _model_name(self._llm)
        return None if name is None else f"langchain:{name}:{self._prompts.fingerprint}"

    def prompt(self, texts: Sequence[str], *, level: int, max_tokens: int) -> str:
        """Return the prompt that `summarize` sends."""
        return self._prompts.render(texts, level=level, max_tokens=max_tokens)

    def summarize(
        self, texts: Sequence[str], *, level: int, max_tokens: int
    ) -> str | Awaitable[str]:
        """Return the model's answer, or its coroutine."""
        prompt = self.prompt(texts, level=level, max_tokens=max_tokens)
        if self._is_async:
            return self._asummarize(prompt)
        return text_of(self._llm.invoke(prompt, self._config))

    async def _asummarize(self, prompt: str) -> str:
        return text_of(await self._llm.ainvoke(prompt, self._config))


def text_of(answer: object) -> str:
    """Return the text of what a model answered, without its reasoning.

    Raises:
        SummaryError: If it is neither text nor a message.
    """
    if isinstance(answer, str):
        return answer
    if isinstance(answer, BaseMessage):
        # A method with core before 1.0, a string that can be called since.
        return str(answer.text)
    raise SummaryError(
        f"the llm answered with a {type(answer).__name__}: pass a model, or a chain that ends in "
        "one"
    )


def _model_name(llm: Runnable[Any, Any]) -> str | None:
    inner: Any = llm
    bound: list[dict[str, Any]] = []
    while not isinstance(inner, BaseLanguageModel):
        kwargs = getattr(inner, "kwargs", None)
        if isinstance(kwargs, Mapping) and kwargs:
            bound.append(output_settings(kwargs))
        inner = getattr(inner, "bound", None) or getattr(inner, "runnable", None)
        if inner is None:
            return None
    settings = output_settings(getattr(inner, "_identifying_params", {})) | _traced(inner)
    return f"{type(inner).__name__}:{settings_digest([settings, bound])}"


def _traced(llm: Any) -> dict[str, Any]:
    of = getattr(llm, "_get_ls_params", None)  # chat models and plain ones have it, no common base
    told = of() if callable(of) else {}
    return {name: told[name] for name in _TRACED if told.get(name) is not None}
