"""`RunnableSummarizer`: a LangChain model, or a runnable that wraps one, as a summarizer."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.language_models import BaseLanguageModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import merge_configs

from e2graphrag_integrations.embedders.fingerprints import output_settings, settings_digest
from e2graphrag_integrations.errors import SummaryError
from e2graphrag_integrations.summarizers.prompts import Prompts

_TRACING_PARAMS = ("ls_model_name", "ls_temperature", "ls_max_tokens")
"""Tracing parameters that identify a model. Some models, such as ChatOllama, report no others."""


class RunnableSummarizer:
    """Summarize with `llm.invoke` or `llm.ainvoke`.

    Args:
        llm: A chat or completion model, or the result of its `.bind()`, `.with_retry()` or
            `.with_fallbacks()`.
        prompts: The prompts.
        name: Identifies the model in the summary cache. None derives the name from the model's
            class and settings.
        config: Runnable config for every call, such as callbacks, tags and metadata.
        is_async: Whether `summarize` returns coroutines for the caller to await.
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
        """Return a copy for one build, whose config is merged into the own one."""
        merged = merge_configs(self._config, config)
        return RunnableSummarizer(
            self._llm, self._prompts, self._name, config=merged, is_async=is_async
        )

    @property
    def fingerprint(self) -> str | None:
        """The model's name and the prompts; None for a runnable without a recognizable model."""
        name = self._name or _model_name(self._llm)
        return None if name is None else f"langchain:{name}:{self._prompts.fingerprint}"

    @property
    def model(self) -> str:
        """The user's name for the model, its own name, or the name of its class."""
        model = _wrapped_model(self._llm)
        own_name = None if model is None else _tracing_params(model).get("ls_model_name")
        return self._name or str(own_name or type(model or self._llm).__name__)

    def prompt(self, texts: Sequence[str], *, level: int, max_tokens: int) -> str:
        """Return the prompt that `summarize` sends."""
        return self._prompts.render(texts, level=level, max_tokens=max_tokens)

    def summarize(
        self, texts: Sequence[str], *, level: int, max_tokens: int
    ) -> str | Awaitable[str]:
        """Return the summary, or a coroutine that returns it if `is_async` is set.

        Raises:
            SummaryError: If the runnable does not return text or a message.
        """
        prompt = self.prompt(texts, level=level, max_tokens=max_tokens)
        if self._is_async:
            return self._asummarize(prompt)
        return _response_text(self._llm.invoke(prompt, self._config))

    async def _asummarize(self, prompt: str) -> str:
        return _response_text(await self._llm.ainvoke(prompt, self._config))


def _response_text(response: object) -> str:
    """Return the text of a response, without the model's reasoning."""
    if isinstance(response, str):
        return response
    if isinstance(response, BaseMessage):
        return str(response.text)  # a callable string in langchain-core 1.x
    raise SummaryError(
        f"the llm returned a {type(response).__name__}: pass a model, or a chain that ends with one"
    )


def _model_name(llm: Runnable[Any, Any]) -> str | None:
    """Return a name for a runnable's model and settings, or None if it has no model."""
    model = _wrapped_model(llm)
    if model is None:
        return None
    bound_settings = [
        output_settings(kwargs)
        for runnable in _layers(llm)
        if not isinstance(runnable, BaseLanguageModel)
        and isinstance(kwargs := getattr(runnable, "kwargs", None), Mapping)
        and kwargs
    ]
    settings = output_settings(getattr(model, "_identifying_params", {})) | _tracing_params(model)
    return f"{type(model).__name__}:{settings_digest([settings, bound_settings])}"


def _layers(llm: Runnable[Any, Any]) -> Iterator[Any]:
    """Yield a runnable and the runnables that it wraps, down to the model."""
    layer: Any = llm
    while layer is not None:
        yield layer
        if isinstance(layer, BaseLanguageModel):
            return
        layer = getattr(layer, "bound", None) or getattr(layer, "runnable", None)


def _wrapped_model(llm: Runnable[Any, Any]) -> BaseLanguageModel[Any] | None:
    """Return the model that a runnable wraps, or None if it has none."""
    *_, innermost = _layers(llm)
    return innermost if isinstance(innermost, BaseLanguageModel) else None


def _tracing_params(model: Any) -> dict[str, Any]:
    # Chat and completion models both define this method, but their base class does not.
    get_params = getattr(model, "_get_ls_params", None)
    params = get_params() if callable(get_params) else {}
    return {name: params[name] for name in _TRACING_PARAMS if params.get(name) is not None}
