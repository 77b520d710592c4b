"""What a retriever searches: a reader of the core, given by anything that has one."""

from __future__ import annotations

import os
from typing import Any

from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.engine import E2GraphRAG
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.portability.reopening import absolute_path
from e2graphrag_integrations.retrieval.reader import HasReader, IndexReader, reader_of
from e2graphrag_integrations.settings import checked_path
from e2graphrag_integrations.store.location import check_is_index

Searchable = IndexReader | HasReader | str | os.PathLike[str]
"""What a retriever accepts."""


def searched(index: Searchable) -> IndexReader:
    """Return what answers the questions to an index; a path or a URL is opened.

    Raises:
        InvalidInputError: If it is none, or there is no index at the path or URL.
        StoreError: If the index at the path or URL cannot be opened.
    """
    if isinstance(index, str | os.PathLike):
        return open_existing(index)
    reader = reader_of(index)
    if reader is not None:
        return reader
    raise InvalidInputError(
        f"index={short_repr(index)} is not an index: pass an E2GraphRAGIndex of LlamaIndex or "
        "LangChain, an open E2GraphRAG, scoped(...) of any of them, or the path of an index file "
        "or the URL of an index in Postgres"
    )


def open_existing(path: str | os.PathLike[str]) -> E2GraphRAG:
    """Open an index with the models that it records; none is created.

    Raises:
        InvalidInputError: If there is no index.
        StoreError: If the index cannot be opened.
    """
    return E2GraphRAG.open(check_existing(path))


def check_existing(path: str | os.PathLike[str]) -> str:
    """Return the location of an index that exists.

    Raises:
        InvalidInputError: If there is none.
    """
    location = checked_path(path)
    check_is_index(location)
    return location


def stable_location(index: Any) -> Any:
    """Return a path as an absolute one, which survives a change of folder; others unchanged."""
    if isinstance(index, str | os.PathLike):
        return absolute_path(checked_path(index))
    return index
