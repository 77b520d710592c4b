"""The extractor for `PropertyGraphIndex`."""

from __future__ import annotations

import json

import pytest
from llama_index.core import Document, PropertyGraphIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.graph_stores.types import (
    KG_NODES_KEY,
    KG_RELATIONS_KEY,
    ChunkNode,
    EntityNode,
)
from llama_index.core.indices.property_graph import ImplicitPathExtractor
from llama_index.core.ingestion import IngestionCache, IngestionPipeline
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import TextNode

from e2graphrag_integrations import SpacyEntityExtractor
from e2graphrag_integrations.entities.chunk_extractor import normalize_mentions
from e2graphrag_integrations.errors import InvalidInputError, MissingDependencyError
from e2graphrag_integrations.graph.builder import build_graph
from e2graphrag_integrations.llama_index import EntityCooccurrenceExtractor
from fakes import STORY
from llama_fakes import OTHER


@pytest.fixture(scope="module")
def graph_of():
    """Return a function that builds the core's entity graph of texts, one chunk each."""
    extractor = SpacyEntityExtractor()
    return lambda texts: build_graph(
        normalize_mentions(found) for found in extractor.extract(texts)
    )


def split(*texts, size=30):
    documents = [Document(id_=f"doc-{n}", text=text) for n, text in enumerate(texts)]
    return SentenceSplitter(chunk_size=size, chunk_overlap=0).get_nodes_from_documents(documents)


def weights_of(graph, minimum=0.0):
    edges = graph.edges.tocoo()
    return {
        (graph.names[a], graph.names[b]): round(float(weight), 6)
        for a, b, weight in zip(edges.row, edges.col, edges.data, strict=True)
        if a < b and weight >= minimum
    }


def mentions_of(graph, ids):
    postings = graph.postings.tocoo()
    return {
        (ids[chunk], graph.names[entity]): int(count)
        for entity, chunk, count in zip(postings.row, postings.col, postings.data, strict=True)
    }


def relations(store, label):
    found = [r for r in store.graph.relations.values() if r.label == label]
    value = "weight" if label == "CO_OCCURS" else "count"
    return {(r.source_id, r.target_id): r.properties[value] for r in found}


def index_of_graph(nodes, store, *extractors):
    return PropertyGraphIndex(
        nodes,
        llm=MockLLM(),
        embed_model=MockEmbedding(4),
        kg_extractors=list(extractors),
        property_graph_store=store,
        use_async=False,
        embed_kg_nodes=False,
    )


def test_a_property_graph_index_gets_the_entity_graph_of_all_its_nodes(graph_of):
    nodes = split(STORY, OTHER)
    assert len(nodes) > 4
    store = SimplePropertyGraphStore()
    index_of_graph(nodes, store, EntityCooccurrenceExtractor())
    graph = graph_of([node.text for node in nodes])
    entities = {n.name: n.label for n in store.graph.nodes.values() if isinstance(n, EntityNode)}
    labels = ["NAME" if named else "NOUN" for named in graph.named]
    assert entities == dict(zip(graph.names, labels, strict=True))
    assert relations(store, "CO_OCCURS") == weights_of(graph)
    assert max(weights_of(graph).values()) > 0.5  # summed over sentences and nodes
    assert relations(store, "MENTIONS") == mentions_of(graph, [node.node_id for node in nodes])
    chunks = {id_ for id_, n in store.graph.nodes.items() if isinstance(n, ChunkNode)}
    assert chunks == {node.node_id for node in nodes}
    assert all(KG_NODES_KEY not in node.metadata for node in nodes)


def test_edges_below_the_minimum_weight_are_omitted(graph_of):
    nodes = split(STORY, OTHER)
    store = SimplePropertyGraphStore()
    index_of_graph(nodes, store, EntityCooccurrenceExtractor(min_weight=0.5))
    graph = graph_of([node.text for node in nodes])
    assert relations(store, "CO_OCCURS") == weights_of(graph, 0.5)
    assert 0 < len(weights_of(graph, 0.5)) < len(weights_of(graph))
    with pytest.raises(InvalidInputError, match=r"^min_weight=-1: input should be greater"):
        EntityCooccurrenceExtractor(min_weight=-1)
    with pytest.raises(InvalidInputError, match="'min_wieght': did you mean 'min_weight'"):
        EntityCooccurrenceExtractor(min_wieght=1)


def test_results_of_other_extractors_are_kept():
    stores = [SimplePropertyGraphStore(), SimplePropertyGraphStore()]
    extractors = [ImplicitPathExtractor(), EntityCooccurrenceExtractor()]
    index_of_graph(split(STORY), stores[0], *extractors)
    index_of_graph(split(STORY), stores[1], *reversed(extractors))
    labels = [sorted(r.label for r in store.graph.relations.values()) for store in stores]
    assert labels[0] == labels[1]
    assert {"NEXT", "SOURCE", "CO_OCCURS", "MENTIONS"} <= set(labels[0])


@pytest.mark.parametrize("texts", [[], ["No."], ["Anna met Bert."]])
def test_few_or_no_nodes_work(graph_of, texts):
    nodes = [TextNode(text=text) for text in texts]
    found = EntityCooccurrenceExtractor()(nodes)
    assert [len(n.metadata[KG_NODES_KEY]) for n in found] == [len(graph_of(texts).names)] * len(
        found
    )


async def test_the_extractor_works_in_a_pipeline_and_can_be_serialized():
    extractor = EntityCooccurrenceExtractor(min_weight=0.4)
    plain = json.loads(json.dumps(extractor.to_dict()))
    again = EntityCooccurrenceExtractor.from_dict(plain)
    assert again == extractor
    assert again.to_dict() == plain
    documents = [Document(id_="a", text=STORY), Document(id_="b", text=OTHER)]
    splitter = SentenceSplitter(chunk_size=30, chunk_overlap=0)
    expected = None
    for one in (extractor, again):
        pipeline = IngestionPipeline(transformations=[splitter, one], cache=IngestionCache())
        runs = [pipeline.run(documents=documents), await pipeline.arun(documents=documents)]
        for nodes in runs:
            result = [
                sorted(str(r) for r in _plain(node.metadata[KG_RELATIONS_KEY], node))
                for node in nodes
            ]
            expected = expected or result
            assert result == expected


def _plain(relations, node):
    """Yield relations as dicts, as the cache of a pipeline returns them."""
    for relation in relations:
        data = relation if isinstance(relation, dict) else relation.model_dump()
        source = "node" if data["source_id"] == node.node_id else data["source_id"]
        yield {**data, "source_id": source, "target_id": data["target_id"]}


def test_a_missing_spacy_pipeline_raises_at_first_use():
    extractor = EntityCooccurrenceExtractor(extractor="no_such_pipeline")
    with pytest.raises(MissingDependencyError, match="no_such_pipeline"):
        extractor([TextNode(text="Anna met Bert.")])
