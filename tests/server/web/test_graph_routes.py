"""The routes of the entity graph and the trees: the views as JSON, and refused arguments."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from e2graphrag_integrations import SourceDocument
from e2graphrag_integrations.views.graph import (
    edge_sentences,
    entity_details,
    find_connection,
    list_entities,
    neighborhood,
)
from e2graphrag_integrations.views.json_values import to_json
from e2graphrag_integrations.views.tree import document_tree, node_children
from fakes import NamesAndNouns

NAME = "a/b ü?#%.txt"


@pytest.fixture
def rag(open_index, story):
    index = open_index(group_size=2)
    index.add([story, SourceDocument(NAME, "Anna met Zoe in Lima.", metadata={"kind": "joke"})])
    return index


def test_answers_are_the_views(rag, serve):
    client = serve(rag)

    def get(path, **parameters):
        response = client.get(path, params=parameters)
        assert response.status_code == 200, response.text
        return response.json()

    assert get("/entities") == to_json(list_entities(rag))
    assert get("/entities", prefix="an", offset=0, limit=1) == to_json(
        list_entities(rag, "an", 0, 1)
    )
    people = get("/entities", type="person")
    assert people == to_json(list_entities(rag, types="person"))
    assert {one["type"] for one in people["items"]} == {"person"}
    assert get("/entities", type="place")["total"] == 0
    assert get("/entities/Anna", limit=2) == to_json(entity_details(rag, "Anna", 2))
    assert get("/entities/anna/neighborhood", limit=3) == to_json(neighborhood(rag, "anna", 3))
    assert get("/edge", source="Anna", target="Bert", limit=1) == to_json(
        edge_sentences(rag, "Anna", "Bert", 1)
    )
    found = get("/path", source="Cleo", target="Anna")
    paths = found["paths"]
    assert {one["name"]: one["label"] for one in found["nodes"]}["cleo"] == "Cleo"
    assert [path["entities"] for path in paths] == [
        list(path.entities) for path in find_connection(rag, "Cleo", "Anna")
    ]
    tree = get("/documents/story/tree")
    assert tree == to_json(document_tree(rag, "story"))
    top = tree["nodes"][0]["node_id"]
    assert get(f"/nodes/{top}/children", offset=1) == to_json(node_children(rag, top, 1))
    assert get(f"/documents/{quote(NAME, safe='')}/tree")["nodes"][0]["document_id"] == NAME


@pytest.mark.fast_cases(7)
@pytest.mark.parametrize(
    ("path", "status", "kind", "message"),
    [
        ("/entities?limit=501", 400, "InvalidInputError", "limit"),
        ("/entities?offset=-1", 400, "InvalidInputError", "offset"),
        ("/entities?names_only=perhaps", 400, "InvalidInputError", "names_only"),
        ("/entities?type=%20", 400, "InvalidInputError", "type"),
        ("/entities?suffix=x", 400, "InvalidInputError", "unknown parameter"),
        ("/entities/xenia", 404, "UnknownEntityError", "xenia"),
        ("/entities/%20", 400, "InvalidInputError", "entity"),
        ("/entities/anna/neighborhood?limit=0", 400, "InvalidInputError", "limit"),
        ("/edge?source=anna", 400, "InvalidInputError", "target"),
        ("/edge?source=anna&target=Anna", 400, "InvalidInputError", "same entity"),
        ("/path?source=anna&target=xenia", 404, "UnknownEntityError", "xenia"),
        ("/documents/nowhere/tree", 404, "UnknownDocumentError", "nowhere"),
        ("/nodes/nowhere/children", 404, "UnknownNodeError", "nowhere"),
    ],
)
def test_invalid_requests_are_refused(rag, serve, path, status, kind, message):
    response = serve(rag).get(path)
    error = response.json()["error"]
    assert (response.status_code, error["type"]) == (status, kind)
    assert message in error["message"]


def test_common_nouns_are_left_out_on_request(open_index, serve):
    rag = open_index(extractor=NamesAndNouns())
    rag.add(SourceDocument("story", "In time Weena met McTavish at the harbour."))
    client = serve(rag)
    for path in ("/entities", "/entities/weena/neighborhood"):
        found = client.get(path, params={"names_only": "true"}).json()
        names = {one["label"] for one in found.get("items") or found["nodes"]}
        assert {"Weena", "McTavish"} <= names
        assert not {"time", "harbour"} & names
        everything = client.get(path).json()
        names = {one["label"] for one in everything.get("items") or everything["nodes"]}
        assert {"Weena", "time", "harbour"} <= names


def test_entities_of_an_empty_index(open_index, serve):
    assert serve(open_index()).get("/entities").json() == {"items": [], "total": 0}
