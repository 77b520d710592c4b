"""Exceptions raised by this package.

::

    E2GraphRAGError
    ├── InvalidInputError            an invalid argument, filter, document or metadata
    │   ├── DuplicateDocumentError   an id that is already indexed with different content
    │   ├── UnreadableFileError      a file that cannot be read as text
    │   │   └── FileLimitError       a file that exceeds a limit of `LoaderLimits`
    │   ├── EvaluationError          invalid questions or settings of an evaluation
    │   ├── UnknownNodeError         a node id that is not in the index
    │   └── LLMCallLimitError        the summaries need more calls than `max_llm_calls`
    ├── UnknownDocumentError         an id that is not in the index
    ├── UnknownEntityError           a name of no entity in the index
    ├── NotPicklableError            an index with parts that cannot be pickled
    ├── RerankError                  a reranker failed or returned invalid scores
    ├── GraphStoreError              a graph store failed, or its graph cannot be updated
    ├── MissingDependencyError       an extra, model or pipeline is not installed
    ├── IndexingError                a document or the workers of an engine failed
    │   ├── SummaryError             the summarizer failed or returned nothing
    │   ├── EmbeddingError           the embedder failed or returned invalid vectors
    │   ├── ExtractionError          the extractor failed or returned invalid mentions
    │   └── StoppedError             indexing was stopped by close() or a cancelled aadd
    └── StoreError                   an error about the index file
        ├── NotAnIndexError          the file is not an index created by this package
        ├── IndexGoneError           the file was deleted, moved or replaced while it was open
        ├── SchemaVersionError       the stored data has another format version
        ├── SettingsMismatchError    settings or models differ from those of the index
        ├── StoreLockedError         another process is writing to the index
        ├── StoreConnectionError     the database server cannot be reached
        ├── ShardUnavailableError    a shard of an index cannot be asked
        ├── VectorIndexError         a vector index is not usable as it is
        ├── CorruptStoreError        stored data is damaged
        └── ClosedError              the index is closed

Each message names the problem, its place and the remedy.
"""

from __future__ import annotations


class E2GraphRAGError(Exception):
    """Base class of all errors raised by this package."""

    def __str__(self) -> str:
        # Further arguments are attributes, and `KeyError.__str__` returns the repr of the message.
        return str(self.args[0]) if self.args else ""


class InvalidInputError(E2GraphRAGError, ValueError):
    """Raised for an invalid argument or document, before anything is written."""


class DuplicateDocumentError(InvalidInputError):
    """Raised by `add` for an id that is given twice or already indexed with different content."""


class UnreadableFileError(InvalidInputError):
    """Raised for a file that is damaged or is not text in a known format."""


class FileLimitError(UnreadableFileError):
    """Raised for a file that exceeds a limit of `LoaderLimits`, for example a zip bomb."""


class EvaluationError(InvalidInputError):
    """Raised for invalid questions or settings of an evaluation, before any question is asked.

    Attributes:
        lines: The lines of the file with the questions that are invalid, from 1.
    """

    def __init__(self, message: str, lines: tuple[int, ...] = ()) -> None:
        super().__init__(message, lines)
        self.lines = lines


class UnknownNodeError(InvalidInputError):
    """Raised for a node id that is not in the index."""


class LLMCallLimitError(InvalidInputError):
    """Raised before the first LLM call if a run needs more calls than `max_llm_calls` allows.

    Attributes:
        needed: Number of calls that the run needs, without retries.
        limit: The value of `max_llm_calls`.
    """

    def __init__(self, message: str, needed: int, limit: int) -> None:
        super().__init__(message, needed, limit)
        self.needed = needed
        self.limit = limit


class UnknownDocumentError(E2GraphRAGError, KeyError):
    """Raised for a document id that is not in the index.

    Attributes:
        document_id: The id; empty if the error does not know it.
    """

    def __init__(self, message: str = "", document_id: str = "") -> None:
        super().__init__(message)
        self.document_id = document_id


class UnknownEntityError(E2GraphRAGError, KeyError):
    """Raised for a name of no entity in the index, or of none that the filter matches.

    Attributes:
        problem: The message without the hint.
        hint: How to find the names in Python, or an empty string.
        name: The name.
        meant: Entities that the name may mean; the message names them.
        is_stopped: Whether an edit of the user stopped the entity.
    """

    def __init__(
        self,
        problem: str,
        hint: str = "",
        *,
        name: str = "",
        meant: tuple[str, ...] = (),
        is_stopped: bool = False,
    ) -> None:
        super().__init__(problem, hint)
        self.problem = problem
        self.hint = hint
        self.name = name
        self.meant = meant
        self.is_stopped = is_stopped

    def __str__(self) -> str:
        separator = " " if self.problem.endswith("?") else ": "
        return separator.join(filter(None, (self.problem, self.hint)))


class NotPicklableError(E2GraphRAGError, TypeError):
    """Raised when an index or a retriever has parts that cannot be pickled; names all of them."""


class RerankError(E2GraphRAGError):
    """Raised when a reranker fails or does not return one finite score per text."""


class GraphStoreError(E2GraphRAGError):
    """Raised when a graph store refuses a batch, loses data, or contains another graph."""


class MissingDependencyError(E2GraphRAGError, ImportError):
    """Raised when a required optional package or model is not installed."""


class IndexingError(E2GraphRAGError):
    """Raised when a document cannot be indexed, or the workers of an engine cannot be used.

    Only finished cache entries are kept.
    """


class SummaryError(IndexingError):
    """Raised when the summarizer fails after all retries, or returns no text."""


class EmbeddingError(IndexingError):
    """Raised when an embedder fails, or returns a wrong shape, NaN, infinity or a zero vector."""


class ExtractionError(IndexingError):
    """Raised when an extractor fails, or returns too few results or spans outside a text."""


class StoppedError(IndexingError):
    """Raised when indexing is stopped. Finished documents and cache entries are kept."""


class StoreError(E2GraphRAGError):
    """Raised for an index file that cannot be used, for example in a forked process."""


class NotAnIndexError(StoreError):
    """Raised when a file is not an index created by this package."""


class IndexGoneError(StoreError):
    """Raised when an open index was deleted, moved or replaced. Nothing is created in its place."""


class SchemaVersionError(StoreError):
    """Raised when stored data has another format version than that which this package reads."""


class SettingsMismatchError(StoreError):
    """Raised when settings or models differ from those with which the index was built."""


class StoreLockedError(StoreError):
    """Raised when another process holds the write lock longer than the timeout."""


class StoreConnectionError(StoreError):
    """Raised when a database server cannot be reached, or the connection to it is lost."""


class ShardUnavailableError(StoreError):
    """Raised if a shard of an index cannot be asked, so that an answer would be incomplete.

    Attributes:
        shards: The numbers of these shards, from 0.
    """

    def __init__(self, message: str, shards: tuple[int, ...] = ()) -> None:
        super().__init__(message, shards)
        self.shards = shards


class VectorIndexError(StoreError):
    """Raised when a vector index outside of the index cannot be used until somebody changes it."""


class CorruptStoreError(StoreError):
    """Raised when stored data is damaged, for example if a row does not match its checksum."""


class ClosedError(StoreError):
    """Raised when an index is used after `close()`."""
