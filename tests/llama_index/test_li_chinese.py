"""Chinese in LlamaIndex, with the bundled models."""

from __future__ import annotations

import pytest
from llama_index.core import Document
from llama_index.core.llms import MockLLM

from e2graphrag_integrations.llama_index import E2GraphRAGIndex

TEXTS = {
    "huarong": "曹操败走华容道，遇见关羽。关羽念及旧恩，放走了曹操。",
    "chibi": "周瑜和黄盖商定火攻之计。黄盖诈降曹操，点燃了江上的战船。",
    "steam": "James Watt improved the steam engine in Glasgow.",
}
QUESTION = "关羽为什么放走曹操？"


@pytest.fixture(scope="module")
def index():
    documents = [Document(text=text, id_=id_) for id_, text in TEXTS.items()]
    return E2GraphRAGIndex.from_documents(documents)


async def test_a_retriever_answers_in_chinese_sync_and_async(index):
    retriever = index.as_retriever(similarity_top_k=1)
    [found] = retriever.retrieve(QUESTION)
    assert found.node.ref_doc_id == "huarong"
    assert found.node.get_content() == TEXTS["huarong"]
    assert {"关羽", "曹操"} <= {link.entity for link in retriever.explain(QUESTION).links}
    assert await retriever.aretrieve(QUESTION) == [found]


def test_a_query_engine_cites_chinese_passages(index):
    answer = index.as_query_engine(llm=MockLLM(max_tokens=9), similarity_top_k=1).query(QUESTION)
    assert [source.node.ref_doc_id for source in answer.source_nodes] == ["huarong"]


def test_english_documents_of_a_mixed_index_are_found(index):
    [found] = index.as_retriever(similarity_top_k=1).retrieve("Who improved the steam engine?")
    assert found.node.ref_doc_id == "steam"
