"""The part of an index of a framework's documents that a reader may see."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

from e2graphrag_integrations.engine import E2GraphRAG
from e2graphrag_integrations.engine.scoped_reader import ScopedReader
from e2graphrag_integrations.retrieval.filters.where import Predicate
from e2graphrag_integrations.retrieval.scopes import Scope, Statistics


class ScopeOwner(Protocol):
    """The index of a framework that a scope is a part of."""

    @property
    def rag(self) -> E2GraphRAG:
        """The engine of the index."""


class DocumentScope(ScopedReader):
    """A `ScopedReader` whose filters are those on the metadata of a framework's documents.

    Args:
        index: The index.
        scope: The scope.
    """

    def __init__(self, index: ScopeOwner, scope: Scope) -> None:
        self._owner = index
        super().__init__(*index.rag.parts_for_scopes(), scope)

    @staticmethod
    @abstractmethod
    def adapt(where: Mapping[str, Any]) -> Predicate:
        """Return a filter on stored metadata, from one on the metadata of the documents."""

    @classmethod
    def of(cls, index: ScopeOwner, where: Mapping[str, Any], statistics: Statistics) -> Self:
        """Return the part of an index that matches a filter; see `E2GraphRAG.scoped`."""
        return cls(index, Scope.of(where, statistics, adapt=cls.adapt))

    def scoped(self, where: Mapping[str, Any], *, statistics: Statistics | None = None) -> Self:
        """Return a part of this one; see `ScopedReader.scoped`."""
        scope = Scope.of(where, statistics, within=self.scope, adapt=self.adapt)
        return type(self)(self._owner, scope)

    def __reduce__(self) -> tuple[Any, ...]:
        """Reduce to the index and the filters."""
        return _rebuild, (type(self), self._owner, self.scope.given, self.statistics)


def _rebuild(
    cls: type[DocumentScope],
    index: ScopeOwner,
    given: Sequence[Mapping[str, Any]],
    statistics: Statistics,
) -> DocumentScope:
    return cls(index, Scope.rebuild(given, statistics, cls.adapt))
