"""Scopes in LlamaIndex: retrievers and query engines of one tenant get nothing of another."""

from __future__ import annotations

import asyncio
import copy
import pickle
from typing import Any

import pytest
from llama_index.core import Document, StorageContext
from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms import MockLLM
from llama_index.core.schema import IndexNode, NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.tools import QueryEngineTool, RetrieverTool
from llama_index.core.vector_stores import MetadataFilters

from e2graphrag_integrations import E2GraphRAG, Models, PaperStrategy
from e2graphrag_integrations.errors import InvalidInputError, UnknownEntityError
from e2graphrag_integrations.llama_index import E2GraphRAGIndex
from e2graphrag_integrations.search.dense import DenseIndex
from fakes import NameExtractor
from llama_stores import Plain
from scope_trials import OF_A, OF_B, A, secrets_in

pytestmark = pytest.mark.usefixtures("all_summaries")  # they count all nodes


def pages_of(tenant: str, *texts: str, file: str) -> list[Document]:
    extra = {"secretkey": "x"} if tenant == "b" else {}
    return [
        Document(
            id_=f"{tenant}-page-{file}-{n}",
            text=text,
            metadata={"file_name": file, "file_path": file, "page": n, "tenant": tenant, **extra},
            excluded_embed_metadata_keys=[*extra],
        )
        for n, text in enumerate(texts, 1)
    ]


def documents() -> list[Document]:
    return [
        *pages_of("a", *OF_A, file="a.pdf"),
        *pages_of("b", *OF_B, file="b.pdf"),
        *pages_of("b", "Zoe left Riga with Xenia at night and took all of her maps.", file="s.pdf"),
        *pages_of("a", "Anna left Oslo with Cleo at noon and took a map.", file="s.pdf"),
    ]


@pytest.fixture
def index(index_of) -> E2GraphRAGIndex:
    return index_of(documents(), chunk_overlap=0, chunk_size=12)


def texts_of(found: Any) -> set[str]:
    return {one.node.get_content() for one in found}


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mode": "local"},
        {"strategy": PaperStrategy(), "expand": "leaves"},
        {"filters": MetadataFilters.from_dicts([{"key": "tenant", "value": "b"}])},
        {"doc_ids": ["b-page-b.pdf-1", "a-page-a.pdf-1"]},
        {"history": ["Whom did she meet?"], "paths": True},
    ],
    ids=str,
)
def test_a_retriever_of_a_scope_finds_only_its_documents(index, options):
    retriever = index.scoped(A).as_retriever(similarity_top_k=50, **options)
    found = retriever.retrieve("Who met Bert in Oslo?")
    result = retriever.search("Who met Bert in Oslo?")
    assert not secrets_in([found, [one.node.to_dict() for one in found], result])
    again = asyncio.run(retriever.aretrieve("Who met Bert in Oslo?"))
    assert [one.node.node_id for one in again] == [one.node.node_id for one in found]
    if "filters" in options:
        assert not found
    elif not options:
        assert any(one.node.metadata["file_name"] == "s.pdf" for one in found)
        every = index.as_retriever(similarity_top_k=50).retrieve("Who met Bert?")
        assert secrets_in(every)


def test_nodes_of_a_shared_tree_do_not_link_to_hidden_ones(index):
    scope = index.scoped(A)
    found = scope.as_retriever(similarity_top_k=50).retrieve("Who left Oslo?")
    known = {one.node.node_id for one in found}
    linked = [
        link.node_id
        for one in found
        for kind, links in one.node.relationships.items()
        if kind != NodeRelationship.SOURCE
        for link in (links if isinstance(links, list) else [links])
    ]
    assert linked
    assert set(linked) <= known
    everything = index.as_retriever(similarity_top_k=50).retrieve("Who left?")
    ids = [one.node.node_id for one in everything]
    assert {node.node_id for node in scope.get_nodes(ids)} == known
    assert scope.get_nodes("nobody") == []


def test_query_engines_and_tools_see_only_the_scope(index):
    scope = index.scoped(A)
    engine = scope.as_query_engine(llm=MockLLM())
    response = engine.query("Who met Bert in Oslo?")
    assert response.source_nodes
    assert not secrets_in(response)
    assert not secrets_in(asyncio.run(engine.aquery("Who met Bert in Oslo?")))
    retriever = scope.as_retriever(similarity_top_k=20)
    for tool in (
        QueryEngineTool.from_defaults(engine),
        RetrieverTool.from_defaults(retriever),
    ):
        assert not secrets_in(tool.call("Who met Bert?"))
    with pytest.raises(InvalidInputError, match="of this scope"):
        scope.as_query_engine(llm=MockLLM(), retriever=index.as_retriever())


def test_a_query_engine_passes_the_options_of_the_retriever_and_rejects_others(index):
    scope = index.scoped(A)
    engine = scope.as_query_engine(MockLLM(), similarity_top_k=1, response_mode="tree_summarize")
    assert len(engine.query("Who met Bert in Oslo?").source_nodes) == 1
    with pytest.raises(InvalidInputError, match="did you mean 'similarity_top_k'"):
        scope.as_query_engine(MockLLM(), top_k=1)
    with pytest.raises(InvalidInputError, match="filters="):
        scope.as_query_engine(MockLLM(), where={"tenant": "b"})
    with pytest.raises(InvalidInputError, match="pass similarity_top_k to as_retriever"):
        scope.as_query_engine(MockLLM(), retriever=scope.as_retriever(), similarity_top_k=1)
    manager = CallbackManager()
    nodes = [IndexNode(index_id="inner", text="a map", obj=scope.as_retriever())]
    engine = scope.as_query_engine(MockLLM(), objects=nodes, callback_manager=manager)
    assert [*engine.retriever.object_map] == ["inner"]
    assert engine.retriever.callback_manager is manager
    retriever = scope.as_retriever()
    assert scope.as_query_engine(MockLLM(), retriever=retriever, callback_manager=manager)
    with pytest.raises(InvalidInputError, match="pass objects to as_retriever"):
        scope.as_query_engine(MockLLM(), retriever=retriever, objects=nodes)


def test_entities_of_a_scope_are_its_own(index):
    index.rag.edit_entities(alias={"Zoe": "Anna", "Cleo": "Anna", "Dee": "Anna"})
    scope = index.scoped(A)
    assert not secrets_in(scope.entities())
    details = scope.entity("Anna")
    assert details.info.aliases == ("Cleo",)
    assert not secrets_in(details)
    assert asyncio.run(scope.aentity("Anna")) == details
    assert asyncio.run(scope.aentities()) == scope.entities()
    with pytest.raises(UnknownEntityError):
        scope.entity("Riga")


def test_the_answer_equals_that_of_an_index_of_the_scope_alone(index_of):
    own = [one for one in documents() if one.metadata == {"file_name": "a.pdf", "tenant": "a"}]
    other = [one for one in documents() if one.metadata["file_name"] == "b.pdf"]
    joint, alone = index_of([*own, *other]), index_of(own)
    for question in ("Who met Bert?", "What about Zoe?", "Who saw Anna in Rom?"):
        expected = alone.as_retriever(similarity_top_k=20).search(question)
        found = joint.scoped(A).as_retriever(similarity_top_k=20).search(question)
        assert found.nodes == expected.nodes
        assert found.trace.links == expected.trace.links
        assert found.trace.lists.keys() == expected.trace.lists.keys()
        assert (
            found.trace.explain().partition("time:")[0]
            == (expected.trace.explain().partition("time:")[0])
        )


def test_a_scope_of_an_index_over_an_external_vector_store(index_of):
    context = StorageContext.from_defaults(vector_store=Plain())
    index = index_of(documents(), storage_context=context, chunk_overlap=0, chunk_size=12)
    in_memory = index_of(documents(), chunk_overlap=0, chunk_size=12)
    scope = index.scoped(A)
    found = scope.as_retriever(similarity_top_k=20).retrieve("Who met Bert in Oslo?")
    expected = (
        in_memory.scoped(A).as_retriever(similarity_top_k=20).retrieve("Who met Bert in Oslo?")
    )
    assert texts_of(found) == texts_of(expected)
    assert not secrets_in(found)
    dense = scope.read_snapshot(lambda snapshot, _: snapshot.dense)
    assert isinstance(dense, DenseIndex)  # the store could not apply the filter


def test_changes_of_others_do_not_show(index):
    retriever = index.scoped(A).as_retriever(similarity_top_k=20)
    before = retriever.search("Who met Bert?")
    index.insert(pages_of("b", "Yves met Zoe in Riga.", file="n.pdf")[0])
    assert retriever.search("Who met Bert?").nodes == before.nodes
    index.insert(pages_of("a", "Dora met Bert in Oslo.", file="o.pdf")[0])
    assert len(retriever.search("Who met Bert?").nodes) == len(before.nodes) + 1


def test_scopes_are_checked_narrow_and_can_be_copied(index):
    for where in ({}, lambda _: True, MetadataFilters(filters=[])):
        with pytest.raises(InvalidInputError):
            index.scoped(where)
    scope = index.scoped(A, statistics="index").scoped({"file_name": "s.pdf"})
    [found] = scope.as_retriever().retrieve("Who left?")
    assert found.node.get_content().startswith("Anna left")
    assert repr(scope).endswith("where={'$and': [{'tenant': 'a'}, {'file_name': 's.pdf'}]})")
    for other in (copy.deepcopy(scope), copy.deepcopy(scope.as_retriever()).searched_index):
        assert other.where == scope.where
        assert other.statistics == "index"


def test_a_scope_can_be_pickled(index_of):
    index = index_of(documents(), extractor=None)
    scope = pickle.loads(pickle.dumps(index.scoped(A)))  # noqa: S301
    found = scope.as_retriever(similarity_top_k=20).retrieve("Who met Bert?")
    assert found
    assert not secrets_in(found)


def test_the_file_of_an_index_has_the_same_scopes(index, tmp_path):
    index.rag.copy_to(tmp_path / "i.e2g")
    expected = {
        one.text for one in index.scoped(A).as_retriever(similarity_top_k=50).search("Who?").nodes
    }
    with E2GraphRAG.open(tmp_path / "i.e2g", models=Models(extractor=NameExtractor())) as rag:
        found = rag.scoped(A).retrieve("Who?", k=50)
        assert {node.text for node in found.nodes} == expected


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("tree_per", ["source", "corpus", lambda _: "all"])
def test_scope_keys_give_each_tenant_its_summaries(index_of, tree_per):
    names = {"a": ("Anna", "Cleo", "Dora"), "b": ("Zoe", "Xenia", "Yves")}
    pages = [
        Document(
            id_=f"{tenant}{n}",
            text=f"{own[n]} met Bert in Oslo at noon.",
            metadata={"file_path": "s.pdf", "page_label": str(n), "tenant": tenant},
        )
        for n in range(3)
        for tenant, own in names.items()
    ]
    options = {"tree_per": tree_per, "chunk_overlap": 0, "chunk_size": 8, "group_size": 2}
    mixed = index_of(pages, **options)
    apart = index_of(pages, scope_keys=["tenant"], **options)
    is_apart = tree_per == "source"  # trees of one source never span different metadata
    assert mixed.rag.stats().documents == (2 if is_apart else 1)
    assert apart.rag.stats().documents == 2
    assert apart.rag.made_with["scope_keys"] == '["tenant"]'
    for index, has_root in ((mixed, is_apart), (apart, True)):
        found = index.scoped(A).as_retriever(similarity_top_k=50).search("Who met Bert?").nodes
        assert any(node.level and node.parent_id is None for node in found) is has_root
        assert not secrets_in([node.text for node in found])
    moved = Document(id_="b0", text=pages[1].text, metadata=pages[0].metadata)
    apart.update_ref_doc(moved)
    for tenant, is_there in (("a", True), ("b", False)):
        retriever = apart.scoped({"tenant": tenant}).as_retriever(similarity_top_k=50)
        assert ("Zoe" in repr(retriever.search("Who met Bert?").nodes)) is is_there


def test_nodes_of_one_document_must_agree_on_the_scope_keys(index_of):
    index = index_of([], scope_keys=["tenant"])
    nodes = [
        TextNode(
            text=f"{name} sat down.",
            metadata={"tenant": tenant},
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id="d")},
        )
        for name, tenant in (("Anna", "a"), ("Zoe", "b"))
    ]
    with pytest.raises(InvalidInputError, match="parts with tenant='a' and with tenant='b'"):
        index.insert_nodes(nodes)
    assert not index.ref_doc_info
    index.insert_nodes(nodes[:1])
    with pytest.raises(InvalidInputError, match="parts with"):
        index.insert_nodes(nodes[1:])
    assert index.scoped(A).as_retriever().retrieve("Who sat?")
