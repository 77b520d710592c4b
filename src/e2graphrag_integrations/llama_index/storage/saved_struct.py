"""`SavedStruct`: the struct of an open index in its index store, saved after each write."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import (
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from contextvars import ContextVar

from llama_index.core.storage.index_store.types import BaseIndexStore

from e2graphrag_integrations._utils.concurrency import process_rlock
from e2graphrag_integrations._utils.failures import on_error
from e2graphrag_integrations._utils.validation import type_name, wrap_errors
from e2graphrag_integrations.errors import E2GraphRAGError, StoreError
from e2graphrag_integrations.llama_index.storage.index_struct import E2GraphRAGIndexStruct
from e2graphrag_integrations.store.connection import MEMORY


class SavedStruct:
    """Saves the struct of an open index; thread-safe.

    The index store is the only place of an index in memory, so no save may replace what another
    object has saved.

    Args:
        struct: The struct.
        index_store: The index store.
    """

    def __init__(self, struct: E2GraphRAGIndexStruct, index_store: BaseIndexStore) -> None:
        self._struct = struct
        self._store = index_store
        self.lock = process_rlock()
        # Those that the index store may have; several after a save that failed.
        self._revisions = {struct.revision}
        self._is_saving = ContextVar(f"saving {struct.index_id}", default=False)

    @contextmanager
    def saving(self, *, save: bool = True) -> Iterator[None]:
        """Save the index once, after all writes of a block, even if the block raises.

        Args:
            save: False if the caller saves it.

        Raises:
            StoreError: If another object has saved the index since, or the save fails.
        """
        if save:
            self._check()
        token = self._is_saving.set(True)
        try:
            yield
        finally:
            self._is_saving.reset(token)
            if save:
                self._save()

    @asynccontextmanager
    async def asaving(self) -> AsyncIterator[None]:
        """Save like `saving`, in a thread."""
        await asyncio.to_thread(self._check)
        token = self._is_saving.set(True)
        try:
            yield
        finally:
            self._is_saving.reset(token)
            await asyncio.to_thread(self._save)

    @contextmanager
    def around_write(self) -> Iterator[None]:
        """Save the index after a write of the engine, unless a block above does.

        A write that failed is saved if it changed documents.
        """
        if self._is_saving.get():
            yield
            return
        self._check()
        pending = self._struct.rag.pending
        before = pending.state()

        def save_part(_: BaseException) -> None:
            with suppress(E2GraphRAGError):  # the first error says more
                if pending.state() != before:
                    self._save()

        with on_error(save_part):
            yield
        self._save()

    def around_caching(self) -> AbstractContextManager[None]:
        """Save what the engine caches, unless another object has saved the index since.

        A question to an older copy must not fail.
        """
        return nullcontext() if self._is_outdated() else self.around_write()

    def remove(self) -> None:
        """Remove the struct from the index store."""
        self._store.delete_index_struct(self._struct.index_id)

    def _save(self) -> None:
        hint = "the index has the change, and its next write saves it again"
        with self.lock, wrap_errors(StoreError, self._failure, hint, self._store):
            self._struct.revision = uuid.uuid4().hex
            self._revisions.add(self._struct.revision)
            self._store.add_index_struct(self._struct)
            self._revisions = {self._struct.revision}

    def _check(self) -> None:
        if self._is_outdated():
            raise StoreError(
                f"another object has changed index {self._struct.index_id} in the index store "
                "since this one was opened: load it again, or write through one object"
            )

    def _is_outdated(self) -> bool:
        """Return whether another object has saved an index in memory since."""
        if self._struct.location != MEMORY:
            return False
        hint = "nothing was changed"
        with self.lock, wrap_errors(StoreError, self._failure, hint, self._store):
            saved = self._store.get_index_struct(self._struct.index_id)
            own = self._revisions
        return isinstance(saved, E2GraphRAGIndexStruct) and saved.revision not in own

    @property
    def _failure(self) -> str:
        return f"{type_name(self._store)} could not be used to save the index"
