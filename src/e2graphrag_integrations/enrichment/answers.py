"""The answer of a language model about a chunk, as keywords, questions and a sentence."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LABELS = {
    "context": "context",
    "背景": "context",
    "上下文": "context",
    "keyword": "keywords",
    "keywords": "keywords",
    "关键词": "keywords",
    "關鍵詞": "keywords",
    "question": "questions",
    "questions": "questions",
    "问题": "questions",
    "問題": "questions",
}

_MARKS = re.compile(r"^[\s*#>•·-]*(?:\(?\d{1,2}[.):、]\s*)?[\s*_]*")
"""A bullet, a number or Markdown before the words of a line."""

_LABEL = re.compile(r"(\w{2,9})[\s\d*_]*[:：][\s*_]*")

_SEPARATORS = re.compile(r"[;,；，、]")

_QUESTION_MARKS = ("?", "？", "؟")

_MAX_KEYWORD = 80
"""Maximum length of a keyword in characters; a longer one is a sentence."""


@dataclass(frozen=True, slots=True)
class ChunkAnswer:
    """What a language model says about a chunk.

    Attributes:
        context: A sentence about the chunk; empty if there is none.
        keywords: Words and names that somebody might search for.
        questions: Questions that the chunk answers.
    """

    context: str = ""
    keywords: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """The sentences that get vectors: the context and the questions."""
        return (*([self.context] if self.context else []), *self.questions)

    @property
    def words(self) -> str:
        """All words, as one text for BM25."""
        return "\n".join([*self.sentences, *self.keywords])


def read_answer(text: str) -> ChunkAnswer:
    """Return what an answer says, whatever lists and marks a model wraps it in.

    Lines begin with `Context:`, `Keywords:` or `Question:`, in English or Chinese. A line without
    such a label belongs to the label before it. A line that ends with a question mark is a
    question. Anything else is left out.
    """
    context: list[str] = []
    keywords: list[str] = []
    questions: list[str] = []
    part = ""
    for line in text.splitlines():
        words = _MARKS.sub("", line, count=1).strip().strip("*_`").strip()
        label = _LABEL.match(words)
        known = _LABELS.get(label.group(1).lower()) if label is not None else None
        if label is not None and known is not None:
            part, words = known, words[label.end() :].strip()
        if not words:
            continue
        if words.endswith(_QUESTION_MARKS) and part != "context":
            questions.append(words)
        elif part == "context":
            context.append(words)
        elif part == "keywords":
            found = (one.strip(" .。*_\"'") for one in _SEPARATORS.split(words))
            keywords += [one for one in found if 0 < len(one) <= _MAX_KEYWORD]
    return ChunkAnswer(
        " ".join(context), tuple(dict.fromkeys(keywords)), tuple(dict.fromkeys(questions))
    )
