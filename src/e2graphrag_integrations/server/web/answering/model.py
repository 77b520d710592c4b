"""Calls of the model: the answer in parts, and failures that a reader understands."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from e2graphrag_integrations._utils.failures import redact, secrets_of
from e2graphrag_integrations.errors import MissingDependencyError
from e2graphrag_integrations.server.web.answering.options import AnswerOptions
from e2graphrag_integrations.server.web.answering.prompt import Prompt
from e2graphrag_integrations.server.web.problems import ErrorDetails, code_of
from e2graphrag_integrations.summarizers.openai_clients import OpenAIClients
from e2graphrag_integrations.text.tokens import ApproximateTokenCounter

logger = logging.getLogger(__name__)

_CHARACTERS_PER_TOKEN = 16
"""A longer answer is cut: a server may ignore the maximum number of tokens."""

_STATUSES = {
    400: ("ModelRequestError", "it refuses the request: the prompt may be too long for the model"),
    401: ("ModelAccessError", "it refuses the key of this server"),
    402: ("ModelQuotaError", "the account of this server has no credit left"),
    403: ("ModelAccessError", "it refuses the key of this server"),
    404: ("ModelUnknownError", "it does not know the model"),
    408: ("ModelTimeoutError", "it took too long: try again"),
    413: ("ModelRequestError", "the prompt is too long for it"),
    422: ("ModelRequestError", "it refuses the request: the prompt may be too long for the model"),
    429: ("ModelBusyError", "it has too many requests, or a quota is used up: try again later"),
}
_KINDS = (
    ({"TimeoutError", "APITimeoutError", "TimeoutException"}, "ModelTimeoutError"),
    ({"APIConnectionError", "TransportError", "ConnectionError"}, "ModelConnectionError"),
)
_MESSAGES = {
    "ModelTimeoutError": "there was no complete answer in time: try again, or with fewer hits",
    "ModelConnectionError": "it cannot be reached, or closed the connection: try again later",
    "ModelServerError": "it failed: try again later",
    "ModelAnswerError": "it sent something that cannot be read",
    "EmptyAnswerError": "it wrote nothing: try again, or with another question",
}


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of an answer.

    Attributes:
        is_estimated: Whether the model server did not count them.
    """

    prompt_tokens: int
    completion_tokens: int
    is_estimated: bool


@dataclass(frozen=True, slots=True)
class Ending:
    """How an answer ended.

    Attributes:
        finish: `complete`; `length` if it was cut at the maximum number of tokens; or `filtered`.
    """

    finish: str
    usage: Usage


class ModelError(Exception):
    """Raised if the model gives no answer; the message contains nothing that the server sent.

    Args:
        kind: The type of the error for the client.
        reason: What went wrong.
    """

    def __init__(self, kind: str, reason: str = "") -> None:
        message = f"the model server gave no answer: {reason or _MESSAGES[kind]}"
        super().__init__(message)
        self.details = ErrorDetails(kind, message, "model" if reason else code_of(kind))


class Model:
    """The model of a server, for one event loop.

    Args:
        options: The model and its limits.
    """

    def __init__(self, options: AnswerOptions) -> None:
        self.options = options
        self._clients = OpenAIClients(
            "the model for answers",
            base_url=options.base_url,
            api_key=options.api_key,
            timeout=options.seconds,
        )

    async def answer(self, prompt: Prompt, send: Callable[[str], Awaitable[None]]) -> Ending:
        """Send the parts of an answer, and return how it ended.

        If the caller is cancelled, the request to the model ends.

        Raises:
            ModelError: If the model gives no complete answer.
        """
        try:
            async with asyncio.timeout(self.options.seconds):
                return await self._answer(prompt, send)
        except ModelError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the client raises
            raise self._explained(error) from None

    async def _answer(self, prompt: Prompt, send: Callable[[str], Awaitable[None]]) -> Ending:
        options = self.options
        fields = {
            "max_tokens": options.max_tokens,
            "temperature": 0,
            "stream_options": {"include_usage": True},
            **options.request,
        }
        client = await asyncio.to_thread(self._clients.asynchronous)  # its import takes a while
        stream = await client.chat.completions.create(
            model=options.model,
            messages=[dict(one) for one in prompt.messages],
            stream=True,
            **{name: value for name, value in fields.items() if value is not None},
        )
        written: list[str] = []
        left, finish, usage = options.max_tokens * _CHARACTERS_PER_TOKEN, "", None
        async with stream:
            async for chunk in stream:
                usage = getattr(chunk, "usage", None) or usage
                for choice in chunk.choices[:1]:
                    text = (choice.delta.content or "")[:left]
                    finish = choice.finish_reason or finish
                    left -= len(text)
                    if text:
                        written.append(text)
                        await send(text)
                if left <= 0:
                    finish = "length"
                    break
        answer = "".join(written)
        if not answer.strip():
            raise ModelError("EmptyAnswerError")
        if not finish:
            raise ModelError("ModelConnectionError")
        return Ending(_finish(finish), _usage(usage, prompt, answer))

    async def close(self) -> None:
        """Close the connections."""
        await self._clients.aclose()

    def _explained(self, error: Exception) -> ModelError:
        """Return what a client may know of an error. The log gets the message without the key."""
        names = {one.__name__ for one in type(error).__mro__}
        status = getattr(error, "status_code", None)
        logger.warning(
            "an answer failed: %s: %s",
            type(error).__name__,
            redact(str(error), secrets_of((self.options, self._clients))),
        )
        if isinstance(error, MissingDependencyError):
            return ModelError("MissingDependencyError", "this server lacks the package openai")
        if isinstance(status, int):
            return ModelError(*_STATUSES.get(status, ("ModelServerError", "")))
        for wanted, kind in _KINDS:
            if names & wanted:
                return ModelError(kind)
        if "APIError" in names:
            return ModelError("ModelServerError")
        if "OpenAIError" in names:  # the client could not be made
            return ModelError("ModelAccessError", "this server has no key for it")
        return ModelError("ModelAnswerError")


def _finish(reason: str) -> str:
    return {"length": "length", "content_filter": "filtered"}.get(reason, "complete")


def _usage(given: Any, prompt: Prompt, answer: str) -> Usage:
    read, written = (getattr(given, name, None) for name in ("prompt_tokens", "completion_tokens"))
    if isinstance(read, int) and isinstance(written, int) and min(read, written) >= 0:
        return Usage(read, written, is_estimated=False)
    return Usage(prompt.tokens, ApproximateTokenCounter().count(answer), is_estimated=True)
