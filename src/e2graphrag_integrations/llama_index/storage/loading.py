"""Opening what a storage context was persisted to, with errors that say what is missing."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from llama_index.core.graph_stores import SimpleGraphStore, SimplePropertyGraphStore
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
from e2graphrag_integrations.llama_index.storage.index_struct import E2GraphRAGIndexStruct

_DOCSTORE, _INDEX_STORE = "docstore.json", "index_store.json"
_GRAPH, _PROPERTY_GRAPH = "graph_store.json", "property_graph_store.json"
_OLD_VECTORS, _FAISS_MAP = "vector_store.json", "id_map.json"
_OF_NAMESPACE = "__vector_store.json"
_VECTORS = f"default{_OF_NAMESPACE}"

T = TypeVar("T")


def find_struct(context: StorageContext, index_id: str | None) -> E2GraphRAGIndexStruct:
    """Return the struct of an index of this package.

    Raises:
        InvalidInputError: If there is none, or several and no id.
        StoreError: If it is damaged.
    """
    if index_id is not None:
        found = _read(context, lambda: context.index_store.get_index_struct(index_id))
        if not isinstance(found, E2GraphRAGIndexStruct):
            kind = "no index" if found is None else f"a {type(found).__name__}, not one of ours,"
            raise InvalidInputError(f"there is {kind} under the id {index_id!r}")
        return found
    every = _read(context, context.index_store.index_structs)
    structs = [struct for struct in every if isinstance(struct, E2GraphRAGIndexStruct)]
    if len(structs) != 1:
        ids = ", ".join(repr(struct.index_id) for struct in structs)
        raise InvalidInputError(
            f"there are several indexes: pass index_id=, one of {ids}"
            if structs
            else "the index store holds no E2GraphRAGIndex: is it the right folder?"
        )
    return structs[0]


def _read(context: StorageContext, read: Callable[[], T]) -> T:
    try:
        return read()
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise CorruptStoreError(
            f"{type(context.index_store).__name__} cannot be read ({type(error).__name__}: "
            f"{error}): if another package's index is in it, import that package or pass "
            "index_id=, else restore a backup"
        ) from error


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
    docstore, index_store = _json(folder / _DOCSTORE), _json(folder / _INDEX_STORE)
    # What is another index's comes along: else a later persist() would write over it.
    graphs, properties = folder / _GRAPH, folder / _PROPERTY_GRAPH
    context = StorageContext.from_defaults(
        docstore=SimpleDocumentStore.from_dict(docstore),
        index_store=SimpleIndexStore.from_dict(index_store),
        vector_store=_vector_store(folder) if vector_store is None else vector_store,
        graph_store=_made(graphs, SimpleGraphStore.from_dict),
        property_graph_store=_made(properties, SimplePropertyGraphStore.from_dict),
    )
    for path in folder.glob(f"*{_OF_NAMESPACE}"):
        if path.name != _VECTORS and _is_json(path):
            store = _made(path, SimpleVectorStore.from_dict)
            context.vector_stores[path.name.removesuffix(_OF_NAMESPACE)] = store
    return context


def _json(path: Path) -> dict[str, Any]:
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
    return plain


def _is_json(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(1) == b"{"


def _made(path: Path, make: Callable[[dict[str, Any]], Any]) -> Any:
    """Return what a file holds, None where there is none."""
    if not path.exists():
        return None
    try:
        return make(_json(path))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptStoreError(f"{path} is damaged ({error}): restore a backup") from error


def _vector_store(folder: Path) -> BasePydanticVectorStore:
    path = next((p for p in (folder / _VECTORS, folder / _OLD_VECTORS) if p.exists()), None)
    if path is None:
        raise CorruptStoreError(
            f"{folder / _VECTORS} is missing: pass vector_store=, the one that the index was made "
            "with, such as QdrantVectorStore(...)"
        )
    if not _is_json(path):
        return _faiss(folder)
    store: BasePydanticVectorStore = _made(path, SimpleVectorStore.from_dict)
    return store


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
        if store.client is None:  # what FAISS makes of a file that says "null"
            raise ValueError("it holds no index")  # noqa: TRY301 - told below, as any other damage
    except (RuntimeError, ValueError, KeyError) as error:
        raise CorruptStoreError(
            f"{folder / _VECTORS} is damaged, or of a vector store that has to be passed as "
            f"vector_store= ({error})"
        ) from error
    return store
