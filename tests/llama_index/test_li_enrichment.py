"""An LLM of LlamaIndex enriches the chunks of its index."""

from __future__ import annotations

import pytest
from llama_index.core import Document
from llama_index.core.llms import MockLLM
from pydantic import Field

from e2graphrag_integrations import Models, WriteOptions
from e2graphrag_integrations.enrichment import Enricher
from e2graphrag_integrations.llama_index import E2GraphRAGIndex
from enrichers import DOCUMENTS, ToldLLM
from fakes import NameExtractor

RENT = "What is the annual rent?"


class ToldModel(MockLLM):
    """Answers by a word of the passage, and counts the awaited calls."""

    told: ToldLLM = Field(default_factory=ToldLLM, exclude=True)
    awaited: list[str] = Field(default_factory=list, exclude=True)

    def complete(self, prompt, formatted=False, **kwargs):
        return super().complete(self.told(prompt), formatted, **kwargs)

    async def acomplete(self, prompt, formatted=False, **kwargs):
        self.awaited.append(prompt)
        return self.complete(prompt, formatted, **kwargs)


def options(llm, **writes):
    return {
        "embed_model": "hashing",
        "models": Models(extractor=NameExtractor()),
        "writes": WriteOptions(enricher=Enricher(llm), **writes),
    }


def documents():
    return [Document(id_=one.id, text=one.text) for one in DOCUMENTS]


def test_a_retriever_finds_what_the_llm_added():
    llm = ToldModel()
    with E2GraphRAGIndex.from_documents(documents(), **options(llm)) as index:
        best = index.as_retriever(similarity_top_k=1).retrieve(RENT)[0]
        assert best.node.ref_doc_id == "lease"
        assert best.node.get_content() == DOCUMENTS[0].text
        assert (llm.told.calls, llm.awaited) == (3, [])
        assert index.rag.remove_enrichment() == 3


async def test_async_builds_await_the_llm():
    llm = ToldModel()
    with E2GraphRAGIndex.from_documents([], **options(llm)) as index:
        await index.rag.aadd(DOCUMENTS)
        assert len(llm.awaited) == 3
        [best] = await index.as_retriever(similarity_top_k=1).aretrieve(RENT)
        assert best.node.ref_doc_id == "lease"


def test_the_settings_of_the_llm_identify_it_in_the_cache():
    same, other = Enricher(MockLLM(max_tokens=5)), Enricher(MockLLM(max_tokens=6))
    assert same.fingerprint == Enricher(MockLLM(max_tokens=5)).fingerprint != other.fingerprint


@pytest.mark.parametrize("llm", [None, "gpt-5-mini", ToldModel])
def test_other_objects_are_rejected(llm):
    with pytest.raises(ValueError, match="pass a function that takes a prompt"):
        Enricher(llm)
