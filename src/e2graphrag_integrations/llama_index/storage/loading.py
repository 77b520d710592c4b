"""Loading of persisted storage contexts, with errors that name the missing or damaged file."""

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

from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.errors import (
    CorruptStoreError,
    InvalidInputError,
    MissingDependencyError,
    StoreError,
)
from e2graphrag_integrations.llama_index.storage.index_struct import E2GraphRAGIndexStruct
from e2graphrag_integrations.llama_index.storage.persisted_folder import (
    finish_replacement,
    folder_state,
)

_DOCSTORE, _INDEX_STORE = "docstore.json", "index_store.json"
_GRAPH, _PROPERTY_GRAPH = "graph_store.json", "property_graph_store.json"
_FAISS_MAP = "id_map.json"
_VECTORS_SUFFIX = "__vector_store.json"
_VECTORS = f"default{_VECTORS_SUFFIX}"

_READ_ATTEMPTS = 5
"""Maximum attempts to read a folder while other processes write to it."""

_JSON_ERRORS = (ValueError, KeyError, TypeError, AttributeError)
"""Errors that LlamaIndex raises when it decodes damaged JSON."""

T = TypeVar("T")


def find_struct(context: StorageContext, index_id: str | None) -> E2GraphRAGIndexStruct:
    """Return the struct of an index; `index_id` may be None if there is only one.

    Raises:
        InvalidInputError: If no index matches, or several do.
        StoreError: If the struct is damaged.
    """
    if index_id is not None:
        struct = _read(context, lambda: context.index_store.get_index_struct(index_id))
        if not isinstance(struct, E2GraphRAGIndexStruct):
            kind = "missing" if struct is None else f"a {type(struct).__name__}"
            raise InvalidInputError(f"index {index_id!r} is {kind}, not an E2GraphRAGIndex")
        return struct
    every = _read(context, context.index_store.index_structs)
    structs = [struct for struct in every if isinstance(struct, E2GraphRAGIndexStruct)]
    if not structs:
        raise InvalidInputError(
            "the index store contains no E2GraphRAGIndex: check the path of the folder"
        )
    if len(structs) > 1:
        ids = ", ".join(repr(struct.index_id) for struct in structs)
        raise InvalidInputError(f"there are several indexes: pass index_id=, one of {ids}")
    return structs[0]


def _read(context: StorageContext, read: Callable[[], T]) -> T:
    try:
        return read()
    except _JSON_ERRORS as error:
        raise CorruptStoreError(
            f"{type(context.index_store).__name__} cannot be read ({type(error).__name__}: "
            f"{error}): if it contains an index from another package, import that package or pass "
            "index_id=; otherwise restore a backup"
        ) from error


def load_context(
    persist_dir: str | os.PathLike[str], vector_store: BasePydanticVectorStore | None
) -> StorageContext:
    """Load a persisted storage context.

    If a crash interrupted `persist`, this completes it. If another process persists at the same
    time, this reads again, so that all files are of the same version.

    Args:
        persist_dir: The folder.
        vector_store: The vector store of the index; None loads it from the folder.

    Raises:
        InvalidInputError: If the folder does not exist.
        CorruptStoreError: If a file is missing or damaged.
        StoreError: If the folder changes during every attempt to read it.
        MissingDependencyError: If the vectors need LlamaIndex's FAISS integration, which is not
            installed.
    """
    if not isinstance(persist_dir, str | os.PathLike):
        raise InvalidInputError(f"persist_dir={short_repr(persist_dir)} must be a str or a Path")
    folder = Path(persist_dir)
    if not folder.is_dir():
        raise InvalidInputError(f"persist_dir={str(folder)!r} is not a folder")
    for _ in range(_READ_ATTEMPTS):
        finish_replacement(folder)
        state = folder_state(folder)
        try:
            context = _load_context(folder, vector_store)
        except CorruptStoreError:
            if folder_state(folder) == state:
                raise
        else:
            if folder_state(folder) == state:
                return context
    raise StoreError(f"{folder} changed during every attempt to read it: try again")


def _load_context(folder: Path, vector_store: BasePydanticVectorStore | None) -> StorageContext:
    # Load the data of other indexes as well: otherwise the next persist() would overwrite it.
    context = StorageContext.from_defaults(
        docstore=SimpleDocumentStore.from_dict(_read_json(folder / _DOCSTORE)),
        index_store=SimpleIndexStore.from_dict(_read_json(folder / _INDEX_STORE)),
        vector_store=_load_vectors(folder) if vector_store is None else vector_store,
        graph_store=_decode(folder / _GRAPH, SimpleGraphStore.from_dict),
        property_graph_store=_decode(folder / _PROPERTY_GRAPH, SimplePropertyGraphStore.from_dict),
    )
    for path in folder.glob(f"*{_VECTORS_SUFFIX}"):
        if path.name != _VECTORS and _is_json(path):
            store = _decode(path, SimpleVectorStore.from_dict)
            context.vector_stores[path.name.removesuffix(_VECTORS_SUFFIX)] = store
    return context


def _read_json(path: Path) -> dict[str, Any]:
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
        raise CorruptStoreError(f"{path} is not a JSON object: restore a backup")
    return plain


def _is_json(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(1) == b"{"


def _decode(path: Path, from_dict: Callable[[dict[str, Any]], Any]) -> Any:
    """Return the decoded content of a file, or None if the file is missing."""
    if not path.exists():
        return None
    try:
        return from_dict(_read_json(path))
    except _JSON_ERRORS as error:
        raise CorruptStoreError(f"{path} is damaged ({error}): restore a backup") from error


def _load_vectors(folder: Path) -> BasePydanticVectorStore:
    path = folder / _VECTORS
    if not path.exists():
        raise CorruptStoreError(
            f"{folder / _VECTORS} is missing: pass vector_store=, the vector store that the index "
            "was built with, such as QdrantVectorStore(...)"
        )
    if not _is_json(path):
        return _load_faiss(folder)
    store: BasePydanticVectorStore = _decode(path, SimpleVectorStore.from_dict)
    return store


def _load_faiss(folder: Path) -> BasePydanticVectorStore:
    try:
        package: Any = importlib.import_module("llama_index.vector_stores.faiss")
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"{folder / _VECTORS} is not JSON and looks like a FAISS index: pip install "
            "llama-index-vector-stores-faiss, or pass vector_store="
        ) from error
    has_map = (folder / _FAISS_MAP).exists()
    kind = package.FaissMapVectorStore if has_map else package.FaissVectorStore
    try:
        store: BasePydanticVectorStore = kind.from_persist_dir(str(folder))
        if store.client is None:  # FAISS reads the text "null" as a missing index
            raise ValueError("it contains no index")  # noqa: TRY301 - reported below as damage
    except (RuntimeError, ValueError, KeyError) as error:
        raise CorruptStoreError(
            f"{folder / _VECTORS} is damaged, or belongs to a vector store that must be passed as "
            f"vector_store= ({error})"
        ) from error
    return store
