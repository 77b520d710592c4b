"""Finding the part of a passage that answers the question, if the passage is too long."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import fsum

from e2graphrag_integrations.protocols import TokenCounter
from e2graphrag_integrations.retrieval.ranking.question_parts import (
    QuestionParts,
    parts_of,
    weights_of,
)
from e2graphrag_integrations.text.tokens import count_tokens


def best_start(text: str, tokens: int, question: QuestionParts, counter: TokenCounter) -> int:
    """Return where the sentences begin that contain most of the question's words, by their rarity.

    The words of the best sentence count twice. Of starts with equally many words, the last one is
    returned: the text after the words of a question answers it more often than that before them.

    Args:
        text: The passage.
        tokens: Number of tokens that the sentences may have.
        question: Finds the words of the question.
        counter: Counts the tokens.
    """
    parts = parts_of(text)
    found = [question.found(part) for part in parts]
    weights = weights_of(found)
    sizes = [count_tokens(counter, part.text) for part in parts]
    best, start = 0.0, 0
    for first, part in enumerate(parts):
        covered, most = set(found[first]), _weight(found[first], weights)
        room = tokens - sizes[first]
        for size, more in zip(sizes[first + 1 :], found[first + 1 :], strict=True):
            room -= size
            if room < 0:
                break
            covered |= more
            most = max(most, _weight(more, weights))
        weight = _weight(covered, weights) + most
        if weight and weight >= best:
            best, start = weight, part.start
    return start


def _weight(words: Iterable[str], weights: Mapping[str, float]) -> float:
    return fsum(weights[word] for word in words)
