"""What becomes of the others when a document cannot be indexed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from e2graphrag_integrations.errors import E2GraphRAGError

_HOPELESS = 3
"""When so many documents failed and none went through, the cause is no document: with a wrong key
or a model that is gone, ten thousand more would only cost time."""


class Failures(Protocol):
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

    def done(self, document_id: str) -> None:
        """Take note that a document is indexed."""
        ...


class FailAtOnce:
    """Lets the first failure end the work."""

    failed: Mapping[str, E2GraphRAGError] = {}

    def note(self, ids: Sequence[str], error: E2GraphRAGError) -> bool:  # noqa: ARG002 - the port's
        """Raise it."""
        raise error

    def done(self, document_id: str) -> None:
        """Nothing is to be remembered."""


class FailEach:
    """Leaves out what fails and goes on with the rest, unless nothing at all goes through.

    Args:
        told: Called with each document that failed.
    """

    def __init__(self, told: Callable[[str, E2GraphRAGError], None]) -> None:
        self._told = told
        self._failed: dict[str, E2GraphRAGError] = {}
        self._any_done = False
        self._lock = threading.Lock()

    @property
    def failed(self) -> Mapping[str, E2GraphRAGError]:
        """The documents that failed, by id, with their errors."""
        return self._failed

    def note(self, ids: Sequence[str], error: E2GraphRAGError) -> bool:
        """Leave out one document; of several it is not known whose fault it is.

        Raises:
            E2GraphRAGError: The first failure, when from the start all documents fail.
        """
        if len(ids) > 1:
            return False
        with self._lock:
            [document_id] = ids
            if document_id not in self._failed:
                self._failed[document_id] = error
                self._told(document_id, error)
            if len(self._failed) >= _HOPELESS and not self._any_done:
                raise next(iter(self._failed.values()))
        return True

    def done(self, document_id: str) -> None:  # noqa: ARG002 - the port's
        """From now on it is not everything that fails."""
        self._any_done = True
