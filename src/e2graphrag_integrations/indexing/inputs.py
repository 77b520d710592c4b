"""Checks of document and id arguments before anything is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

from e2graphrag_integrations._utils.validation import check_choice, check_text, short_repr
from e2graphrag_integrations.errors import DuplicateDocumentError, InvalidInputError
from e2graphrag_integrations.languages.detection import detect_languages
from e2graphrag_integrations.languages.language import AUTO, ENGLISH, checked_code
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
