"""Evaluations: a set of questions, asked with several settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

from fastapi import Response
from pydantic import BaseModel, ConfigDict, FailFast, Field

from e2graphrag_integrations._utils.coded_text import CodedText, text_of
from e2graphrag_integrations.errors import EvaluationError, InvalidInputError
from e2graphrag_integrations.evaluation import EvaluationReport, Question, Setting, aevaluate
from e2graphrag_integrations.evaluation.questions import parse_question
from e2graphrag_integrations.reports import ProgressListener
from e2graphrag_integrations.server.web.calls import ACall
from e2graphrag_integrations.server.web.job_routes import JobStarted, start_job
from e2graphrag_integrations.server.web.options import Limits
from e2graphrag_integrations.server.web.retrieval_routes import check_settings
from e2graphrag_integrations.server.web.routing import guarded_router

router = guarded_router(max_body=4 * 2**20)

_MAX_SETTINGS = 10

SettingName = Annotated[str, Field(min_length=1, max_length=100)]


class EvaluationRequest(BaseModel):
    """Questions with gold answers, and the settings to compare.

    A question has the keys of a line in a file for `e2graphrag evaluate`: `question`, and
    `gold_ids`, `gold_spans` or `answer`. A setting has the keys of the settings of a question,
    without `history`. The first setting is the baseline.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    # Without FailFast, a request with a million wrong items would have as many errors.
    questions: Annotated[list[dict[str, Any]], FailFast()] = Field(min_length=1)
    settings: dict[SettingName, dict[str, Any]] = Field(min_length=1, max_length=_MAX_SETTINGS)


@router.post("/evaluations", response_model=JobStarted, status_code=202)
async def evaluate(call: ACall, request: EvaluationRequest) -> Response:
    """Start a job that asks questions with several settings, and measures the answers."""
    limits = call.service.options.limits
    questions, settings = await call.in_thread(lambda: _checked(request, limits))

    async def work(listen: ProgressListener) -> EvaluationReport:
        return await aevaluate(call.reader, questions, settings, progress=listen)

    return start_job(call, "evaluation", work)


def _checked(
    request: EvaluationRequest, limits: Limits
) -> tuple[list[Question], dict[str, Setting]]:
    """Return the questions and the settings of a request.

    Raises:
        InvalidInputError: If one is invalid, or there are too many.
    """
    if len(request.questions) > limits.questions:
        raise InvalidInputError(
            f"the evaluation has {len(request.questions):,} questions, and the limit of the server "
            f"is {limits.questions:,}"
        )
    questions = _questions(request.questions)
    settings = {}
    for name, values in request.settings.items():
        if values.get("history"):
            raise InvalidInputError(f"setting {name!r}: an evaluation has no history")
        settings[name] = check_settings(values, limits).setting(name)
    return questions, settings


def _questions(values: Sequence[dict[str, Any]]) -> list[Question]:
    """Return the questions; the number of each is its `line`.

    Raises:
        EvaluationError: If one is invalid.
    """
    questions = []
    for number, one in enumerate(values, 1):
        try:
            questions.append(replace(parse_question(one), line=number))
        except InvalidInputError as error:
            text = CodedText(
                "in_question",
                "question {number}: {problem}",
                number=number,
                problem=text_of(error),
            )
            raise EvaluationError(text, (number,)) from error
    return questions
