"""The server itself: health, the description of the index, and sessions of the page."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import metadata
from typing import Any

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from e2graphrag_integrations.embedders.fingerprints import describe_fingerprint
from e2graphrag_integrations.engine import E2GraphRAG
from e2graphrag_integrations.errors import ShardUnavailableError
from e2graphrag_integrations.evaluation.settings import Setting
from e2graphrag_integrations.loaders.files import READERS
from e2graphrag_integrations.reports import Stats
from e2graphrag_integrations.retrieval.strategies.by_name import STRATEGIES
from e2graphrag_integrations.retrieval.strategy import DEFAULT_K, MODES
from e2graphrag_integrations.server.web.calls import ACall, Call, as_response
from e2graphrag_integrations.server.web.problems import Problem
from e2graphrag_integrations.server.web.routing import guarded_router
from e2graphrag_integrations.server.web.service import ADD_TO_SHARDS, Service
from e2graphrag_integrations.store.index_state import RESUME, IndexState, count_documents
from e2graphrag_integrations.views.index_name import index_name
from e2graphrag_integrations.views.overview import Overview, overview

public_router = guarded_router("public", max_body=4_096)
router = guarded_router()
whole_router = guarded_router("all")

_PLAIN = (bool, int, float, str)

_WHILE_WRITING = "Documents can be added and deleted again when it has finished."
_WHILE_INDEXING = "Documents can be deleted again when it has finished."


@dataclass(frozen=True)
class Health:
    """The server answers, and can read its index."""

    status: str
    version: str


@dataclass(frozen=True)
class UploadInfo:
    """What may be uploaded."""

    max_bytes: int
    max_files: int
    suffixes: list[str]


@dataclass(frozen=True)
class LimitInfo:
    """The limits of questions and evaluations."""

    k: int
    token_budget: int
    questions: int


@dataclass(frozen=True)
class AnswerInfo:
    """The model that writes answers, and the most tokens of a prompt and of an answer."""

    model: str
    prompt_tokens: int
    max_tokens: int


@dataclass(frozen=True)
class Info:
    """The index as the client sees it, and what the client may do.

    Attributes:
        name: Name of the index.
        version: Version of the server.
        read_only: Whether the client may not add or delete documents.
        shards: Number of shards of the index; 0 if it is in one file or schema. Of all writes,
            only deletion works across shards.
        token_required: Whether clients need a token.
        client: Name of the client; empty if clients need no token.
        scope: The filter of the client; null if it sees the whole index.
        strategies: The names of the strategies.
        modes: The modes of the strategies.
        defaults: The default settings; `parameters` contains those of each strategy.
        languages: The languages of the documents, the most frequent first.
        has_llm: Whether a language model writes the summaries of new documents.
        answers: The model that writes answers; null if there is none, or not for this client.
    """

    name: str
    version: str
    read_only: bool
    shards: int
    token_required: bool
    client: str
    scope: Mapping[str, Any] | None
    stats: Stats
    strategies: list[str]
    modes: list[str]
    defaults: Mapping[str, Any]
    languages: list[str]
    has_llm: bool
    answers: AnswerInfo | None
    upload: UploadInfo
    limits: LimitInfo


@dataclass(frozen=True)
class NewVectors:
    """Vectors of another embedder, which answers do not use yet, in all shards together.

    Attributes:
        embedder: Name of the new embedder.
        old: Name of the embedder whose vectors answers use until then.
        done, total: Numbers of chunks and summaries with new vectors, and of all.
        seconds_left: Estimated seconds until they are used; null if unknown.
        running: Whether they are being computed; if not, the run was interrupted.
        command: The command that goes on, with `INDEX` or `SHARD` for the place; empty if the
            embedder has no name, or if shards have different ones.
    """

    embedder: str
    old: str
    done: int
    total: int
    seconds_left: float | None
    running: bool
    command: str


@dataclass(frozen=True)
class StateView:
    """What is indexed, what waits, what failed, and who writes, as values and as sentences.

    The page makes its own sentences from the values, in the language of its reader. A client of a
    scope learns only how many documents it sees.

    Attributes:
        indexed: Number of documents that can be searched.
        pending, processing, failed: Number of documents in each other state.
        stored: How many of the pending documents only `build()` of the LangChain or LlamaIndex
            index that stored them can index.
        resumable: How many documents the button indexes, or the command.
        writer: The other process that is writing to the index, and since when; empty if none is.
        since: Since when this server has been indexing; empty if it is not.
        documents_per_second: How many documents leave the queue per second; null if unknown.
        seconds_left: Estimated seconds until the queue is empty; null if unknown.
        description: These counts.
        lack: What answers lack; empty if they lack nothing.
        writing: Who is writing to the index, and since when; empty if nobody is.
        command: The command that indexes what is not indexed.
        pace: How fast documents are indexed, and the time left; empty if unknown.
        way_on: How to index what is not indexed; empty if nothing waits.
        action: Label of the button that indexes it; empty if the client cannot.
        blocked: Why documents cannot be added now; empty if they can.
        blocked_deletion: Why documents cannot be deleted now; empty if they can.
        new_vectors: Vectors of another embedder that are being computed; null if there are none.
        missing_shards: The names of the shards that cannot be asked, and do not count.
        version: Name of the state of the index, which every change replaces; empty for the client
            of a scope.
    """

    indexed: int
    pending: int
    processing: int
    failed: int
    stored: int
    resumable: int
    writer: str
    since: str
    documents_per_second: float | None
    seconds_left: float | None
    description: str
    lack: str
    writing: str
    command: str
    pace: str
    way_on: str
    action: str
    blocked: str
    blocked_deletion: str
    new_vectors: NewVectors | None
    missing_shards: tuple[str, ...]
    version: str


class SessionRequest(BaseModel):
    """A token, for a session of the page."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    token: str = Field(max_length=1_000)


def version() -> str:
    """Return the version of the package."""
    return metadata.version("e2graphrag-integrations")


@public_router.get("/health", response_model=Health)
async def check_health(call: ACall) -> Response:
    """Check that the server answers and can read the index."""
    await call.service.check_index()
    return as_response(Health("ok", version()))


@whole_router.get(
    "/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}}
)
async def get_metrics(call: ACall) -> Response:
    """Return the metrics of the server as text for Prometheus."""
    await call.service.count_queue()
    text, media = call.service.metrics.text()
    return Response(text, media_type=media)


@public_router.post("/session", status_code=204)
async def open_session(call: ACall, request: SessionRequest) -> Response:
    """Start a session of the page: set a cookie in exchange for a token."""
    response = Response(status_code=204)
    access = call.service.access
    if access.needs_token and access.open_session(call.request, response, request.token) is None:
        raise Problem(401, "TokenError", "the token is not valid", "token_invalid")
    return response


@public_router.delete("/session", status_code=204)
async def close_session(call: ACall) -> Response:
    """End a session of the page."""
    response = Response(status_code=204)
    call.service.access.close_session(call.request, response)
    return response


@router.get("/info", response_model=Info)
async def get_info(call: ACall) -> Response:
    """Describe the index and the limits."""
    return await call.answer(lambda: _info(call))


@router.get("/overview", response_model=Overview)
async def get_overview(call: ACall) -> Response:
    """Say what the client can ask about: counts, languages, and questions with specific names."""
    return await call.answer(lambda: overview(call.reader))


@router.get("/state", response_model=StateView)
async def get_state(call: ACall) -> Response:
    """Say what is indexed, what waits, what failed, and who writes."""
    return await call.answer(lambda: _state(call))


def _info(call: Call) -> Info:
    service, stats = call.service, call.reader.stats()
    limits, scope = service.options.limits, service.scope(call.caller)
    return Info(
        index_name(service.rag.path),
        version(),
        not service.can_write(call.caller),
        service.shards,
        service.access.needs_token,
        "" if call.caller.client is None else call.caller.client.name,
        None if scope is None else dict(scope),
        stats,
        list(STRATEGIES),
        list(MODES),
        _defaults(),
        sorted(stats.languages, key=lambda code: (-stats.languages[code], code)),
        service.rag.has_llm,
        _answers(call),
        UploadInfo(limits.upload_bytes, limits.upload_files, sorted(READERS)),
        LimitInfo(limits.k, limits.token_budget, limits.questions),
    )


def _answers(call: Call) -> AnswerInfo | None:
    options = call.service.options.answers
    if options is None or not call.service.can_answer(call.caller):
        return None
    return AnswerInfo(options.model, options.prompt_tokens, options.max_tokens)


def _state(call: Call) -> StateView:
    service, reader = call.service, call.reader
    since, version = None, ""
    missing: tuple[str, ...] = ()
    if isinstance(reader, E2GraphRAG):
        since = service.jobs.writing_since
        is_writing = since is not None
        state, missing = service.with_missing(lambda: reader.state(is_writing=is_writing))
        with contextlib.suppress(ShardUnavailableError):  # `missing` says so
            version = reader.store.generation
    else:
        state = IndexState(len(reader.document_ids))
    blocked = blocked_deletion = action = ""
    command = ADD_TO_SHARDS if service.shards else RESUME
    writing, way_on = state.writing(), state.way_on(command)
    if state.writer is not None and not service.writers_take_turns:
        blocked = blocked_deletion = _WHILE_WRITING
    elif since is not None:
        blocked_deletion = _WHILE_INDEXING
        writing = writing or f"This server has been indexing since {since}."
        way_on = way_on and "Ask again when it has finished."
    elif state.resumable and service.can_write(call.caller) and not service.shards:
        action = f"Index {count_documents(state.resumable)}"
        way_on = f"Press “{action}”."
    return StateView(
        state.indexed,
        state.pending,
        state.processing,
        state.failed,
        state.stored,
        state.resumable,
        service.explainer.shown("" if state.writer is None else str(state.writer)),
        since or "",
        state.documents_per_second,
        state.seconds_left,
        state.describe(),
        state.lack(),
        service.explainer.shown(writing),
        command,
        state.pace(),
        way_on,
        action,
        blocked,
        blocked_deletion,
        _new_vectors(service, state),
        missing,
        version,
    )


def _new_vectors(service: Service, state: IndexState) -> NewVectors | None:
    row = state.reembedding
    if row is None:
        return None
    made_with = service.rag.made_with
    old = made_with.get("embedder_model") or describe_fingerprint(
        made_with.get("embedder", ""), made_with.get("embedder_name")
    )
    model = row.embedder.model
    place = "SHARD" if service.shards else "INDEX"
    command = f"e2graphrag indexes reembed {place} {shlex.quote(model)}" if model else ""
    return NewVectors(
        row.embedder.name,
        old,
        row.done,
        row.total,
        row.seconds_left,
        row.is_running,
        command,
    )


def _defaults() -> dict[str, Any]:
    setting = {
        field.name: field.default
        for field in fields(Setting)
        if field.default is None or isinstance(field.default, _PLAIN)
    }
    parameters = {
        name: {
            field.name: field.default
            for field in fields(strategy)
            if isinstance(field.default, _PLAIN)
        }
        for name, strategy in STRATEGIES.items()
    }
    return {**setting, "k": DEFAULT_K, "strategy": next(iter(STRATEGIES)), "parameters": parameters}
