"""What a retriever searches: a reader of the core, or an index whose nodes are in a docstore."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from llama_index.core.schema import BaseNode

from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.engine import E2GraphRAG
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.portability.reopening import absolute_path
from e2graphrag_integrations.retrieval.reader import IndexReader
from e2graphrag_integrations.retrieval.result import RetrievalResult
from e2graphrag_integrations.retrieval.strategy import Query, Strategy
from e2graphrag_integrations.settings import checked_path
from e2graphrag_integrations.store.location import check_is_index


class HasReader(Protocol):
    """An index of another framework that is read through an `E2GraphRAG`."""

    @property
    def reader(self) -> IndexReader:
        """The engine of the index."""
        ...


@runtime_checkable
class DocstoreIndex(Protocol):
    """An index whose nodes are in a docstore: `E2GraphRAGIndex`, or a part of one."""

    strategy: Strategy

    @property
    def made_with(self) -> Mapping[str, str]:
        """The settings and the model fingerprints of the index."""
        ...

    def answer(
        self, query: Query, strategy: Strategy
    ) -> tuple[RetrievalResult, Mapping[str, BaseNode]]:
        """Return the result of a query, and its nodes from the docstore by id."""
        ...


Searched = IndexReader | DocstoreIndex
"""What answers the questions of a retriever."""

Searchable = Searched | HasReader | str | os.PathLike[str]
"""What a retriever accepts."""


def searched(index: Searchable) -> Searched:
    """Return what answers the questions to an index; a path or a URL is opened.

    Raises:
        InvalidInputError: If it is none, or there is no index at the path or URL.
        StoreError: If the index at the path or URL cannot be opened.
    """
    if isinstance(index, str | os.PathLike):
        return open_existing(index)
    if not isinstance(index, type):
        if isinstance(index, IndexReader):
            return index
        reader = getattr(index, "reader", None)
        if isinstance(reader, IndexReader):
            return reader
        if isinstance(index, DocstoreIndex):
            return index
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
    location = checked_path(path)
    check_is_index(location)
    return E2GraphRAG.open(location)


def stable_location(index: Any) -> Any:
    """Return a path as an absolute one, which survives a change of folder; others unchanged."""
    if isinstance(index, str | os.PathLike):
        return absolute_path(checked_path(index))
    return index


def answer(
    index: Searched, query: Query, strategy: Strategy
) -> tuple[RetrievalResult, Mapping[str, BaseNode]]:
    """Return the result of a query, and its nodes by id if the index has a docstore."""
    if isinstance(index, IndexReader):
        return index.answer(query, strategy), {}
    return index.answer(query, strategy)
