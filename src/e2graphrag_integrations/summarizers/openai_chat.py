"""Summaries from an OpenAI-compatible server, through the official client."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from e2graphrag_integrations.summarizers.openai_clients import OpenAIClients
from e2graphrag_integrations.summarizers.prompts import DefaultPrompts, Prompts
from e2graphrag_integrations.text.sentences import sentence_starts


class OpenAISummarizer:
    """Summarizes with a chat model.

    The client's own retries are disabled; the index retries failed calls according to its
    `RetryPolicy`.

    Args:
        model: The server's name for the model.
        base_url: URL of the server; None for the client's default.
        api_key: None means the client's environment variable. Servers without authentication
            accept any value.
        timeout: Seconds per call.
        prompts: The prompt templates.
        request: Extra fields for each request. A field set to None is omitted: models that reject
            `max_tokens` work with `{"max_tokens": None, "max_completion_tokens": 300}`.

    Raises:
        MissingDependencyError: On first use, if the `openai` package is not installed.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 120.0,
        prompts: Prompts | None = None,
        request: Mapping[str, Any] | None = None,
    ) -> None:
        self.model = model
        self._request = dict(request or {})
        self.prompts = prompts or DefaultPrompts()
        self._clients = OpenAIClients(
            "OpenAISummarizer", base_url=base_url, api_key=api_key, timeout=timeout
        )

    @property
    def fingerprint(self) -> str:
        """The model, extra request fields and prompts.

        The server is excluded: the same model on a different server gives the same summaries.
        """
        request = json.dumps(self._request, sort_keys=True, default=str)
        digest = hashlib.sha256(request.encode()).hexdigest()[:8] if self._request else "plain"
        return f"openai:{self.model}:{digest}:{self.prompts.fingerprint}"

    def prompt(self, texts: Sequence[str], *, level: int, max_tokens: int) -> str:
        """Return the prompt that `summarize` sends."""
        return self.prompts.render(texts, level=level, max_tokens=max_tokens)

    def summarize(self, texts: Sequence[str], *, level: int, max_tokens: int) -> str:
        """Return the model's answer, or an empty string if there is none."""
        prompt = self.prompt(texts, level=level, max_tokens=max_tokens)
        fields = {"max_tokens": max_tokens, "temperature": 0, **self._request}
        response = self._clients.blocking().chat.completions.create(
            model=self.model,
            messages=[{"role": "user", "content": prompt}],
            **{name: value for name, value in fields.items() if value is not None},
        )
        if not response.choices:  # some servers leave them out after a filter or an error
            return ""
        choice = response.choices[0]
        answer = choice.message.content or ""
        if choice.finish_reason != "length":
            return answer
        # The last sentence is incomplete: drop it, unless it is the only one.
        return answer[: sentence_starts(answer, clauses=False)[-1]].rstrip() or answer

    def __repr__(self) -> str:  # never includes the key
        return f"OpenAISummarizer({self.model!r})"
