"""What a caller gives to `add` and `update`, sorted out before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from e2graphrag_integrations._utils.validation import check_text, short_repr
from e2graphrag_integrations.errors import DuplicateDocumentError, InvalidInputError
from e2graphrag_integrations.store.records import content_hash
from e2graphrag_integrations.types import SourceDocument

OnDuplicate = Literal["error", "skip", "replace"]
OnCopy = Literal["keep", "skip"]
_ON_DUPLICATE: tuple[OnDuplicate, ...] = get_args(OnDuplicate)
_ON_COPY: tuple[OnCopy, ...] = get_args(OnCopy)

Documents = SourceDocument | Iterable[SourceDocument]


@dataclass(frozen=True, slots=True)
class ClassifiedDocuments:
    """Documents by what is to be done with them."""

    new: tuple[SourceDocument, ...]
    changed: tuple[SourceDocument, ...]
    unchanged: tuple[SourceDocument, ...]


def as_documents(given: Documents, on_duplicate: OnDuplicate = "error") -> list[SourceDocument]:
    """Return one document or many as a list, with ids that are all different.

    Args:
        given: By the user.
        on_duplicate: `skip` keeps the first of those with one id, `replace` the last.

    Raises:
        InvalidInputError: For something that is no document, or an unknown `on_duplicate`.
        DuplicateDocumentError: For an id given twice.
    """
    if on_duplicate not in _ON_DUPLICATE:
        raise InvalidInputError(
            f"on_duplicate={short_repr(on_duplicate)}: choose one of {', '.join(_ON_DUPLICATE)}"
        )
    if isinstance(given, SourceDocument):
        return [given]
    documents = _listed(given, "documents must be one or many SourceDocument")
    seen: dict[str, SourceDocument] = {}
    for number, document in enumerate(documents):
        if not isinstance(document, SourceDocument):
            raise InvalidInputError(
                f"document {number} is a {type(document).__name__}, not a SourceDocument: wrap "
                "text as SourceDocument(id, text)"
            )
        if document.id in seen and on_duplicate == "error":
            raise DuplicateDocumentError(f"document id {document.id!r} is given twice")
        if document.id not in seen or on_duplicate == "replace":
            seen[document.id] = document
    return list(seen.values())


def as_id(given: Any) -> str:
    """Return the id of a document.

    Raises:
        InvalidInputError: For what can be none.
    """
    return check_text("a document's id", given)


def as_ids(given: str | Iterable[str]) -> list[str]:
    """Return one id or many as a list, each once.

    Raises:
        InvalidInputError: For something that is no id.
    """
    ids = [given] if isinstance(given, str) else _listed(given, "ids must be one or many strings")
    return list(dict.fromkeys(as_id(one) for one in ids))


def as_list(given: Any, name: str) -> list[Any]:
    """Return what was given as many as a list.

    Raises:
        InvalidInputError: For one string, or what cannot be a list.
    """
    if isinstance(given, str | bytes | Mapping):
        raise InvalidInputError(f"{name}={short_repr(given)} must be a list")
    return _listed(given, f"{name} must be a list")


def _listed(given: Any, wanted: str) -> list[Any]:
    try:
        items = iter(given)
    except TypeError as error:
        raise InvalidInputError(f"{wanted}, not {short_repr(given)}") from error
    return list(items)  # outside: an error of the caller's own generator is the caller's


def classify(
    documents: Iterable[SourceDocument],
    hashes: Mapping[str, str],
    on_copy: OnCopy = "keep",
    *,
    replacing: bool = False,
) -> ClassifiedDocuments:
    """Sort documents by the content hashes of those that are there.

    Args:
        documents: With ids that are all different.
        hashes: Of the documents that are there, by id.
        on_copy: Whether new ones that are copies of others count as new (`keep`), or as unchanged.
        replacing: Whether changed ones take the place of those there, which then have no copies.

    Raises:
        InvalidInputError: For an unknown `on_copy`.
    """
    if on_copy not in _ON_COPY:
        raise InvalidInputError(
            f"on_copy={short_repr(on_copy)}: choose one of {', '.join(_ON_COPY)}"
        )
    new, changed, unchanged = [], [], []
    given = [(document, content_hash(document)) for document in documents]
    gone = {d.id for d, now in given if replacing and hashes.get(d.id, now) != now}
    there = {hash_ for id_, hash_ in hashes.items() if id_ not in gone}
    for document, now in given:
        before = hashes.get(document.id)
        if before == now or (before is None and on_copy == "skip" and now in there):
            unchanged.append(document)
        elif before is None:
            new.append(document)
        else:
            changed.append(document)
            if not replacing:
                continue  # its text does not come in
        there.add(now)
    return ClassifiedDocuments(tuple(new), tuple(changed), tuple(unchanged))
