"""`rag.communities()`: what is listed, filters, reports, their cache and their cost."""

from __future__ import annotations

import asyncio
import json

import pytest
from langchain_core.documents import Document
from llama_index.core import Document as LlamaDocument
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters

from e2graphrag_integrations import (
    CommunitySelection,
    E2GraphRAG,
    IndexSettings,
    Models,
    SourceDocument,
)
from e2graphrag_integrations.errors import (
    InvalidInputError,
    LLMCallLimitError,
    StoreLockedError,
    SummaryError,
)
from e2graphrag_integrations.langchain import E2GraphRAGIndex as LangChainIndex
from e2graphrag_integrations.llama_index import E2GraphRAGIndex as LlamaIndex
from e2graphrag_integrations.llama_index import where_of
from fakes import CountingLLM, NameExtractor

CAMP = "Gus met Hal. Hal helped Ida. Ida fed Gus. Gus and Hal and Ida slept."
CITY = "Anna saw Bert. Bert paid Cleo. Cleo called Anna. Anna and Bert and Cleo ran."
BRIDGE = "Cleo wrote to Gus."
DOCUMENTS = [
    SourceDocument("camp", CAMP, metadata={"room": 1}),
    SourceDocument("city", CITY, metadata={"room": 2}),
    SourceDocument("bridge", BRIDGE, metadata={"room": 3}),
]
CAMPERS, CITIZENS = {"gus", "hal", "ida"}, {"anna", "bert", "cleo"}


@pytest.fixture
def rag(open_index):
    rag = open_index(chunk_overlap=0)
    rag.add(DOCUMENTS)
    return rag


def groups(communities):
    return [set(one.entities) for one in communities]


def test_communities_list_their_entities_chunks_and_an_extracted_report(rag):
    found = rag.communities()
    assert sorted(map(sorted, groups(found))) == [sorted(CITIZENS), sorted(CAMPERS)]
    for one in found:
        assert one.level == 0
        assert one.parent_id is None
        assert one.child_ids == ()
        assert set(one.top_entities) == set(one.entities)
        document = rag.document(one.document_ids[0])
        nodes = rag.nodes(one.node_ids)
        assert {node.document_id for node in nodes.values()} == {document.id}
        sentences = one.report.split(". ")
        assert all(sentence.rstrip(".") in document.text for sentence in sentences)
    assert found[0].weight >= found[1].weight > 0
    assert json.loads(json.dumps(found[0].to_dict()))["entities"]


def test_reports_and_their_number_are_optional(rag):
    found = rag.communities(reports=None)
    assert [one.report for one in found] == [None, None]
    assert rag.communities(top=1, reports=None) == found[:1]
    assert asyncio.run(rag.acommunities(reports=None)) == found
    assert rag.communities(seed=7, reports=None) == rag.communities(seed=7, reports=None)


def test_communities_are_equal_in_equal_indexes(rag, open_index):
    other = open_index(chunk_overlap=0)
    for document in reversed(DOCUMENTS):
        other.add(document)
    assert other.communities() == rag.communities()


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"room": {"$gt": 0}}, [CAMPERS, CITIZENS]),
        ({"room": 1}, [CAMPERS]),
        ({"room": {"$in": [2, 3]}}, [CITIZENS]),
        ({"room": 3}, []),
        (lambda metadata: metadata["room"] == 2, [CITIZENS]),
    ],
)
def test_a_community_is_visible_if_all_its_chunks_are(rag, where, expected):
    found = rag.communities(where=where)
    assert sorted(map(sorted, groups(found))) == sorted(map(sorted, expected))
    visible = {"camp": CAMP, "city": CITY}
    for one in found:
        assert all(part in visible[one.document_ids[0]] for part in one.report.split(". ")[:1])


def test_a_community_with_one_hidden_sentence_is_hidden(rag):
    rag.add(SourceDocument("rumor", "Gus hid Hal.", metadata={"room": 4}))
    assert groups(rag.communities(where={"room": {"$ne": 4}})) == [CITIZENS]
    # A hidden mention without another member proves nothing about the community.
    rag.update(SourceDocument("rumor", "Gus hid.", metadata={"room": 4}))
    assert len(rag.communities(where={"room": {"$ne": 4}})) == 2


def test_levels_are_linked_and_hide_invisible_parents(open_index, monkeypatch):
    monkeypatch.setattr("e2graphrag_integrations.graph.communities.MAX_SIZE", 4)
    rag = open_index(chunk_overlap=0)
    first = "Ab met Ac. Ac met Ad. Ad met Ab. Ab met Ac and Ad."
    second = first.replace("A", "B")
    link = "Ad met Bb. Bb met Ad."
    rag.add(
        SourceDocument(name, text, metadata={"name": name})
        for name, text in {"a": first, "b": second, "link": link}.items()
    )
    with pytest.raises(InvalidInputError, match="the levels 0 to ") as caught:
        rag.communities(99)
    deepest = int(str(caught.value).rsplit(" ", 1)[1])
    levels = [rag.communities(level, reports=None) for level in range(deepest + 1)]
    by_id = {one.id: one for level in levels for one in level}
    for level in levels[1:]:
        for one in level:
            if one.parent_id is not None:
                assert set(one.entities) < set(by_id[one.parent_id].entities)
                assert one.id in by_id[one.parent_id].child_ids
    everything = set().union(*(set(one.entities) for one in levels[0]))
    assert everything == set().union(*(set(one.entities) for one in levels[-1]))
    for one in rag.communities(len(levels) - 1, where={"name": {"$ne": "link"}}, reports=None):
        assert one.parent_id is None or by_id[one.parent_id].document_ids != ("link",)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"level": -1}, "level=-1"),
        ({"level": "0"}, "level='0'"),
        ({"level": True}, "level=True"),
        ({"level": 9}, "level=9 does not exist"),
        ({"seed": -1}, "seed=-1"),
        ({"seed": 0.5}, "seed=0.5"),
        ({"top": 0}, "top=0"),
        ({"reports": "llm"}, "reports='llm': choose one of extractive, summarizer"),
        ({"max_llm_calls": -1}, "max_llm_calls=-1"),
    ],
)
def test_invalid_arguments_are_rejected(rag, arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        rag.communities(**arguments)
    with pytest.raises(InvalidInputError, match=message):
        asyncio.run(rag.acommunities(**arguments))


def test_an_invalid_filter_is_rejected(rag):
    with pytest.raises(InvalidInputError, match="room"):
        rag.communities(where={"room": {"$near": 1}})


def test_an_empty_index_has_no_communities(open_index):
    rag = open_index()
    assert rag.communities() == ()
    assert rag.estimate(communities=0).llm_calls == 0


# Reports by a language model


@pytest.fixture
def llm():
    return CountingLLM()


@pytest.fixture
def paid(open_index, llm, tmp_path):
    """An index in a file, with summaries by a fake LLM that counts its calls."""
    rag = open_index(tmp_path / "paid.e2g", summarizer=llm, llm_id="digest", chunk_overlap=0)
    rag.add(DOCUMENTS)
    llm.prompts.clear()
    return rag


def test_a_language_model_is_called_only_on_request_and_once(paid, llm):
    assert paid.communities()[0].report
    assert llm.calls == 0
    estimate = paid.estimate(communities=0)
    reports = paid.communities(reports="summarizer")
    assert llm.calls == estimate.llm_calls == estimate.community_reports.llm_calls == 2
    assert all(one.report.startswith("Digest") for one in reports)
    assert paid.communities(reports="summarizer") == reports
    assert asyncio.run(paid.acommunities(reports="summarizer")) == reports
    assert llm.calls == 2
    assert paid.estimate(communities=CommunitySelection(0, top=1)).llm_calls == 0
    assert paid.verify().ok


def test_reports_survive_reopening_and_compacting(paid, llm, open_index):
    reports = paid.communities(reports="summarizer")
    paid.compact()
    paid.close()
    again = open_index(paid.path, summarizer=llm, llm_id="digest", chunk_overlap=0)
    assert again.communities(reports="summarizer") == reports
    assert llm.calls == 2


def test_an_update_pays_only_for_communities_that_changed(paid, llm):
    before = {frozenset(one.entities): one for one in paid.communities(reports="summarizer")}
    llm.prompts.clear()
    paid.update(SourceDocument("camp", CAMP.replace("fed", "taught"), metadata={"room": 1}))
    summaries = llm.calls
    after = {frozenset(one.entities): one for one in paid.communities(reports="summarizer")}
    assert llm.calls == summaries + 1
    assert after[frozenset(CITIZENS)] == before[frozenset(CITIZENS)]
    assert after[frozenset(CAMPERS)].report != before[frozenset(CAMPERS)].report


def test_deleting_a_document_deletes_the_reports_made_from_it(paid):
    paid.communities(reports="summarizer")
    count = "SELECT count(*) FROM content WHERE kind = 'report'"
    assert paid.store.read(count) == [(2,)]
    paid.delete("camp")
    assert paid.store.read(count) == [(1,)]
    paid.delete(["city", "bridge"])
    assert paid.store.read(count) == [(0,)]
    assert paid.verify().ok


def test_a_limit_stops_before_the_first_call(paid, llm):
    with pytest.raises(LLMCallLimitError, match="the reports need 2 LLM call") as caught:
        paid.communities(reports="summarizer", max_llm_calls=1)
    assert "top=" in str(caught.value)
    assert llm.calls == 0
    assert len(paid.communities(reports="summarizer", max_llm_calls=1, top=1)) == 1


def test_finished_reports_are_kept_when_the_model_fails(open_index, tmp_path):
    prompts = []

    def flaky(prompt):
        prompts.append(prompt)
        if "Hal" in prompt and len(prompts) < 9:
            raise ValueError("out of quota")
        return "A report."

    options = {"llm_id": "flaky", "chunk_overlap": 0, "group_size": 100, "concurrency": 1}
    rag = open_index(tmp_path / "flaky.e2g", summarizer=lambda _: "A summary.", **options)
    rag.add(DOCUMENTS)
    rag.close()
    rag = open_index(rag.path, summarizer=flaky, **options)
    with pytest.raises(SummaryError, match=r"report of a community.*out of quota"):
        rag.communities(reports="summarizer")
    prompts += [""] * 9
    assert len(rag.communities(reports="summarizer")) == 2
    assert rag.estimate(communities=0).llm_calls == 0


def test_an_async_model_runs_in_the_loop_of_the_caller(open_index, tmp_path):
    loops = []

    async def write(prompt):
        loops.append(asyncio.get_running_loop())
        del prompt
        return "An async report."

    async def run():
        options = {"summarizer": write, "llm_id": "async", "chunk_overlap": 0}
        rag = open_index(tmp_path / "async.e2g", **options)
        await rag.aadd(DOCUMENTS)
        loops.clear()
        found = await rag.acommunities(reports="summarizer")
        return found, asyncio.get_running_loop()

    found, loop = asyncio.run(run())
    assert {one.report for one in found} == {"An async report."}
    assert set(loops) == {loop}


def test_paid_reports_wait_for_the_lock_but_extracted_ones_do_not(paid, open_index):
    other = open_index(
        paid.path,
        summarizer=CountingLLM(),
        llm_id="digest",
        chunk_overlap=0,
        lock_timeout=0.1,
    )
    with paid.write_lock():
        assert other.communities()
        with pytest.raises(StoreLockedError):
            other.communities(reports="summarizer")


# Integrations


def test_llama_index_lists_the_same_communities(rag, tmp_path):
    index = LlamaIndex.from_documents(
        [
            LlamaDocument(id_=one.id, text=one.text, metadata=dict(one.metadata))
            for one in DOCUMENTS
        ],
        embed_model=MockEmbedding(8),
        models=Models(extractor=NameExtractor()),
        llm=MockLLM(max_tokens=4),
        settings=IndexSettings(chunk_size=16, chunk_overlap=0),
    )
    found = index.rag.communities()
    assert groups(found) == groups(rag.communities())
    assert [one.report for one in found] == [one.report for one in rag.communities()]
    assert asyncio.run(index.rag.acommunities(reports=None))[0].id == found[0].id
    only = MetadataFilters(filters=[MetadataFilter(key="room", value=1)])
    assert groups(index.rag.communities(where=where_of(only))) == [CAMPERS]
    with pytest.raises(LLMCallLimitError, match="reports need 2"):
        asyncio.run(index.rag.acommunities(reports="summarizer", max_llm_calls=1))
    written = index.rag.communities(reports="summarizer", max_llm_calls=2)
    assert [one.report for one in written] != [one.report for one in found]
    assert asyncio.run(index.rag.acommunities(reports="summarizer", max_llm_calls=0)) == written
    index.persist(tmp_path)  # with the finished reports
    loaded = LlamaIndex.from_persist_dir(
        tmp_path,
        embed_model=MockEmbedding(8),
        models=Models(extractor=NameExtractor()),
        llm=MockLLM(max_tokens=4),
    )
    assert loaded.rag.communities(reports="summarizer", max_llm_calls=0) == written
    with pytest.raises(InvalidInputError, match="level=5"):
        index.rag.communities(5)


def test_langchain_lists_communities_of_pending_documents_too(rag, names):
    documents = [Document(one.text, id=one.id, metadata=dict(one.metadata)) for one in DOCUMENTS]
    index = LangChainIndex.open(
        embeddings="hashing",
        models=Models(extractor=names),
        settings=IndexSettings(chunk_size=16, chunk_overlap=0),
    )
    index.upsert(documents)
    found = index.rag.communities(where={"room": {"$ne": 1}})
    assert groups(found) == [CITIZENS]
    assert groups(asyncio.run(index.rag.acommunities())) == groups(rag.communities())


@pytest.mark.slow
def test_real_models_separate_two_topics(real_embedder, real_extractor):
    kitchen = (
        "The cook mixes flour with butter. Flour and butter need sugar. Sugar and eggs make a "
        "cake. The cook bakes the cake with eggs and flour."
    )
    sea = (
        "A whale eats krill in the ocean. Krill live in the ocean. The whale and its calf cross "
        "the ocean. A calf drinks milk of the whale."
    )
    with E2GraphRAG.open(
        ":memory:", embedder=real_embedder, models=Models(extractor=real_extractor)
    ) as rag:
        rag.add([SourceDocument("kitchen", kitchen), SourceDocument("sea", sea)])
        found = rag.communities()
    assert {one.document_ids for one in found} == {("kitchen",), ("sea",)}
    [whales] = [one for one in found if one.document_ids == ("sea",)]
    assert {"whale", "ocean"} <= set(whales.top_entities)
    assert "whale" in whales.report.lower()
