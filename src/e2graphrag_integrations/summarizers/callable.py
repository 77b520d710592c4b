"""Summarizers that wrap a language model, whatever its interface, or another summarizer."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from e2graphrag_integrations.embedders.fingerprints import output_settings, settings_digest
from e2graphrag_integrations.protocols import Summarizer
from e2graphrag_integrations.summarizers.prompts import DefaultPrompts, Prompts

_TRACING_PARAMS = ("ls_model_name", "ls_temperature", "ls_max_tokens")
"""Parameters of LangChain that identify a model. Some, such as ChatOllama, report no others."""


@dataclass(frozen=True, slots=True)
class CallableSummarizer:
    """Summarizes with a model that takes a prompt and returns a text or a message.

    Models of frameworks are recognized by their methods, so that none needs to be imported.

    Attributes:
        llm: A sync or async function; an LLM of LlamaIndex; a model of LangChain, or the result of
            its `.bind()`, `.with_retry()` or `.with_fallbacks()`.
        llm_id: Names the model and its settings, for example `"gpt-4o-mini@0"`. Without it, the
            summaries of a function are cached only within the process.
        prompts: The prompt templates; by default, in Chinese for Chinese texts.
        config: The config of LangChain for every call; None for a model without one.
        is_async: Whether a model of a framework is awaited.
    """

    llm: Any
    llm_id: str | None = None
    prompts: Prompts = field(default_factory=DefaultPrompts)
    config: Any = None
    is_async: bool = False

    @property
    def model(self) -> str:
        """The id, the name of the model, or the name of the function or class."""
        innermost = _innermost(self.llm)
        names = (
            self.llm_id,
            getattr(getattr(innermost, "metadata", None), "model_name", None),  # of LlamaIndex
            _tracing_params(innermost).get("ls_model_name"),
            getattr(innermost, "__name__", None),
        )
        return next((str(name) for name in names if name), type(innermost).__name__)

    @property
    def fingerprint(self) -> str | None:
        """The id or the settings of the model, and the prompts' fingerprint; None without both."""
        name = self.llm_id or _settings_name(self.llm)
        return None if name is None else f"callable:{name}:{self.prompts.fingerprint}"

    def prompt(self, texts: Sequence[str], *, level: int, max_tokens: int) -> str:
        """Return the prompt that `summarize` passes to the model."""
        return self.prompts.render(texts, level=level, max_tokens=max_tokens)

    def summarize(
        self, texts: Sequence[str], *, level: int, max_tokens: int
    ) -> str | Awaitable[str]:
        """Return the model's answer to the prompt, or a coroutine that returns it."""
        answer = self.ask(self.prompt(texts, level=level, max_tokens=max_tokens))
        return _awaited(answer) if inspect.isawaitable(answer) else _text_of(answer)

    def ask(self, prompt: str) -> Any:
        """Call the model."""
        call: Any = call_of(self.llm, is_async=self.is_async)
        return call(prompt) if self.config is None else call(prompt, self.config)


def call_of(llm: Any, *, is_async: bool = False) -> Callable[..., Any] | None:
    """Return the function of a model that takes a prompt; None if it has none."""
    if isinstance(llm, type):
        return None
    for name in ("complete", "invoke"):  # of LlamaIndex and of LangChain
        methods = getattr(llm, name, None), getattr(llm, f"a{name}", None)
        if all(map(callable, methods)):
            return methods[is_async]
    return llm if callable(llm) else None


async def _awaited(answer: Awaitable[Any]) -> Any:
    return _text_of(await answer)


def _text_of(answer: Any) -> Any:
    """Return the text of a message, without the model's reasoning; anything else unchanged."""
    text = getattr(answer, "text", None)
    return answer if text is None else str(text)  # a callable string in langchain-core 1.x


def _layers(llm: Any) -> Iterator[Any]:
    """Yield a model and, before it, the runnables of LangChain that wrap it."""
    layer = llm
    while layer is not None:
        yield layer
        if hasattr(type(layer), "_identifying_params"):  # wrappers forward attributes
            return
        layer = getattr(layer, "bound", None) or getattr(layer, "runnable", None)


def _innermost(llm: Any) -> Any:
    *_, innermost = _layers(llm)
    return innermost


def _settings_name(llm: Any) -> str | None:
    """Return a name for a model and its settings; None for a function or another runnable."""
    *wrappers, model = _layers(llm)
    settings = getattr(model, "_identifying_params", None)  # of LangChain
    if settings is None and callable(getattr(model, "to_dict", None)):  # of LlamaIndex
        settings = model.to_dict()
    if settings is None:
        return None
    bound = [
        output_settings(kwargs) for one in wrappers if (kwargs := getattr(one, "kwargs", None))
    ]
    digest = settings_digest([output_settings(settings) | _tracing_params(model), bound])
    return f"{type(model).__name__}:{digest}"


def _tracing_params(model: Any) -> dict[str, Any]:
    get_params = getattr(model, "_get_ls_params", None)
    params = get_params() if callable(get_params) else {}
    return {name: params[name] for name in _TRACING_PARAMS if params.get(name) is not None}


@dataclass(frozen=True, slots=True)
class NamedSummarizer:
    """Adds a fingerprint to a summarizer that has none.

    Attributes:
        summarizer: The wrapped summarizer.
        llm_id: The user's name for it.
    """

    summarizer: Summarizer
    llm_id: str

    def summarize(
        self, texts: Sequence[str], *, level: int, max_tokens: int
    ) -> str | Awaitable[str]:
        """Return the wrapped summarizer's result."""
        return self.summarizer.summarize(texts, level=level, max_tokens=max_tokens)

    @property
    def model(self) -> str:
        """The user's name for the summarizer."""
        return self.llm_id

    @property
    def uses_llm(self) -> bool:
        """The wrapped summarizer's `uses_llm`; True if it has none."""
        return bool(getattr(self.summarizer, "uses_llm", True))

    @property
    def fingerprint(self) -> str:
        """The id, and the prompts' fingerprint if the wrapped summarizer has prompts."""
        prompts = getattr(self.summarizer, "prompts", None)
        return f"named:{self.llm_id}:{getattr(prompts, 'fingerprint', '')}"
