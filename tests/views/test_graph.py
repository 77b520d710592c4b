"""Views of the entity graph against the whole graph, and what they refuse."""

from __future__ import annotations

import dataclasses
import json

import pytest

from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    IndexSettings,
    Models,
    SourceDocument,
)
from e2graphrag_integrations.errors import InvalidInputError, UnknownEntityError
from e2graphrag_integrations.retrieval.entities.entity_view import EntityInfo
from e2graphrag_integrations.views.graph import (
    edge_sentences,
    entity_details,
    find_connection,
    list_entities,
    neighborhood,
    neighborhoods,
)
from e2graphrag_integrations.views.json_values import to_json
from fakes import STORY, NameExtractor

OTHER = "Fido barked at Gus. Gus met Anna in Riga. Anna met Bert in Oslo. "


def new_index(*documents: SourceDocument) -> E2GraphRAG:
    rag = E2GraphRAG.open(
        ":memory:",
        embedder=HashingEmbedder(),
        models=Models(extractor=NameExtractor()),
        settings=IndexSettings(chunk_size=16, chunk_overlap=8),
    )
    rag.add(documents)
    return rag


@pytest.fixture(scope="module")
def rag():
    documents = [
        SourceDocument("story", STORY, title="A Map", metadata={"kind": "tale"}),
        SourceDocument("dog", OTHER, title="Zebra", metadata={"kind": "joke"}),
    ]
    with new_index(*documents) as index:
        index.edit_entities(alias={"Annie": "Anna"})
        yield index


def test_pages_of_entities_join_to_the_list_of_the_index(rag):
    pages = [list_entities(rag, "", offset, 3) for offset in range(0, 30, 3)]
    joined = [info for page in pages for info in page.items]
    fields = [one.name for one in dataclasses.fields(EntityInfo)]
    assert [{name: getattr(one, name) for name in fields} for one in joined] == [
        dataclasses.asdict(info) for info in rag.entities()
    ]
    assert {page.total for page in pages} == {len(joined)}
    found = list_entities(rag, "anni", limit=1)
    assert ([info.name for info in found.items], found.total) == (["anna"], 1)
    assert list_entities(rag, "xyz").items == ()
    json.dumps(to_json(pages[0]), allow_nan=False)


@pytest.mark.parametrize("limit", [1, 2, 4, 100])
def test_neighborhood_has_the_heaviest_neighbors_and_all_edges_among_them(rag, limit):
    graph = rag.graph.to_networkx()
    found = neighborhood(rag, "Annie", limit)
    weights = {name: data["weight"] for name, data in graph["anna"].items()}
    kept = sorted(weights, key=lambda name: (-weights[name], name))[: limit - 1]
    assert found.center == "anna"
    assert [node.name for node in found.nodes] == ["anna", *kept]
    assert found.omitted == len(weights) - len(kept)
    expected = {frozenset(ends) for ends in graph.subgraph(["anna", *kept]).edges}
    assert {frozenset((edge.source, edge.target)) for edge in found.edges} == expected
    assert len(found.edges) == len(expected)
    for edge in found.edges:
        assert edge.weight == pytest.approx(graph[edge.source][edge.target]["weight"], abs=1e-6)
    infos = {info.name: info for info in rag.entities()}
    for node in found.nodes:
        info = infos[node.name]
        assert (node.mentions, node.documents, node.degree) == (
            info.mentions,
            info.documents,
            info.degree,
        )
    json.dumps(to_json(found), allow_nan=False)


def test_several_neighborhoods_equal_single_ones(rag):
    names = ["anna", "oslo", "zebra", "anna"]
    assert neighborhoods(rag, names, 4) == [neighborhood(rag, name, 4) for name in names]
    assert neighborhoods(rag, []) == []


def test_details_are_those_of_the_index_with_bounded_lists(rag):
    assert entity_details(rag, "Annie") == rag.entity("Annie")
    first = entity_details(rag, "Annie", 1)
    assert (len(first.mentions), len(first.neighbors), len(first.documents)) == (1, 1, 1)
    assert first.info == rag.entity("Annie").info


def test_subject_without_a_mention_has_no_neighbors(rag):
    found = neighborhood(rag, "Zebra")
    assert [node.name for node in found.nodes] == ["zebra"]
    assert (found.edges, found.omitted) == ((), 0)
    assert edge_sentences(rag, "zebra", "anna").sentences == ()


def test_edge_lists_each_shared_sentence_once_with_its_span(rag):
    found = edge_sentences(rag, "Bert", "Annie")
    texts = {id_: rag.document(id_).text for id_ in rag.document_ids}
    for hop in found.sentences:
        assert (hop.source, hop.target) == ("bert", "anna")
        assert hop.text == texts[hop.document_id][hop.start : hop.end]
        assert "Anna" in hop.text
        assert "Bert" in hop.text
    assert [(hop.document_id, hop.text) for hop in found.sentences] == [
        ("dog", "Anna met Bert in Oslo."),
        ("story", "Anna met Bert in Oslo."),
        ("story", "Bert gave Anna a map of the harbour."),
    ]
    [weight] = {hop.weight for hop in found.sentences}
    assert weight == pytest.approx(rag.graph.to_networkx()["bert"]["anna"]["weight"], abs=1e-6)
    first = edge_sentences(rag, "Bert", "Anna", 2)
    assert (first.sentences, first.has_more) == (found.sentences[:2], True)
    assert not edge_sentences(rag, "Bert", "Anna", 3).has_more
    assert edge_sentences(rag, "Fido", "Emil").sentences == ()


def test_connection_is_the_path_of_the_retrieval(rag):
    [path, *_] = find_connection(rag, "Fido", "Dora")
    assert path.entities[0] == "fido"
    assert path.entities[-1] == "dora"
    for hop in path.hops:
        assert hop.text == rag.document(hop.document_id).text[hop.start : hop.end]


def test_scope_has_the_graph_of_an_index_of_its_documents(rag):
    scoped = rag.scoped({"kind": "tale"})
    alone = new_index(SourceDocument("story", STORY, title="A Map", metadata={"kind": "tale"}))
    with alone:
        assert list_entities(scoped) == list_entities(alone)
        assert neighborhood(scoped, "Anna", 3) == neighborhood(alone, "Anna", 3)
        assert edge_sentences(scoped, "Anna", "Bert") == edge_sentences(alone, "Anna", "Bert")
        assert find_connection(scoped, "Anna", "Emil") == find_connection(alone, "Anna", "Emil")
    for view in (neighborhood, lambda reader, name: edge_sentences(reader, "anna", name)):
        with pytest.raises(UnknownEntityError):
            view(scoped, "Fido")


@pytest.mark.parametrize(
    ("view", "error", "message"),
    [
        (lambda r: list_entities(r, offset=-1), InvalidInputError, "offset=-1"),
        (lambda r: list_entities(r, limit=0), InvalidInputError, "limit=0"),
        (lambda r: list_entities(r, limit=501), InvalidInputError, "limit=501"),
        (lambda r: list_entities(r, 3), InvalidInputError, "prefix must be a string"),
        (lambda r: entity_details(r, "Anna", 201), InvalidInputError, "limit=201"),
        (lambda r: neighborhood(r, " "), InvalidInputError, "entity"),
        (lambda r: neighborhood(r, "Anna", 201), InvalidInputError, "limit=201"),
        (lambda r: neighborhood(r, "Nobody Known"), UnknownEntityError, "Nobody Known"),
        (lambda r: edge_sentences(r, "Anna", "Annie"), InvalidInputError, "same entity"),
        (lambda r: edge_sentences(r, "Anna", "Bert", 0), InvalidInputError, "limit=0"),
        (lambda r: find_connection(r, "Anna", "Xenia"), UnknownEntityError, "Xenia"),
    ],
)
def test_invalid_arguments_are_refused(rag, view, error, message):
    with pytest.raises(error, match=message):
        view(rag)


def test_empty_index_has_no_entities(open_index):
    found = list_entities(open_index())
    assert (found.items, found.total) == ((), 0)
