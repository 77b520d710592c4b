"""Documents: their states and texts; uploading, indexing and deleting them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, get_args

from e2graphrag_integrations._utils.on_error import on_error
from e2graphrag_integrations.errors import UnknownDocumentError
from e2graphrag_integrations.indexing.descriptions import keep_descriptions
from e2graphrag_integrations.indexing.inputs import OnDuplicate
from e2graphrag_integrations.reports import (
    CostEstimate,
    DeleteReport,
    IndexReport,
    ProgressListener,
)
from e2graphrag_integrations.server.web.job_routes import JobStarted
from e2graphrag_integrations.server.web.jobs import JobKind, Work
from e2graphrag_integrations.server.web.operations import Call, Operation, Parameter
from e2graphrag_integrations.server.web.problems import Problem
from e2graphrag_integrations.server.web.uploads import Documents, Upload, receive_upload
from e2graphrag_integrations.store.queue import read_queue
from e2graphrag_integrations.store.records import content_hash
from e2graphrag_integrations.types import SourceDocument
from e2graphrag_integrations.views.documents import (
    DocumentPage,
    Status,
    TextPart,
    document_page,
    text_part,
)

DOCUMENT = Parameter("id", "Id of the document.", required=True)

_FORM = (
    Parameter(
        "on_duplicate",
        "For a document that is indexed with another text: `error`, `skip` or `replace`.",
        "error",
        choices=get_args(OnDuplicate),
    ),
    Parameter(
        "max_llm_calls",
        "Stop before the first LLM call if the summaries need more calls than this.",
        is_number=True,
    ),
)


@dataclass(frozen=True, slots=True)
class UploadEstimate(CostEstimate):
    """The estimated cost of an upload; see `CostEstimate`.

    Attributes:
        replaces: Ids of the documents whose text or metadata would be replaced.
        empty: Ids of the documents without text, which no question finds.
        unread: Why files cannot be read, by name; they are not indexed.
    """

    replaces: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)


def document_operations() -> list[Operation]:
    """Return the operations on documents."""
    return [
        Operation(
            "GET",
            "/documents",
            _documents,
            "List the documents and their states",
            parameters=(
                Parameter("offset", "Number of documents to skip.", 0),
                Parameter("limit", "Maximum number of documents.", 50, 1, 500),
                Parameter("status", "Only documents with this status.", choices=get_args(Status)),
                Parameter("search", "Only documents whose id or title contains this.", ""),
            ),
            answer=DocumentPage,
        ),
        Operation(
            "GET",
            "/documents/{id}",
            _text,
            "Return a part of the text of a document",
            parameters=(
                DOCUMENT,
                Parameter("start", "First character.", 0),
                Parameter("end", "End of the part, at most 20,000 characters on.", is_number=True),
            ),
            answer=TextPart,
        ),
        *_write_operations(),
    ]


def _documents(call: Call) -> DocumentPage:
    found = call.arguments
    page = document_page(
        call.reader,
        offset=found["offset"],
        limit=found["limit"],
        status=found["status"],
        search=found["search"],
    )
    shown = call.service.explainer.shown
    items = (replace(one, reason=one.reason and shown(one.reason)) for one in page.items)
    return replace(page, items=tuple(items))


def _text(call: Call) -> TextPart:
    found = call.arguments
    return text_part(call.reader, found["id"], found["start"], found["end"])


def _write_operations() -> list[Operation]:
    one = (DOCUMENT,)
    return [
        Operation(
            "POST",
            "/documents/estimate",
            _estimate,
            "Return the cost of indexing files, without calling a model",
            uploads=True,
            answer=UploadEstimate,
            rights="write",
        ),
        Operation(
            "POST",
            "/documents",
            _upload,
            "Start a job that indexes files",
            uploads=True,
            form=_FORM,
            answer=JobStarted,
            status=202,
            rights="write",
        ),
        Operation(
            "POST",
            "/documents/resume",
            _resume,
            "Start a job that indexes the documents that are pending or have failed",
            answer=JobStarted,
            status=202,
            rights="write",
        ),
        Operation(
            "POST",
            "/documents/{id}/reindex",
            _reindex_document,
            "Start a job that indexes a document that is pending or has failed",
            one,
            answer=JobStarted,
            status=202,
            rights="write",
        ),
        Operation(
            "POST",
            "/reindex",
            _reindex,
            "Start a job that extracts the entities of all documents again, with the newest rules",
            answer=JobStarted,
            status=202,
            rights="write",
        ),
        Operation(
            "DELETE",
            "/documents/{id}",
            _delete,
            "Delete a document",
            one,
            answer=DeleteReport,
            rights="write",
        ),
    ]


async def _receive(call: Call, fields: tuple[Parameter, ...] = ()) -> Upload:
    return await receive_upload(call.request, call.service.options.limits, fields)


async def _estimate(call: Call) -> UploadEstimate:
    call.service.admission.check_rate(call.caller.name)
    upload = await _receive(call)
    try:
        async with call.service.estimating:  # it takes a thread from questions
            return await call.in_thread(lambda: _estimated(call, upload.read()))
    finally:
        upload.close()


def _estimated(call: Call, read: Documents) -> UploadEstimate:
    kept = keep_descriptions(call.rag.store, read.documents)
    cost = call.rag.estimate(kept)
    values = {one.name: getattr(cost, one.name) for one in fields(cost)}
    return UploadEstimate(
        **values,
        replaces=tuple(one.id for one in kept if _differs(call, one)),
        empty=tuple(one.id for one in kept if not one.text.strip()),
        unread=_reasons(call, read),
    )


def _reasons(call: Call, read: Documents) -> dict[str, str]:
    """Return why files cannot be read, by name."""
    shown = call.service.explainer.shown
    return {name: shown(str(error)) for name, error in read.unread.items()}


def _differs(call: Call, document: SourceDocument) -> bool:
    """Return whether another version of a document is indexed."""
    try:
        return content_hash(call.rag.document(document.id)) != content_hash(document)
    except UnknownDocumentError:
        return False


async def _upload(call: Call) -> JobStarted:
    _check_write(call, "upload")
    upload = await _receive(call, _FORM)

    async def work(listen: ProgressListener) -> dict[str, Any]:
        read = await upload.aread()
        read.check()
        store = call.rag.store
        documents = await asyncio.to_thread(keep_descriptions, store, read.documents)
        report = await call.rag.aadd(
            documents,
            on_duplicate=upload.fields["on_duplicate"],
            max_llm_calls=upload.fields["max_llm_calls"],
            progress=listen,
        )
        return _shown_report(call, report) | {"unread": _reasons(call, read)}

    with on_error(lambda _: upload.close()):
        return _start(call, "upload", work, upload.close)


async def _resume(call: Call) -> JobStarted:
    _check_write(call, "resume")

    async def work(listen: ProgressListener) -> dict[str, Any]:
        return _shown_report(call, await call.rag.aresume(progress=listen))

    return _start(call, "resume", work)


async def _reindex(call: Call) -> JobStarted:
    _check_write(call, "reindex")

    async def work(listen: ProgressListener) -> dict[str, Any]:
        return _shown_report(call, await call.rag.areindex(progress=listen))

    return _start(call, "reindex", work)


async def _reindex_document(call: Call) -> JobStarted:
    _check_write(call, "reindex")
    id_ = call.arguments["id"]
    [document] = await call.in_thread(lambda: _queued(call, id_))

    async def work(listen: ProgressListener) -> dict[str, Any]:
        report = await call.rag.aadd(document, on_duplicate="replace", progress=listen)
        return _shown_report(call, report)

    return _start(call, "reindex", work)


def _queued(call: Call, id_: str) -> list[SourceDocument]:
    """Return a document that is pending or has failed.

    Raises:
        UnknownDocumentError: If there is no such document.
        Problem: If it is indexed.
    """
    found = [one.document for one in read_queue(call.rag.store, [id_])]
    if not found:
        call.rag.document(id_)
        raise Problem(
            409, "ConflictError", "the document is indexed: upload it again to replace it"
        )
    return found


def _delete(call: Call) -> DeleteReport:
    if call.service.jobs.writing_since is not None:
        raise Problem(409, "ConflictError", "a job is writing to the index: wait, or stop it")
    call.service.check_writable()
    return call.rag.delete(call.arguments["id"])


def _check_write(call: Call, kind: JobKind) -> None:
    """Check that a job that writes can start, before its files are received."""
    call.service.admission.check_rate(call.caller.name)
    call.service.jobs.check_room(kind, call.caller)
    call.service.check_writable()


def _start(
    call: Call, kind: JobKind, work: Work, at_end: Callable[[], None] = lambda: None
) -> JobStarted:
    return JobStarted(call.service.jobs.start(kind, call.caller, work, at_end).view.id)


def _shown_report(call: Call, report: IndexReport) -> dict[str, Any]:
    """Return a report whose messages contain neither paths nor secrets."""
    shown = call.service.explainer.shown
    values = report.to_dict()
    return values | {"failed": {id_: shown(text) for id_, text in report.failed.items()}}
