"""Stage `classify`: decide which documents to index and which to skip."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import get_args

from e2graphrag_integrations.errors import DuplicateDocumentError, UnknownDocumentError
from e2graphrag_integrations.indexing.inputs import OnCopy, OnDuplicate, check_choice
from e2graphrag_integrations.store.records import content_hash
from e2graphrag_integrations.types import SourceDocument


@dataclass(frozen=True, slots=True)
class Selection:
    """The outcome of `classify`.

    Attributes:
        to_index: New and changed documents.
        unchanged: Ids of documents that are indexed with the same content, or skipped as copies.
        kept: Ids of changed documents of which the stored version stays.
    """

    to_index: tuple[SourceDocument, ...]
    unchanged: tuple[str, ...]
    kept: tuple[str, ...] = ()

    @property
    def skipped(self) -> tuple[str, ...]:
        """Ids of all documents that are not indexed."""
        return self.unchanged + self.kept


@dataclass(frozen=True, slots=True)
class _Groups:
    new: tuple[SourceDocument, ...]
    changed: tuple[SourceDocument, ...]
    unchanged: tuple[str, ...]


def classify_for_add(
    documents: Iterable[SourceDocument],
    stored_hashes: Mapping[str, str],
    on_duplicate: OnDuplicate,
    on_copy: OnCopy,
    path: str,
) -> Selection:
    """Select the documents that `add` indexes.

    Args:
        documents: Documents with unique ids.
        stored_hashes: Content hash of each indexed document, by id.
        on_duplicate: See `E2GraphRAG.add`.
        on_copy: See `E2GraphRAG.add`.
        path: Index file named in error messages.

    Raises:
        DuplicateDocumentError: If a document changed and `on_duplicate` is `error`.
        InvalidInputError: For an unknown `on_copy`.
    """
    replacing = on_duplicate == "replace"
    groups = _compare(documents, stored_hashes, on_copy, replacing=replacing)
    if groups.changed and on_duplicate == "error":
        raise DuplicateDocumentError(
            f"{path} already has a document {groups.changed[0].id!r} with other content: use "
            "update(), pass on_duplicate=, or choose another id"
        )
    if replacing:
        return Selection(groups.new + groups.changed, groups.unchanged)
    return Selection(groups.new, groups.unchanged, tuple(d.id for d in groups.changed))


def classify_for_update(
    documents: Iterable[SourceDocument], stored_hashes: Mapping[str, str], path: str
) -> Selection:
    """Select the documents that `update` indexes: those whose content changed.

    Raises:
        UnknownDocumentError: If a document is not in the index.
    """
    groups = _compare(documents, stored_hashes)
    if groups.new:
        raise UnknownDocumentError(f"{path} has no document {groups.new[0].id!r}: use add()")
    return Selection(groups.changed, groups.unchanged)


def classify_for_resume(
    queued: Iterable[SourceDocument], stored_hashes: Mapping[str, str]
) -> Selection:
    """Select the queued documents that are not indexed yet."""
    groups = _compare(queued, stored_hashes)
    return Selection(groups.new + groups.changed, groups.unchanged)


def _compare(
    documents: Iterable[SourceDocument],
    stored_hashes: Mapping[str, str],
    on_copy: OnCopy = "keep",
    *,
    replacing: bool = False,
) -> _Groups:
    """Group documents by their id and content hash.

    Args:
        documents: Documents with unique ids.
        stored_hashes: Content hash of each indexed document, by id.
        on_copy: `skip` counts a new document whose content is already stored as unchanged.
        replacing: Whether changed documents replace the stored versions, which then do not count
            as originals of copies.
    """
    check_choice("on_copy", on_copy, get_args(OnCopy))
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
        is_copy = stored is None and on_copy == "skip" and hash_ in contents
        if stored == hash_ or is_copy:
            unchanged.append(document.id)
        elif stored is None:
            new.append(document)
        else:
            changed.append(document)
        if stored is None or stored == hash_ or replacing:
            contents.add(hash_)
    return _Groups(tuple(new), tuple(changed), tuple(unchanged))
