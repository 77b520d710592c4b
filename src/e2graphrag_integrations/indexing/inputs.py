"""The documents and the engine of a call, checked before any write.

Documents are classified as new, known or changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from e2graphrag_integrations._utils.validation import check_choice, check_text, short_repr
from e2graphrag_integrations.errors import (
    DuplicateDocumentError,
    InvalidInputError,
    UnknownDocumentError,
)
from e2graphrag_integrations.indexing.stages.work import IndexingEngine, LocalEngine
from e2graphrag_integrations.languages.detection import detect_languages
from e2graphrag_integrations.languages.language import AUTO, ENGLISH, checked_code
from e2graphrag_integrations.store.records import content_hash
from e2graphrag_integrations.types import SourceDocument

OnDuplicate = Literal["error", "skip", "replace"]
OnCopy = Literal["keep", "skip"]

Documents = SourceDocument | Iterable[SourceDocument]


def as_documents(given: Documents, on_duplicate: OnDuplicate = "error") -> list[SourceDocument]:
    """Return one or many documents as a list with unique ids.

    For an id that occurs twice, `error` raises, `skip` keeps the first document, and `replace`
    keeps the last.

    Raises:
        InvalidInputError: If an item is not a document, or `on_duplicate` is unknown.
        DuplicateDocumentError: If an id occurs twice and `on_duplicate` is `error`.
    """
    check_choice("on_duplicate", on_duplicate, get_args(OnDuplicate))
    if isinstance(given, SourceDocument):
        return [given]
    by_id: dict[str, SourceDocument] = {}
    for number, document in enumerate(_as_list(given, "documents must be SourceDocument objects")):
        if not isinstance(document, SourceDocument):
            raise InvalidInputError(
                f"document {number} is a {type(document).__name__}, not a SourceDocument: wrap "
                "text as SourceDocument(id, text)"
            )
        if document.id in by_id and on_duplicate == "error":
            raise DuplicateDocumentError(f"document id {document.id!r} is given twice")
        if document.id not in by_id or on_duplicate == "replace":
            by_id[document.id] = document
    return list(by_id.values())


def check_language(language: Any) -> str:
    """Return the argument `language`: "auto", or the code of a language.

    Raises:
        InvalidInputError: If it is neither.
    """
    return AUTO if language == AUTO else checked_code(language, "language")


def declare_language(documents: Iterable[SourceDocument], language: str) -> list[SourceDocument]:
    """Return documents with the argument `language` as the language of those that do not say."""
    if language == AUTO:
        return list(documents)
    return [
        replace(document, language=language) if document.language is None else document
        for document in documents
    ]


def with_languages(
    documents: Iterable[SourceDocument], known: Mapping[str, int]
) -> list[SourceDocument]:
    """Return documents with their languages, which are detected where a document does not say it.

    Args:
        documents: The documents of a run.
        known: Number of documents of the index in each language.
    """
    documents = list(documents)
    silent = [document for document in documents if document.language is None]
    known = Counter(known)
    known.update(document.language for document in documents if document.language is not None)
    detected = dict(
        zip(map(id, silent), detect_languages((one.text for one in silent), known), strict=True)
    )
    return [
        replace(document, language=detected.get(id(document), document.language))
        for document in documents
    ]


def languages_of(documents: Iterable[SourceDocument]) -> set[str]:
    """Return the languages of documents."""
    return {document.language or ENGLISH for document in documents}


def as_ids(given: str | Iterable[str]) -> list[str]:
    """Return one or many ids as a list without duplicates.

    Raises:
        InvalidInputError: If an id is not a valid string.
    """
    ids = [given] if isinstance(given, str) else _as_list(given, "ids must be strings")
    return list(dict.fromkeys(check_text("document id", one) for one in ids))


def as_list(given: Any, name: str) -> list[Any]:
    """Return an iterable argument as a list.

    Raises:
        InvalidInputError: If the argument is a string or a mapping, or is not iterable.
    """
    if isinstance(given, str | bytes | Mapping):
        raise InvalidInputError(f"{name}={short_repr(given)} must be a list")
    return _as_list(given, f"{name} must be a list")


def _as_list(given: Any, requirement: str) -> list[Any]:
    try:
        items = iter(given)
    except TypeError as error:
        raise InvalidInputError(f"{requirement}, not {short_repr(given)}") from error
    return list(items)  # outside the try block: a generator's own TypeError reaches the caller


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


EngineArgument = IndexingEngine | Literal["local", "ray"]
"""An engine, or the name of one with its defaults."""


def as_engine(engine: Any) -> IndexingEngine:
    """Return the engine for `"local"` or `"ray"`, or an engine unchanged.

    Raises:
        InvalidInputError: If the argument is neither.
    """
    if engine == "local":
        return LocalEngine()
    if engine == "ray":
        from e2graphrag_integrations.indexing.ray.engine import RayEngine

        return RayEngine()
    if isinstance(engine, IndexingEngine) and not isinstance(engine, type):
        return engine
    raise InvalidInputError(
        f'engine={short_repr(engine)} must be "local", "ray", or an engine such as RayEngine()'
    )
