"""What a caller gives to `add` and `update`, sorted out before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from e2graphrag_integrations.checks import checked_text, shown
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
    if isinstance(given, SourceDocument):
        return [given]
    documents = _listed(given, "documents must be one or many SourceDocument")
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
    return documents


def as_id(given: Any) -> str:
    """Return the id of a document.

    Raises:
        InvalidInputError: For what can be none.
    """
    return checked_text("a document's id", given)


def as_ids(given: str | Iterable[str]) -> list[str]:
    """Return one id or many as a list, each once.

    Raises:
        InvalidInputError: For something that is no id.
    """
    ids = [given] if isinstance(given, str) else _listed(given, "ids must be one or many strings")
    return list(dict.fromkeys(as_id(one) for one in ids))


def listed(given: Any, name: str) -> list[Any]:
    """Return what was given as many as a list.

    Raises:
        InvalidInputError: For one string, or what cannot be a list.
    """
    if isinstance(given, str | bytes | Mapping):
        raise InvalidInputError(f"{name}={shown(given)} must be a list")
    return _listed(given, f"{name} must be a list")


def _listed(given: Any, wanted: str) -> list[Any]:
    try:
        items = iter(given)
    except TypeError as error:
        raise InvalidInputError(f"{wanted}, not {shown(given)}") from error
    return list(items)  # outside: an error of the caller's own generator is the caller's


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
