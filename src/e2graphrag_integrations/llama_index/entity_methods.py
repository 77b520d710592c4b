"""`EntityMethods`: the entities of an index, with LlamaIndex's filters."""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Sequence

from llama_index.core.vector_stores import MetadataFilters

from e2graphrag_integrations.llama_index.filters import node_filter
from e2graphrag_integrations.retrieval.entities.entity_view import (
    EntityDetails,
    EntityInfo,
    describe_entity,
    list_entities,
)
from e2graphrag_integrations.retrieval.known_ids import KnownIds
from e2graphrag_integrations.retrieval.reader import IndexReader


class EntityMethods(abc.ABC):
    """Reads entities; `E2GraphRAGIndex` and `ScopedIndex` inherit the methods."""

    @property
    @abc.abstractmethod
    def reader(self) -> IndexReader:
        """What answers the questions to the index, also for the retrievers of other frameworks."""

    def entities(
        self,
        *,
        prefix: str = "",
        top: int | None = None,
        filters: MetadataFilters | None = None,
        doc_ids: Sequence[str] | None = None,
    ) -> list[EntityInfo]:
        """Return the entities of the index with their counts, most mentioned first.

        Args:
            prefix: Start of the name, or of one of its aliases.
            top: Maximum number of entities; None returns all.
            filters: Metadata filters: only matching chunks count, entities without any are left
                out, and `aliases` are empty.
            doc_ids: Ids of documents: only their chunks count.

        Raises:
            InvalidInputError: If an argument is invalid.
        """
        where = node_filter(filters, doc_ids)
        return self.reader.read_snapshot(
            lambda snapshot, _: list_entities(snapshot, where, prefix, top)
        )

    async def aentities(
        self,
        *,
        prefix: str = "",
        top: int | None = None,
        filters: MetadataFilters | None = None,
        doc_ids: Sequence[str] | None = None,
    ) -> list[EntityInfo]:
        """Run `entities` in a thread."""
        return await asyncio.to_thread(
            self.entities, prefix=prefix, top=top, filters=filters, doc_ids=doc_ids
        )

    def entity(
        self,
        name: str,
        *,
        top: int | None = 100,
        filters: MetadataFilters | None = None,
        doc_ids: Sequence[str] | None = None,
    ) -> EntityDetails:
        """Return an entity with its mentions, neighbors and documents.

        A document is a tree here, such as a file with several pages, and spans refer to its text.

        Args:
            name: The name of the entity, or an alias.
            top: Maximum number of mentions and of neighbors; None returns all.
            filters: Metadata filters: only matching chunks are evidence.
            doc_ids: Ids of documents: only their chunks are evidence.

        Raises:
            InvalidInputError: If an argument is invalid.
            UnknownEntityError: If no chunk that matches the filter mentions the entity.
        """
        where = node_filter(filters, doc_ids)
        return self.reader.read_snapshot(
            lambda snapshot, source: describe_entity(snapshot, source, where, name, top)
        )

    async def aentity(
        self,
        name: str,
        *,
        top: int | None = 100,
        filters: MetadataFilters | None = None,
        doc_ids: Sequence[str] | None = None,
    ) -> EntityDetails:
        """Run `entity` in a thread."""
        return await asyncio.to_thread(self.entity, name, top=top, filters=filters, doc_ids=doc_ids)

    def known_ids(self) -> KnownIds:
        """Return the ids of documents, pages and nodes, to check gold answers; see `evaluation`."""
        return self.reader.known_ids()
