"""Chinese texts in the core and in both integrations: chunks, summaries and prompts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, SourceDocument
from e2graphrag_integrations.options import grouped
from e2graphrag_integrations.summarizers.prompts import DefaultPrompts, Prompts
from e2graphrag_integrations.text.sentences import ends_sentence
from fakes import CountingLLM, NameExtractor

CHAPTER = Path(__file__).parents[2] / "examples" / "data" / "sanguo_yanyi.txt"
TEXT = CHAPTER.read_text(encoding="utf-8")[-4000:].strip()
OPTIONS = {"embedder": "hashing", "extractor": NameExtractor()}
SIZES = {"chunk_size": 300, "chunk_overlap": 0, "summary_tokens": 120}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "i.e2g"


def test_chunks_end_with_sentences_and_summaries_have_no_spaces(path):
    with E2GraphRAG.open(path, **grouped({**OPTIONS, **SIZES})) as rag:
        rag.add(SourceDocument("chapter", TEXT))
        nodes = [line for line in map(json.loads, rag.export()) if "level" in line]
        assert rag.verify().problems == ()
        found = rag.retrieve("曹操是谁？", token_budget=200)
    chunks = [node["text"] for node in nodes if not node["level"]]
    assert len(chunks) > 10
    assert all(one in TEXT and ends_sentence(one) for one in chunks)
    summaries = [node["text"] for node in nodes if node["level"]]
    assert summaries
    assert all(ends_sentence(one) and not any(map(str.isspace, one)) for one in summaries)
    assert ends_sentence(found.context())


def test_summaries_are_requested_in_chinese_and_paid_for_once(path, monkeypatch):
    document = SourceDocument("chapter", TEXT)
    before, after = CountingLLM(), CountingLLM()
    with monkeypatch.context() as patch:
        patch.setattr(DefaultPrompts, "render", Prompts.render)  # as before there were others
        with E2GraphRAG.open(
            path, **grouped({"summarizer": before, "llm_id": "m", **OPTIONS, **SIZES})
        ) as rag:
            rag.add(document)
    assert all("Summarise" in one or "Merge" in one for one in before.prompts)
    with E2GraphRAG.open(
        path, **grouped({"summarizer": after, "llm_id": "m", **OPTIONS, **SIZES})
    ) as rag:
        rag.update(SourceDocument("chapter", f"{TEXT}\n且听下回分解。"))
    assert 0 < len(after.prompts) < len(before.prompts) / 2
    assert all("字" in one and "Summarise" not in one for one in after.prompts)


def test_llama_index_requests_summaries_in_chinese():
    from llama_index.core import Document

    from e2graphrag_integrations.llama_index import E2GraphRAGIndex, SummaryTreeNodeParser
    from llama_fakes import Digests

    llm = Digests()
    E2GraphRAGIndex.from_documents(
        [Document(text=TEXT)],
        **grouped(
            {"llm": llm, "embed_model": HashingEmbedder(), "extractor": NameExtractor(), **SIZES}
        ),
    )
    SummaryTreeNodeParser(llm=llm, **SIZES).get_nodes_from_documents([Document(text=TEXT)])
    assert llm.prompts
    assert all("字" in one and "Summarise" not in one for one in llm.prompts)


def test_langchain_requests_summaries_in_chinese(path):
    from langchain_core.documents import Document
    from langchain_core.runnables import RunnableLambda

    from e2graphrag_integrations.langchain import E2GraphRAGIndex

    llm = CountingLLM()
    options = {"embeddings": "hashing", "extractor": NameExtractor(), **SIZES}
    document = Document(TEXT, id="chapter")
    index = E2GraphRAGIndex.from_documents(
        [document], **grouped({"llm": RunnableLambda(llm), "llm_id": "m", **options})
    )
    index.as_retriever().invoke("曹操是谁？")
    assert llm.prompts
    assert all("字" in one and "Summarise" not in one for one in llm.prompts)
