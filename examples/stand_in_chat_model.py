"""The chat model of the LangChain examples: your own if configured, otherwise an offline stand-in.

Any server with an OpenAI-compatible API works:
    pip install langchain-openai
    export OPENAI_BASE_URL=http://localhost:8000/v1 OPENAI_API_KEY=... OPENAI_MODEL=...
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool

_PASSAGE = re.compile(
    r"^\[([\d-]+)\](?: (?:from|summary of) .*, characters \d+-\d+$)?", re.MULTILINE
)


def answering_model(tool: str = "") -> BaseChatModel:
    """Return the chat model configured in the environment, or the stand-in.

    Args:
        tool: The tool that the stand-in calls; empty means the first one.
    """
    if "OPENAI_MODEL" not in os.environ:
        return QuotingChatModel(called=tool)
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model=os.environ["OPENAI_MODEL"])


class QuotingChatModel(BaseChatModel):
    """A stand-in for your model: quotes the sentence that shares most words with the question.

    With tools, it calls `called`, or the first one, once. It rewrites a follow-up question by
    prefixing the previous questions. Its summaries are the first words of each text.
    """

    called: str = ""

    @property
    def _llm_type(self) -> str:
        return "stand-in"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        """Return the model with tools to call."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(
        self, messages: list[BaseMessage], *_: Any, tools: Sequence[Any] = (), **__: Any
    ) -> ChatResult:
        questions = [message.text for message in messages if message.type == "human"]
        if tools and messages[-1].type == "human":
            functions = [tool["function"] for tool in tools]
            tool = next((one for one in functions if one["name"] == self.called), functions[0])
            [argument, *_] = tool["parameters"]["properties"]
            call = {
                "id": f"call-{len(messages)}",
                "name": tool["name"],
                "args": {argument: " ".join(questions)},
            }
            answer = AIMessage("", tool_calls=[call])
        else:
            answer = AIMessage(_answer(messages, questions))
        return ChatResult(generations=[ChatGeneration(message=answer)])


def _answer(messages: Sequence[BaseMessage], questions: Sequence[str]) -> str:
    contexts = [message.text for message in messages if message.type in {"system", "tool"}]
    passages = _passages(contexts[-1]) if contexts else []
    if passages:
        return _quote(passages, questions[-1])
    texts, separator, _ = questions[-1].partition("\n\n---\n")
    if separator:  # a summary prompt, with its instructions under the separator
        return " ".join(" ".join(text.split()[:20]) for text in texts.split("\n\n"))
    return " ".join(questions)


def _passages(context: str) -> list[str]:
    """Return the labels and the texts of passages, from numbered texts or the JSON of a tool."""
    if not context.startswith("{"):
        return _PASSAGE.split(context)[1:]
    hits = json.loads(context).get("hits", [])
    return [part for number, hit in enumerate(hits, 1) for part in (str(number), hit["text"])]


def _quote(passages: Sequence[str], question: str) -> str:
    best, most_shared = "Nothing was found.", -1
    for label, text in zip(passages[::2], passages[1::2], strict=True):
        for sentence in re.split(r"(?<=[.!?”])\s+|(?<=。)", text):
            shared = len(_long_words(sentence) & _long_words(question))
            if sentence.strip() and shared > most_shared:
                best, most_shared = f"{' '.join(sentence.split())} [{label}]", shared
    return best


def _long_words(text: str) -> set[str]:
    """Return the long words of a text, which skips most function words, and Chinese bigrams."""
    return {*re.findall(r"\w{5,}", text.lower()), *re.findall(r"(?=([一-鿿]{2}))", text)}
