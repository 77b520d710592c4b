"""Chinese in LangChain, with the bundled models."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document

from e2graphrag_integrations.langchain import E2GraphRAGIndex, create_e2graphrag_tool

TEXTS = {
    "huarong": "曹操败走华容道，遇见关羽。关羽念及旧恩，放走了曹操。",
    "chibi": "周瑜和黄盖商定火攻之计。黄盖诈降曹操，点燃了江上的战船。",
    "steam": "James Watt improved the steam engine in Glasgow.",
}
QUESTION = "关羽为什么放走曹操？"


@pytest.fixture(scope="module")
def index():
    with E2GraphRAGIndex.from_documents(
        [Document(text, id=id_) for id_, text in TEXTS.items()]
    ) as built:
        yield built


async def test_a_retriever_answers_in_chinese_sync_and_async(index):
    retriever = index.as_retriever(k=1)
    [found] = retriever.invoke(QUESTION)
    assert found.page_content == TEXTS["huarong"]
    links = index.as_retriever().search(QUESTION).trace.links
    assert {"关羽", "曹操"} <= {link.entity for link in links}
    assert await retriever.ainvoke(QUESTION) == [found]


def test_a_tool_quotes_chinese_passages(index):
    tool = create_e2graphrag_tool(index.as_retriever(k=1))
    assert "放走了曹操" in tool.invoke({"query": QUESTION})


def test_english_documents_of_a_mixed_index_are_found(index):
    [found] = index.as_retriever(k=1).invoke("Who improved the steam engine?")
    assert found.page_content == TEXTS["steam"]
