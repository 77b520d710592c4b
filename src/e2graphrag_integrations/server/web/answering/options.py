"""Which language model writes answers, and how much of it one answer may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from e2graphrag_integrations._utils.validation import check_int, check_name, check_seconds
from e2graphrag_integrations.errors import InvalidInputError

MAX_TOKENS = 1_000_000
"""Largest limit of tokens."""


@dataclass(frozen=True)
class AnswerOptions:
    """The model that writes answers on the page, and the limits of one answer.

    Args:
        model: The server's name for the model.
        base_url: URL of an OpenAI-compatible server; None for the client's default.
        api_key: The key; None means the client's environment variable.
        max_tokens: Maximum number of tokens that the model writes.
        prompt_tokens: Maximum number of tokens in a prompt; hits that do not fit are left out.
        seconds: Maximum time of an answer.
        request: Extra fields for each request, as for `OpenAISummarizer`. A field set to None is
            omitted.

    Raises:
        InvalidInputError: If an argument is invalid.
    """

    model: str
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    max_tokens: int = 600
    prompt_tokens: int = 16_000
    seconds: float = 120.0
    request: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_name("the model for answers", self.model)
        check_int("max_tokens", self.max_tokens, 1, MAX_TOKENS)
        check_int("prompt_tokens", self.prompt_tokens, 1, MAX_TOKENS)
        if check_seconds("seconds", self.seconds) <= 0:
            raise InvalidInputError(f"seconds={self.seconds} must be positive")
