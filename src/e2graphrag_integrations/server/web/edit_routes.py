"""The corrections of entities: the list of edits, and new ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Response
from pydantic import BaseModel, ConfigDict, FailFast, Field

from e2graphrag_integrations.entities.edits import EditKind, EntityEdits
from e2graphrag_integrations.retrieval.entities.homonyms import HomonymProposal
from e2graphrag_integrations.server.web.calls import ACall, Text
from e2graphrag_integrations.server.web.routing import guarded_router

# A client of a scope must not see the names of others, which edits contain.
router = guarded_router("all")
write_router = guarded_router("write")

_MAX_EDITS = 100
"""Maximum number of items in each list of a change."""

_MAX_DOCUMENTS = 1_000
"""Maximum number of documents of a homonym."""

Names = Annotated[list[Text], FailFast(), Field(max_length=_MAX_EDITS)]


class HomonymRequest(BaseModel):
    """Documents in which a name means another entity.

    Attributes:
        name: The name.
        meaning: A new name for the other entity.
        document_ids: The documents.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: Text
    meaning: Text
    document_ids: Annotated[list[Text], FailFast(), Field(max_length=_MAX_DOCUMENTS)]


class EditRequest(BaseModel):
    """A change of the edits: either all of it applies, or none; see `edit_entities`.

    Attributes:
        alias: The name that each alias means. To merge two entities, make one an alias of the
            other.
        homonym: Documents in which names mean other entities; `GET /homonyms` proposes them.
        separate: Pairs of names that never mean the same entity.
        stop: Names that mean no entity.
        undo: Ids of edits to undo first.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    alias: Annotated[dict[Text, Text], Field(max_length=_MAX_EDITS)] = {}
    homonym: Annotated[list[HomonymRequest], FailFast(), Field(max_length=_MAX_EDITS)] = []
    separate: Annotated[
        list[Annotated[list[Text], Field(min_length=2, max_length=2)]],
        FailFast(),
        Field(max_length=_MAX_EDITS),
    ] = []
    stop: Names = []
    undo: Names = []


@dataclass(frozen=True, slots=True)
class EditView:
    """An edit.

    Attributes:
        id: Its id, with which it can be undone.
        kind: What it does with the names: `alias`, `homonym`, `separate` or `stop`.
        names: The names, as written; the ids of the documents follow those of a homonym.
        text: The edit in words.
    """

    id: str
    kind: EditKind
    names: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class EditList:
    """All edits of the index."""

    items: tuple[EditView, ...]

    @classmethod
    def of(cls, edits: EntityEdits) -> EditList:
        """Return edits as the API shows them."""
        return cls(tuple(EditView(one.id, one.kind, one.names, str(one)) for one in edits))


@dataclass(frozen=True, slots=True)
class HomonymList:
    """Names that seem to mean several entities."""

    items: tuple[HomonymProposal, ...]


@router.get("/edits", response_model=EditList)
async def list_edits(call: ACall) -> Response:
    """List the corrections of entities."""
    return await call.answer(lambda: EditList.of(call.rag.edits()))


@router.get("/homonyms", response_model=HomonymList)
async def list_homonyms(call: ACall) -> Response:
    """List the names that seem to mean several entities, the surest first."""
    return await call.answer(lambda: HomonymList(tuple(call.rag.propose_homonyms())))


@write_router.post("/edits", response_model=EditList)
async def edit_entities(call: ACall, request: EditRequest) -> Response:
    """Correct entities, or undo corrections, and list all of them."""

    def edit() -> EditList:
        call.service.check_one_index()
        call.service.check_idle()
        edits = call.rag.edit_entities(
            alias=request.alias,
            separate=[
                *((first, last) for first, last in request.separate),
                *((one.name, {one.meaning: one.document_ids}) for one in request.homonym),
            ],
            stop=request.stop,
            undo=request.undo,
        )
        return EditList.of(edits)

    return await call.answer(edit)
