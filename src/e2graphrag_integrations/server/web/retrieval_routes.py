"""Questions: `/retrieve`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Response
from pydantic import BaseModel, ConfigDict, FailFast, Field

from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.evaluation.questions import Question
from e2graphrag_integrations.retrieval.strategy import MAX_QUESTION
from e2graphrag_integrations.server.web.calls import ACall
from e2graphrag_integrations.server.web.options import Limits
from e2graphrag_integrations.server.web.problems import Problem
from e2graphrag_integrations.server.web.routing import guarded_router
from e2graphrag_integrations.views.answer import AnswerView, Settings, ask

router = guarded_router()


class GoldSpanRequest(BaseModel):
    """A half-open range of characters of a document that belongs to the answer."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    document_id: str
    start: int
    end: int


class GoldRequest(BaseModel):
    """The gold answers of a question: ids of documents or nodes, spans, or texts."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    ids: Annotated[list[str], FailFast()] = []
    spans: Annotated[list[GoldSpanRequest], FailFast()] = []
    answers: Annotated[list[str], FailFast()] = []

    def question(self, text: str) -> Question | None:
        """Return a question with these answers; None if there are none."""
        if not (self.ids or self.spans or self.answers):
            return None
        spans = [(one.document_id, one.start, one.end) for one in self.spans]
        return Question(text, self.ids, spans, self.answers)


class RetrieveRequest(BaseModel):
    """A question, the settings to answer it with, and its gold answers.

    The settings are the arguments of `retrieve`: `k`, `mode`, `strategy` (`hybrid`, `paper` or
    `tree`), `token_budget`, `where`, `expand`, `fill`, `boosts`, `min_relevance`, `as_of`,
    `history` and `paths`; all other keys are parameters of the strategy, such as `bm25_weight`.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    question: str = Field(max_length=MAX_QUESTION)
    settings: dict[str, Any] = {}
    gold: GoldRequest = GoldRequest()


def check_settings(settings: Mapping[str, Any], limits: Limits) -> Settings:
    """Return the settings of a question, within the limits of the server.

    Raises:
        InvalidInputError: If a setting is invalid.
        Problem: If one is above a limit.
    """
    for name, most in (("k", limits.k), ("token_budget", limits.token_budget)):
        value = settings.get(name)
        if isinstance(value, int) and value > most:
            message = f"{name}={short_repr(value)} is above the limit of the server, {most:,}"
            values = {"name": name, "most": most}
            raise Problem(400, "InvalidInputError", message, "above_limit", values)
    return Settings(settings)


@router.post("/retrieve", response_model=AnswerView)
async def retrieve(call: ACall, request: RetrieveRequest) -> Response:
    """Answer a question with passages, and show how they were found."""

    def find() -> AnswerView:
        settings = check_settings(request.settings, call.service.options.limits)
        gold = request.gold.question(request.question)
        return ask(call.reader, request.question, settings, gold)

    return await call.answer(find)
