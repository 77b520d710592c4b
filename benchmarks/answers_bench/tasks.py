"""What the model is asked: one prompt, and how long an answer each set wants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PROMPT = """\
Read the text and answer the question.

Text:
{context}

Question: {question}
Answer the question with {length}, and write nothing else.
Answer:"""
"""The context comes before the question, so that servers reuse the prefix of prompts with the same
context."""


@dataclass(frozen=True)
class Task:
    """How long the answers to a set's questions are.

    Attributes:
        length: Their length in words, for the prompt.
        max_tokens: Their maximum length.
    """

    length: str
    max_tokens: int

    def prompt(self, context: str, question: str) -> str:
        return PROMPT.format(length=self.length, context=context, question=question)


TASKS: Mapping[str, Task] = {
    "hotpotqa": Task("a few words", 32),
    "lihuaworld": Task("a few words", 32),
    "graphrag_bench_novel": Task("one sentence", 64),
    "qmsum": Task("a short paragraph", 96),
}
"""The tasks by set. The lengths follow the gold answers: medians of 2, 3, 11 and 63 words."""
