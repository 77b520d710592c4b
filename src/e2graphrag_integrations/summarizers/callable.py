"""Summarizers that wrap a plain function or another summarizer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from e2graphrag_integrations.protocols import Summarizer
from e2graphrag_integrations.summarizers.prompts import DefaultPrompts, Prompts

TextFunction = Callable[[str], "str | Awaitable[str]"]


@dataclass(frozen=True, slots=True)
class CallableSummarizer:
    """Summarizes with a sync or async function that takes a prompt and returns a summary.

    Attributes:
        function: Called with the prompt.
        llm_id: Names the model and its settings, for example `"gpt-4o-mini@0"`. With an id,
            summaries are cached across runs; without an id, only within the process.
        prompts: The prompt templates; by default, in Chinese for Chinese texts.
    """

    function: TextFunction
    llm_id: str | None = None
    prompts: Prompts = field(default_factory=DefaultPrompts)

    @property
    def model(self) -> str:
        """The id, or else the name of the function."""
        own_name = getattr(self.function, "__name__", type(self.function).__name__)
        return self.llm_id or str(own_name)

    def prompt(self, texts: Sequence[str], *, level: int, max_tokens: int) -> str:
        """Return the prompt that `summarize` passes to the function."""
        return self.prompts.render(texts, level=level, max_tokens=max_tokens)

    def summarize(
        self, texts: Sequence[str], *, level: int, max_tokens: int
    ) -> str | Awaitable[str]:
        """Return the function's result for the prompt."""
        return self.function(self.prompt(texts, level=level, max_tokens=max_tokens))

    @property
    def fingerprint(self) -> str | None:
        """The id and the prompts' fingerprint; None without an id."""
        if self.llm_id is None:
            return None
        return f"callable:{self.llm_id}:{self.prompts.fingerprint}"


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
