"""The model that answers, on any server with OpenAI's API, with its answers cached on disk."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from openai import APIConnectionError, BadRequestError, OpenAI, OpenAIError

from e2graphrag_integrations._utils.failures import redact
from quality_bench.caches import DiskCache

KEY = "OPENAI_API_KEY"
"""The environment variable with the key of the server."""

_NO_KEY = "none"
"""Sent where the variable is not set: local servers accept any key."""

_THOUGHTS = re.compile(r"<think>.*?(?:</think>|$)", re.DOTALL)
"""What a reasoning model thinks before it answers."""

_TYPED = frozenset({"model", "messages"})
"""Fields of a request that the client takes as arguments. It passes the others on unchecked."""


class Reader:
    """Answers prompts, each one once.

    Failed calls are repeated with growing pauses, as often as `retries` says. The key comes from
    the environment variable `KEY` and appears in no message.

    Args:
        model: The server's name for the model.
        base_url: URL of the server, with `/v1`.
        cache: The cached answers.
        request: Extra fields for each request. A field that is None is omitted: some models need
            `{"max_tokens": None, "max_completion_tokens": 2000}`.
        retries: How often a failed call is repeated.
        timeout: Seconds per call.
    """

    def __init__(
        self,
        model: str,
        base_url: str,
        cache: DiskCache,
        *,
        request: Mapping[str, Any] | None = None,
        retries: int = 5,
        timeout: float = 600,
    ) -> None:
        if urlsplit(base_url).scheme not in {"http", "https"}:
            raise SystemExit(f"--base-url {base_url}: it must start with http:// or https://")
        self.model = model
        self.calls = 0
        self._base_url = base_url
        self._cache = cache
        self._request = dict(request or {})
        self._key = os.environ.get(KEY) or _NO_KEY
        self._client = OpenAI(
            base_url=base_url, api_key=self._key, max_retries=retries, timeout=timeout
        )

    def answer(self, prompt: str, max_tokens: int) -> str:
        """Return the answer to a prompt, from the cache if it is there.

        Raises:
            SystemExit: If the server fails in spite of all retries; the message says what to do.
        """
        fields = {
            "model": self.model,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": max_tokens,
            "temperature": 0,
        } | self._request
        request = {name: value for name, value in fields.items() if value is not None}
        key = json.dumps(request, sort_keys=True)
        [cached] = self._cache.get([key])
        answer = self._ask(request) if cached is None else cached.decode()
        if cached is None:
            self._cache.put({key: answer.encode()})
        return _THOUGHTS.sub("", answer).strip()

    def _ask(self, request: Mapping[str, Any]) -> str:
        try:
            fields = {name: value for name, value in request.items() if name not in _TYPED}
            response = self._client.chat.completions.create(
                model=request["model"], messages=request["messages"], extra_body=fields
            )
            answer = response.choices[0].message.content
        except OpenAIError as error:
            raise SystemExit(self._message(error)) from None
        except (AttributeError, LookupError, TypeError):
            raise SystemExit(
                f"{self._base_url} did not return a chat completion: is the path right (/v1)?"
            ) from None
        self.calls += 1
        return answer or ""

    def _message(self, error: OpenAIError) -> str:
        reason = redact(str(error), [self._key] if self._key != _NO_KEY else [])
        if isinstance(error, APIConnectionError):
            advice = "Is the server running, and is --base-url right?"
        elif isinstance(error, BadRequestError):
            advice = (
                "If the prompt is too long for the model, lower --full-text-tokens; if it rejects "
                "a field, such as max_tokens, change it with --request."
            )
        else:
            advice = f"Check --model, and the key in the environment variable {KEY}."
        return (
            f"{self._base_url}, model {self.model}: {reason}\n{advice} "
            "The answers so far are cached: run the same command again to continue."
        )

    def close(self) -> None:
        self._client.close()
