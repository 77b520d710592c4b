"""Fakes of a language model that enriches chunks, by words that the texts do not contain."""

from __future__ import annotations

import re

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.enrichment import Enricher
from e2graphrag_integrations.testing import DigestLLM

DOCUMENTS = [
    SourceDocument("lease", "Bert pays four crowns to Dora each spring.", "The mill"),
    SourceDocument("boat", "Anna sailed to Oslo with Cleo and a cat.", "The journey"),
    SourceDocument("feast", "Emil baked bread while Finn slept all day.", "The feast"),
]

ADDED = {
    "crowns": "Context: The tenancy of Bert.\nKeywords: rent; landlord\n"
    "Question: What is the annual rent?",
    "sailed": "Context: A sea voyage.\nKeywords: ship; travel\nQuestion: Who crossed the water?",
    "baked": "Context: A meal is prepared.\nKeywords: kitchen\nQuestion: Who cooked?",
}


class ToldLLM(DigestLLM):
    """Answers by a word of the passage."""

    def answer(self, prompt: str) -> str:
        super().__call__(prompt)
        passage = re.split(r"\[passage\]", prompt)[-1]
        found = [text for word, text in ADDED.items() if word in passage]
        return found[0] if found else "Keywords: plain"

    def __call__(self, prompt: str) -> str:
        return self.answer(prompt)


class AsyncLLM(ToldLLM):
    """The same, to be awaited."""

    async def __call__(self, prompt: str) -> str:
        return self.answer(prompt)


class FailingLLM(ToldLLM):
    """Fails for passages with a word."""

    def __init__(self, word: str, error: BaseException | None = None) -> None:
        super().__init__()
        self.word, self.error = word, error or ValueError("no answer; key sk-12345678901234567890")

    def __call__(self, prompt: str) -> str:
        answer = self.answer(prompt)
        if self.word in prompt.rpartition("[passage]")[2]:
            raise self.error
        return answer


def enriching(llm, llm_id="fake", **options):
    """Return the option objects of an index with an enricher."""
    return {"enricher": Enricher(llm, llm_id, **options)}
