"""Measures of one result: how much of the gold documents, spans and answers it contains."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from e2graphrag_integrations.text.letters import MARKS, UNSPACED, simplified
from e2graphrag_integrations.text.span_sets import merge_spans, subtract_spans
from e2graphrag_integrations.text.words import normalized
from e2graphrag_integrations.types import Span

RECALL = "recall"
NDCG = "ndcg"
SPAN_RECALL = "span_recall"
ANSWER = "answer_in_context"

MEASURES = (RECALL, NDCG, SPAN_RECALL, ANSWER)
"""Names of all measures, in the order of reports."""

_UNIT = re.compile(rf"[{UNSPACED}][{MARKS}]*|(?:[^\W{UNSPACED}][{MARKS}]*)+")
"""A word; in scripts without spaces, a letter with its marks."""


def recall(ranked: Iterable[str], gold: Collection[str]) -> float:
    """Return the fraction of the gold ids that a ranking contains."""
    return len(set(gold) & set(ranked)) / len(gold)


def ndcg(ranked: Sequence[str], gold: Collection[str], cut: int) -> float:
    """Return the normalized discounted cumulative gain of the first `cut` ids, each gain 0 or 1.

    Args:
        ranked: Distinct ids, best first.
        gold: The ids that are relevant.
        cut: Number of ids that could have been returned.
    """
    gains = [1 / math.log2(rank + 1) for rank, id_ in enumerate(ranked[:cut], 1) if id_ in gold]
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(cut, len(gold)) + 1))
    return sum(gains) / ideal


def span_recall(found: Mapping[str, Iterable[Span]], gold: Mapping[str, Iterable[Span]]) -> float:
    """Return the fraction of the gold characters that the found spans cover.

    Args:
        found: For each document, the spans in the result, in any order.
        gold: For each document, the gold spans. A character in several spans counts once.
    """
    total = missing = 0
    for document, spans in gold.items():
        wanted = merge_spans(spans)
        total += _size(wanted)
        missing += _size(subtract_spans(wanted, merge_spans(found.get(document, ()))))
    return 1 - missing / total


def _size(spans: Iterable[Span]) -> int:
    return sum(end - start for start, end in spans)


def answer_words(text: str) -> str:
    """Return the words of a text for comparison, separated by spaces.

    Upper and lower case, accents that Unicode encodes in several ways, punctuation, white space,
    and traditional and simplified Chinese characters do not matter. In scripts without spaces, each
    letter is a word.

    >>> answer_words("The  Time-Machine!"), answer_words("劉備 (玄德)")
    ('the time machine', '刘 备 玄 德')
    """
    return " ".join(_UNIT.findall(simplified(normalized(text))))


def contains_answer(context: str, answers: Iterable[str]) -> float:
    """Return 1 if a context contains one of the answers as consecutive words, or else 0.

    Args:
        context: The text for the prompt.
        answers: Answers, already as `answer_words`.
    """
    words = f" {answer_words(context)} "
    return float(any(f" {answer} " in words for answer in answers))
