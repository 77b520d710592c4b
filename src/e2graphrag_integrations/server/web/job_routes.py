"""Jobs: their states, events and results."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import Depends, Path, Response
from fastapi.responses import StreamingResponse

from e2graphrag_integrations.evaluation.report import EvaluationReport
from e2graphrag_integrations.server.web.calls import ACall, Call, PathText, as_response
from e2graphrag_integrations.server.web.events import job_events
from e2graphrag_integrations.server.web.jobs import Job, JobKind, JobView, Work
from e2graphrag_integrations.server.web.problems import Problem
from e2graphrag_integrations.server.web.routing import guarded_router

router = guarded_router()


@dataclass(frozen=True)
class JobStarted:
    """The job that was started."""

    job_id: str


@dataclass(frozen=True)
class JobList:
    """The jobs that the client may see, newest first, without their results."""

    items: list[JobView]


def start_job(
    call: Call, kind: JobKind, work: Work, at_end: Callable[[], None] = lambda: None
) -> Response:
    """Start a job, and return its id; see `Jobs.start`."""
    job = call.service.jobs.start(kind, call.caller, work, at_end)
    return as_response(JobStarted(job.view.id), 202)


async def find_job(
    call: ACall, job_id: Annotated[PathText, Path(alias="id", description="Id of the job.")]
) -> Job:
    """Return the job of a path."""
    return call.service.jobs.find(job_id, call.caller)


AJob = Annotated[Job, Depends(find_job)]


async def find_done_job(job: AJob) -> Job:
    """Return the job of a path, which must have a result."""
    if job.view.state != "done":
        message = f"the job has no result: it is {job.view.state}"
        raise Problem(409, "ConflictError", message, "no_result", {"state": job.view.state})
    return job


ADoneJob = Annotated[Job, Depends(find_done_job)]


@router.get("/jobs", response_model=JobList)
async def list_jobs(call: ACall) -> Response:
    """List the jobs."""
    jobs = call.service.jobs.visible(call.caller)
    return as_response(JobList([replace(job.view, result=None) for job in jobs]))


@router.get("/jobs/{id}", response_model=JobView)
async def get_job(job: AJob) -> Response:
    """Return a job."""
    return await asyncio.to_thread(as_response, job.view)  # its result may be large


@router.get(
    "/jobs/{id}/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}}},
)
async def follow_job(call: ACall, job: AJob) -> Response:
    """Follow a job by server-sent events: `progress`, then `done`, `failed` or `stopped`."""
    return call.service.streams.send(job_events(job), call.caller.name)


@router.delete("/jobs/{id}", response_model=JobView)
async def stop_job(call: ACall, job: AJob) -> Response:
    """Stop a job."""
    if job.owner != call.caller.name and not call.caller.can_write:
        raise Problem(403, "ReadOnlyError", "this token may only stop its own jobs", "not_own_job")
    await call.service.jobs.stop(job)
    return as_response(job.view)


@router.get("/jobs/{id}/result.json")
async def download_result(call: ACall, job: ADoneJob) -> Response:
    """Download the result of a job as JSON."""
    result = job.view.result
    text = await call.in_thread(lambda: json.dumps(result, ensure_ascii=False, indent=2) + "\n")
    return _download(text, "application/json", f"{job.view.kind}_report.json")


@router.get(
    "/jobs/{id}/result.csv",
    response_class=Response,
    responses={200: {"content": {"text/csv": {}}}},
)
async def download_scores(call: ACall, job: ADoneJob) -> Response:
    """Download the scores of an evaluation as CSV."""
    report = job.value
    if not isinstance(report, EvaluationReport):
        raise Problem(404, "UnknownResultError", "only the result of an evaluation has a CSV form")
    scores = await call.in_thread(report.to_csv)
    return _download(scores, "text/csv", "evaluation_scores.csv")


def _download(text: str, media: str, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text.encode("utf-8", "replace"), media_type=media, headers=headers)
