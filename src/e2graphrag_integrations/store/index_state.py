"""The state of an index: what is indexed, what waits, what failed, and who writes.

The command line, the page and the MCP server say it with the same sentences.
"""

from __future__ import annotations

from dataclasses import dataclass

from e2graphrag_integrations.errors import StoreError
from e2graphrag_integrations.store.database import Writer
from e2graphrag_integrations.store.queue import documents_per_second
from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.store.tables.pending_documents import pending_ids
from e2graphrag_integrations.store.tables.reembedding import Reembedding, read_reembedding

RESUME = "e2graphrag documents resume"
"""The command that indexes the documents in the queue."""


@dataclass(frozen=True, slots=True)
class IndexState:
    """How many documents of an index are in which state, and who writes to it.

    Attributes:
        indexed: Number of documents that can be searched, old versions included.
        pending: Number of documents that wait to be indexed.
        processing: Number of documents that are being indexed.
        failed: Number of documents that failed.
        stored: How many of the pending documents only `build()` of an `E2GraphRAGIndex` can index.
        writer: The other process that is writing; None if there is none.
        documents_per_second: How many documents leave the queue per second, over the last minutes;
            None if none is being indexed, or none has been since the run began.
        reembedding: How far the vectors of a new embedder are; None if none are computed.
    """

    indexed: int
    pending: int = 0
    processing: int = 0
    failed: int = 0
    stored: int = 0
    writer: Writer | None = None
    documents_per_second: float | None = None
    reembedding: Reembedding | None = None

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds until the queue is empty; None if that is unknown."""
        if not self.documents_per_second:
            return None
        return (self.pending - self.stored + self.processing) / self.documents_per_second

    @property
    def unfinished(self) -> int:
        """Number of documents whose newest version cannot be searched."""
        return self.pending + self.processing + self.failed

    @property
    def resumable(self) -> int:
        """Number of documents that `resume()` indexes."""
        return self.pending - self.stored + self.failed

    def describe(self) -> str:
        """Return the counts as a sentence."""
        others = [
            f"{count:,} {words}"
            for count, words in (
                (self.processing, _is(self.processing, "being indexed")),
                (self.pending, _is(self.pending, "pending")),
                (self.failed, "failed"),
            )
            if count
        ]
        if not (self.indexed or others):
            return "The index has no documents."
        if not self.indexed:
            return f"No document is indexed yet: {_listed(others)}."
        indexed = f"{count_documents(self.indexed)} {_is(self.indexed, 'indexed')}"
        return f"{_listed([indexed, *others])}."

    def lack(self) -> str:
        """Return what answers lack, as a sentence; empty if they lack nothing."""
        waiting = self.pending + self.processing
        parts = []
        if waiting:
            parts.append(f"{count_documents(waiting)} that {_is(waiting, 'not indexed yet')}")
        if self.failed:
            failed = f"{self.failed:,}" if parts else count_documents(self.failed)
            parts.append(f"{failed} that failed")
        return f"Answers lack {_listed(parts)}." if parts else ""

    def writing(self) -> str:
        """Return who is writing and since when, as a sentence; empty if no other process is."""
        return "" if self.writer is None else f"{written_by('The index', self.writer)}."

    def pace(self) -> str:
        """Return how fast documents are indexed, and the time left, as a sentence, or nothing."""
        if self.documents_per_second is None or self.seconds_left is None:
            return ""
        rate = self.documents_per_second
        shown = f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"  # noqa: PLR2004 - three digits
        return f"{shown} documents per second, about {_duration(self.seconds_left)} left."

    def way_on(self, command: str = RESUME) -> str:
        """Return how to index what is not indexed, as a sentence; empty if nothing waits.

        Args:
            command: The command that indexes the documents in the queue.
        """
        if not self.unfinished:
            return ""
        if self.writer is not None:
            return "Ask again when it has finished."
        ways = [f"`{command}`"] if self.resumable else []
        if self.stored:
            ways.append("build() of the LangChain or LlamaIndex index that stored them")
        what = "it" if self.unfinished == 1 else "them"
        return f"Run {' and '.join(ways)} to index {what}." if ways else "Ask again later."

    def note(self) -> str:
        """Return `lack`, `writing`, `pace` and `way_on` in one text; empty if all is well."""
        parts = self.lack(), self.writing(), self.pace(), self.way_on()
        return " ".join(filter(None, parts))


def count_documents(count: int) -> str:
    """Return `1 document` or `2 documents`."""
    return f"{count:,} document{'' if count == 1 else 's'}"


def written_by(name: str, writer: Writer) -> str:
    """Return who is writing to an index of this name."""
    return f"{name} is being written by {writer}"


def _duration(seconds: float) -> str:
    """Return a duration in whole units.

    >>> _duration(0.4), _duration(100), _duration(3600 * 25)
    ('1 s', '2 min', '25 h')
    """
    if seconds < 60:  # noqa: PLR2004 - units of time
        return f"{max(1, round(seconds))} s"
    if seconds < 3 * 3600:
        return f"{round(seconds / 60)} min"
    return f"{round(seconds / 3600):,} h"


def _is(count: int, words: str) -> str:
    return f"{'is' if count == 1 else 'are'} {words}"


def _listed(parts: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def read_state(store: Store, *, is_writing: bool = False) -> IndexState:
    """Return the state of an index, without reading texts.

    A reader who may not see the queue, as in Postgres, sees only what is indexed.

    Args:
        store: The index.
        is_writing: Whether this process is indexing documents of the queue.
    """
    writer = store.index_lock.holder()
    [(indexed,)] = store.read("SELECT count(*) FROM documents")
    try:
        with store.read_transaction():
            rows = store.read("SELECT id, status FROM queue")
            stored = pending_ids(store) - {id_ for id_, _ in rows}
            holders = store.database.lease_holders()
            rate = documents_per_second(store)
            reembedding = read_reembedding(store, writer)
    except StoreError:
        return IndexState(indexed, writer=writer)
    is_written = is_writing or writer is not None
    processing = failed = 0
    for id_, status in rows:
        # Otherwise, a process that died began the document.
        if id_ in holders or (status == "processing" and is_written):
            processing += 1
        elif status == "failed":
            failed += 1
    pending = len(rows) - processing - failed + len(stored)
    if rate is not None:
        workers = len({holder.worker for holder in holders.values()})
        rate = rate * max(1, workers) if processing else None
    return IndexState(indexed, pending, processing, failed, len(stored), writer, rate, reembedding)
