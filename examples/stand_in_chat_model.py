"""The chat model of the examples beside this file: yours if one is set up, else a stand-in.

Yours is any server that speaks OpenAI's protocol:
    pip install langchain-openai
    export OPENAI_BASE_URL=http://localhost:8000/v1 OPENAI_API_KEY=... OPENAI_MODEL=...
"""

from __future__ import annotations

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


def answering_model() -> BaseChatModel:
    """Return the chat model that the environment names, else the stand-in."""
    if "OPENAI_MODEL" not in os.environ:
        return QuotingChatModel()
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model=os.environ["OPENAI_MODEL"])


class QuotingChatModel(BaseChatModel):
    """Stands for your model: it understands nothing, but offline it does what yours would do.

    Of passages it quotes the sentence that shares most words with the question, and cites it. With
    tools it calls the first one once. A question that follows others it makes whole by putting them
    before it. Its summaries are the first words of each text.
    """

    @property
    def _llm_type(self) -> str:
        return "stand-in"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        """Return the model with tools to call."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(
        self, messages: list[BaseMessage], *_: Any, tools: Sequence[Any] = (), **__: Any
    ) -> ChatResult:
        asked = [message.text for message in messages if message.type == "human"]
        if tools and messages[-1].type == "human":
            name = tools[0]["function"]["name"]
            call = {"id": f"call-{len(messages)}", "name": name, "args": {"query": " ".join(asked)}}
            answer = AIMessage("", tool_calls=[call])
        else:
            answer = AIMessage(_answer(messages, asked))
        return ChatResult(generations=[ChatGeneration(message=answer)])


def _answer(messages: Sequence[BaseMessage], asked: Sequence[str]) -> str:
    given = [message.text for message in messages if message.type in {"system", "tool"}]
    passages = _PASSAGE.split(given[-1])[1:] if given else []
    if passages:
        return _quote(passages, asked[-1])
    texts, rule, _ = asked[-1].partition("\n\n---\n")
    if rule:  # what to do with the texts stands under it: summarize
        return " ".join(" ".join(text.split()[:20]) for text in texts.split("\n\n"))
    return " ".join(asked)


def _quote(passages: Sequence[str], question: str) -> str:
    best, most = "Nothing was found.", -1
    for label, text in zip(passages[::2], passages[1::2], strict=True):
        for sentence in re.split(r"(?<=[.!?”])\s+", text):
            if sentence.strip() and len(_words(sentence) & _words(question)) > most:
                best = f"{' '.join(sentence.split())} [{label}]"
                most = len(_words(sentence) & _words(question))
    return best


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w+", text.lower()) if len(word) > 4}  # noqa: PLR2004
