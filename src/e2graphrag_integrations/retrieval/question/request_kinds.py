"""What a question asks of a text as a whole: an overview, its end, or neither.

A multinomial logistic regression over classes of words (`request_words.py`), their pairs, and the
number of words in no class, decides. `training/requests` trains its weights and measures it. It
knows no phrases: "Boil the memo down for me" is a request because of what its words stand for. A
word in no class names something particular, and nearly always means that the question does too.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Literal

from e2graphrag_integrations.retrieval.question.request_words import HAN_WORD, WORDS

RequestKind = Literal["overview", "ending", "other"]

KINDS: tuple[RequestKind, ...] = ("overview", "ending", "other")

CONTENT = "CONTENT"
"""Class of the words in no class."""

ENDING_CLASS = "END"
"""Class of the words for the end of something."""

_MAX_LENGTH = 300
"""Maximum number of characters of a question that is read: a request is short."""

_MAX_CONTENT = 3
"""Number of words in no class that are counted."""

_TOKEN = re.compile(
    r"tl;dr|[^\W\d_\u4e00-\u9fff]+(?:[-'’][^\W\d_]+)*|\d+|[\u4e00-\u9fff]+|[\"“”《》「」]"
)

_NEXT_QUESTION = re.compile(
    r"\?\s*(?=\w)|[,;]?\s+(?:and|but)(?:\s+then)?\s+"
    r"(?=(?:what|how|who|where|why|when|which|did|does|do|is|are|was|were)\b)"
    r"|？|，(?=[^，？]*(?:什么|什麼|谁|誰|哪|怎|如何|吗|嗎|呢))",
    re.IGNORECASE,
)
"""Where a question in a sentence begins after another one."""


def classes_of(question: str) -> Iterator[str]:
    """Yield the classes of the words of a question.

    >>> list(classes_of("Summarize the memo about Ann"))
    ['ACT', 'the', 'TEXT', 'about', 'CONTENT']
    """
    for match in _TOKEN.finditer(question.lower()):
        token = match.group().replace("’", "'")
        if not "\u4e00" <= token[0] <= "\u9fff":
            yield WORDS.get(token, WORDS.get(token.removesuffix("'s"), CONTENT))
            continue
        end = 0
        for word in HAN_WORD.finditer(token):
            yield from [CONTENT] * (word.start() > end)
            yield WORDS[word.group()]
            end = word.end()
        yield from [CONTENT] * (end < len(token))


def names_ending(question: str) -> bool:
    """Return whether a short question has a word for the end of something."""
    is_short = len(question) <= _MAX_LENGTH
    return is_short and any(one.startswith(ENDING_CLASS) for one in classes_of(question))


def features_of(question: str) -> dict[str, float]:
    """Return the features of a question and their values."""
    classes = list(classes_of(question))
    content = min(_MAX_CONTENT, sum(one == CONTENT for one in classes))
    known = [one for one in classes if one != CONTENT]
    pairs = pairwise(["^", *classes, "$"])
    features = dict.fromkeys(
        [*known, *(f"{a} {b}" for a, b in pairs if CONTENT not in {a, b})], 1.0
    )
    return {**features, CONTENT: float(content)} if content else features


@dataclass(frozen=True, eq=False)
class RequestModel:
    """The weights of a multinomial logistic regression.

    Attributes:
        weights: The weights of each feature, in the order of `KINDS`.
        bias: The weights of every question.
        least: Least probability of a kind other than `other`.
    """

    weights: Mapping[str, Sequence[float]]
    bias: Sequence[float]
    least: float

    def probabilities(self, question: str) -> list[float]:
        """Return the probability of each kind, in the order of `KINDS`."""
        overview, ending, other = self.bias
        for feature, value in features_of(question).items():
            if weights := self.weights.get(feature):
                overview += value * weights[0]
                ending += value * weights[1]
                other += value * weights[2]
        most = max(overview, ending, other)
        powers = [math.exp(one - most) for one in (overview, ending, other)]
        return [one / sum(powers) for one in powers]

    def kind_of(self, question: str) -> RequestKind:
        """Return what a question asks of a text as a whole.

        Several questions in one sentence ("How did it end, and what became of him?") ask for the
        end if one of them does.
        """
        if len(question) > _MAX_LENGTH:
            return "other"
        kind = self._kind_of_one(question)
        if kind == "other" and names_ending(question):
            parts = (part for part in _NEXT_QUESTION.split(question) if part.strip())
            return "ending" if "ending" in map(self._kind_of_one, parts) else kind
        return kind

    def _kind_of_one(self, question: str) -> RequestKind:
        values = self.probabilities(question)
        best = max(values)
        return KINDS[values.index(best)] if best >= self.least else "other"


@cache
def request_model() -> RequestModel:
    """Return the model of the package."""
    path = files("e2graphrag_integrations.retrieval.question") / "request_weights.json"
    return RequestModel(**json.loads(path.read_text(encoding="utf-8")))


def request_kind(question: str) -> RequestKind:
    """Return what a question asks of a text as a whole.

    >>> request_kind("tl;dr"), request_kind("How does it all end?"), request_kind("Who is Ann?")
    ('overview', 'ending', 'other')
    """
    return request_model().kind_of(question)
