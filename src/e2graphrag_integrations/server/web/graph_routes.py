"""The entity graph and the summary trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Path, Query, Response
from pydantic import Field

from e2graphrag_integrations.retrieval.entities.entity_view import EntityDetails
from e2graphrag_integrations.server.web.calls import ACall, DocumentId, Offset, PathText, Text
from e2graphrag_integrations.server.web.routing import guarded_router
from e2graphrag_integrations.views.answer import PathView
from e2graphrag_integrations.views.graph import (
    MAX_ENTITIES,
    MAX_NODES,
    MAX_SENTENCES,
    EdgeSentences,
    EntityList,
    GraphNode,
    Neighborhood,
    edge_sentences,
    entity_details,
    find_connection,
    list_entities,
    neighborhood,
    path_nodes,
)
from e2graphrag_integrations.views.tree import MAX_NODES as MAX_TREE_NODES
from e2graphrag_integrations.views.tree import TreeNodes, document_tree, node_children

router = guarded_router()

Name = Annotated[PathText, Path(description="Name of the entity, or an alias.")]
Source = Annotated[Text, Query(description="Name of the first entity.")]
Target = Annotated[Text, Query(description="Name of the second entity.")]
NamesOnly = Annotated[bool, Query(description="Whether to leave out common nouns.")]
Type = Annotated[Text | None, Query(alias="type", description="Type of the entities.")]
NodeId = Annotated[PathText, Path(alias="id", description="Id of the node.")]
Nodes = Annotated[
    int, Query(description="Maximum number of nodes."), Field(ge=1, le=MAX_TREE_NODES)
]


@dataclass(frozen=True, slots=True)
class PathList:
    """The paths between two entities, best first, and the entities on them."""

    paths: tuple[PathView, ...]
    nodes: tuple[GraphNode, ...]


@router.get("/entities", response_model=EntityList)
async def list_all_entities(
    call: ACall,
    prefix: Annotated[Text, Query(description="Start of the name, or of an alias.")] = "",
    offset: Offset = 0,
    limit: Annotated[
        int, Query(description="Maximum number of entities.", ge=1, le=MAX_ENTITIES)
    ] = 50,
    *,
    names_only: NamesOnly = False,
    type_: Type = None,
) -> Response:
    """List the entities, most mentioned first."""
    return await call.answer(
        lambda: list_entities(
            call.reader, prefix, offset, limit, names_only=names_only, types=type_
        )
    )


@router.get("/entities/{name}", response_model=EntityDetails)
async def get_entity(
    call: ACall,
    name: Name,
    limit: Annotated[int, Query(description="Maximum length of each list.", ge=1, le=200)] = 50,
) -> Response:
    """Return an entity with its first mentions and its documents."""
    return await call.answer(lambda: entity_details(call.reader, name, limit))


@router.get("/entities/{name}/neighborhood", response_model=Neighborhood)
async def get_neighborhood(
    call: ACall,
    name: Name,
    limit: Annotated[
        int, Query(description="Maximum number of entities.", ge=1, le=MAX_NODES)
    ] = 40,
    names_only: NamesOnly = False,
) -> Response:
    """Return an entity, its heaviest neighbors and the edges among them."""
    return await call.answer(lambda: neighborhood(call.reader, name, limit, names_only=names_only))


@router.get("/edge", response_model=EdgeSentences)
async def get_edge(
    call: ACall,
    source: Source,
    target: Target,
    limit: Annotated[
        int, Query(description="Maximum number of sentences.", ge=1, le=MAX_SENTENCES)
    ] = 20,
) -> Response:
    """Return the first sentences that mention two entities."""
    return await call.answer(lambda: edge_sentences(call.reader, source, target, limit))


@router.get("/path", response_model=PathList)
async def find_paths(call: ACall, source: Source, target: Target) -> Response:
    """Return the paths between two entities, each hop with a sentence."""

    def find() -> PathList:
        paths = find_connection(call.reader, source, target)
        return PathList(tuple(map(PathView.of, paths)), path_nodes(call.reader, paths))

    return await call.answer(find)


@router.get("/documents/{id}/tree", response_model=TreeNodes)
async def get_tree(
    call: ACall, document_id: DocumentId, offset: Offset = 0, limit: Nodes = 50
) -> Response:
    """Return the highest nodes of a document's tree."""
    return await call.answer(lambda: document_tree(call.reader, document_id, offset, limit))


@router.get("/nodes/{id}/children", response_model=TreeNodes)
async def get_children(
    call: ACall, node_id: NodeId, offset: Offset = 0, limit: Nodes = 50
) -> Response:
    """Return the nodes under a summary."""
    return await call.answer(lambda: node_children(call.reader, node_id, offset, limit))
