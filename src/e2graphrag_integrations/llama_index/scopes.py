"""`ScopedIndex`: the part of a LlamaIndex index that a reader may see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, Unpack

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.llms import LLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import BaseNode, NodeRelationship, RelatedNodeInfo

from e2graphrag_integrations._utils.validation import check_instance
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.indexing.inputs import as_ids
from e2graphrag_integrations.llama_index.entity_reader import EntityReader
from e2graphrag_integrations.llama_index.options import (
    QueryEngineOptions,
    RetrieverOptions,
    llm_for_answers,
    reject_engine_options,
)
from e2graphrag_integrations.llama_index.retriever import E2GraphRAGRetriever
from e2graphrag_integrations.llama_index.storage.nodes import OWN_KEYS
from e2graphrag_integrations.llama_index.storage.snapshot import DocstoreReader
from e2graphrag_integrations.retrieval.hydrate import NodeSource
from e2graphrag_integrations.retrieval.result import RetrievalResult
from e2graphrag_integrations.retrieval.scopes import Scope, ScopedNodes, Statistics
from e2graphrag_integrations.retrieval.strategy import Query, Strategy
from e2graphrag_integrations.snapshot.snapshot import Snapshot

T = TypeVar("T")


class ScopeOwner(Protocol):
    """The part of an `E2GraphRAGIndex` that its scopes use; the index describes each member."""

    strategy: Strategy

    @property
    def index_id(self) -> str:
        """The id of the index."""
        ...

    @property
    def made_with(self) -> Mapping[str, str]:
        """The settings and the model fingerprints of the index."""
        ...

    def read_scope(
        self, scope: Scope, work: Callable[[Snapshot, ScopedNodes, DocstoreReader], T]
    ) -> T:
        """Return the result of a function that reads a part of the index."""
        ...

    def answer_from(
        self, snapshot: Snapshot, source: NodeSource, query: Query, strategy: Strategy
    ) -> RetrievalResult:
        """Return the result of a query from a snapshot of the index."""
        ...


class ScopedIndex(EntityReader):
    """The documents of an `E2GraphRAGIndex` that match a filter; `scoped` of the index creates it.

    It answers as if no other document had ever been indexed, and gives retrievers and query
    engines. No argument can widen it. It only reads; the docstore and the vector store of the
    index still contain everything, so do not give them to a tenant.
    """

    def __init__(self, index: ScopeOwner, scope: Scope) -> None:
        self._index = index
        self._scope = scope
        self.strategy = index.strategy
        """The default retrieval strategy."""

    @property
    def where(self) -> Mapping[str, Any]:
        """The filter: a copy of the conditions that must all hold."""
        return self._scope.where

    @property
    def statistics(self) -> Statistics:
        """Whose document frequencies BM25 uses."""
        return self._scope.statistics

    @property
    def made_with(self) -> Mapping[str, str]:
        """The dimension of the vectors, for retrievers."""
        made_with = self._index.made_with
        return {key: made_with[key] for key in ("dimension",) if key in made_with}

    def scoped(
        self, where: Mapping[str, Any], *, statistics: Statistics | None = None
    ) -> ScopedIndex:
        """Return a part of this one; see `E2GraphRAGIndex.scoped`.

        Raises:
            FilterError: If `where` is empty or invalid.
            InvalidInputError: If `statistics` is invalid or wider than those of this scope.
        """
        return ScopedIndex(self._index, Scope.of(where, statistics, within=self._scope))

    def as_retriever(self, **options: Unpack[RetrieverOptions]) -> E2GraphRAGRetriever:
        """Return a retriever; `E2GraphRAGRetriever` describes the options."""
        return E2GraphRAGRetriever(self, **options)

    def as_query_engine(
        self,
        llm: LLM | str | None = None,
        *,
        retriever: E2GraphRAGRetriever | None = None,
        **options: Unpack[QueryEngineOptions],
    ) -> BaseQueryEngine:
        """Return a query engine.

        Args:
            llm: Writes the answers; None means `Settings.llm`.
            retriever: A retriever of this scope; None means `as_retriever()`.
            **options: Options of `as_retriever`, such as `similarity_top_k`, and of LlamaIndex's
                query engines and response synthesizers, such as `response_mode`.

        Raises:
            InvalidInputError: If an option is unknown, if the retriever does not belong to this
                scope, or if it is given together with options of `as_retriever`.
        """
        reject_engine_options(options)
        engine_options: dict[str, Any] = dict(options)
        names = RetrieverOptions.__annotations__.keys() & engine_options.keys()
        retriever_options: Any = {name: engine_options.pop(name) for name in names}
        if retriever is None:
            retriever = self.as_retriever(**retriever_options)
        elif retriever_options:
            raise InvalidInputError(
                f"retriever= is given: pass {', '.join(sorted(retriever_options))} to "
                "as_retriever()"
            )
        check_instance(
            "retriever", retriever, E2GraphRAGRetriever, "pass as_retriever() of this scope"
        )
        searched: object = retriever.searched_index
        if searched is not self:
            raise InvalidInputError("retriever= must come from as_retriever() of this scope")
        return RetrieverQueryEngine.from_args(retriever, llm=llm_for_answers(llm), **engine_options)

    def answer(
        self, query: Query, strategy: Strategy
    ) -> tuple[RetrievalResult, Mapping[str, BaseNode]]:
        """Return the result of a query, and its nodes from the docstore by id."""

        def read(
            snapshot: Snapshot, source: ScopedNodes, reader: DocstoreReader
        ) -> tuple[RetrievalResult, Mapping[str, BaseNode]]:
            result = self._index.answer_from(snapshot, source, query, strategy)
            return result, _visible(reader.text_nodes, snapshot)

        return self._index.read_scope(self._scope, read)

    def get_nodes(self, node_ids: str | Sequence[str]) -> list[BaseNode]:
        """Return nodes by id; unknown ids are left out."""
        ids = as_ids(node_ids)

        def read(snapshot: Snapshot, source: ScopedNodes, reader: DocstoreReader) -> list[BaseNode]:
            found = source.nodes_at(snapshot.generation, ids)
            nodes = _visible(reader.text_nodes, snapshot)
            return [nodes[id_] for id_ in found]

        return self._index.read_scope(self._scope, read)

    def _read_snapshot(self, work: Callable[[Snapshot, NodeSource], T]) -> T:
        return self._index.read_scope(
            self._scope, lambda snapshot, source, _: work(snapshot, source)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Reduce to the index and the filters."""
        return _rebuild, (self._index, self._scope.given, self.statistics)

    def __repr__(self) -> str:
        return f"ScopedIndex({self._index.index_id!r}, where={self.where!r})"


def _rebuild(
    index: ScopeOwner, given: Sequence[Mapping[str, Any]], statistics: Statistics
) -> ScopedIndex:
    return ScopedIndex(index, Scope.rebuild(given, statistics))


def _visible(nodes: Mapping[str, BaseNode], snapshot: Snapshot) -> dict[str, BaseNode]:
    """Return nodes; those of trees that are partly visible lose what refers to the other nodes."""
    row_of, partial = snapshot.nodes.row_of, frozenset(snapshot.partial_documents)
    return {
        id_: _without_hidden(node, row_of)
        if int(snapshot.nodes.document[row_of[id_]]) in partial
        else node
        for id_, node in nodes.items()
        if id_ in row_of
    }


def _without_hidden(node: BaseNode, known: Mapping[str, int]) -> BaseNode:
    links: dict[NodeRelationship, Any] = {}
    for kind, link in node.relationships.items():
        if kind == NodeRelationship.SOURCE:
            links[kind] = link
        elif isinstance(link, RelatedNodeInfo):
            if link.node_id in known:
                links[kind] = link
        else:
            links[kind] = [one for one in link if one.node_id in known]
    own = {*node.metadata, *OWN_KEYS}
    excluded = {
        name: [key for key in getattr(node, name) if key in own]
        for name in ("excluded_embed_metadata_keys", "excluded_llm_metadata_keys")
    }
    return node.model_copy(update={"relationships": links, **excluded})
