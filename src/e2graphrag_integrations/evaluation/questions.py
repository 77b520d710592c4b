"""Questions with their gold answers, and the files that contain them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, NamedTuple

from e2graphrag_integrations._utils.files import unread_reason
from e2graphrag_integrations._utils.validation import (
    check_int,
    check_name,
    check_text,
    invalid_input,
    short_repr,
)
from e2graphrag_integrations.errors import EvaluationError, InvalidInputError
from e2graphrag_integrations.evaluation.measures import answer_words
from e2graphrag_integrations.retrieval.strategy import MAX_QUESTION

MAX_QUESTIONS = 100_000
MAX_LINE = 1_000_000
"""Maximum number of questions in a file, and of bytes in a line."""

MAX_GOLD = 10_000
"""Maximum number of gold ids, of gold spans and of answers of a question."""


class GoldSpan(NamedTuple):
    """A half-open character range `[start, end)` of a document that belongs to the answer."""

    document_id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Question:
    """A question and its gold answers: ids, spans, answers, or several of them.

    Args:
        text: The question.
        gold_ids: Ids of the documents or of the nodes that answer it, but not of both. The ids of
            LlamaIndex and LangChain documents count as documents.
        gold_spans: The parts of documents that answer it, as `(document_id, start, end)`.
        answers: Texts of which the context should contain one.
        id: Your own id; "" for none.
        line: Number of the line in the file, from 1.

    Raises:
        InvalidInputError: If a field is invalid, or there is no gold answer.
    """

    text: str
    gold_ids: Sequence[str] = ()
    gold_spans: Sequence[GoldSpan | tuple[str, int, int]] = ()
    answers: Sequence[str] = ()
    id: str = ""
    line: int | None = None

    def __post_init__(self) -> None:
        if len(check_name("question", self.text)) > MAX_QUESTION:
            raise InvalidInputError(
                f"the question has {len(self.text):,} characters, but at most {MAX_QUESTION:,} are "
                "allowed"
            )
        check_text("id", self.id)
        ids = tuple(check_name("an id in gold_ids", id_) for id_ in _items("gold_ids", self))
        object.__setattr__(self, "gold_ids", tuple(dict.fromkeys(ids)))
        spans = tuple(map(_gold_span, _items("gold_spans", self)))
        object.__setattr__(self, "gold_spans", spans)
        answers = tuple(_answer(answer) for answer in _items("answers", self))
        object.__setattr__(self, "answers", answers)
        if not (ids or spans or answers):
            raise invalid_input(
                "no_gold",
                "the question has no gold answer: give gold_ids, gold_spans or answer",
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values, without empty ones."""
        values = {
            "id": self.id,
            "question": self.text,
            "gold_ids": list(self.gold_ids),
            "gold_spans": [list(span) for span in self.gold_spans],
            "answers": list(self.answers),
        }
        return {key: value for key, value in values.items() if value}


def _items(name: str, question: Question) -> Sequence[Any]:
    values = getattr(question, name)
    if not isinstance(values, list | tuple):
        raise InvalidInputError(f"{name}={short_repr(values)} must be a list")
    if len(values) > MAX_GOLD:
        raise invalid_input(
            "many_gold",
            "{name} has {count:,} items, but at most {most:,}",
            name=name,
            count=len(values),
            most=MAX_GOLD,
        )
    return values


def _gold_span(value: Any) -> GoldSpan:
    if isinstance(value, Mapping) and value.keys() >= set(GoldSpan._fields):
        value = [value[field] for field in GoldSpan._fields]
    if not isinstance(value, list | tuple) or len(value) != len(GoldSpan._fields):
        raise invalid_input(
            "no_span",
            "{value} in gold_spans must be [document_id, start, end]",
            value=short_repr(value),
        )
    start = check_int("start of a gold span", value[1], 0, None)
    end = check_int("end of a gold span", value[2], start + 1, None)
    return GoldSpan(check_name("document_id of a gold span", value[0]), start, end)


def _answer(value: Any) -> str:
    text = check_text("answer", value)
    if len(text) > MAX_QUESTION:
        raise InvalidInputError(
            f"answer has {len(text):,} characters, but at most {MAX_QUESTION:,} are allowed"
        )
    if not answer_words(text):
        raise invalid_input(
            "wordless_answer", "answer {value} contains no word", value=short_repr(value)
        )
    return text


def read_questions(path: str | os.PathLike[str]) -> tuple[Question, ...]:
    """Read questions from a file with one JSON object per line (JSON Lines).

    The keys of an object are `question`, and at least one of `gold_ids`, `gold_spans` and `answer`
    (a string, or a list of which one suffices; `answers` is the same). `id` is optional. Other keys
    are ignored, and so are empty lines.

    Args:
        path: The file, in UTF-8.

    Raises:
        EvaluationError: If the file cannot be read, contains no question, more than 100,000
            questions or a line of more than a million bytes, or if a line is invalid. The message
            names the line.
    """
    try:
        name = str(Path(path))
        with Path(path).open("rb") as file:
            questions = tuple(_questions(file, name))
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise EvaluationError(
            f"the questions {path!s} cannot be read: {unread_reason(error)}"
        ) from error
    if not questions:
        raise EvaluationError(
            f'{name} contains no question: write one JSON object per line, such as {{"question": '
            '"Who was Filby?", "gold_ids": ["novel.txt"]}'
        )
    return questions


def _questions(file: IO[bytes], name: str) -> Iterator[Question]:
    lines_of_ids: dict[str, int] = {}
    count = number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            raise EvaluationError(
                f"{name}, line {number}: the line is longer than {MAX_LINE:,} bytes", (number,)
            )
        if not line.strip():
            continue
        count += 1
        if count > MAX_QUESTIONS:
            raise EvaluationError(
                f"{name}, line {number}: the file has more than {MAX_QUESTIONS:,} questions: "
                "divide it",
                (number,),
            )
        try:
            question = _question(line, number)
        except InvalidInputError as error:
            raise EvaluationError(f"{name}, line {number}: {error}", (number,)) from error
        first = lines_of_ids.setdefault(question.id, number) if question.id else number
        if first != number:
            raise EvaluationError(
                f"{name}: lines {first} and {number} have the same id {short_repr(question.id)}",
                (first, number),
            )
        yield question


def _question(line: bytes, number: int) -> Question:
    try:
        # A file may begin with a byte order mark.
        values = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
    except UnicodeDecodeError as error:
        raise InvalidInputError(unread_reason(error)) from error
    except (ValueError, RecursionError) as error:
        problem = "nested too deeply" if isinstance(error, RecursionError) else error
        raise InvalidInputError(
            f"not valid JSON: {problem}; write one JSON object per line"
        ) from error
    return replace(parse_question(values), line=number)


def parse_question(values: Any) -> Question:
    """Return the question of a JSON object; `read_questions` describes the keys.

    Raises:
        InvalidInputError: If it is not an object, or a value is invalid.
    """
    if not isinstance(values, dict) or "question" not in values:
        raise invalid_input("no_question", 'must be a JSON object with the key "question"')
    answers: list[Any] = []
    for key in ("answer", "answers"):
        value = values.get(key, [])
        answers += [value] if isinstance(value, str) else _list(key, value)
    id_ = values.get("id", "")
    return Question(
        values["question"],
        _list("gold_ids", values.get("gold_ids")),
        _list("gold_spans", values.get("gold_spans")),
        answers,
        id=str(id_) if isinstance(id_, int) and not isinstance(id_, bool) else id_ or "",
    )


def _list(key: str, value: Any) -> list[Any]:
    """Return a list; null means that the key is missing."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidInputError(f"{key}={short_repr(value)} must be a list")
    return value
