"""Storage contexts that contain an index: their docstore, `persist` and loading."""

from __future__ import annotations

import os
import shutil
import uuid
from dataclasses import dataclass
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
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.simple import DEFAULT_VECTOR_STORE
from llama_index.core.vector_stores.types import DEFAULT_PERSIST_FNAME as VECTOR_STORE_FNAME
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from e2graphrag_integrations._utils.files import replace_file, sync_file, sync_names
from e2graphrag_integrations._utils.validation import check_instance, short_repr
from e2graphrag_integrations.errors import CorruptStoreError, InvalidInputError, StoreError
from e2graphrag_integrations.llama_index.storage.docstore import ReaderDocstore
from e2graphrag_integrations.llama_index.storage.index_struct import E2GraphRAGIndexStruct
from e2graphrag_integrations.retrieval.reader import IndexReader
from e2graphrag_integrations.settings import checked_path
from e2graphrag_integrations.store.connection import MEMORY
from e2graphrag_integrations.store.location import check_is_index, index_exists

_NEW = "persist.new-"
"""Start of the name of a folder with files that are being written."""


@dataclass
class SafeStorageContext(StorageContext):
    """A storage context whose `persist` replaces each file of a local folder in one step.

    The index is one entry of one file, so a crash leaves its old or its new version. On other file
    systems, `persist` writes file by file, as `StorageContext` does.
    """

    @classmethod
    def of(cls, context: StorageContext, reader: IndexReader, index_id: str) -> StorageContext:
        """Give a context a docstore with the nodes of an index, and return one that is safe.

        A context of a class of the user's own is returned itself.
        """
        below = ReaderDocstore.without(context.docstore, index_id)
        context.docstore = ReaderDocstore(reader, below, index_id)
        if type(context) is not StorageContext:
            return context
        stores = context.vector_stores
        if DEFAULT_VECTOR_STORE not in stores:  # loaded from a folder, while a database has them
            stores = {**stores, DEFAULT_VECTOR_STORE: SimpleVectorStore()}
        return cls(
            context.docstore,
            context.index_store,
            stores,
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
        """
        names = (
            docstore_fname,
            index_store_fname,
            vector_store_fname,
            image_store_fname,
            graph_store_fname,
            pg_graph_store_fname,
        )
        if fs is not None and not isinstance(fs, LocalFileSystem):
            super().persist(persist_dir, *names, fs=fs)
            return
        folder = Path(strip_protocol(os.fspath(persist_dir)))
        version = folder / f"{_NEW}{uuid.uuid4().hex}"
        try:
            version.mkdir(parents=True)
            # A store that was loaded from elsewhere would otherwise write to its own file system.
            super().persist(str(version), *names, fs=LocalFileSystem() if fs is None else fs)
            for file in version.iterdir():
                sync_file(file)
                replace_file(file, folder / file.name)
            sync_names(folder)
        except OSError as error:
            raise StoreError(
                f"cannot persist to {folder} ({error}): free disk space, or choose a writable "
                "folder; the version that was there before can still be loaded"
            ) from error
        finally:
            shutil.rmtree(version, ignore_errors=True)


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


def load_context(
    persist_dir: str | os.PathLike[str], vector_store: BasePydanticVectorStore | None
) -> StorageContext:
    """Load a persisted storage context.

    Args:
        persist_dir: The folder.
        vector_store: The vector store of the index; None loads LlamaIndex's own store, if there is
            one. The index itself has all vectors.

    Raises:
        InvalidInputError: If the folder does not exist.
        CorruptStoreError: If a file is missing or damaged.
    """
    if not isinstance(persist_dir, str | os.PathLike):
        raise InvalidInputError(f"persist_dir={short_repr(persist_dir)} must be a str or a Path")
    folder = Path(persist_dir)
    if not folder.is_dir():
        raise InvalidInputError(f"persist_dir={str(folder)!r} is not a folder")
    for name in (DOCSTORE_FNAME, INDEX_STORE_FNAME):
        if not (folder / name).exists():
            raise CorruptStoreError(
                f"{folder / name} is missing: persist the whole storage context, or restore a "
                "backup"
            )
    own = folder / f"default__{VECTOR_STORE_FNAME}"
    if vector_store is None and not _is_json(own):
        vector_store = SimpleVectorStore()
    try:
        context = StorageContext.from_defaults(persist_dir=str(folder), vector_store=vector_store)
        for path in folder.glob(f"*{_SUFFIX}"):  # those of other indexes, for the next persist
            name = path.name.removesuffix(_SUFFIX)
            if name not in context.vector_stores and _is_json(path):
                context.vector_stores[name] = SimpleVectorStore.from_persist_path(str(path))
    except _DAMAGED as error:
        raise CorruptStoreError(
            f"a file in {folder} is damaged ({type(error).__name__}: {error}): restore a backup"
        ) from error
    return context


_SUFFIX = f"__{VECTOR_STORE_FNAME}"
"""End of the name of the file of a vector store."""

_DAMAGED = (OSError, ValueError, KeyError, TypeError, AttributeError)
"""Errors that LlamaIndex's stores raise when they read a damaged file."""


def find_struct(context: StorageContext, index_id: str | None) -> E2GraphRAGIndexStruct:
    """Return the struct of an index in a storage context.

    Raises:
        InvalidInputError: If there is no index, or there are several and `index_id` is None.
        StoreError: If the struct is damaged.
    """
    store = context.index_store
    try:
        if index_id is not None:
            found = store.get_index_struct(index_id)
            structs = [] if found is None else [found]
        else:
            structs = store.index_structs()
    except _DAMAGED as error:
        raise CorruptStoreError(
            f"{type(store).__name__} cannot be read ({type(error).__name__}: {error}): if it "
            "contains an index from another package, import that package or pass index_id=; "
            "otherwise restore a backup"
        ) from error
    own = [struct for struct in structs if isinstance(struct, E2GraphRAGIndexStruct)]
    if not own:
        named = "" if index_id is None else f" with index_id={index_id!r}"
        raise InvalidInputError(
            f"the index store contains no E2GraphRAGIndex{named}: check the path of the folder"
        )
    if len(own) > 1:
        ids = ", ".join(repr(struct.index_id) for struct in own)
        raise InvalidInputError(f"there are several indexes: pass index_id=, one of {ids}")
    return own[0]


def index_location(struct: E2GraphRAGIndexStruct, path: str | os.PathLike[str]) -> str:
    """Return where an existing index is.

    Args:
        struct: Its struct.
        path: Where the user says that it is; `":memory:"` if they do not.

    Raises:
        InvalidInputError: If there is no index.
        StoreError: If it is in a database that cannot be read.
    """
    location = checked_path(path)
    if location == MEMORY:
        if struct.location != MEMORY and not index_exists(checked_path(struct.location)):
            raise InvalidInputError(
                f"index {struct.index_id} was at {struct.location}, where there is none now: pass "
                "path= with its new place, or restore a backup"
            )
        return struct.location
    if struct.location == MEMORY:
        raise InvalidInputError(
            f"path={location!r} has no effect, because the index store contains the index: leave "
            "path out, and call copy_to() to write the index to a file"
        )
    check_is_index(location)
    return location


def _is_json(path: Path) -> bool:
    if not path.exists():
        return False
    with path.open("rb") as file:
        return file.read(1) == b"{"
