"""`result.paths` and `result.subgraph()`: proofs, filters, and the faces that return them."""

from __future__ import annotations

import asyncio
import json
import pickle

import networkx as nx
import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from llama_index.core import Document as LlamaDocument
from llama_index.core.embeddings import MockEmbedding

from e2graphrag_integrations import E2GraphRAG, IndexSettings, Models, PaperStrategy, SourceDocument
from e2graphrag_integrations.errors import CorruptStoreError
from e2graphrag_integrations.langchain import E2GraphRAGIndex as LangChainIndex
from e2graphrag_integrations.llama_index import E2GraphRAGIndex as LlamaIndex
from e2graphrag_integrations.options import grouped
from fakes import STORY, NameExtractor

pytestmark = pytest.mark.usefixtures("all_summaries")  # they count all nodes

QUESTION = "How is Anna tied to Emil?"


@pytest.fixture(scope="module")
def rag():
    """Letters of which the second contains the only link from Bert to Emil."""
    options = {"chunk_size": 12, "chunk_overlap": 0}
    with E2GraphRAG.open(
        ":memory:", **grouped({"embedder": "hashing", "extractor": NameExtractor(), **options})
    ) as rag:
        rag.add(
            [
                SourceDocument("a", "Anna met Bert. Cleo slept.", metadata={"room": 1}),
                SourceDocument("b", "It rained. Bert paid Emil.", metadata={"room": 2}),
                SourceDocument("c", "Anna saw Fay. Fay saw Emil.", metadata={"room": 3}),
            ]
        )
        yield rag


def entities(result):
    return [path.entities for path in result.paths]


def test_a_result_has_no_paths_unless_they_are_asked_for(rag):
    result = rag.retrieve(QUESTION)
    assert result.paths is None
    assert "paths" not in result.trace.timings


def test_each_hop_is_proven_by_a_sentence(rag):
    result = rag.retrieve(QUESTION, paths=True)
    assert entities(result) == [("anna", "fay", "emil"), ("anna", "bert", "emil")]
    for path in result.paths:
        for hop in path.hops:
            text = rag.document(hop.document_id).text
            assert text[hop.start : hop.end] == hop.text
            assert hop.source.title() in hop.text
            assert hop.target.title() in hop.text
            node = rag.nodes(hop.node_id)[hop.node_id]
            assert node.start <= hop.start < hop.end <= node.end
    assert [hop.text for hop in result.paths[1].hops] == ["Anna met Bert.", "Bert paid Emil."]


def test_paths_work_with_every_strategy_and_with_async(rag):
    expected = rag.retrieve(QUESTION, paths=True).paths
    paper = rag.retrieve(QUESTION, paths=True, strategy=PaperStrategy())
    assert set(entities(paper)) == {path.entities for path in expected}
    assert asyncio.run(rag.aretrieve(QUESTION, paths=True)).paths == expected
    assert rag.retrieve(QUESTION, paths=True, token_budget=50).paths == expected
    assert rag.retrieve(QUESTION, paths=True, mode="global").paths == ()


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"room": {"$ne": 2}}, [("anna", "fay", "emil")]),
        ({"room": {"$ne": 3}}, [("anna", "bert", "emil")]),
        ({"room": 1}, []),
        ({"room": {"$gt": 0}}, [("anna", "fay", "emil"), ("anna", "bert", "emil")]),
    ],
)
def test_a_hop_without_a_visible_sentence_does_not_exist(rag, where, expected):
    result = rag.retrieve(QUESTION, paths=True, where=where)
    assert entities(result) == expected
    hidden = {"a": 1, "b": 2, "c": 3}
    visible = {node.document_id for node in result.nodes}
    assert {hop.document_id for path in result.paths for hop in path.hops} <= visible <= set(hidden)


def test_a_sentence_of_the_result_is_the_preferred_proof(open_index):
    rag = open_index(chunk_overlap=0)
    rag.add(
        SourceDocument(str(n), f"Anna met Bert. {word} " + "more words " * 8)
        for n, word in enumerate(["apples", "pears", "plums"])
    )
    for n, word in enumerate(["apples", "pears", "plums"]):
        result = rag.retrieve(f"Anna Bert {word}", k=1, paths=True)
        [path] = result.paths
        assert path.hops[0].node_id == result.nodes[0].node_id, (n, word)


def test_results_with_paths_can_be_stored(rag):
    result = rag.retrieve(QUESTION, paths=True)
    assert pickle.loads(pickle.dumps(result)).paths == result.paths  # noqa: S301 - own data
    assert json.loads(json.dumps([path.to_dict() for path in result.paths]))
    assert "Anna met Bert." in result.paths[1].describe()


def test_the_subgraph_contains_nodes_entities_and_hops(rag, tmp_path):
    result = rag.retrieve(QUESTION, paths=True)
    graph = result.subgraph()
    assert {node.node_id for node in result.nodes} <= set(graph)
    assert nx.shortest_path(graph.subgraph(["anna", "bert", "emil"]), "anna", "emil")
    assert graph["anna"]["bert"]["kind"] == "hop"
    assert graph["anna"]["bert"]["text"] == "Anna met Bert."
    kinds = nx.get_node_attributes(graph, "kind")
    assert set(kinds.values()) <= {"chunk", "summary", "entity"}
    assert len(kinds) == len(graph)
    nx.write_graphml(graph, tmp_path / "result.graphml")
    without = rag.retrieve(QUESTION).subgraph()
    assert not without.has_edge("anna", "bert")
    assert any(kind == "mentions" for *_, kind in without.edges(data="kind"))


def test_summaries_in_the_subgraph_point_to_their_children(open_index, story):
    rag = open_index(group_size=2)
    rag.add(story)
    graph = rag.retrieve("Anna and Emil?", k=50, fill=True).subgraph()
    assert sum(kind == "summarizes" for *_, kind in graph.edges(data="kind")) > 3


def test_entity_edits_apply_to_paths_and_communities(open_index):
    rag = open_index(chunk_overlap=0)
    rag.add(SourceDocument("notes", "Anna met Bob. Rain fell. Robert paid Emil."))
    assert rag.retrieve(QUESTION, paths=True).paths == ()
    rag.edit_entities(alias={"Bob": "Robert"})
    [path] = rag.retrieve(QUESTION, paths=True).paths
    assert path.entities == ("anna", "robert", "emil")
    assert [hop.text for hop in path.hops] == ["Anna met Bob.", "Robert paid Emil."]
    [community] = rag.communities()
    assert set(community.entities) == {"anna", "robert", "emil"}


def test_paths_read_the_state_of_one_generation(open_index, story, monkeypatch):
    rag = open_index()
    rag.add(story)
    expected = rag.retrieve(QUESTION, paths=True).paths
    read, calls = rag.store.mentions_at, []

    def write_before_the_first_read(generation, *arguments):
        if not calls:
            calls.append(generation)
            rag.add(SourceDocument("other", "Gus met Hal."))
        return read(generation, *arguments)

    monkeypatch.setattr(rag.store, "mentions_at", write_before_the_first_read)
    assert rag.retrieve(QUESTION, paths=True).paths == expected != ()
    assert calls


def test_a_damaged_extraction_is_reported(open_index, story):
    rag = open_index()
    rag.add(story)
    rag.refresh()
    with rag.store.transaction() as db:
        db.execute("UPDATE content SET value = x'00' WHERE kind = 'extraction'")
    with pytest.raises(CorruptStoreError, match="verify"):
        rag.retrieve(QUESTION, paths=True)


# Integrations and real models


@pytest.fixture(scope="module")
def llama():
    return LlamaIndex.from_documents(
        [LlamaDocument(id_="story", text=STORY)],
        embed_model=MockEmbedding(8),
        models=Models(extractor=NameExtractor()),
        settings=IndexSettings(chunk_size=16, chunk_overlap=0),
    )


def test_llama_index_retrievers_find_the_same_paths(llama, tmp_path):
    retriever = llama.as_retriever(paths=True)
    result = retriever.search(QUESTION)
    assert result.paths
    assert asyncio.run(retriever.asearch(QUESTION)).paths == result.paths
    assert llama.as_retriever().search(QUESTION).paths is None
    for hop in (hop for path in result.paths for hop in path.hops):
        assert STORY[hop.start : hop.end] == hop.text
    llama.rag.copy_to(tmp_path / "story.e2g")
    with E2GraphRAG.open(
        tmp_path / "story.e2g", embedder=_Embedder(), models=Models(extractor=NameExtractor())
    ) as rag:
        assert rag.retrieve(QUESTION, mode="local", paths=True).paths == (
            llama.as_retriever(mode="local", paths=True).search(QUESTION).paths
        )


class _Embedder:
    """An embedder with the vectors of LlamaIndex's mock."""

    dimension, max_tokens = 8, None

    def embed(self, texts):
        return [[0.5] * 8 for _ in texts]

    def embed_query(self, text):
        del text
        return [0.5] * 8


def test_langchain_retrievers_return_paths_in_metadata_and_events(names):
    index = LangChainIndex.from_documents(
        [Document(STORY, id="story")],
        "hashing",
        models=Models(extractor=names),
        settings=IndexSettings(chunk_size=16, chunk_overlap=0),
    )
    result = index.rag.retrieve(QUESTION, paths=True)
    assert asyncio.run(index.rag.aretrieve(QUESTION, paths=True)).paths == result.paths != ()
    recorder = _EventRecorder()
    retriever = index.as_retriever(paths=True, k=3)
    documents = retriever.invoke(QUESTION, {"callbacks": [recorder]})
    assert recorder.paths == [path.to_dict() for path in result.paths]
    shown = [path for document in documents for path in json.loads(document.metadata["e2_paths"])]
    assert shown
    assert all(path in recorder.paths for path in shown)
    assert "e2_paths" not in index.as_retriever().invoke(QUESTION)[0].metadata
    assert "e2_paths" in index.as_retriever().invoke(QUESTION, paths=True)[0].metadata


class _EventRecorder(BaseCallbackHandler):
    """Keeps the paths of the last routing event."""

    paths = None

    def on_custom_event(self, name, data, **kwargs):
        del name, kwargs
        self.paths = data["paths"]


@pytest.mark.slow
def test_real_models_prove_each_hop_with_a_sentence(real_embedder, real_extractor):
    text = (
        "Doctor Watson married Mary Morstan in London. It rained for a week. Mary Morstan had "
        "come to Sherlock Holmes for help. Bread costs more than before."
    )
    options = {"chunk_size": 16, "chunk_overlap": 0}
    with E2GraphRAG.open(
        ":memory:", **grouped({"embedder": real_embedder, "extractor": real_extractor, **options})
    ) as rag:
        rag.add(SourceDocument("case", text))
        result = rag.retrieve("How is Doctor Watson connected to Sherlock Holmes?", paths=True)
    best = result.paths[0]
    assert best.entities[1] == "mary morstan"
    assert [hop.text for hop in best.hops] == [
        "Doctor Watson married Mary Morstan in London.",
        "Mary Morstan had come to Sherlock Holmes for help.",
    ]
