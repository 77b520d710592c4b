"""Fakes for tests of the LlamaIndex integration."""

from __future__ import annotations

import hashlib

from llama_index.core.bridge.pydantic import Field
from llama_index.core.llms import MockLLM

OTHER = (
    "Fay built a mill in Bergen. Gus bought flour from Fay. Gus took the flour to Oslo by sea. "
    "Hal burned the mill one winter. Fay forgave Hal in spring. Gus never went back to Bergen."
)


class Digests(MockLLM):
    """An LLM that answers with a digest of the prompt and records the prompts."""

    prompts: list[str] = Field(default_factory=list, exclude=True)

    def complete(self, prompt, formatted=False, **kwargs):
        self.prompts.append(prompt)
        answer = f"Digest {hashlib.sha256(prompt.encode()).hexdigest()[:12]} of it."
        return super().complete(answer, formatted, **kwargs)
