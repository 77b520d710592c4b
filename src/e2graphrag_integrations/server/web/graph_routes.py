"""The entity graph and the summary trees."""

from __future__ import annotations

from dataclasses import dataclass

from e2graphrag_integrations.retrieval.entity_view import EntityDetails
from e2graphrag_integrations.server.web.document_routes import DOCUMENT
from e2graphrag_integrations.server.web.operations import Call, Operation, Parameter
from e2graphrag_integrations.views.answer import PathView
from e2graphrag_integrations.views.graph import (
    MAX_ENTITIES,
    MAX_NODES,
    MAX_SENTENCES,
    EdgeSentences,
    EntityList,
    Neighborhood,
    edge_sentences,
    entity_details,
    find_connection,
    list_entities,
    neighborhood,
)
from e2graphrag_integrations.views.tree import MAX_NODES as MAX_TREE_NODES
from e2graphrag_integrations.views.tree import TreeNodes, document_tree, node_children

_NAME = Parameter("name", "Name of the entity, or an alias.", required=True)
_ENDS = (
    Parameter("source", "Name of the first entity.", required=True),
    Parameter("target", "Name of the second entity.", required=True),
)
_OFFSET = Parameter("offset", "Number of items to skip.", 0)
_NODES = Parameter("limit", "Maximum number of nodes.", 50, 1, MAX_TREE_NODES)


@dataclass(frozen=True, slots=True)
class PathList:
    """The paths between two entities, best first."""

    paths: tuple[PathView, ...]


def graph_operations() -> list[Operation]:
    """Return the operations on the entity graph and the trees."""
    return [
        Operation(
            "GET",
            "/entities",
            _entities,
            "List the entities, most mentioned first",
            parameters=(
                Parameter("prefix", "Start of the name, or of an alias.", ""),
                _OFFSET,
                Parameter("limit", "Maximum number of entities.", 50, 1, MAX_ENTITIES),
            ),
            answer=EntityList,
        ),
        Operation(
            "GET",
            "/entities/{name}",
            _entity,
            "Return an entity with its first mentions and its documents",
            parameters=(
                _NAME,
                Parameter("limit", "Maximum length of each list.", 50, 1, 200),
            ),
            answer=EntityDetails,
        ),
        Operation(
            "GET",
            "/entities/{name}/neighborhood",
            _neighborhood,
            "Return an entity, its heaviest neighbors and the edges among them",
            parameters=(_NAME, Parameter("limit", "Maximum number of entities.", 40, 1, MAX_NODES)),
            answer=Neighborhood,
        ),
        Operation(
            "GET",
            "/edge",
            _edge,
            "Return the first sentences that mention two entities",
            parameters=(
                *_ENDS,
                Parameter("limit", "Maximum number of sentences.", 20, 1, MAX_SENTENCES),
            ),
            answer=EdgeSentences,
        ),
        Operation(
            "GET",
            "/path",
            _path,
            "Return the paths between two entities, each hop with a sentence",
            parameters=_ENDS,
            answer=PathList,
        ),
        Operation(
            "GET",
            "/documents/{id}/tree",
            _tree,
            "Return the highest nodes of a document's tree",
            parameters=(DOCUMENT, _OFFSET, _NODES),
            answer=TreeNodes,
        ),
        Operation(
            "GET",
            "/nodes/{id}/children",
            _children,
            "Return the nodes under a summary",
            parameters=(Parameter("id", "Id of the node.", required=True), _OFFSET, _NODES),
            answer=TreeNodes,
        ),
    ]


def _entities(call: Call) -> EntityList:
    found = call.arguments
    return list_entities(call.reader, found["prefix"], found["offset"], found["limit"])


def _entity(call: Call) -> EntityDetails:
    found = call.arguments
    return entity_details(call.reader, found["name"], found["limit"])


def _neighborhood(call: Call) -> Neighborhood:
    found = call.arguments
    return neighborhood(call.reader, found["name"], found["limit"])


def _edge(call: Call) -> EdgeSentences:
    found = call.arguments
    return edge_sentences(call.reader, found["source"], found["target"], found["limit"])


def _path(call: Call) -> PathList:
    found = call.arguments
    paths = find_connection(call.reader, found["source"], found["target"])
    return PathList(tuple(PathView.of(path) for path in paths))


def _tree(call: Call) -> TreeNodes:
    found = call.arguments
    return document_tree(call.reader, found["id"], found["offset"], found["limit"])


def _children(call: Call) -> TreeNodes:
    found = call.arguments
    return node_children(call.reader, found["id"], found["offset"], found["limit"])
