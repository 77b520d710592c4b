"""Answers that a model writes from the hits of a question: `/answers`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

from fastapi import Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.retrieval.history.turns import as_turns
from e2graphrag_integrations.retrieval.strategy import MAX_QUESTION
from e2graphrag_integrations.server.web.answering.model import Ending, Model, ModelError
from e2graphrag_integrations.server.web.answering.prompt import Passage, Prompt, make_prompt
from e2graphrag_integrations.server.web.calls import ACall, Call
from e2graphrag_integrations.server.web.events import HEARTBEAT, STILL_THERE, event
from e2graphrag_integrations.server.web.metrics import Metrics
from e2graphrag_integrations.server.web.problems import Problem
from e2graphrag_integrations.server.web.retrieval_routes import check_settings
from e2graphrag_integrations.server.web.routing import guarded_router

router = guarded_router("answer")

_WAITING_PARTS = 200
"""Parts of an answer that wait for a slow client; then the model waits, too."""


class EstimateRequest(BaseModel):
    """A question, and the hits to answer it from.

    The server finds the hits again with `settings`, as `/retrieve` does, so a client can neither
    send passages of its own nor name nodes that it does not see.

    Attributes:
        nodes: Ids of the hits to answer from; null means all hits of the question.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    question: str = Field(max_length=MAX_QUESTION)
    settings: dict[str, Any] = {}
    nodes: list[str] | None = Field(default=None, max_length=10_000)


class AnswerRequest(EstimateRequest):
    """The same, with at most `max_prompt_tokens` tokens in the prompt by the estimate."""

    max_prompt_tokens: int | None = Field(default=None, ge=1)


@dataclass(frozen=True)
class PassageRef:
    """A passage of an answer: its number, which is the rank of the hit, and the node."""

    number: int
    node_id: str
    document_id: str


@dataclass(frozen=True)
class AnswerStart:
    """What the model reads, and the most that it writes.

    Attributes:
        model: Name of the model.
        prompt_tokens: Approximate number of tokens in the prompt.
        max_tokens: Maximum number of tokens in the answer.
        passages: The hits in the prompt.
        left_out: Number of hits that do not fit into the prompt.
    """

    model: str
    prompt_tokens: int
    max_tokens: int
    passages: tuple[PassageRef, ...]
    left_out: int


@dataclass(frozen=True)
class AnswerPart:
    """The next part of the answer."""

    text: str


@dataclass(frozen=True)
class AnswerDone:
    """How the answer ended; see `Ending`."""

    finish: str
    prompt_tokens: int
    completion_tokens: int
    is_estimated: bool
    seconds: float


@router.post("/answers/estimate", response_model=AnswerStart)
async def estimate_answer(call: ACall, request: EstimateRequest) -> Response:
    """Return what an answer would cost, without calling the model."""
    return await call.answer(lambda: _start(_model(call), _prompt(call, request)))


@router.post(
    "/answers",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Server-sent events: `start` (as of the estimate), `text` with the next "
            "part of the answer in `text`, and at the end `done` (`finish`, `prompt_tokens`, "
            "`completion_tokens`, `is_estimated`, `seconds`) or `failed` (`type`, `message`)",
            "content": {"text/event-stream": {}},
        }
    },
)
async def write_answer(call: ACall, request: AnswerRequest) -> Response:
    """Let the model write an answer from hits, with citations such as [2].

    The model stops when the client goes away.
    """
    service, model = call.service, _model(call)
    service.answer_rate.check(call.caller.name)
    prompt = await call.in_thread(lambda: _prompt(call, request))
    if request.max_prompt_tokens is not None and prompt.tokens > request.max_prompt_tokens:
        raise InvalidInputError(
            f"the prompt has {prompt.tokens:,} tokens, more than "
            f"max_prompt_tokens={request.max_prompt_tokens:,}: ask for the estimate again"
        )
    return service.answers.send(_events(model, prompt, service.metrics), call.caller.name)


def _model(call: Call) -> Model:
    assert call.service.model is not None  # noqa: S101 - the rights of the route check this
    return call.service.model


def _prompt(call: Call, request: EstimateRequest) -> Prompt:
    """Return the prompt for the hits of a request.

    Raises:
        Problem: If the question does not lead to one of the nodes any more.
    """
    service = call.service
    settings = check_settings(request.settings, service.options.limits)
    result, _ = settings.ask(call.reader, request.question)
    passages = [Passage(number, node) for number, node in enumerate(result.nodes, 1)]
    if request.nodes is not None:
        wanted = set(request.nodes)
        passages = [one for one in passages if one.node.node_id in wanted]
        if wanted != {one.node.node_id for one in passages}:
            raise Problem(
                409,
                "ConflictError",
                "the question leads to other hits now: ask it again",
                "other_hits",
            )
    turns = as_turns(settings.values.get("history"))
    return make_prompt(request.question, passages, turns, _model(call).options.prompt_tokens)


def _start(model: Model, prompt: Prompt) -> AnswerStart:
    refs = (
        PassageRef(one.number, one.node.node_id, one.node.document_id) for one in prompt.passages
    )
    options = model.options
    return AnswerStart(
        options.model, prompt.tokens, options.max_tokens, tuple(refs), prompt.left_out
    )


async def _events(model: Model, prompt: Prompt, metrics: Metrics) -> AsyncGenerator[bytes]:
    """Yield the events of an answer; the model stops when nobody reads them any more."""
    yield event("start", _start(model, prompt))
    started = time.monotonic()
    parts: asyncio.Queue[str | Ending | ModelError] = asyncio.Queue(_WAITING_PARTS)

    async def write() -> None:
        try:
            await parts.put(await model.answer(prompt, parts.put))
        except ModelError as error:
            await parts.put(error)

    writing = asyncio.create_task(write())
    end: Ending | ModelError | None = None
    try:
        while end is None:
            try:
                part = await asyncio.wait_for(parts.get(), HEARTBEAT)
            except TimeoutError:
                yield STILL_THERE
                continue
            if isinstance(part, str):
                yield event("text", AnswerPart(part))
            else:
                end = part
        yield _last_event(end, time.monotonic() - started)
    finally:
        if isinstance(end, Ending):
            metrics.count_answer(end.finish, end.usage)
        else:
            metrics.count_answer("stopped" if end is None else "failed")
        writing.cancel()
        await asyncio.wait({writing})  # `gather` would cancel it again while it closes


def _last_event(end: Ending | ModelError, seconds: float) -> bytes:
    if isinstance(end, ModelError):
        return event("failed", end.details)
    usage = end.usage
    done = AnswerDone(
        end.finish,
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.is_estimated,
        round(seconds, 3),
    )
    return event("done", done)
