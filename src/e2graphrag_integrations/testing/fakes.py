"""Deterministic replacements for a spaCy pipeline and a language model."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Sequence

from e2graphrag_integrations.types import Mention

_CAPITALIZED_WORD = re.compile(r"\b[A-Z][a-z]+\b")
_SENTENCE = re.compile(r"[^.]+\.?")


class CapitalizedWordExtractor:
    """An extractor that takes every capitalized word for a person.

    Sentences end with a full stop. Needs no model and runs at regular-expression speed.
    """

    fingerprint = "fake:names"

    def extract(self, texts: Sequence[str]) -> list[list[list[Mention]]]:
        """Return the capitalized words of each sentence of each text."""
        return [
            [
                [
                    Mention(
                        word.group(),
                        sentence.start() + word.start(),
                        sentence.start() + word.end(),
                        "PERSON",
                    )
                    for word in _CAPITALIZED_WORD.finditer(sentence.group())
                ]
                for sentence in _SENTENCE.finditer(text)
            ]
            for text in texts
        ]


class DigestLLM:
    """A function from prompt to text that answers with a hash of the prompt.

    Equal prompts get equal answers, different prompts different ones. Pass it as `summarizer=`.

    Attributes:
        prompts: Every prompt received, in order.
    """

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self._lock = threading.Lock()

    @property
    def calls(self) -> int:
        """Number of prompts received."""
        return len(self.prompts)

    def __call__(self, prompt: str) -> str:
        """Return `Digest <12 hex digits> of it.`."""
        with self._lock:
            self.prompts.append(prompt)
        return f"Digest {hashlib.sha256(prompt.encode()).hexdigest()[:12]} of it."
