"""Test doubles and helpers for the LangChain tests."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from typing import Any

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field, PrivateAttr

from e2graphrag_integrations.langchain import E2GraphRAGIndex
from fakes import STORY, NameExtractor

SMALL: dict[str, Any] = {
    "embeddings": "hashing",
    "extractor": NameExtractor(),
    "chunk_size": 16,
    "chunk_overlap": 4,
    "group_size": 3,
}
"""Options for offline models and small chunks."""

MILL = (
    "Fay built a mill in Bergen. Gus bought flour from Fay. Gus took the flour to Oslo by sea. "
    "Hal burned the mill one winter. Fay forgave Hal in spring. Gus never went back to Bergen."
)


def split_into_pages(text: str, source: str, sentences: int = 3, **metadata: Any) -> list[Document]:
    """Return a document for every few sentences, like a PDF loader does for every page."""
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
        *split_into_pages(STORY, "map.pdf", author="Ann"),
        *split_into_pages(MILL, "mill.pdf", author="Bob"),
    ]


def tree_ids(index: E2GraphRAGIndex, source: str) -> list[str]:
    """Return the ids of the trees of a source; each has a mark of its metadata or id."""
    return [id_ for id_ in index.corpus.rag.document_ids if id_.split(" #")[0] == source]


def tree_text(index: E2GraphRAGIndex, source: str) -> str:
    """Return the text of the only tree of a source."""
    [tree] = tree_ids(index, source)
    return index.corpus.rag.document(tree).text


def exported(index: E2GraphRAGIndex) -> list[str]:
    """Return the canonical lines of an index; equal indexes have equal lines."""
    return list(index.corpus.rag.export())


def digest(prompt: str) -> str:
    """Return the response of `DigestChatModel` to a prompt."""
    return f"Digest {hashlib.sha256(prompt.encode()).hexdigest()[:12]} of it."


def _result(text: str, **fields: Any) -> ChatResult:
    usage = {"input_tokens": 7, "output_tokens": 5, "total_tokens": 12}
    message = AIMessage(
        text, usage_metadata=usage, response_metadata={"model_name": "fake"}, **fields
    )
    return ChatResult(generations=[ChatGeneration(message=message)])


class DigestChatModel(BaseChatModel):
    """Answers every prompt with its digest.

    Each call counts 7 input and 5 output tokens, and takes `seconds`. The calls whose numbers are
    in `failing` (from 1) raise instead.
    """

    temperature: float = 0.0
    seconds: float = 0.0
    failing: set[int] = Field(default_factory=set)
    prompts: list[str] = Field(default_factory=list)
    stops: list[Any] = Field(default_factory=list)
    async_calls: int = 0
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

    def _answer(self, messages: list[BaseMessage], stop: Any) -> str:
        prompt = str(messages[-1].content)
        with self._lock:
            self.prompts.append(prompt)
            self.stops.append(stop)
            number = len(self.prompts)
        if number in self.failing:
            raise RuntimeError(f"call {number} failed")  # not an error that is retried
        return digest(prompt)

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        answer = self._answer(messages, stop)
        time.sleep(self.seconds)
        return _result(answer)

    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
        self.async_calls += 1
        answer = self._answer(messages, stop)
        await asyncio.sleep(self.seconds)
        return _result(answer)


class FixedChatModel(BaseChatModel):
    """Answers every prompt with the same text."""

    text: str

    @property
    def _llm_type(self) -> str:
        return "fixed"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        return _result(self.text)


class ToolCallingModel(BaseChatModel):
    """Calls the first tool with `arguments`, then quotes the tool's message.

    Without `arguments`, the last message is the tool's `query`.
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
