"""The metadata of the documents that a client sees: keys, kinds and values, for filters."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response

from e2graphrag_integrations.server.web.calls import ACall, Text
from e2graphrag_integrations.server.web.problems import Problem
from e2graphrag_integrations.server.web.routing import guarded_router
from e2graphrag_integrations.views.metadata import (
    MAX_VALUES,
    KeyView,
    MetadataView,
    key_view,
    metadata_view,
)

router = guarded_router()

Limit = Annotated[int, Query(description="Maximum number of values.", ge=1, le=MAX_VALUES)]


@router.get("/metadata", response_model=MetadataView)
async def list_metadata(call: ACall, *, limit: Limit = 20) -> Response:
    """List the keys of the metadata with their most frequent values and numbers of documents."""
    return await call.answer(
        lambda: call.reader.read_snapshot(lambda snapshot, _: metadata_view(snapshot, limit))
    )


@router.get("/metadata/values", response_model=KeyView)
async def list_values(
    call: ACall,
    *,
    key: Annotated[Text, Query(description="A key of the metadata.")],
    search: Annotated[Text, Query(description="Only values that contain this.")] = "",
    limit: Limit = 20,
) -> Response:
    """List the values of one key that contain a text, those of the most documents first."""

    def find() -> KeyView:
        found = call.reader.read_snapshot(
            lambda snapshot, _: key_view(snapshot, key, search, limit)
        )
        if found is None:
            raise Problem(404, "UnknownKeyError", "no document has this key")
        return found

    return await call.answer(find)
