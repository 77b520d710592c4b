"""The LLM of the LlamaIndex examples: your own if configured, otherwise an offline stand-in.

Any server with an OpenAI-compatible API works:
    pip install llama-index-llms-openai-like
    export OPENAI_BASE_URL=http://localhost:8000/v1 OPENAI_API_KEY=... OPENAI_MODEL=...
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

from llama_index.core.llms import (
    LLM,
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    CompletionResponseGen,
    CustomLLM,
    LLMMetadata,
)
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.llms.llm import ToolSelection


def answering_llm() -> LLM:
    """Return the LLM configured in the environment, or the stand-in."""
    if "OPENAI_MODEL" not in os.environ:
        return QuotingLLM()
    from llama_index.llms.openai_like import OpenAILike

    return OpenAILike(
        model=os.environ["OPENAI_MODEL"],
        api_base=os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1"),
        api_key=os.environ.get("OPENAI_API_KEY", "none"),
        is_chat_model=True,
        is_function_calling_model=True,
    )


class QuotingLLM(CustomLLM):
    """A stand-in for your model: quotes the sentence that shares most words with the question.

    In an agent it calls the first tool with the user's messages. Then it repeats the result, or
    quotes a sentence of it if the result is JSON with passages.
    """

    @property
    def metadata(self) -> LLMMetadata:
        """Return metadata that marks the model as able to call tools."""
        return LLMMetadata(model_name="stand-in", is_function_calling_model=True)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:  # noqa: ARG002
        """Answer a query engine's prompt: passages between lines of dashes, then the question."""
        *_, passages, question = ["", *re.split(r"\n-{6,}\n", prompt)]
        question_words = _words(question)
        best, most, source = "Nothing was found.", -1, ""
        for part in re.split(r"(?<=[.!?”])\s+|(?<=。)|(Source \d+):", passages):
            if part and part.startswith("Source "):
                source = f" [{part.split()[1]}]"
            elif part and len(_words(part) & question_words) > most:
                best, most = " ".join(part.split()) + source, len(_words(part) & question_words)
        return CompletionResponse(text=best)

    @llm_completion_callback()
    def stream_complete(
        self, prompt: str, formatted: bool = False, **_: Any
    ) -> CompletionResponseGen:
        """Yield the answer as a single chunk."""
        text = self.complete(prompt, formatted).text
        yield CompletionResponse(text=text, delta=text)

    async def astream_chat_with_tools(
        self, tools: Sequence[Any], chat_history: Sequence[ChatMessage], **_: Any
    ) -> AsyncIterator[ChatResponse]:
        """Call the first tool, or answer from its result."""
        asked = [one.content or "" for one in chat_history if one.role == "user"]
        if chat_history[-1].role == "tool":
            text = _from_result(chat_history[-1].content or "", asked[-1])
            message = ChatMessage(role="assistant", content=text)
        else:
            tool = tools[0].metadata
            [argument, *_] = tool.get_parameters_dict()["properties"]
            call = {"name": tool.name, "arguments": {argument: " ".join(asked)}}
            message = ChatMessage(role="assistant", content="", additional_kwargs={"call": call})

        async def single_response() -> AsyncIterator[ChatResponse]:
            yield ChatResponse(message=message, delta=message.content)

        return single_response()

    def get_tool_calls_from_response(self, response: ChatResponse, **_: Any) -> list[ToolSelection]:
        """Return the tool call in a response, if any."""
        call = response.message.additional_kwargs.get("call")
        if call is None:
            return []
        return [ToolSelection(tool_id="1", tool_name=call["name"], tool_kwargs=call["arguments"])]


def _from_result(result: str, question: str) -> str:
    """Return the result of a tool, or the best sentence of its passages and where it is from."""
    if not result.startswith('{"hits":'):
        return result
    question_words = _words(question)
    sentences = [
        (" ".join(sentence.split()), hit)
        for hit in json.loads(result)["hits"]
        for sentence in re.split(r"(?<=[.!?”])\s+", hit["text"])
    ]
    best, hit = max(sentences, key=lambda one: len(_words(one[0]) & question_words))
    [[start, end], *_] = hit["spans"]
    return f"{best} [{hit['document_id']}, characters {start}-{end}]"


def _words(text: str) -> set[str]:
    """Return the long words of a text, which skips most function words, and Chinese bigrams."""
    words = {word for word in re.findall(r"\w+", text.lower()) if len(word) > 3}  # noqa: PLR2004
    return words | set(re.findall(r"(?=([一-鿿]{2}))", text))
