"""What a caller gives to `add` and `update`, sorted out before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from e2graphrag_integrations.errors import DuplicateDocumentError, InvalidInputError
from e2graphrag_integrations.store.records import content_hash
from e2graphrag_integrations.types import SourceDocument

Documents = SourceDocument | Iterable[SourceDocument]


@dataclass(frozen=True, slots=True)
class Sorted:
    """Documents by what is to be done with them."""

    new: tuple[SourceDocument, ...]
    changed: tuple[SourceDocument, ...]
    unchanged: tuple[SourceDocument, ...]


def as_documents(given: Documents) -> list[SourceDocument]:
    """Return one document or many as a list, with ids that are all different.

    Raises:
        InvalidInputError: For something that is no document.
        DuplicateDocumentError: For an id given twice.
    """
    documents: Sequence[Any] = [given] if isinstance(given, SourceDocument) else list(given)
    seen: set[str] = set()
    for number, document in enumerate(documents):
        if not isinstance(document, SourceDocument):
            raise InvalidInputError(
                f"document {number} is a {type(document).__name__}, not a SourceDocument: wrap "
                "text as SourceDocument(id, text)"
            )
        if document.id in seen:
            raise DuplicateDocumentError(f"document id {document.id!r} is given twice")
        seen.add(document.id)
    return list(documents)


def sort_out(documents: Iterable[SourceDocument], hashes: Mapping[str, str]) -> Sorted:
    """Sort documents by the content hashes of those that are there."""
    new, changed, unchanged = [], [], []
    for document in documents:
        made = hashes.get(document.id)
        if made is None:
            new.append(document)
        elif made == content_hash(document):
            unchanged.append(document)
        else:
            changed.append(document)
    return Sorted(tuple(new), tuple(changed), tuple(unchanged))
