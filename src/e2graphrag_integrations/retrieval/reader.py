"""`IndexReader`: the questions that an index, or a part of it, answers."""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, Unpack

from e2graphrag_integrations._utils.validation import reject_unknown_arguments
from e2graphrag_integrations.options import NoOptions
from e2graphrag_integrations.retrieval.hydrate import NodeSource
from e2graphrag_integrations.retrieval.result import RetrievalResult
from e2graphrag_integrations.retrieval.strategy import DEFAULT_K, Expand, Mode, Query, Strategy
from e2graphrag_integrations.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from e2graphrag_integrations.retrieval.entities.entity_view import (
        EntityDetails,
        EntityInfo,
        TypesArgument,
    )
    from e2graphrag_integrations.retrieval.filters.where import Where
    from e2graphrag_integrations.retrieval.history.turns import History
    from e2graphrag_integrations.retrieval.known_ids import KnownIds
    from e2graphrag_integrations.retrieval.ranking.boosts import Boost
    from e2graphrag_integrations.retrieval.strategy import NodeFilter
    from e2graphrag_integrations.retrieval.validity.options import AsOf

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

_OTHER_NAMES = {
    "top_k": "k",
    "similarity_top_k": "k",
    "filter": "where",
    "filters": "where",
    "max_tokens": "token_budget",
    "score_threshold": "min_relevance",
    "similarity_cutoff": "min_relevance",
    "chat_history": "history",
}
"""Names of options elsewhere, mapped to the equivalent option here."""


def in_thread(
    method: Callable[Concatenate[S, P], T],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Return the async version of a method, which runs it in a thread; its name begins with "a"."""
    name = method.__name__

    @wraps(method)
    async def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        found: T = await asyncio.to_thread(getattr(self, name), *args, **kwargs)  # or overridden
        return found

    run.__name__ = f"a{name}"
    run.__qualname__ = f"{method.__qualname__.removesuffix(name)}a{name}"
    run.__doc__ = f"Run `{name}` in a thread."
    return run


class HasReader(Protocol):
    """An index of a framework, whose engine reads it."""

    @property
    def rag(self) -> IndexReader:
        """The engine of the index."""


def reader_of(index: object) -> IndexReader | None:
    """Return a reader, or the `rag` of an index of a framework; None for anything else."""
    for one in (index, None if isinstance(index, type) else getattr(index, "rag", None)):
        if isinstance(one, IndexReader):
            return one
    return None


class IndexReader(abc.ABC):
    """Answers questions from an index: `E2GraphRAG`, or a part of one, `ScopedReader`."""

    @property
    @abc.abstractmethod
    def strategy(self) -> Strategy:
        """The default retrieval strategy."""

    @property
    @abc.abstractmethod
    def made_with(self) -> Mapping[str, str]:
        """The settings and the model fingerprints; empty for an index without documents."""

    @abc.abstractmethod
    def answer(self, query: Query, strategy: Strategy) -> RetrievalResult:
        """Return the result of a query; for integrations. Others call `retrieve`."""

    @abc.abstractmethod
    def read_snapshot(self, work: Callable[[Snapshot, NodeSource], T]) -> T:
        """Return the result of a function of the newest snapshot and its stored nodes.

        The function is called again if a writer changes the index in the meantime.
        """

    def retrieve(
        self,
        question: str,
        *,
        k: int | None = None,
        mode: Mode = "auto",
        strategy: Strategy | None = None,
        where: Where | None = None,
        token_budget: int | None = None,
        expand: Expand = "none",
        fill: bool = False,
        boost: Boost | None = None,
        history: History | None = None,
        paths: bool = False,
        min_relevance: float | None = None,
        as_of: AsOf | None = None,
        **unknown: Unpack[NoOptions],
    ) -> RetrievalResult:
        """Return the nodes that best answer a question, without calling a language model.

        Args:
            question: Question in natural language, at most 32,000 characters. A long question is
                embedded in windows.
            k: Maximum number of nodes after expansion. None means 10, or with a `token_budget`, as
                many as fit.
            mode: `auto` chooses based on the question. `local` ranks by entities and can return
                fewer than `k` nodes. `global` ignores entities.
            strategy: Strategy for this query; None means the index's default strategy.
            where: Metadata filter, applied before ranking: equality, `$in`, ranges, `$and`, `$or`
                and `$not` (see `filters.where.compile_where`), or a function of the metadata. The
                key `document_id` filters by document.
            token_budget: Maximum tokens in `result.context()`, which is filled with the best parts
                of at least 50 nodes. With `k`, the parts belong to at most `k` nodes.
            expand: `children` or `leaves` replaces each summary with the nodes under it that pass
                `where`, or with all of them if `where` chooses summaries.
            fill: Whether to fill the result up to `k` nodes with those nearest by cosine.
            boost: Preferred tags, documents, dates or values, as `Boosts` or a mapping with its
                fields. It changes the order, and never lets a node through that `where` excludes.
            history: Earlier turns of the conversation, oldest first: texts of the user, pairs of
                role and text, mappings with `role` and `content`, or messages of LlamaIndex or
                LangChain. As far as the question is incomplete, names, words and the topic of the
                last six turns are carried over.
            paths: Whether `result.paths` contains the chains of entities that join the names of
                the question, each hop with a sentence that proves it.
            min_relevance: Leaves out nodes with a lower relevance before anything is cut, so that a
                question without an answer gets an empty result. From 0 to 1; None keeps all. The
                trace counts the nodes left out. It needs an embedder whose relevance is
                calibrated, and embeds every question.
            as_of: A date, such as `2024-05-01`, to find only what held then; or `Validity`, which
                also names the metadata keys of dates and versions, or a mapping with its fields.
                Without it, documents that `supersedes` in the metadata of others names follow them.

        Raises:
            InvalidInputError: If an argument is invalid, if `min_relevance` is given and the
                relevance of the embedder is not calibrated, or if a document has a date or a value
                that `as_of` or `boost` cannot use.
            UnknownDocumentError: If `boost` names an unknown document.
            CorruptStoreError: If a stored row does not match its checksum.
        """
        reject_unknown_arguments(unknown, IndexReader.retrieve, _OTHER_NAMES)
        strategy = self.strategy if strategy is None else strategy
        node_filter = None if where is None else _compiled(where)
        query = Query(
            question,
            DEFAULT_K if k is None else k,
            mode,
            node_filter,
            token_budget,
            expand,
            fill,
            paths=paths,
            min_relevance=min_relevance,
            max_nodes=k,
        )
        if boost is not None:
            from e2graphrag_integrations.retrieval.ranking.boosts import as_boosts

            query = replace(query, boosts=as_boosts(boost))
        if history is not None:
            from e2graphrag_integrations.retrieval.history.turns import as_turns

            query = replace(query, history=as_turns(history))
        if as_of is not None:
            from e2graphrag_integrations.retrieval.validity.options import options_of

            query = replace(query, options=options_of(as_of))
        return self.answer(query, strategy)

    aretrieve = in_thread(retrieve)

    def entities(
        self,
        *,
        prefix: str = "",
        top: int | None = None,
        where: Where | None = None,
        types: TypesArgument | None = None,
    ) -> list[EntityInfo]:
        """Return the entities of the index with their counts, most mentioned first.

        Args:
            prefix: Start of the name, or of one of its aliases.
            top: Maximum number of entities; None returns all.
            where: Metadata filter: only matching chunks count, entities without any are left out,
                and `aliases` are empty.
            types: The types of the entities, such as `"person"` or `["place", "organization"]`;
                None returns all. See `EntityInfo.type`.

        Raises:
            InvalidInputError: If an argument is invalid.
        """
        from e2graphrag_integrations.retrieval.entities.entity_view import list_entities

        node_filter = None if where is None else _compiled(where)
        return self.read_snapshot(
            lambda snapshot, _: list_entities(snapshot, node_filter, prefix, top, types)
        )

    aentities = in_thread(entities)

    def entity(
        self, name: str, *, top: int | None = 100, where: Where | None = None
    ) -> EntityDetails:
        """Return an entity with its mentions, neighbors and documents.

        Args:
            name: The name of the entity, or an alias.
            top: Maximum number of mentions and of neighbors; None returns all.
            where: Metadata filter: only matching chunks are evidence.

        Raises:
            InvalidInputError: If an argument is invalid.
            UnknownEntityError: If no chunk that matches the filter mentions the entity, and no
                document with such a chunk is about it.
        """
        from e2graphrag_integrations.retrieval.entities.entity_view import describe_entity

        node_filter = None if where is None else _compiled(where)
        return self.read_snapshot(
            lambda snapshot, source: describe_entity(snapshot, source, node_filter, name, top)
        )

    aentity = in_thread(entity)

    def tag_counts(self) -> dict[str, int]:
        """Return the number of chunks with each tag, by name."""
        from e2graphrag_integrations.snapshot.tags import count_tags

        return self.read_snapshot(lambda snapshot, _: count_tags(snapshot))

    def known_ids(self) -> KnownIds:
        """Return the ids of documents, pages and nodes, to check gold answers; see `evaluation`."""
        from e2graphrag_integrations.retrieval.known_ids import KnownIds

        return self.read_snapshot(lambda snapshot, _: KnownIds(snapshot))


def _compiled(where: Where) -> NodeFilter:
    """Return a filter on the nodes of a snapshot; raise InvalidInputError if it is invalid."""
    from e2graphrag_integrations.retrieval.filters.where import metadata_filter

    return metadata_filter(where)
