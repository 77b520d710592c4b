"""What becomes of the others when a document cannot be indexed."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from e2graphrag_integrations.errors import E2GraphRAGError

_HOPELESS = 3
"""When so many documents failed in one way and nothing of its kind ever worked, the cause is no
document: with a wrong key, or a model that is gone, ten thousand more would only cost time."""

_IN_A_ROW = 30
"""When so many failed in one way, one after the other, something that worked does so no more."""


class FailurePolicy(Protocol):
    """Is told how documents fare; raises to end the work. Called from several threads."""

    @property
    def failed(self) -> Mapping[str, E2GraphRAGError]:
        """The documents that failed and are left out, by id, with their errors."""
        ...

    def note(self, ids: Sequence[str], error: E2GraphRAGError) -> bool:
        """Take note that work on some documents failed.

        Returns:
            Whether they are left out from now on; if not, each is to be tried by itself.
        """
        ...

    def worked(self, kind: type[E2GraphRAGError]) -> None:
        """Take note that something went well which else would have raised an error of a kind."""
        ...


class FailFast:
    """Lets the first failure end the work."""

    failed: Mapping[str, E2GraphRAGError] = {}

    def note(self, ids: Sequence[str], error: E2GraphRAGError) -> bool:  # noqa: ARG002 - the port's
        """Raise it."""
        raise error

    def worked(self, kind: type[E2GraphRAGError]) -> None:
        """Nothing is to be remembered."""


class SkipFailed:
    """Leaves out what fails and goes on with the rest, unless it is not the documents' fault.

    Args:
        told: Called with each document that failed.
    """

    def __init__(self, told: Callable[[str, E2GraphRAGError], None]) -> None:
        self._told = told
        self._failed: dict[str, E2GraphRAGError] = {}
        self._row: Counter[type[E2GraphRAGError]] = Counter()
        self._proven: set[type[E2GraphRAGError]] = set()
        self._lock = threading.Lock()

    @property
    def failed(self) -> Mapping[str, E2GraphRAGError]:
        """The documents that failed, by id, with their errors."""
        return self._failed

    def note(self, ids: Sequence[str], error: E2GraphRAGError) -> bool:
        """Leave out one document; of several it is not known whose fault it is.

        Raises:
            E2GraphRAGError: When too many fail in the same way.
        """
        if len(ids) > 1:
            return False
        with self._lock:
            [document_id] = ids
            if document_id not in self._failed:
                self._failed[document_id] = error
                self._told(document_id, error)
                self._row[type(error)] += 1
            most = _IN_A_ROW if type(error) in self._proven else _HOPELESS
            if self._row[type(error)] >= most:
                raise next(e for e in self._failed.values() if type(e) is type(error))
        return True

    def worked(self, kind: type[E2GraphRAGError]) -> None:
        """Count failures of this kind anew."""
        with self._lock:
            self._proven.add(kind)
            self._row[kind] = 0
