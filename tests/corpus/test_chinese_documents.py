"""Chinese documents in both faces, with the bundled models."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document as Page
from llama_index.core import Document
from llama_index.core.llms import MockLLM

from e2graphrag_integrations.langchain import E2GraphRAGIndex as LangChainIndex
from e2graphrag_integrations.langchain import create_e2graphrag_tool
from e2graphrag_integrations.llama_index import E2GraphRAGIndex as LlamaIndex

TEXTS = {
    "huarong": "曹操败走华容道，遇见关羽。关羽念及旧恩，放走了曹操。",
    "chibi": "周瑜和黄盖商定火攻之计。黄盖诈降曹操，点燃了江上的战船。",
    "steam": "James Watt improved the steam engine in Glasgow.",
}
QUESTION = "关羽为什么放走曹操？"


@pytest.fixture(scope="module")
def llama():
    return LlamaIndex.from_documents([Document(text=text, id_=id_) for id_, text in TEXTS.items()])


@pytest.fixture(scope="module")
def chain():
    with LangChainIndex.from_documents([Page(text, id=id_) for id_, text in TEXTS.items()]) as own:
        yield own


async def test_a_retriever_of_llama_index_answers_sync_and_async(llama):
    retriever = llama.as_retriever(similarity_top_k=1)
    [found] = retriever.retrieve(QUESTION)
    assert found.node.ref_doc_id == "huarong"
    assert found.node.get_content() == TEXTS["huarong"]
    assert await retriever.aretrieve(QUESTION) == [found]
    answer = llama.as_query_engine(llm=MockLLM(max_tokens=9), similarity_top_k=1).query(QUESTION)
    assert [source.node.ref_doc_id for source in answer.source_nodes] == ["huarong"]


async def test_a_retriever_of_langchain_answers_sync_and_async(chain):
    retriever = chain.as_retriever(k=1)
    [found] = retriever.invoke(QUESTION)
    assert found.page_content == TEXTS["huarong"]
    assert await retriever.ainvoke(QUESTION) == [found]
    assert "放走了曹操" in create_e2graphrag_tool(retriever).invoke({"query": QUESTION})


@pytest.mark.slow
def test_names_are_linked_and_english_documents_are_found(llama, chain):
    for index in (llama, chain):
        links = index.as_retriever().search(QUESTION).trace.links
        assert {"关羽", "曹操"} <= {link.entity for link in links}
        [first, *_] = index.as_retriever().search("Who improved the steam engine?").nodes
        assert first.text == TEXTS["steam"]
