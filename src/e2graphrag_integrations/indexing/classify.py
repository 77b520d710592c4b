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


@dataclass(frozen=True, slots=True)
class StoredDocuments:
    """The documents of an index.

    Attributes:
        path: The index file, for error messages.
        hashes: Content hash of each document by id.
        languages: Language of each document by id.
    """

    path: str
    hashes: Mapping[str, str]
    languages: Mapping[str, str]

    def contains(self, document: SourceDocument, hash_: str) -> bool:
        """Return whether a document is indexed with this content hash, and in its language.

        A document that does not say its language has that of the stored version.
        """
        language = self.languages.get(document.id)
        return self.hashes.get(document.id) == hash_ and document.language in (None, language)


def classify_for_add(
    documents: Iterable[SourceDocument],
    stored: StoredDocuments,
    on_duplicate: OnDuplicate,
    on_copy: OnCopy,
) -> Selection:
    """Select the documents that `add` indexes.

    Raises:
        DuplicateDocumentError: If a document changed and `on_duplicate` is `error`.
        InvalidInputError: If `on_copy` is unknown.
    """
    check_choice("on_copy", on_copy, get_args(OnCopy))
    replacing = on_duplicate == "replace"
    new, changed, unchanged = _compare(
        documents, stored, skip_copies=on_copy == "skip", replacing=replacing
    )
    if changed and on_duplicate == "error":
        what = "different content"
        if stored.hashes[changed[0].id] == content_hash(changed[0]):
            what = f"the language {stored.languages[changed[0].id]!r}"
        raise DuplicateDocumentError(
            f"{stored.path} already has a document {changed[0].id!r} with {what}: use "
            "update(), pass on_duplicate=, or choose another id"
        )
    if replacing:
        return Selection(new + changed, unchanged)
    return Selection(new, unchanged, tuple(document.id for document in changed))


def classify_for_update(documents: Iterable[SourceDocument], stored: StoredDocuments) -> Selection:
    """Select the documents that `update` indexes: those whose content or language changed.

    Raises:
        UnknownDocumentError: If a document is not in the index.
    """
    new, changed, unchanged = _compare(documents, stored)
    if new:
        raise UnknownDocumentError(
            f"{stored.path} has no document {new[0].id!r}: use add()", new[0].id
        )
    return Selection(changed, unchanged)


def classify_for_resume(queued: Iterable[SourceDocument], stored: StoredDocuments) -> Selection:
    """Select the queued documents that are not indexed yet."""
    new, changed, unchanged = _compare(queued, stored)
    return Selection(new + changed, unchanged)


def _compare(
    documents: Iterable[SourceDocument],
    stored: StoredDocuments,
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
        d.id for d, hash_ in hashed if replacing and stored.hashes.get(d.id, hash_) != hash_
    }
    contents = {hash_ for id_, hash_ in stored.hashes.items() if id_ not in replaced}
    new: list[SourceDocument] = []
    changed: list[SourceDocument] = []
    unchanged: list[str] = []
    for document, hash_ in hashed:
        is_new = document.id not in stored.hashes
        is_equal = stored.contains(document, hash_)
        if is_equal or (is_new and skip_copies and hash_ in contents):
            unchanged.append(document.id)
        elif is_new:
            new.append(document)
        else:
            changed.append(document)
        if is_new or is_equal or replacing:
            contents.add(hash_)
    return new, changed, unchanged
