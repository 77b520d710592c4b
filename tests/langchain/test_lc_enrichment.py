"""A model of LangChain enriches the chunks of its index."""

from __future__ import annotations

from langchain_core.documents import Document
from langchain_core.language_models import FakeListLLM
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda

from e2graphrag_integrations import Models, WriteOptions
from e2graphrag_integrations.enrichment import Enricher
from e2graphrag_integrations.langchain import E2GraphRAGIndex
from enrichers import DOCUMENTS, ToldLLM
from fakes import NameExtractor
from langchain_fakes import DigestChatModel

RENT = "What is the annual rent?"


class ToldModel(DigestChatModel):
    """Answers by a word of the passage."""

    def _answer(self, messages, stop):
        super()._answer(messages, stop)
        return ToldLLM()(str(messages[-1].content))

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        result = super()._generate(messages, stop, run_manager, **kwargs)
        result.generations[0].message = AIMessage(self._answer(messages, stop))
        return result


def options(llm):
    return {
        "embeddings": "hashing",
        "models": Models(extractor=NameExtractor()),
        "writes": WriteOptions(enricher=Enricher(llm)),
    }


def documents():
    return [Document(id=one.id, page_content=one.text) for one in DOCUMENTS]


def test_a_retriever_finds_what_a_chat_model_added():
    with E2GraphRAGIndex.from_documents(documents(), **options(ToldModel())) as index:
        [best] = index.as_retriever(k=1).invoke(RENT)
        assert best.page_content == DOCUMENTS[0].text


async def test_async_builds_await_the_model():
    llm = ToldModel()
    index = await E2GraphRAGIndex.afrom_documents(documents(), **options(llm))
    with index:
        assert llm.async_calls == 3


def test_completion_models_and_runnables_are_models(open_index):
    completion = FakeListLLM(responses=["Keywords: rent"])
    told = ToldLLM()
    for llm in (completion, RunnableLambda(lambda prompt: AIMessage(told(prompt)))):
        rag = open_index(enricher=Enricher(llm))
        rag.add(DOCUMENTS)
        assert rag.retrieve("rent", k=1).nodes[0].reasons[-1].code.startswith("enriched")


def test_the_settings_of_the_model_identify_it_in_the_cache():
    cold, warm = Enricher(ToldModel()), Enricher(ToldModel(temperature=0.5))
    assert cold.fingerprint == Enricher(ToldModel()).fingerprint != warm.fingerprint
