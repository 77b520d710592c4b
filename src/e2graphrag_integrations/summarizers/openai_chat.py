"""Summaries by any OpenAI-compatible server, through the official client."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from e2graphrag_integrations.errors import MissingDependencyError
from e2graphrag_integrations.summarizers.callable import Prompts
from e2graphrag_integrations.text.sentences import sentence_starts


class OpenAISummarizer:
    """Summarizes with a chat model; retries are the index's (`RetryPolicy`), not the client's.

    Args:
        model: As the server names it.
        base_url: Of the server; None is the client's own default.
        api_key: None takes the client's environment variable; servers without keys take any.
        timeout: Seconds a call.
        prompts: The prompts.
        request: More fields of each request; a field set to None is left out. Models that refuse
            `max_tokens` take `{"max_tokens": None, "max_completion_tokens": 300}`.

    Raises:
        MissingDependencyError: At first use, if the `openai` package is not installed.
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
        self.prompts = prompts or Prompts()
        self._options: dict[str, Any] = {
            "base_url": base_url,
            "api_key": api_key,
            "timeout": timeout,
        }
        self._client: Any = None
        self._lock = threading.Lock()

    @property
    def fingerprint(self) -> str:
        """Model, request and prompts: the same model elsewhere gives the same summaries."""
        request = json.dumps(self._request, sort_keys=True, default=str)
        digest = hashlib.sha256(request.encode()).hexdigest()[:8] if self._request else "plain"
        return f"openai:{self.model}:{digest}:{self.prompts.fingerprint}"

    def prompt(self, texts: Sequence[str], *, level: int, max_tokens: int) -> str:
        """Return the prompt that `summarize` sends."""
        return self.prompts.render(texts, level=level, max_tokens=max_tokens)

    def summarize(self, texts: Sequence[str], *, level: int, max_tokens: int) -> str:
        """Return the model's answer, empty if it gave none."""
        prompt = self.prompt(texts, level=level, max_tokens=max_tokens)
        fields = {"max_tokens": max_tokens, "temperature": 0, **self._request}
        response = self._connected().chat.completions.create(
            model=self.model,
            messages=[{"role": "user", "content": prompt}],
            **{name: value for name, value in fields.items() if value is not None},
        )
        choice = response.choices[0]
        answer = choice.message.content or ""
        return _whole_sentences(answer) if choice.finish_reason == "length" else answer

    def _connected(self) -> Any:
        with self._lock:
            if self._client is None:
                try:
                    from openai import OpenAI
                except ImportError as error:
                    raise MissingDependencyError(
                        "OpenAISummarizer needs the openai client: "
                        "pip install 'e2graphrag-integrations[openai]'"
                    ) from error
                self._client = OpenAI(max_retries=0, **self._options)
            return self._client

    def __repr__(self) -> str:  # never the key
        return f"OpenAISummarizer({self.model!r})"


def _whole_sentences(text: str) -> str:
    """Drop the last sentence of a text that was broken off, unless it is the only one."""
    return text[: sentence_starts(text)[-1]].rstrip() or text
