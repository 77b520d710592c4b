"""Scores of an answer against the gold answer, and of a context that should contain it."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

from rapidfuzz.distance import LCSseq

from quality_bench.corpora import Question
from quality_bench.measures import answer_string, content_words, plain

_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_ALPHANUMERIC = re.compile(r"[^\W_]+")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def answer_scores(answer: str, gold: str) -> dict[str, float]:
    """Return exact match and token F1 as SQuAD defines them, and ROUGE-L."""
    return {
        "EM": float(normalized(answer) == normalized(gold)),
        "F1": token_f1(answer, gold),
        "ROUGE-L": rouge_l(answer, gold),
    }


def context_scores(context: str, question: Question) -> dict[str, float]:
    """Return whether the answer is in the context, and the fraction of its content words there.

    The first is missing if the answer is a sentence, yes or no; the second if the answer is yes or
    no, or has no content words.
    """
    scores = {}
    if answer := answer_string(question.answer):
        scores["in context"] = float(f" {answer} " in f" {plain(context)} ")
    gold = content_words(question.answer)
    if gold and plain(question.answer) not in {"yes", "no"}:
        scores["words in context"] = len(gold & content_words(context)) / len(gold)
    return scores


def normalized(text: str) -> str:
    """Return a text in lower case, without punctuation, articles and extra white space."""
    text = text.lower().translate(_WITHOUT_PUNCTUATION)
    return " ".join(_ARTICLE.sub(" ", text).split())


def token_f1(answer: str, gold: str) -> float:
    """Return the F1 of the words, each counted as often as it occurs."""
    words, gold_words = normalized(answer).split(), normalized(gold).split()
    common = sum((Counter(words) & Counter(gold_words)).values())
    return _f_measure(common, words, gold_words)


def rouge_l(answer: str, gold: str) -> float:
    """Return the F-measure of the longest common subsequence of words."""
    words, gold_words = (_ALPHANUMERIC.findall(text.lower()) for text in (answer, gold))
    return _f_measure(LCSseq.similarity(words, gold_words), words, gold_words)


def _f_measure(common: int, words: Sequence[str], gold_words: Sequence[str]) -> float:
    if not words or not gold_words:
        return float(words == gold_words)
    return 2 * common / (len(words) + len(gold_words))
