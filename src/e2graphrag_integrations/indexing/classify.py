"""Stage `classify`: decide which documents to index and which to skip."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import get_args

from e2graphrag_integrations._utils.validation import check_choice
from e2graphrag_integrations.errors import DuplicateDocumentError, UnknownDocumentError
from e2graphrag_integrations.indexing.inputs import OnCopy, OnDuplicate
from e2graphrag_integrations.store.records import content_hash
from e2graphrag_integrations.types import SourceDocument


@dataclass(frozen=True, slots=True)
class Selection:
    """The outcome of `classify`.

    Attributes:
        to_index: New and changed documents.
        unchanged: Ids of documents already indexed with the same content, or skipped as copies.
        kept: Ids of changed documents whose stored version is kept.
    """

    to_index: list[SourceDocument]
    unchanged: list[str]
    kept: tuple[str, ...] = ()


def classify_for_add(
    documents: Iterable[SourceDocument],
    stored_hashes: Mapping[str, str],
    on_duplicate: OnDuplicate,
    on_copy: OnCopy,
    path: str,
) -> Selection:
    """Select the documents that `add` indexes; `stored_hashes` are content hashes by id.

    Raises:
        DuplicateDocumentError: If a document changed and `on_duplicate` is `error`.
        InvalidInputError: If `on_copy` is unknown.
    """
    check_choice("on_copy", on_copy, get_args(OnCopy))
    replacing = on_duplicate == "replace"
    new, changed, unchanged = _compare(
        documents, stored_hashes, skip_copies=on_copy == "skip", replacing=replacing
    )
    if changed and on_duplicate == "error":
        raise DuplicateDocumentError(
            f"{path} already has a document {changed[0].id!r} with different content: use "
            "update(), pass on_duplicate=, or choose another id"
        )
    if replacing:
        return Selection(new + changed, unchanged)
    return Selection(new, unchanged, tuple(document.id for document in changed))


def classify_for_update(
    documents: Iterable[SourceDocument], stored_hashes: Mapping[str, str], path: str
) -> Selection:
    """Select the documents that `update` indexes: those whose content changed.

    Raises:
        UnknownDocumentError: If a document is not in the index.
    """
    new, changed, unchanged = _compare(documents, stored_hashes)
    if new:
        raise UnknownDocumentError(f"{path} has no document {new[0].id!r}: use add()")
    return Selection(changed, unchanged)


def classify_for_resume(
    queued: Iterable[SourceDocument], stored_hashes: Mapping[str, str]
) -> Selection:
    """Select the queued documents that are not indexed yet."""
    new, changed, unchanged = _compare(queued, stored_hashes)
    return Selection(new + changed, unchanged)


def _compare(
    documents: Iterable[SourceDocument],
    stored_hashes: Mapping[str, str],
    *,
    skip_copies: bool = False,
    replacing: bool = False,
) -> tuple[list[SourceDocument], list[SourceDocument], list[str]]:
    """Return the new documents, the changed documents, and the ids of the unchanged ones.

    With `skip_copies`, a new document counts as unchanged if its content is already stored. With
    `replacing`, a new document is not a copy if only a version to be replaced has its content.
    """
    hashed = [(document, content_hash(document)) for document in documents]
    replaced = {
        d.id for d, hash_ in hashed if replacing and stored_hashes.get(d.id, hash_) != hash_
    }
    contents = {hash_ for id_, hash_ in stored_hashes.items() if id_ not in replaced}
    new: list[SourceDocument] = []
    changed: list[SourceDocument] = []
    unchanged: list[str] = []
    for document, hash_ in hashed:
        stored = stored_hashes.get(document.id)
        is_copy = stored is None and skip_copies and hash_ in contents
        if stored == hash_ or is_copy:
            unchanged.append(document.id)
        elif stored is None:
            new.append(document)
        else:
            changed.append(document)
        if stored is None or stored == hash_ or replacing:
            contents.add(hash_)
    return new, changed, unchanged
