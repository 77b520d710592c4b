"""Fakes for tests of the LlamaIndex integration."""

from __future__ import annotations

import hashlib

from llama_index.core.bridge.pydantic import Field
from llama_index.core.llms import MockLLM

from e2graphrag_integrations import SourceDocument
from fakes import STORY

OTHER = (
    "Fay built a mill in Bergen. Gus bought flour from Fay. Gus took the flour to Oslo by sea. "
    "Hal burned the mill one winter. Fay forgave Hal in spring. Gus never went back to Bergen."
)

MODES = (("adaptive", "auto"), ("local", "local"), ("global", "global"))
PAGED = SourceDocument(
    "paged",
    STORY,
    title="Pages",
    metadata={"kind": "pdf", "page": 0},
    segments=[(0, 90, {"page": 1}), (90, 170, {"page": 2, "odd": False}), (200, 230, {"page": 3})],
)
DOCUMENTS = [
    PAGED,
    SourceDocument("story", STORY, title="A Map", metadata={"kind": "tale", "year": 1890}),
    SourceDocument("other", OTHER, metadata={"kind": "tale", "list": [1, {"a": None}]}),
    SourceDocument("empty", "", metadata={"kind": "nothing"}),
]


class Digests(MockLLM):
    """An LLM that answers with a digest of the prompt and records the prompts."""

    prompts: list[str] = Field(default_factory=list, exclude=True)

    def complete(self, prompt, formatted=False, **kwargs):
        self.prompts.append(prompt)
        answer = f"Digest {hashlib.sha256(prompt.encode()).hexdigest()[:12]} of it."
        return super().complete(answer, formatted, **kwargs)
