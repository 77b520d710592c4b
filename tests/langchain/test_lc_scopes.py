"""Scopes in LangChain: retrievers and tools of one tenant get nothing of another."""

from __future__ import annotations

import asyncio
import copy
import pickle

import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore

from e2graphrag_integrations import PaperStrategy, tagged
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.langchain import (
    E2GraphRAGIndex,
    E2GraphRAGRetriever,
    LangChainEmbedder,
    create_e2graphrag_tool,
)
from e2graphrag_integrations.langchain.index import ScopedIndex
from e2graphrag_integrations.options import grouped
from langchain_fakes import SMALL, ToolCallingModel
from scope_trials import OF_A, OF_B, A, B, secrets_in

pytestmark = pytest.mark.usefixtures("all_summaries")  # they count all nodes


def pages_of(tenant: str, *texts: str, source: str) -> list[Document]:
    extra = {"secretkey": "x"} if tenant == "b" else {}
    return [
        Document(
            id=f"{tenant}-page-{source}-{n}",
            page_content=text,
            metadata={"source": source, "tenant": tenant, "page": n, **extra},
        )
        for n, text in enumerate(texts, 1)
    ]


def documents() -> list[Document]:
    return [
        *pages_of("a", *OF_A, source="a.pdf"),
        *pages_of("b", *OF_B, source="b.pdf"),
        *pages_of("a", "Anna left Oslo with Cleo at noon.", source="shared.pdf"),
        *pages_of("b", "Zoe left Riga with Xenia at night.", source="shared.pdf"),
    ]


@pytest.fixture
def index(lc_index_of) -> E2GraphRAGIndex:
    return lc_index_of(documents(), split_segments=True)


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mode": "local"},
        {"search_type": "mmr", "lambda_mult": 0.2},
        {"strategy": PaperStrategy(), "expand": "leaves"},
        {"filter": B},
        {"filter": lambda _: True, "include_scores": True, "paths": True},
        {"history": ["Whom did she meet?"], "boost": {"half_life_days": 3}},
    ],
    ids=lambda options: "-".join(options) or "defaults",
)
def test_a_retriever_of_a_scope_finds_only_its_documents(index, options):
    retriever = index.scoped(A).as_retriever(k=50, **options)
    found = retriever.invoke("Who met Bert in Oslo?")
    assert not secrets_in(found)
    assert asyncio.run(retriever.ainvoke("Who met Bert in Oslo?")) == found
    if options.get("filter") is B:
        assert not found
        return
    assert {document.metadata["source"] for document in found} == {"a.pdf", "shared.pdf"}
    if "expand" not in options:
        known = {document.metadata["e2_node_id"] for document in found}
        assert {document.metadata["e2_parent"] for document in found} <= {"", *known}
    every = index.as_retriever(k=50, strategy=options.get("strategy")).invoke("Who met Bert?")
    assert secrets_in(every)


def test_an_agent_with_the_tool_of_a_scope_sees_nothing_else(index):
    tool = create_e2graphrag_tool(index.scoped(A).as_retriever(k=20))
    agent = create_agent(ToolCallingModel(arguments={"query": "Who left with Cleo?"}), [tool])
    state = agent.invoke({"messages": [("user", "Who left with Cleo?")]})
    asynchronous = asyncio.run(agent.ainvoke({"messages": [("user", "Who left with Cleo?")]}))
    for messages in (state["messages"], asynchronous["messages"]):
        assert any("Anna left Oslo with Cleo" in message.text for message in messages)
        assert not secrets_in(messages)


def test_a_vector_store_is_not_asked_on_behalf_of_a_scope(lc_index_of):
    store = InMemoryVectorStore(LangChainEmbedder)
    index = lc_index_of(documents(), split_segments=True, vector_store=store)
    index.rag.refresh()
    retriever = index.scoped(A).as_retriever(k=50)
    assert not secrets_in(retriever.invoke("Who met Bert in Oslo?"))
    with pytest.raises(InvalidInputError, match="store_filter is not available in a scope"):
        retriever.invoke("Who?", store_filter={"x": 1})


def test_filters_use_the_metadata_that_users_see(lc_index_of):
    pages = [
        Document(id=n, page_content=f"{n} sat.", metadata={"document_id": n})
        for n in ("Anna", "Zoe")
    ]
    index = lc_index_of(pages)
    [found] = index.scoped({"document_id": "Anna"}).as_retriever().invoke("Who sat?")
    assert found.page_content == "Anna sat."
    assert index.scoped({"e2_doc_id": "Zoe"}).document_ids == ["Zoe"]
    assert index.scoped({"document_id": "Zoe"}).document("Zoe").text == "Zoe sat."


def test_scopes_are_checked_and_narrow(index):
    for where in ({}, lambda _: True, tagged("x"), {"tenant": {"$near": 1}}):
        with pytest.raises(InvalidInputError):
            index.scoped(where)
    scope = index.scoped(A, statistics="index")
    inner = scope.scoped({"page": 2})
    assert isinstance(inner, ScopedIndex)
    [found] = inner.as_retriever(k=50).invoke("Who?")
    assert found.page_content == "Cleo saw Anna in Rome."
    assert scope.scoped(B).as_retriever().invoke("Who?") == []


def test_a_scope_does_not_index_pending_documents(index):
    index.corpus.auto_build = False
    index.upsert(pages_of("b", "Yves met Zoe in Riga.", source="new.pdf"))
    index.upsert(pages_of("a", "Dora met Anna in Oslo.", source="own.pdf"))
    retriever = index.scoped(A).as_retriever(k=50)
    before = retriever.invoke("Who met Anna?")
    assert index.corpus.is_dirty
    index.build()
    after = retriever.invoke("Who met Anna?")
    assert {document.page_content for document in after} > {d.page_content for d in before}
    assert not secrets_in(after)


def test_the_retriever_of_a_scope_can_be_copied_and_pickled(tmp_path):
    path = tmp_path / "i.e2g"
    with E2GraphRAGIndex.from_documents(
        documents(),
        **grouped({"path": path, **SMALL | {"extractor": None, "split_segments": True}}),
    ) as index:
        retriever = index.scoped(A).scoped({"page": 1}).as_retriever(k=50)
        found = retriever.invoke("Who met Bert?")
        copied, loaded = copy.deepcopy(retriever), pickle.loads(pickle.dumps(retriever))  # noqa: S301
        for other in (copied, loaded):
            assert isinstance(other, E2GraphRAGRetriever)
            assert other.invoke("Who met Bert?") == found
            assert other.index.where == retriever.index.where
            other.index._owner.close()


def test_a_retriever_of_the_core_scope_works_too(index):
    reader = index.rag.scoped(A)
    found = E2GraphRAGRetriever(index=reader, k=50).invoke("Who met Bert?")
    assert found == index.scoped(A).as_retriever(k=50).invoke("Who met Bert?")
    assert not secrets_in(found)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("tree_per", ["source", "corpus", lambda _: "all"])
def test_scope_keys_give_each_tenant_its_summaries(lc_index_of, tree_per):
    texts = {
        tenant: [f"{name} met Bert in Oslo at noon." for name in names]
        for tenant, names in {"a": ("Anna", "Cleo", "Dora"), "b": ("Zoe", "Xenia", "Yves")}.items()
    }
    pages = [
        Document(
            id=f"{tenant}{n}",
            page_content=text,
            metadata={"source": "s.pdf", "page": n, "tenant": tenant},
        )
        for n in range(3)
        for tenant, own in texts.items()
        for text in [own[n]]
    ]
    options = {"tree_per": tree_per, "split_segments": True}
    mixed = lc_index_of(pages, **options)
    apart = lc_index_of(pages, scope_keys=["tenant"], **options)
    is_apart = tree_per == "source"  # trees of one source never span different metadata
    assert len(mixed.rag.document_ids) == (2 if is_apart else 1)
    assert len(apart.rag.document_ids) == 2
    for index, has_summaries in ((mixed, is_apart), (apart, True)):
        found = index.scoped(A).as_retriever(k=50).invoke("Who met Bert?")
        assert any(document.metadata["e2_level"] for document in found) is has_summaries
        assert not secrets_in([document.page_content for document in found])
        assert sorted(index.ids()) == sorted(page.id for page in pages)
    moved = pages[1].model_copy(update={"metadata": pages[0].metadata})
    apart.add_documents([moved])
    assert apart.get([moved.id])[0].metadata == moved.metadata
    assert "Zoe" in repr(apart.scoped(A).as_retriever(k=50).invoke("Who met Bert?"))
    assert "Zoe" not in repr(apart.scoped(B).as_retriever(k=50).invoke("Who met Bert?"))
