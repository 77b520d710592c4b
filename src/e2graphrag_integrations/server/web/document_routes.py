"""Documents: their states and texts."""

from __future__ import annotations

from typing import get_args

from e2graphrag_integrations.server.web.operations import Call, Operation, Parameter
from e2graphrag_integrations.views.documents import (
    DocumentPage,
    Status,
    TextPart,
    document_page,
    text_part,
)

DOCUMENT = Parameter("id", "Id of the document.", required=True)


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
    ]


def _documents(call: Call) -> DocumentPage:
    found = call.arguments
    return document_page(
        call.reader,
        offset=found["offset"],
        limit=found["limit"],
        status=found["status"],
        search=found["search"],
    )


def _text(call: Call) -> TextPart:
    found = call.arguments
    return text_part(call.reader, found["id"], found["start"], found["end"])
