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
    """An extractor that treats every capitalized word as a person.

    Sentences end with a period. The extractor uses regular expressions and needs no model.
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
    """A fake language model that answers with a hash of the prompt.

    Equal prompts get equal answers, and different prompts get different ones. Pass an instance as
    `summarizer=`.

    Attributes:
        prompts: All prompts received, in order.
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
