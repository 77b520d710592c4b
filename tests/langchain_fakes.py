"""Stand-ins for tests of the LangChain face."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field, PrivateAttr

from fakes import STORY

MILL = (
    "Fay built a mill in Bergen. Gus bought flour from Fay. Gus took the flour to Oslo by sea. "
    "Hal burned the mill one winter. Fay forgave Hal in spring. Gus never went back to Bergen."
)


def paged(text: str, source: str, sentences: int = 3, **metadata: Any) -> list[Document]:
    """Return a text as a loader of PDF files would: a document of some sentences for each page."""
    all_sentences = [f"{sentence.strip()}." for sentence in text.split(".") if sentence.strip()]
    return [
        Document(
            id=f"{source}-{page}",
            page_content=" ".join(all_sentences[first : first + sentences]),
            metadata={"source": source, "page": page, **metadata},
        )
        for page, first in enumerate(range(0, len(all_sentences), sentences), 1)
    ]


def two_sources() -> list[Document]:
    """Return three pages of one source by Ann and two of another by Bob."""
    return [
        *paged(STORY, "map.pdf", author="Ann"),
        *paged(MILL, "mill.pdf", author="Bob"),
    ]


def digest(prompt: str) -> str:
    """Return what `Digests` answers."""
    return f"Digest {hashlib.sha256(prompt.encode()).hexdigest()[:12]} of it."


def _result(text: str, **extra: Any) -> ChatResult:
    usage = {"input_tokens": 7, "output_tokens": 5, "total_tokens": 12}
    message = AIMessage(
        text, usage_metadata=usage, response_metadata={"model_name": "fake"}, **extra
    )
    return ChatResult(generations=[ChatGeneration(message=message)])


class Digests(BaseChatModel):
    """A model's words: a digest of the prompt, different for every prompt, the same each time.

    Each call counts 7 tokens in and 5 out, and takes `seconds`; the calls with the numbers in
    `failing` (from 1) raise instead.
    """

    temperature: float = 0.0
    seconds: float = 0.0
    failing: set[int] = Field(default_factory=set)
    prompts: list[str] = Field(default_factory=list)
    stops: list[Any] = Field(default_factory=list)
    async_calls: int = 0
    peak: int = 0
    _running: int = PrivateAttr(default=0)
    _lock: Any = PrivateAttr(default_factory=threading.Lock)

    @property
    def calls(self) -> int:
        return len(self.prompts)

    @property
    def _llm_type(self) -> str:
        return "digests"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"temperature": self.temperature}

    @contextmanager
    def _call(self, messages: list[BaseMessage], stop: Any) -> Iterator[str]:
        prompt = str(messages[-1].content)
        with self._lock:
            self.prompts.append(prompt)
            self.stops.append(stop)
            number = len(self.prompts)
            self._running += 1
            self.peak = max(self.peak, self._running)
        try:
            if number in self.failing:
                raise RuntimeError(f"call {number} failed")  # none that the core tries again
            yield digest(prompt)
        finally:
            with self._lock:
                self._running -= 1

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        with self._call(messages, stop) as answer:
            time.sleep(self.seconds)
            return _result(answer)

    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
        self.async_calls += 1
        with self._call(messages, stop) as answer:
            await asyncio.sleep(self.seconds)
            return _result(answer)


class Lines(BaseChatModel):
    """Answers every call with the same text."""

    text: str

    @property
    def _llm_type(self) -> str:
        return "lines"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        return _result(self.text)


class ToolCaller(BaseChatModel):
    """An agent's model: calls the first tool with `arguments`, then answers with what it gave.

    Without `arguments` the last message becomes the tool's `query`.
    """

    arguments: dict[str, Any] = Field(default_factory=dict)
    tools: list[Any] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "tool-caller"

    def bind_tools(self, tools, **kwargs):
        return self.model_copy(update={"tools": list(tools)})

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        last = messages[-1]
        if isinstance(last, ToolMessage):
            return _result(f"Answer from: {last.content}")
        call = {
            "name": self.tools[0].name,
            "args": self.arguments or {"query": str(last.content)},
            "id": f"call-{len(messages)}",
        }
        return _result("", tool_calls=[call])
