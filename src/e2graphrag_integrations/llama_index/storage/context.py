"""`SafeStorageContext`: a `StorageContext` whose `persist` survives crashes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fsspec import AbstractFileSystem
from fsspec.core import strip_protocol
from fsspec.implementations.local import LocalFileSystem
from llama_index.core.graph_stores.types import DEFAULT_PERSIST_FNAME as GRAPH_STORE_FNAME
from llama_index.core.graph_stores.types import DEFAULT_PG_PERSIST_FNAME as PG_FNAME
from llama_index.core.storage import StorageContext
from llama_index.core.storage.docstore.types import DEFAULT_PERSIST_FNAME as DOCSTORE_FNAME
from llama_index.core.storage.index_store.types import DEFAULT_PERSIST_FNAME as INDEX_STORE_FNAME
from llama_index.core.storage.storage_context import DEFAULT_PERSIST_DIR, IMAGE_STORE_FNAME
from llama_index.core.vector_stores.types import DEFAULT_PERSIST_FNAME as VECTOR_STORE_FNAME

from e2graphrag_integrations._utils.processes import process_rlock
from e2graphrag_integrations._utils.validation import check_instance
from e2graphrag_integrations.llama_index.storage.persisted_folder import replace_files


@dataclass
class SafeStorageContext(StorageContext):
    """A storage context whose `persist` replaces all files of a local folder together.

    On other file systems, `persist` writes file by file, as `StorageContext` does.
    """

    def __post_init__(self) -> None:
        # An index holds the lock while it changes its stores.
        self.lock = process_rlock()

    @classmethod
    def of(cls, context: StorageContext) -> StorageContext:
        """Return a context with the same stores; keep a context of a class of the user's own."""
        if type(context) is not StorageContext:
            return context
        return cls(
            context.docstore,
            context.index_store,
            context.vector_stores,
            context.graph_store,
            context.property_graph_store,
        )

    def persist(  # noqa: PLR0917 - the signature of the base class
        self,
        persist_dir: str | os.PathLike[str] = DEFAULT_PERSIST_DIR,
        docstore_fname: str = DOCSTORE_FNAME,
        index_store_fname: str = INDEX_STORE_FNAME,
        vector_store_fname: str = VECTOR_STORE_FNAME,
        image_store_fname: str = IMAGE_STORE_FNAME,
        graph_store_fname: str = GRAPH_STORE_FNAME,
        pg_graph_store_fname: str = PG_FNAME,
        fs: AbstractFileSystem | None = None,
    ) -> None:
        """Write all stores to a folder; the arguments are those of `StorageContext.persist`.

        Raises:
            StoreError: If a local folder cannot be written; its old files remain.
            StoreLockedError: If another process writes to the folder for too long.
        """
        write_stores = partial(
            super().persist,
            docstore_fname=docstore_fname,
            index_store_fname=index_store_fname,
            vector_store_fname=vector_store_fname,
            image_store_fname=image_store_fname,
            graph_store_fname=graph_store_fname,
            pg_graph_store_fname=pg_graph_store_fname,
        )
        with self.lock:
            if fs is not None and not isinstance(fs, LocalFileSystem):
                write_stores(persist_dir, fs=fs)
                return
            # A store that was loaded from elsewhere would otherwise write to its own file system.
            local = LocalFileSystem() if fs is None else fs
            folder = Path(strip_protocol(os.fspath(persist_dir)))
            replace_files(folder, lambda version: write_stores(str(version), fs=local))

    def __getstate__(self) -> dict[str, Any]:
        """Return the stores: a lock cannot be copied."""
        return {name: value for name, value in vars(self).items() if name != "lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the stores with a lock of their own."""
        vars(self).update(state, lock=process_rlock())


def check_storage_context(context: Any) -> None:
    """Check that an argument is a storage context.

    Raises:
        InvalidInputError: If it is anything else, such as the path of a folder.
    """
    check_instance(
        "storage_context",
        context,
        StorageContext,
        "pass StorageContext.from_defaults(...); from_persist_dir(folder) opens a saved index",
    )
