"""The documents and the engine of a call, checked before any write.

Documents are classified as new, known or changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, get_args

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

if TYPE_CHECKING:
    from e2graphrag_integrations.indexing.spool import SpooledDocuments

OnDuplicate = Literal["error", "skip", "replace"]
OnCopy = Literal["keep", "skip"]

Documents = SourceDocument | Iterable[SourceDocument]


_MAX_CHARACTERS_IN_MEMORY = 16_000_000
"""Length of the texts of an iterator beyond which they wait in a temporary file."""


def as_documents(given: Documents, on_duplicate: OnDuplicate = "error") -> Sequence[SourceDocument]:
    """Return one or many documents as a sequence with unique ids.

    For an id that occurs twice, `error` raises, `skip` keeps the first document, and `replace`
    keeps the last. The documents of a long iterator are read from a temporary file; those of a
    list are in the caller's memory anyway.

    Raises:
        InvalidInputError: If an item is not a document, or `on_duplicate` is unknown.
        DuplicateDocumentError: If an id occurs twice and `on_duplicate` is `error`.
    """
    check_choice("on_duplicate", on_duplicate, get_args(OnDuplicate))
    if isinstance(given, SourceDocument):
        return [given]
    if isinstance(given, Mapping):
        raise InvalidInputError(
            "documents is a mapping: wrap each text as SourceDocument(id, text, metadata=...)"
        )
    rows: dict[str, int] = {}
    kept: list[SourceDocument] | SpooledDocuments = []
    characters = 0
    for number, document in enumerate(_iterate(given, "documents must be SourceDocument objects")):
        if not isinstance(document, SourceDocument):
            raise InvalidInputError(
                f"document {number} is a {type(document).__name__}, not a SourceDocument: wrap "
                "text as SourceDocument(id, text)"
            )
        if document.id in rows and on_duplicate == "error":
            raise DuplicateDocumentError(f"document id {document.id!r} is given twice")
        if document.id not in rows:
            rows[document.id] = len(kept)
            kept.append(document)
        elif on_duplicate == "replace":
            kept[rows[document.id]] = document
        characters += len(document.text)
        is_long = characters > _MAX_CHARACTERS_IN_MEMORY and not isinstance(given, Collection)
        if is_long and isinstance(kept, list):
            from e2graphrag_integrations.indexing.spool import SpooledDocuments

            kept = SpooledDocuments(kept)
    return kept


def joined_documents(
    first: Sequence[SourceDocument], second: Sequence[SourceDocument]
) -> Sequence[SourceDocument]:
    """Return two sequences as one, in memory only if both are."""
    if isinstance(first, list) and isinstance(second, list):
        return first + second
    from e2graphrag_integrations.indexing.spool import SpooledDocuments

    return SpooledDocuments(chain(first, second))


def _selected(
    documents: Sequence[SourceDocument],
    rows: Iterable[int] | None = None,
    languages: Sequence[str | None] | None = None,
) -> Sequence[SourceDocument]:
    """Return the documents in some rows with these languages, in memory only if all of them are.

    None means all rows, and the languages that the documents have.
    """
    if not isinstance(documents, list):
        from e2graphrag_integrations.indexing.spool import SelectedDocuments

        return SelectedDocuments(documents, rows, languages)
    taken = documents if rows is None else [documents[row] for row in rows]
    if languages is None:
        return taken
    return [
        one if one.language == language else replace(one, language=language)
        for one, language in zip(taken, languages, strict=True)
    ]


def check_language(language: Any) -> str:
    """Return the argument `language`: "auto", or the code of a language.

    Raises:
        InvalidInputError: If it is neither.
    """
    return AUTO if language == AUTO else checked_code(language, "language")


def declare_language(
    documents: Sequence[SourceDocument], language: str
) -> Sequence[SourceDocument]:
    """Return documents with the argument `language` as the language of those that do not say."""
    if language == AUTO:
        return documents
    return _selected(documents, languages=[one.language or language for one in documents])


def with_languages(
    documents: Sequence[SourceDocument], known: Mapping[str, int]
) -> Sequence[SourceDocument]:
    """Return documents with their languages, which are detected where a document does not say it.

    Args:
        documents: The documents of a run.
        known: Number of documents of the index in each language.
    """
    languages = [document.language for document in documents]
    silent = [row for row, language in enumerate(languages) if language is None]
    counts = Counter(known)
    counts.update(language for language in languages if language is not None)
    detected = detect_languages(lambda: (documents[row].text for row in silent), counts)
    for row, language in zip(silent, detected, strict=True):
        languages[row] = language
    return _selected(documents, languages=languages)


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
    return list(_iterate(given, requirement))  # a generator's own TypeError reaches the caller


def _iterate(given: Any, requirement: str) -> Iterator[Any]:
    try:
        return iter(given)
    except TypeError as error:
        raise InvalidInputError(f"{requirement}, not {short_repr(given)}") from error


@dataclass(frozen=True, slots=True)
class Selection:
    """The outcome of `classify`.

    Attributes:
        to_index: New and changed documents.
        unchanged: Ids of documents already indexed with the same content, or skipped as copies.
        kept: Ids of changed documents whose stored version is kept.
    """

    to_index: Sequence[SourceDocument]
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
    documents: Sequence[SourceDocument],
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
        first = documents[changed[0]]
        what = "different content"
        if stored.hashes[first.id] == content_hash(first):
            what = f"the language {stored.languages[first.id]!r}"
        raise DuplicateDocumentError(
            f"{stored.path} already has a document {first.id!r} with {what}: use "
            "update(), pass on_duplicate=, or choose another id"
        )
    if replacing:
        return Selection(_selected(documents, new + changed), unchanged)
    kept = tuple(documents[row].id for row in changed)
    return Selection(_selected(documents, new), unchanged, kept)


def classify_for_update(documents: Sequence[SourceDocument], stored: StoredDocuments) -> Selection:
    """Select the documents that `update` indexes: those whose content or language changed.

    Raises:
        UnknownDocumentError: If a document is not in the index.
    """
    new, changed, unchanged = _compare(documents, stored)
    if new:
        first = documents[new[0]].id
        raise UnknownDocumentError(f"{stored.path} has no document {first!r}: use add()", first)
    return Selection(_selected(documents, changed), unchanged)


def classify_for_resume(queued: Sequence[SourceDocument], stored: StoredDocuments) -> Selection:
    """Select the queued documents that are not indexed yet."""
    new, changed, unchanged = _compare(queued, stored)
    return Selection(_selected(queued, new + changed), unchanged)


def _compare(
    documents: Sequence[SourceDocument],
    stored: StoredDocuments,
    *,
    skip_copies: bool = False,
    replacing: bool = False,
) -> tuple[list[int], list[int], list[str]]:
    """Return the rows of the new and of the changed documents, and the ids of the unchanged ones.

    With `skip_copies`, a new document counts as unchanged if its content is already stored. With
    `replacing`, a new document is not a copy if only a version to be replaced has its content.
    """
    hashes = [content_hash(document) for document in documents]
    replaced: set[str] = set()
    if skip_copies and replacing:
        replaced = {
            document.id
            for document, hash_ in zip(documents, hashes, strict=True)
            if stored.hashes.get(document.id, hash_) != hash_
        }
    contents = {hash_ for id_, hash_ in stored.hashes.items() if id_ not in replaced}
    new: list[int] = []
    changed: list[int] = []
    unchanged: list[str] = []
    for row, (document, hash_) in enumerate(zip(documents, hashes, strict=True)):
        is_new = document.id not in stored.hashes
        is_equal = stored.contains(document, hash_)
        if is_equal or (is_new and skip_copies and hash_ in contents):
            unchanged.append(document.id)
        elif is_new:
            new.append(row)
        else:
            changed.append(row)
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
