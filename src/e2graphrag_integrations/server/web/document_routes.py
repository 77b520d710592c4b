"""Documents: their states and texts; uploading, indexing and deleting them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any

from fastapi import Depends, Query, Response
from pydantic import BaseModel, ConfigDict, FailFast, Field

from e2graphrag_integrations._utils.failures import on_error
from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.errors import UnknownDocumentError
from e2graphrag_integrations.indexing.descriptions import keep_descriptions
from e2graphrag_integrations.reports import (
    CostEstimate,
    DeleteReport,
    IndexReport,
    ProgressListener,
)
from e2graphrag_integrations.server.web.calls import (
    ACall,
    Call,
    DocumentId,
    Number,
    Offset,
    Text,
    as_response,
    large_body,
)
from e2graphrag_integrations.server.web.job_routes import JobStarted, start_job
from e2graphrag_integrations.server.web.jobs import JobKind
from e2graphrag_integrations.server.web.problems import CodedMessage, ErrorDetails, Problem
from e2graphrag_integrations.server.web.routing import guarded_router
from e2graphrag_integrations.server.web.uploads import (
    Documents,
    FileForm,
    UploadForm,
    form_schema,
    receive_upload,
)
from e2graphrag_integrations.store.queue import read_queue
from e2graphrag_integrations.store.records import content_hash
from e2graphrag_integrations.types import SourceDocument
from e2graphrag_integrations.views.documents import (
    DocumentPage,
    Order,
    Status,
    TextPart,
    document_page,
    text_part,
)
from e2graphrag_integrations.views.json_values import to_json

router = guarded_router()
write_router = guarded_router("write")

MAX_SELECTED = 1_000
"""Maximum number of documents that one request deletes or indexes again."""


_ESTIMATE = 5
"""Maximum time for the cost of files, in multiples of that of other requests: a thousand pages of
PDF take more than a minute to read."""


@dataclass(frozen=True, slots=True)
class UploadEstimate(CostEstimate):
    """The estimated cost of an upload; see `CostEstimate`.

    Attributes:
        replaces: Ids of the documents whose text or metadata would be replaced.
        empty: Ids of the documents without text, which no question finds.
        unread: Why files cannot be read, by name; they are not indexed.
        warnings: What may be wrong with the texts of files, by name: an encoding that was guessed,
            damaged places, or pages that are images.
    """

    replaces: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    unread: Mapping[str, ErrorDetails] = field(default_factory=dict)
    warnings: Mapping[str, list[CodedMessage]] = field(default_factory=dict)


class DocumentIds(BaseModel):
    """Documents by id; an id that is given twice counts once."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    ids: Annotated[list[Text], FailFast(), Field(min_length=1, max_length=MAX_SELECTED)]


class SelectedForIndexing(DocumentIds):
    """Documents to index, with at most `max_llm_calls` calls of the language model."""

    max_llm_calls: int | None = Field(default=None, ge=0)


@router.get("/documents", response_model=DocumentPage)
async def list_documents(
    call: ACall,
    *,
    offset: Offset = 0,
    limit: Annotated[int, Query(description="Maximum number of documents.", ge=1, le=500)] = 50,
    status: Annotated[Status | None, Query(description="Only documents with this status.")] = None,
    search: Annotated[
        Text, Query(description="Only documents whose id or title contains this.")
    ] = "",
    order: Annotated[
        Order,
        Query(
            description="What to sort by; a minus means descending. Titles, and ids of documents "
            "without one, are in natural order: page 2 comes before page 10."
        ),
    ] = "title",
) -> Response:
    """List the documents and their states."""
    shown = call.service.explainer.shown

    def find() -> DocumentPage:
        page = document_page(
            call.reader, offset=offset, limit=limit, status=status, search=search, order=order
        )
        items = (replace(one, reason=one.reason and shown(one.reason)) for one in page.items)
        return replace(page, items=tuple(items))

    return await call.answer(find)


@router.get("/documents/{id}", response_model=TextPart)
async def get_text(
    call: ACall,
    document_id: DocumentId,
    start: Annotated[Number, Query(description="First character.")] = 0,
    end: Annotated[
        Number | None, Query(description="End of the part, at most 20,000 characters on.")
    ] = None,
) -> Response:
    """Return a part of the text of a document."""
    return await call.answer(lambda: text_part(call.reader, document_id, start, end))


@write_router.post(
    "/documents/estimate",
    response_model=UploadEstimate,
    dependencies=[Depends(large_body)],
    openapi_extra=form_schema(FileForm),
)
async def estimate_upload(call: ACall) -> Response:
    """Return the cost of indexing files, without calling a model."""
    call.service.check_one_index()
    call.service.admission.check_rate(call.caller.name)
    upload = await receive_upload(call.request, call.service.options.limits, FileForm)
    most, stopped = _ESTIMATE * call.service.options.limits.seconds, threading.Event()
    try:
        async with call.service.estimating_turn():
            return await call.answer(lambda: _estimated(call, upload.read(stopped.is_set)), most)
    finally:
        stopped.set()  # the thread goes on if the client went away
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
        warnings=_warnings(call, read),
    )


def _reasons(call: Call, read: Documents) -> dict[str, ErrorDetails]:
    """Return why files cannot be read, by name."""
    explainer = call.service.explainer
    return {
        name: error.details if isinstance(error, Problem) else explainer.reason(error)
        for name, error in read.unread.items()
    }


def _warnings(call: Call, read: Documents) -> dict[str, list[CodedMessage]]:
    """Return what may be wrong with the texts of files, by name."""
    message = call.service.explainer.message
    return {name: list(map(message, texts)) for name, texts in read.warnings.items()}


def _differs(call: Call, document: SourceDocument) -> bool:
    """Return whether another version of a document is indexed."""
    try:
        return content_hash(call.rag.document(document.id)) != content_hash(document)
    except UnknownDocumentError:
        return False


@write_router.post(
    "/documents",
    response_model=JobStarted,
    status_code=202,
    dependencies=[Depends(large_body)],
    openapi_extra=form_schema(UploadForm),
)
async def upload_documents(call: ACall) -> Response:
    """Start a job that indexes files."""
    _check_write(call, "upload")
    upload = await receive_upload(call.request, call.service.options.limits, UploadForm)

    async def work(listen: ProgressListener) -> dict[str, Any]:
        read = await upload.aread()
        read.check()
        store = call.rag.store
        documents = await asyncio.to_thread(keep_descriptions, store, read.documents)
        report = await call.rag.aadd(
            documents,
            on_duplicate=upload.form.on_duplicate,
            max_llm_calls=upload.form.max_llm_calls,
            progress=listen,
        )
        files: dict[str, Any] = to_json(
            {"unread": _reasons(call, read), "warnings": _warnings(call, read)}
        )
        return _shown_report(call, report) | files

    with on_error(lambda _: upload.close()):
        return start_job(call, "upload", work, upload.close)


@write_router.post("/documents/resume", response_model=JobStarted, status_code=202)
async def resume_indexing(call: ACall) -> Response:
    """Start a job that indexes the documents that are pending or have failed."""
    _check_write(call, "resume")

    async def work(listen: ProgressListener) -> dict[str, Any]:
        return _shown_report(call, await call.rag.aresume(progress=listen))

    return start_job(call, "resume", work)


@write_router.post("/reindex", response_model=JobStarted, status_code=202)
async def reindex(call: ACall) -> Response:
    """Start a job that extracts the entities of all documents again, with the newest rules."""
    _check_write(call, "reindex")

    async def work(listen: ProgressListener) -> dict[str, Any]:
        return _shown_report(call, await call.rag.areindex(progress=listen))

    return start_job(call, "reindex", work)


@write_router.post("/documents/{id}/reindex", response_model=JobStarted, status_code=202)
async def reindex_document(call: ACall, document_id: DocumentId) -> Response:
    """Start a job that indexes a document that is pending or has failed."""
    _check_write(call, "reindex")
    [document] = await call.in_thread(lambda: _queued(call, [document_id]))

    async def work(listen: ProgressListener) -> dict[str, Any]:
        report = await call.rag.aadd(document, on_duplicate="replace", progress=listen)
        return _shown_report(call, report)

    return start_job(call, "reindex", work)


@write_router.post("/documents/reindex/estimate", response_model=CostEstimate)
async def estimate_reindexing(call: ACall, selected: DocumentIds) -> Response:
    """Return the cost of indexing documents that are pending or have failed."""
    call.service.check_one_index()
    call.service.admission.check_rate(call.caller.name)
    async with call.service.estimating_turn():
        cost = await call.in_thread(lambda: call.rag.estimate(_queued(call, selected.ids)))
    return as_response(cost)


@write_router.post("/documents/reindex", response_model=JobStarted, status_code=202)
async def reindex_documents(call: ACall, selected: SelectedForIndexing) -> Response:
    """Start a job that indexes documents that are pending or have failed: all, or none starts."""
    _check_write(call, "reindex")
    documents = await call.in_thread(lambda: _queued(call, selected.ids))

    async def work(listen: ProgressListener) -> dict[str, Any]:
        report = await call.rag.aadd(
            documents,
            on_duplicate="replace",
            max_llm_calls=selected.max_llm_calls,
            progress=listen,
        )
        return _shown_report(call, report)

    return start_job(call, "reindex", work)


def _queued(call: Call, ids: Sequence[str]) -> list[SourceDocument]:
    """Return documents that are pending or have failed.

    Raises:
        UnknownDocumentError: If there is no such document.
        Problem: If one is indexed.
    """
    found = {one.id: one for one in read_queue(call.rag.store, ids)}
    for id_ in ids:
        if id_ not in found:
            call.rag.document(id_)
            which = "the document" if len(ids) == 1 else f"the document {short_repr(id_)}"
            message = f"{which} is indexed: upload it again to replace it"
            raise Problem(409, "ConflictError", message, "document_indexed", {"id": id_})
    return list(found.values())


@write_router.delete("/documents/{id}", response_model=DeleteReport)
async def delete_document(call: ACall, document_id: DocumentId) -> Response:
    """Delete a document."""
    return await call.answer(lambda: _delete(call, [document_id]))


@write_router.post("/documents/delete", response_model=DeleteReport)
async def delete_documents(call: ACall, selected: DocumentIds) -> Response:
    """Delete documents in one write: all of them, or none if one is unknown."""
    return await call.answer(lambda: _delete(call, selected.ids))


def _delete(call: Call, ids: Sequence[str]) -> DeleteReport:
    call.service.check_idle()
    return call.rag.delete(ids)


def _check_write(call: Call, kind: JobKind) -> None:
    """Check that a job that writes can start, before its files are received."""
    call.service.check_one_index()
    call.service.admission.check_rate(call.caller.name)
    call.service.jobs.check_room(kind, call.caller)
    call.service.check_writable()


def _shown_report(call: Call, report: IndexReport) -> dict[str, Any]:
    """Return a report whose messages contain neither paths nor secrets."""
    shown = call.service.explainer.shown
    values = report.to_dict()
    return values | {"failed": {id_: shown(text) for id_, text in report.failed.items()}}
