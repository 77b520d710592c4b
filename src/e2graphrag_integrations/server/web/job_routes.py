"""Jobs: their states, events and results."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from starlette.responses import Response

from e2graphrag_integrations.evaluation.report import EvaluationReport
from e2graphrag_integrations.server.web.jobs import Job, JobView
from e2graphrag_integrations.server.web.operations import Call, Operation, Parameter
from e2graphrag_integrations.server.web.problems import Problem

_JOB = Parameter("id", "Id of the job.", required=True)


@dataclass(frozen=True)
class JobStarted:
    """The job that was started."""

    job_id: str


@dataclass(frozen=True)
class JobList:
    """The jobs that the client may see, newest first, without their results."""

    items: list[JobView]


def job_operations() -> list[Operation]:
    """Return the operations on jobs."""
    parameters = (_JOB,)
    return [
        Operation("GET", "/jobs", _jobs, "List the jobs", answer=JobList),
        Operation("GET", "/jobs/{id}", _job, "Return a job", parameters, answer=JobView),
        Operation(
            "GET",
            "/jobs/{id}/events",
            _events,
            "Follow a job by server-sent events: `progress`, then `done`, `failed` or `stopped`",
            parameters,
            media="text/event-stream",
        ),
        Operation(
            "GET",
            "/jobs/{id}/result.json",
            _json,
            "Download the result of a job as JSON",
            parameters,
            media="application/json",
        ),
        Operation(
            "GET",
            "/jobs/{id}/result.csv",
            _csv,
            "Download the scores of an evaluation as CSV",
            parameters,
            media="text/csv",
        ),
        Operation("DELETE", "/jobs/{id}", _stop, "Stop a job", parameters, answer=JobView),
    ]


def _find(call: Call) -> Job:
    return call.service.jobs.find(call.arguments["id"], call.caller)


async def _jobs(call: Call) -> JobList:
    jobs = call.service.jobs.visible(call.caller)
    return JobList([replace(job.view, result=None) for job in jobs])


async def _job(call: Call) -> JobView:
    return _find(call).view


async def _events(call: Call) -> Response:
    return call.service.streams.follow(_find(call), call.caller.name)


async def _stop(call: Call) -> JobView:
    job = _find(call)
    if job.owner != call.caller.name and not call.caller.can_write:
        raise Problem(403, "ReadOnlyError", "this token may only stop its own jobs")
    await call.service.jobs.stop(job)
    return job.view


async def _json(call: Call) -> Response:
    job = _done(call)
    text = json.dumps(job.view.result, ensure_ascii=False, indent=2) + "\n"
    return _download(text, "application/json", f"{job.view.kind}_report.json")


async def _csv(call: Call) -> Response:
    job = _done(call)
    if not isinstance(job.value, EvaluationReport):
        raise Problem(404, "UnknownResultError", "only the result of an evaluation has a CSV form")
    return _download(job.value.to_csv(), "text/csv", "evaluation_scores.csv")


def _done(call: Call) -> Job:
    job = _find(call)
    if job.view.state != "done":
        raise Problem(409, "ConflictError", f"the job has no result: it is {job.view.state}")
    return job


def _download(text: str, media: str, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text.encode("utf-8", "replace"), media_type=media, headers=headers)
