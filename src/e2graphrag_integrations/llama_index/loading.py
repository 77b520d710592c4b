"""Opening what a storage context was persisted to, with errors that say what is missing."""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path
from typing import Any

from llama_index.core.storage import StorageContext
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.storage.index_store import SimpleIndexStore
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from e2graphrag_integrations.errors import (
    CorruptStoreError,
    InvalidInputError,
    MissingDependencyError,
)
from e2graphrag_integrations.llama_index.index_struct import E2GraphRAGIndexStruct

_DOCSTORE, _INDEX_STORE = "docstore.json", "index_store.json"
_VECTORS, _OLD_VECTORS, _FAISS_MAP = (
    "default__vector_store.json",
    "vector_store.json",
    "id_map.json",
)


def find_struct(context: StorageContext, index_id: str | None) -> E2GraphRAGIndexStruct:
    """Return the struct of an index of this package.

    Raises:
        InvalidInputError: If there is none, or several and no id.
        StoreError: If it is damaged.
    """
    if index_id is not None:
        found = context.index_store.get_index_struct(index_id)
        if not isinstance(found, E2GraphRAGIndexStruct):
            kind = "no index" if found is None else f"a {type(found).__name__}, not one of ours,"
            raise InvalidInputError(f"there is {kind} under the id {index_id!r}")
        return found
    structs = [
        s for s in context.index_store.index_structs() if isinstance(s, E2GraphRAGIndexStruct)
    ]
    if len(structs) != 1:
        ids = ", ".join(repr(struct.index_id) for struct in structs)
        raise InvalidInputError(
            f"there are several indexes: pass index_id=, one of {ids}"
            if structs
            else "the index store holds no E2GraphRAGIndex: is it the right folder?"
        )
    return structs[0]


def load_context(
    persist_dir: str | os.PathLike[str], vector_store: BasePydanticVectorStore | None
) -> StorageContext:
    """Return the storage context that was persisted to a folder.

    Args:
        persist_dir: The folder.
        vector_store: The one that the index was made with; None looks for it in the folder.

    Raises:
        InvalidInputError: If there is no such folder.
        CorruptStoreError: If a file is missing or damaged.
        MissingDependencyError: If the vectors are FAISS's and its integration is not installed.
    """
    folder = Path(persist_dir)
    if not folder.is_dir():
        raise InvalidInputError(f"persist_dir={str(folder)!r}: there is no such folder")
    for name in (_DOCSTORE, _INDEX_STORE):
        _check_json(folder / name)
    where = str(folder)
    store = _vector_store(folder) if vector_store is None else vector_store
    return StorageContext.from_defaults(
        docstore=SimpleDocumentStore.from_persist_dir(where),
        index_store=SimpleIndexStore.from_persist_dir(where),
        vector_store=store,
    )


def _check_json(path: Path) -> None:
    try:
        with path.open(encoding="utf-8") as file:
            plain = json.load(file)
    except FileNotFoundError as error:
        raise CorruptStoreError(
            f"{path} is missing: persist the whole storage context, or restore a backup"
        ) from error
    except (OSError, ValueError) as error:
        raise CorruptStoreError(f"{path} is damaged ({error}): restore a backup") from error
    if not isinstance(plain, dict):
        raise CorruptStoreError(f"{path} holds no JSON object: restore a backup")


def _vector_store(folder: Path) -> BasePydanticVectorStore:
    path = next((p for p in (folder / _VECTORS, folder / _OLD_VECTORS) if p.exists()), None)
    if path is None:
        raise CorruptStoreError(
            f"{folder / _VECTORS} is missing: pass vector_store=, the one that the index was made "
            "with, such as QdrantVectorStore(...)"
        )
    with path.open("rb") as file:
        first = file.read(1)
    if first != b"{":
        return _faiss(folder)
    try:
        return SimpleVectorStore.from_persist_path(str(path))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptStoreError(f"{path} is damaged ({error}): restore a backup") from error


def _faiss(folder: Path) -> BasePydanticVectorStore:
    try:
        package: Any = importlib.import_module("llama_index.vector_stores.faiss")
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"the vectors in {folder} are no JSON but FAISS's: "
            "pip install llama-index-vector-stores-faiss, or pass vector_store="
        ) from error
    kind = (
        package.FaissMapVectorStore if (folder / _FAISS_MAP).exists() else package.FaissVectorStore
    )
    try:
        store: BasePydanticVectorStore = kind.from_persist_dir(str(folder))
    except (RuntimeError, ValueError, KeyError) as error:
        raise CorruptStoreError(
            f"{folder / _VECTORS} is damaged, or of a vector store that has to be passed as "
            f"vector_store= ({error})"
        ) from error
    return store
