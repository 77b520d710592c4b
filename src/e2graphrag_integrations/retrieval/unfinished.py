"""The warning that an index lacks documents that are not indexed yet."""

from __future__ import annotations

import logging
import shlex

from e2graphrag_integrations.errors import StoreError
from e2graphrag_integrations.store.connection import MEMORY
from e2graphrag_integrations.store.index_state import RESUME, count_unfinished, read_state
from e2graphrag_integrations.store.store import Store

logger = logging.getLogger(__name__)


class UnfinishedDocuments:
    """Counts the documents that wait to be indexed, and warns once that answers lack them.

    They never stop a question: it is answered from what is indexed.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._checked_at: str | None = None
        self._has_warned = False
        self.count = 0

    def check(self, generation: str) -> None:
        """Warn if documents wait, before a question to a generation that was not checked yet."""
        if self._checked_at == generation:
            return
        self._checked_at = generation
        self.recount()
        if self.count and not self._has_warned:
            self._has_warned = True
            path = self._store.path
            command = "" if path == MEMORY else f", or run `{RESUME} {shlex.quote(path)}`"
            logger.warning(
                "%s: %s: call build() of LangChain's or LlamaIndex's index, or resume() of "
                "E2GraphRAG%s",
                path,
                read_state(self._store).lack().rstrip("."),
                command,
            )

    def recount(self) -> int:
        """Return the number of documents that wait now; the last one if it cannot be read."""
        try:
            self.count = count_unfinished(self._store)
        except StoreError:  # some readers may not see the queue
            logger.debug("cannot count the documents that are not indexed yet", exc_info=True)
        return self.count

    def forget(self) -> None:
        """Count again at the next question, because the documents may have changed."""
        self._checked_at = None
