"""Tags and boosts through LlamaIndex and LangChain give the results of the core."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.documents import Document as Page
from llama_index.core import Document
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler

from e2graphrag_integrations import Boosts, E2GraphRAG, Models, SourceDocument, tagged
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.langchain import E2GraphRAGIndex as LangChainIndex
from e2graphrag_integrations.langchain import E2GraphRAGRetriever
from e2graphrag_integrations.llama_index import E2GraphRAGIndex as LlamaIndex
from e2graphrag_integrations.llama_index import E2RoutingEvent
from e2graphrag_integrations.options import grouped
from e2graphrag_integrations.portability.reopening import is_picklable

TEXTS = {
    "paid": "Anna paid the card twice in Oslo.",
    "sent": "Bert sent the parcel from Oslo to Rome.",
    "sea": "Cleo saw the sea in Rome.",
}
DATES = {"paid": "2020-01-01", "sent": "2026-11-01", "sea": "2026-11-20"}
TAGS = ["card", "parcel", "sea"]
QUESTION = "What happened in Oslo?"
BOOSTS = (
    {"tag": {"sea": 900.0}},
    {"documents": {"sea": 900.0}},
    {"half_life_days": 10, "now": "2026-11-23", "recency_weight": 9},
)


@pytest.fixture(scope="module")
def core(names):
    with E2GraphRAG.open(":memory:", embedder="hashing", models=Models(extractor=names)) as rag:
        rag.add([SourceDocument(i, text, metadata={"date": DATES[i]}) for i, text in TEXTS.items()])
        rag.set_tags(TAGS)
        yield rag


@pytest.fixture(scope="module")
def llama(names):
    pages = [Document(id_=i, text=t, metadata={"date": DATES[i]}) for i, t in TEXTS.items()]
    index = LlamaIndex.from_documents(pages, embed_model="hashing", models=Models(extractor=names))
    index.rag.set_tags(TAGS)
    return index


@pytest.fixture(scope="module")
def chain(names):
    pages = [Page(text, id=i, metadata={"date": DATES[i]}) for i, text in TEXTS.items()]
    with LangChainIndex.from_documents(pages, "hashing", models=Models(extractor=names)) as index:
        index.rag.set_tags(TAGS)
        yield index


@pytest.mark.parametrize("boost", BOOSTS, ids=str)
def test_all_faces_boost_alike(core, llama, chain, boost):
    expected = [node.document_id for node in core.retrieve(QUESTION, boost=boost).nodes]
    assert expected[0] == "sea"
    for given in (boost, Boosts(**boost)):
        retriever = llama.as_retriever(similarity_top_k=10, boost=given)
        assert [hit.node.ref_doc_id for hit in retriever.retrieve(QUESTION)] == expected
    hits = chain.as_retriever(k=10, boost=boost).invoke(QUESTION)
    assert [hit.metadata["e2_doc_id"] for hit in hits] == expected
    assert [hit.metadata["e2_tags"] for hit in hits if hit.metadata["e2_doc_id"] == "sea"] == [
        "sea"
    ]


def test_async_calls_and_overrides_boost_too(llama, chain):
    boost = BOOSTS[0]
    [first, *_] = asyncio.run(llama.as_retriever(boost=boost).aretrieve(QUESTION))
    assert first.node.ref_doc_id == "sea"
    retriever = E2GraphRAGRetriever(index=chain, k=1)
    for hits in (
        asyncio.run(retriever.ainvoke(QUESTION, boost=boost)),
        retriever.invoke(QUESTION, boost=boost),
        chain.similarity_search(QUESTION, k=1, boost=boost),
    ):
        assert [hit.metadata["e2_doc_id"] for hit in hits] == ["sea"]
    assert retriever.invoke(QUESTION)[0].metadata["e2_doc_id"] != "sea"


def test_filters_by_tag(llama, chain):
    assert [hit.node.ref_doc_id for hit in llama.as_retriever(tags=["card"]).retrieve("x")] == [
        "paid"
    ]
    where = tagged("card", "sea", where={"date": {"$gte": "2025"}})
    hits = chain.as_retriever(filter=where).invoke("x")
    assert [hit.metadata["e2_doc_id"] for hit in hits] == ["sea"]


def test_events_have_the_tags_and_the_trace(llama):
    events: list[E2RoutingEvent] = []

    class Recorder(BaseEventHandler):
        def handle(self, event, **_):
            if isinstance(event, E2RoutingEvent):
                events.append(event)

    recorder = Recorder()
    handlers = get_dispatcher().event_handlers
    handlers.append(recorder)
    try:
        retriever = llama.as_retriever(boost=BOOSTS[0])
        [first, *_] = retriever.retrieve(QUESTION)
    finally:
        handlers.remove(recorder)
    [event] = events
    assert event.tags[first.node.node_id] == ["sea"]
    assert event.trace.boosts.settings == BOOSTS[0]
    assert retriever.explain(QUESTION).boosts.settings == BOOSTS[0]


def test_llama_index_keeps_the_tag_set(llama, tmp_path, names):
    counts = llama.rag.tag_counts()
    assert counts == {"card": 1, "parcel": 1, "sea": 1}
    options = {"embed_model": "hashing", "extractor": names}
    llama.persist(tmp_path / "folder")
    llama.rag.copy_to(tmp_path / "index.e2g")
    first = LlamaIndex.from_persist_dir(tmp_path / "folder", **grouped(options))
    with LlamaIndex.open(tmp_path / "index.e2g", **grouped(options)) as second:
        for copy in (first, second):
            assert copy.rag.tag_set() == llama.rag.tag_set()
            assert copy.rag.tag_counts() == counts
    with E2GraphRAG.open(tmp_path / "index.e2g", models=Models(extractor=names)) as rag:
        assert rag.tag_counts() == counts
    first.insert(Document(id_="new", text="The parcel has a card."))
    assert first.rag.tag_counts()["card"] == 2
    asyncio.run(first.rag.aset_tags(None))
    assert first.rag.tag_set() == ()


def test_langchain_sets_tags_async_and_options_can_be_pickled(chain):
    asyncio.run(chain.rag.aset_tags(TAGS))
    assert [tag.name for tag in chain.rag.tag_set()] == TAGS
    assert chain.rag.tag_counts() == {"card": 1, "parcel": 1, "sea": 1}
    assert is_picklable(tagged("card", where={"date": "2020-01-01"}))
    assert is_picklable(Boosts(tag={"card": 2.0}))


def test_invalid_options_are_rejected_at_once(llama, chain):
    with pytest.raises(InvalidInputError, match="did you mean 'tag'"):
        llama.as_retriever(boost={"tags": {}})
    with pytest.raises(InvalidInputError, match="did you mean 'tag'"):
        chain.as_retriever(boost={"tags": {}})
    with pytest.raises(InvalidInputError):
        chain.as_retriever().invoke(QUESTION, boost={"tag": {"card": -1}})
    with pytest.raises(InvalidInputError, match="tags='card'"):
        llama.as_retriever(tags="card")
    boost = {"tag": {"cards": 2.0}}
    for index, search in ((llama, "retrieve"), (chain, "invoke")):
        with pytest.raises(InvalidInputError, match="tags is empty"):
            index.rag.set_tags([])
        with pytest.raises(InvalidInputError, match="unknown tag"):
            getattr(index.as_retriever(boost=boost), search)(QUESTION)
