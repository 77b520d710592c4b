"""The exception tree: every error this package raises on purpose.

    E2GraphRAGError
    ├── InvalidInputError            an argument or a document that cannot be used
    │   ├── DuplicateDocumentError   an id that is there already with another text
    │   ├── UnreadableFileError      a file that is no text in a known format
    │   └── FilterError              a `where` that is not understood
    ├── UnknownDocumentError         an id that is not in the index
    ├── RerankError                  a reranker failed or returned no score for each text
    ├── MissingDependencyError       an extra, a model or a pipeline that is not installed
    ├── IndexingError                a document could not be indexed; names document and stage
    │   ├── SummaryError             the summarizer failed or returned nothing
    │   ├── EmbeddingError           the embedder returned something that is no set of vectors
    │   ├── ExtractionError          the extractor returned mentions outside its text
    │   └── StoppedError             indexing was stopped: close(), or a cancelled aadd
    └── StoreError                   the file on disk
        ├── NotAnIndexError          not a file of this package
        ├── SchemaVersionError       made by a newer version
        ├── SettingsMismatchError    opened with other settings or models than it was made with
        ├── StoreLockedError         another process is writing
        ├── CorruptStoreError        a stored row does not match its checksum
        └── ClosedError              used after close()

Messages say what was wrong, where, and what to do.
"""

from __future__ import annotations


class E2GraphRAGError(Exception):
    """Base of every error of this package."""


class InvalidInputError(E2GraphRAGError, ValueError):
    """Raised when an argument or a document cannot be used; nothing was written."""


class DuplicateDocumentError(InvalidInputError):
    """Raised by `add` for an id given twice, or present with another content."""


class UnreadableFileError(InvalidInputError):
    """Raised by the file readers for bytes that are no text in a known format."""


class FilterError(InvalidInputError):
    """Raised for a `where` that is not understood."""


class UnknownDocumentError(E2GraphRAGError, KeyError):
    """Raised by `delete` and `update` for an id that is not in the index."""

    def __str__(self) -> str:
        # KeyError would print the repr of the message.
        return str(self.args[0]) if self.args else ""


class RerankError(E2GraphRAGError):
    """Raised when a reranker fails, or returns anything but one finite score a text."""


class MissingDependencyError(E2GraphRAGError, ImportError):
    """Raised where an optional package or a model is needed and not installed."""


class IndexingError(E2GraphRAGError):
    """Raised when a document could not be indexed; it left no trace but finished cache entries."""


class SummaryError(IndexingError):
    """Raised when the summarizer failed for good or returned no text."""


class EmbeddingError(IndexingError):
    """Raised when an embedder returns the wrong shape, NaN, infinity or a zero vector."""


class ExtractionError(IndexingError):
    """Raised when an extractor returns the wrong number of texts or spans outside its text."""


class StoppedError(IndexingError):
    """Raised by work that was stopped before it was finished; what was finished is kept."""


class StoreError(E2GraphRAGError):
    """Base of the errors about the file on disk."""


class NotAnIndexError(StoreError):
    """Raised when the file is not an index of this package."""


class SchemaVersionError(StoreError):
    """Raised when the file was made by a newer version of this package."""


class SettingsMismatchError(StoreError):
    """Raised when settings or models differ from those the index was made with."""


class StoreLockedError(StoreError):
    """Raised when another process holds the write lock longer than the time-out."""


class CorruptStoreError(StoreError):
    """Raised when a stored row does not match its checksum."""


class ClosedError(StoreError):
    """Raised when an index is used after `close()`."""
