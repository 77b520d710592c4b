"""Writes build, in one build per batch; questions call no language model."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, aindex, index

from e2graphrag_integrations import RetryPolicy
from e2graphrag_integrations.errors import IndexingError
from e2graphrag_integrations.langchain import E2GraphRAGIndex, create_e2graphrag_tool
from langchain_fakes import DigestChatModel, exported

EVERY_CALL = set(range(10_000))
QUESTION = "Who built a mill?"


def records():
    manager = InMemoryRecordManager("test")
    manager.create_schema()
    return manager


OPTIONS = {"cleanup": "incremental", "source_id_key": "source", "key_encoder": "sha256"}


@pytest.fixture
def reports(monkeypatch):
    """The reports of all builds that indexed something."""
    found = []
    build = E2GraphRAGIndex.open().corpus.__class__._build

    def counted(self, *arguments):
        report = build(self, *arguments)
        if report.documents:
            found.append(report)
        return report

    monkeypatch.setattr("e2graphrag_integrations.corpus.corpus.Corpus._build", counted)
    return found


async def test_no_question_calls_the_language_model(lc_index_of, pages):
    llm = DigestChatModel()
    target = lc_index_of([], llm=llm)
    index(pages[:3], records(), target, **OPTIONS)
    target.upsert(pages[3:4])
    await target.aupsert(pages[4:])
    calls = llm.calls
    assert calls > 1
    llm.failing = EVERY_CALL
    target.corpus.auto_build = False
    target.upsert([Document("Zoe built a mill. " * 40, id="pending")])  # nobody builds it
    retriever, tool = target.as_retriever(), create_e2graphrag_tool(target.as_retriever())
    assert "Fay built a mill" in retriever.invoke(QUESTION)[0].page_content
    assert await retriever.ainvoke(QUESTION)
    assert target.invoke(QUESTION) == await target.ainvoke(QUESTION)
    assert "Fay built a mill" in tool.invoke({"query": QUESTION})
    assert "Fay built a mill" in await tool.ainvoke({"query": QUESTION})
    assert target.rag.retrieve(QUESTION).nodes
    assert target.search(QUESTION) == await target.asearch(QUESTION)
    assert (await target.rag.aretrieve(QUESTION)).nodes
    assert target.similarity_search(QUESTION)
    assert target.batch([QUESTION]) == await target.abatch([QUESTION])
    assert target.rag.retrieve(QUESTION).trace.freshness.pending == 1
    assert target.rag.entities()
    assert target.rag.entity("Fay")
    assert target.rag.communities() is not None
    assert llm.calls == calls


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_batch_collects_all_writes_into_one_build(lc_index_of, pages, reports, is_async):
    llm, expected = DigestChatModel(), lc_index_of(pages[1:], llm=DigestChatModel())
    reports.clear()
    target = lc_index_of([], llm=llm)
    options = OPTIONS | {"batch_size": 1}
    if is_async:
        async with target.batch():
            await aindex(pages, records(), target, **options)
            await target.aadd_documents(pages[:1])
            await target.adelete([pages[0].id])
            ids = {page.id for page in pages}
            await target.adelete([id_ for id_ in target.ids() if id_ not in ids])
            await target.aupsert(pages[1:])
            assert llm.calls == 0
    else:
        with target.batch(), target.batch():
            index(pages, records(), target, **options)
            target.delete(target.ids())
            target.add_documents(pages)
            target.delete([pages[0].id])
            assert llm.calls == 0
            assert target.invoke(QUESTION) == []
    assert len(reports) == 1
    assert exported(target) == exported(expected)
    assert target.rag.freshness().pending == 0


def test_a_batch_that_raises_builds_nothing_and_can_be_built(lc_index_of, pages):
    llm = DigestChatModel()
    target = lc_index_of([], llm=llm)

    def write_and_fail():
        with target.batch():
            target.upsert(pages)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_and_fail()
    assert (llm.calls, target.rag.freshness().pending) == (0, 2)
    target.build()
    assert target.rag.freshness().pending == 0
    with target.batch():  # writes after it build again
        pass
    target.upsert([Document("Zoe left.", id="zoe")])
    assert target.rag.freshness().pending == 0


def test_a_batch_collects_no_writes_of_other_threads(lc_index_of, pages):
    target = lc_index_of(pages)
    with ThreadPoolExecutor(1) as other, target.batch():
        target.upsert([Document("Zoe built a mill.", id="own")])
        other.submit(target.delete, [pages[0].id]).result(30)
        assert pages[0].id not in {hit.metadata["e2_doc_id"] for hit in target.invoke("Ann")}
        other.submit(target.upsert, [Document("Yan left.", id="other")]).result(30)
        assert target.rag.freshness().pending == 0


async def test_a_batch_that_fails_leaves_nothing_pending_of_other_tasks(lc_index_of, pages):
    target = lc_index_of(pages)
    entered, written = asyncio.Event(), asyncio.Event()

    async def write_elsewhere():
        await entered.wait()
        await target.aupsert([Document("Yan left.", id="other")])
        await target.adelete([pages[0].id])
        written.set()

    async def write_and_fail():
        async with target.batch():
            entered.set()
            await written.wait()
            raise ZeroDivisionError

    other = asyncio.create_task(write_elsewhere())
    with pytest.raises(ZeroDivisionError):
        await write_and_fail()
    await other
    assert target.rag.freshness().pending == 0
    assert pages[0].id not in {hit.metadata["e2_doc_id"] for hit in target.invoke("Ann")}


async def test_a_batch_collects_writes_of_its_tasks_until_it_ends(lc_index_of, pages, reports):
    target, ended = lc_index_of([]), asyncio.Event()

    async def write_later():
        await ended.wait()
        await target.aupsert(pages[3:])

    async with target.batch():
        late = asyncio.create_task(write_later())
        await asyncio.gather(target.aupsert(pages[:2]), target.aupsert(pages[2:3]))
        assert reports == []
    assert len(reports) == 1
    ended.set()
    await late
    assert target.rag.freshness().pending == 0


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("is_async", [False, True])
def test_index_run_again_repairs_what_failed(lc_index_of, pages, is_async):
    llm = DigestChatModel(failing={2})
    target = lc_index_of(
        [], llm=llm, concurrency=1, retry=RetryPolicy(attempts=1), llm_id="digests"
    )
    manager = records()

    def run():
        if is_async:
            return asyncio.run(aindex(pages, manager, target, **OPTIONS))
        return index(pages, manager, target, **OPTIONS)

    with pytest.raises(IndexingError, match="call 2 failed"):
        run()
    assert target.rag.freshness().pending == 1
    run()
    assert target.rag.freshness().pending == 0
    assert run()["num_skipped"] == len(pages)
    calls = llm.calls
    fresh = lc_index_of([], llm=DigestChatModel(), llm_id="digests")
    index(pages, records(), fresh, **OPTIONS)
    assert exported(target) == exported(fresh)
    assert calls == fresh.report.llm_calls + 1
