"""Failed documents: skip the document, or abort the run."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence

from e2graphrag_integrations.errors import E2GraphRAGError

_MAX_BEFORE_SUCCESS = 3
"""Abort after this many failures of one type if the stage never succeeded: the cause is a wrong
key or a missing model, and ten thousand more documents would only cost time."""

_MAX_CONSECUTIVE = 30
"""Abort after this many consecutive failures of one type, even if the stage worked earlier: the
service has probably gone down."""


class FailurePolicy:
    """Skips failed documents, and aborts when the documents are probably not the cause.

    Thread-safe.

    Args:
        on_failure: Called once with each document that failed. None aborts at the first failure.

    Attributes:
        failed: Errors of the skipped documents, by id.
    """

    def __init__(self, on_failure: Callable[[str, E2GraphRAGError], None] | None = None) -> None:
        self.failed: dict[str, E2GraphRAGError] = {}
        self._on_failure = on_failure
        self._consecutive: Counter[type[E2GraphRAGError]] = Counter()
        self._succeeded: set[type[E2GraphRAGError]] = set()
        self._lock = threading.Lock()

    def record_failure(self, document_ids: Sequence[str], error: E2GraphRAGError) -> bool:
        """Record that work on some documents failed.

        Returns:
            True if the document is skipped from now on; False if the caller should retry each
            document separately to find the cause.

        Raises:
            E2GraphRAGError: To abort the run: the first error of this type.
        """
        if self._on_failure is None:
            raise error
        if len(document_ids) > 1:
            return False
        error_type = type(error)
        with self._lock:
            [document_id] = document_ids
            if document_id not in self.failed:
                self.failed[document_id] = error
                self._on_failure(document_id, error)
                self._consecutive[error_type] += 1
            limit = _MAX_CONSECUTIVE if error_type in self._succeeded else _MAX_BEFORE_SUCCESS
            if self._consecutive[error_type] >= limit:
                raise next(e for e in self.failed.values() if type(e) is error_type)
        return True

    def record_success(self, error_type: type[E2GraphRAGError]) -> None:
        """Record that a stage succeeded whose failures are of `error_type`."""
        with self._lock:
            self._succeeded.add(error_type)
            self._consecutive[error_type] = 0
