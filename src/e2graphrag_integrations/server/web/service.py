"""The state of a running application: the index, the limits and the readers of the clients."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from e2graphrag_integrations._utils.postgres_urls import is_postgres_url
from e2graphrag_integrations.engine import E2GraphRAG
from e2graphrag_integrations.engine.scoped_reader import ScopedReader
from e2graphrag_integrations.errors import StoreError
from e2graphrag_integrations.server.one_worker import MESSAGE, OneWorker
from e2graphrag_integrations.server.web.access import Access, Caller
from e2graphrag_integrations.server.web.answering.model import Model
from e2graphrag_integrations.server.web.events import Streams
from e2graphrag_integrations.server.web.jobs import Jobs
from e2graphrag_integrations.server.web.limits import Admission, Rate
from e2graphrag_integrations.server.web.metrics import Metrics
from e2graphrag_integrations.server.web.options import WebOptions
from e2graphrag_integrations.server.web.problems import Explainer, Problem, busy
from e2graphrag_integrations.shards.index import ShardedIndex
from e2graphrag_integrations.store.connection import MEMORY
from e2graphrag_integrations.store.index_state import written_by
from e2graphrag_integrations.views.documents import Readable
from e2graphrag_integrations.views.index_name import index_name

T = TypeVar("T")

Rights = Literal["public", "read", "answer", "all", "write"]
"""Who may call a route: everyone; clients with a token; those who may also let a model write
answers; those who see the whole index; or those who may also write."""

ADD_TO_SHARDS = "e2graphrag indexes add-to-shards"
"""The command that adds files to an index in shards, also those that wait or failed."""

_CHECK_SECONDS = 1.0
"""Time for which the result of a check of the index is used."""


class Service:
    """What the operations of one application share.

    Args:
        rag: The index.
        options: Clients and limits.
    """

    def __init__(self, rag: E2GraphRAG, options: WebOptions) -> None:
        is_file = rag.path != MEMORY and not is_postgres_url(rag.path)
        self.rag = rag
        self.options = options
        self.access = Access(options)
        self.admission = Admission(options.limits)
        self.explainer = Explainer(rag.path)
        self.worker = OneWorker(str(Path(rag.path).absolute()) if is_file else rag.path)
        self.jobs = Jobs(options.limits, self.explainer)
        self._estimating = asyncio.Lock()
        self.streams = Streams(
            options.limits.streams,
            "you follow too many jobs: ask for the job instead",
            "too many clients follow jobs: ask for the job instead",
        )
        self.answers = Streams(
            options.limits.answers,
            "the model writes other answers for you: wait, or stop one",
            "the model writes too many answers: try again later",
        )
        self.answer_rate = Rate(options.limits.answers_per_minute)
        self.model = None if options.answers is None else Model(options.answers)
        self.metrics = Metrics(self.admission, self.jobs)
        self._check: asyncio.Future[None] | None = None
        self._checked_at = 0.0
        self._count: asyncio.Future[None] | None = None
        self._counted_at = 0.0
        self._whole: Readable = rag if options.where is None else rag.scoped(options.where)
        self._scopes: dict[str, ScopedReader] = {
            one.name: self._whole.scoped(one.where)
            for one in options.clients
            if one.where is not None
        }

    async def check_worker(self) -> None:
        """Check that this process is the only worker of its server.

        Raises:
            Problem: If it is not.
        """
        if not await self.worker.is_only():
            raise busy(503, MESSAGE, code="second_worker")

    @contextlib.asynccontextmanager
    async def estimating_turn(self) -> AsyncIterator[None]:
        """Let one client at a time estimate costs: it takes a thread from questions.

        Raises:
            Problem: If others estimate for as long as a question may take.
        """
        seconds = self.options.limits.seconds
        try:
            async with asyncio.timeout(seconds):
                await self._estimating.acquire()
        except TimeoutError:
            message = "others estimate costs: try again later"
            raise busy(503, message, seconds, code="busy") from None
        try:
            yield
        finally:
            self._estimating.release()

    def reader(self, caller: Caller) -> Readable:
        """Return the index as a caller sees it."""
        return self._scopes[caller.name] if caller.is_scoped else self._whole

    def scope(self, caller: Caller) -> Mapping[str, Any] | None:
        """Return the filter of the documents that a caller sees; None if it sees all."""
        reader = self.reader(caller)
        return reader.where if isinstance(reader, ScopedReader) else None

    def can_write(self, caller: Caller) -> bool:
        """Return whether a caller may add and delete documents."""
        return caller.can_write and not self.options.read_only and self.scope(caller) is None

    def can_answer(self, caller: Caller) -> bool:
        """Return whether a caller may let the model write answers."""
        return self.model is not None and (caller.client is None or caller.client.answer)

    def check_rights(self, caller: Caller, rights: Rights) -> None:
        """Check that a caller may call a route.

        Raises:
            Problem: If not.
        """
        if rights in ("all", "write") and self.scope(caller) is not None:
            raise Problem(403, "ScopeError", "you can only read a part of this index")
        if rights == "answer" and not self.can_answer(caller):
            if self.model is None:
                message = "the server has no model for answers: start it with --answer-model"
                raise Problem(403, "AnswersOffError", message, "no_model")
            raise Problem(
                403, "AnswersOffError", "this token may not ask for answers", "answers_off"
            )
        if rights == "write":
            if self.options.read_only:
                raise Problem(403, "ReadOnlyError", "the server is read-only", "server_read_only")
            if not caller.can_write:
                raise Problem(403, "ReadOnlyError", "this token may only read", "token_read_only")

    @property
    def shards(self) -> int:
        """The number of shards of the index; 0 if it is in one file or schema."""
        return len(self.rag.shards) if isinstance(self.rag, ShardedIndex) else 0

    def check_one_index(self) -> None:
        """Check that the index is in one file or schema, which all writes but deletion need.

        Raises:
            Problem: If it is in shards.
        """
        if self.shards:
            message = (
                f"the index is in {self.shards} shards, so this server can only delete documents: "
                f"add files with `{ADD_TO_SHARDS}`"
            )
            raise Problem(400, "InvalidInputError", message, "shards_unsupported")

    def with_missing(self, work: Callable[[], T]) -> tuple[T, tuple[str, ...]]:
        """Return the result of a function that reads the index, and the shards that it lacks."""
        if not isinstance(self.rag, ShardedIndex):
            return work(), ()
        result, missing = self.rag.with_missing(work)
        return result, tuple(map(index_name, missing))  # without folders and servers

    @property
    def writers_take_turns(self) -> bool:
        """Whether a write waits for other processes instead of being refused: in a database."""
        return is_postgres_url(self.rag.path)

    def check_writable(self) -> None:
        """Check that nobody else is writing to the index.

        Raises:
            Problem: If another process writes to the file.
        """
        writer = None if self.writers_take_turns else self.rag.writer()
        if writer is not None:
            message = f"{written_by('the index', writer)}: try again when it has finished"
            values = {"writer": self.explainer.shown(str(writer))}
            shown = self.explainer.shown(message)
            raise Problem(409, "ConflictError", shown, "index_written", values)

    def check_idle(self) -> None:
        """Check that neither a job nor another process is writing to the index.

        Raises:
            Problem: If one is.
        """
        if self.jobs.writing_since is not None:
            message = "a job is writing to the index: wait, or stop it"
            raise Problem(409, "ConflictError", message, "job_writing")
        self.check_writable()

    async def check_index(self) -> None:
        """Check that the index can be read.

        However many clients ask, one thread checks, and not more than once a second.

        Raises:
            StoreError: If its file is missing, or its database cannot be reached.
        """
        now = time.monotonic()
        if self._check is None or (self._check.done() and now - self._checked_at >= _CHECK_SECONDS):
            self._check = asyncio.ensure_future(asyncio.to_thread(self._read_generation))
            self._checked_at = now
        await asyncio.shield(self._check)

    async def count_queue(self) -> None:
        """Bring the metrics of the queue up to date, in one thread and at most once a second.

        They remain as they were if the index cannot be read.
        """
        now = time.monotonic()
        if self._count is None or (self._count.done() and now - self._counted_at >= _CHECK_SECONDS):
            self._count = asyncio.ensure_future(asyncio.to_thread(self._show_state))
            self._counted_at = now
        await asyncio.shield(self._count)

    def _show_state(self) -> None:
        with contextlib.suppress(StoreError):
            is_writing = self.jobs.writing_since is not None
            self.metrics.show_state(self.rag.state(is_writing=is_writing))

    def _read_generation(self) -> None:
        path = self.rag.path
        # An open file that was deleted can still be read.
        if path != MEMORY and not is_postgres_url(path) and not Path(path).exists():
            raise StoreError(f"the index file {path} is missing")
        if self.shards:
            self.rag.state()  # some may be missing if the index answers in parts
        else:
            self.rag.store.newest_generation(time.monotonic())

    async def close(self) -> None:
        """Stop the jobs and end the threads."""
        await self.jobs.stop_all()
        self.worker.close()
        if self.model is not None:
            await self.model.close()
        self.admission.close()
