"""Failures, crashes, concurrent use of one file, cancellation: no document is lost."""

from __future__ import annotations

import asyncio
import itertools
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from langchain_core.documents import Document

from e2graphrag_integrations import E2GraphRAG, Models, RetryPolicy
from e2graphrag_integrations.errors import IndexingError, InvalidInputError, StoppedError
from e2graphrag_integrations.langchain import E2GraphRAGIndex
from e2graphrag_integrations.options import grouped
from fakes import NameExtractor, numbered
from langchain_fakes import SMALL, DigestChatModel, exported, split_into_pages, two_sources
from strategies import examples

TESTS = Path(__file__).parents[1]
OPTIONS: dict[str, Any] = {
    **SMALL,
    "retry": RetryPolicy(attempts=1),
    "concurrency": 1,
    "llm_id": "digests",
    "auto_build": False,  # upserts are staged, so that builds can fail and meet
}
Open = Callable[..., E2GraphRAGIndex]


@pytest.fixture
def lc_open() -> Iterator[Open]:
    """Open an index without building pending documents."""
    indexes: list[E2GraphRAGIndex] = []

    def make(path: Any = ":memory:", **options: Any) -> E2GraphRAGIndex:
        indexes.append(E2GraphRAGIndex.open(path, **grouped(OPTIONS | options)))
        return indexes[-1]

    yield make
    for index in indexes:
        index.close()


@pytest.fixture
def new_index(lc_open):
    """Build a new index, for comparison."""

    def build(documents):
        index = lc_open(llm=DigestChatModel())
        index.add_documents(documents)
        return index

    return build


def content_keys(index):
    """Return the keys of all cached content."""
    return index.rag.store.read("SELECT key FROM content ORDER BY key")


class HookedChatModel(DigestChatModel):
    """Calls `hook` with the number of each call (from 1) before it answers."""

    hook: Any = None

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        self.hook(self.calls + 1)
        return super()._generate(messages, stop)


# Failing models


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("is_async", [False, True])
async def test_after_a_failed_summary_a_retry_repeats_no_finished_call(
    lc_open, new_index, pages, tmp_path, is_async
):
    expected = new_index(pages)
    needed_calls = expected.report.llm_calls
    llm = DigestChatModel(failing={3})
    index = lc_open(tmp_path / "a.e2g", llm=llm)
    with pytest.raises(IndexingError, match="call 3 failed"):
        await index.aadd_documents(pages) if is_async else index.add_documents(pages)
    assert llm.calls == 3
    assert index.corpus.is_dirty
    assert index.get([page.id for page in pages]) == pages
    assert index.estimate().llm_calls == needed_calls - 2
    again = lc_open(tmp_path / "a.e2g", llm=llm)
    assert again.get([page.id for page in pages]) == pages
    assert again.build().llm_calls == needed_calls - 2
    assert index.build().documents == 0
    assert exported(index) == exported(again) == exported(expected)


async def test_searches_answer_from_what_is_built_while_the_model_fails(lc_open, pages, caplog):
    llm = DigestChatModel()
    index = lc_open(llm=llm, auto_build=True)
    index.add_documents(pages[:3])
    before, found = exported(index), index.invoke("Who is Anna?")
    llm.failing = set(range(llm.calls + 1, 999))
    with pytest.raises(IndexingError, match=r"call \d+ failed"):
        index.upsert(pages[3:])
    calls = llm.calls
    for _ in range(2):
        assert index.invoke("Who is Anna?") == found
        assert await index.ainvoke("Who is Anna?") == found
    assert llm.calls == calls
    assert exported(index) == before
    assert index.rag.freshness().pending == 1
    [warning] = [message for message in caplog.messages if "not indexed yet" in message]
    assert warning.startswith(":memory:: Answers lack 1 document that is not indexed yet: call")
    llm.failing = set()
    index.upsert(pages[3:])  # a new attempt repairs everything that failed
    assert index.rag.freshness().pending == 0
    assert sorted(index.ids()) == sorted(page.id for page in pages)


async def _delete_sync(index, ids):
    with pytest.raises(IndexingError):
        index.delete(ids)


async def _delete_async(index, ids):
    with pytest.raises(IndexingError):
        await index.adelete(ids)


async def _delete_in_a_batch(index, ids):
    with pytest.raises(IndexingError), index.batch():
        index.delete(ids)


async def _delete_in_a_batch_that_stops(index, ids):
    async def stopped():
        async with index.batch():
            await index.adelete(ids)
            raise KeyError

    with pytest.raises(KeyError):
        await stopped()


async def _delete_without_a_build(index, ids):
    index.corpus.auto_build = False
    index.delete(ids)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    "delete",
    [
        _delete_sync,
        _delete_async,
        _delete_in_a_batch,
        _delete_in_a_batch_that_stops,
        _delete_without_a_build,
    ],
)
async def test_deleted_text_is_found_no_more_if_the_rest_cannot_be_built(
    lc_open, pages, tmp_path, delete
):
    llm = DigestChatModel()
    index = lc_open(tmp_path / "a.e2g", llm=llm, auto_build=True)
    index.add_documents(pages)
    reader = E2GraphRAG.open(
        tmp_path / "a.e2g", embedder="hashing", models=Models(extractor=NameExtractor())
    )
    deleted, kept = pages[0], pages[1:]
    llm.failing = set(range(llm.calls + 1, 999))
    await delete(index, [deleted.id])
    for retrieve in (index.rag.retrieve, index.scoped({"author": "Ann"}).retrieve, reader.retrieve):
        texts = [node.text for node in retrieve(deleted.page_content, k=99, fill=True).nodes]
        assert not any(deleted.page_content[:20] in text for text in texts)
    assert index.invoke(pages[-1].page_content)  # the other source is as before
    assert index.rag.freshness().pending == 1
    assert sorted(index.ids()) == sorted(page.id for page in kept)
    assert index.get([deleted.id]) == []
    llm.failing = set()
    index.build()
    expected = lc_open(llm=DigestChatModel())
    expected.add_documents(kept)
    assert exported(index) == exported(expected)
    reader.close()


def moved(documents):
    """Return new versions of the documents, whose metadata puts them in other trees."""
    return [
        Document(
            id=one.id,
            page_content=f"Later. {one.page_content}",
            metadata={**one.metadata, "shelf": "upper"},
        )
        for one in documents
    ]


def test_documents_that_move_to_a_tree_that_cannot_be_built_are_still_found(lc_open, pages):
    llm = DigestChatModel()
    index = lc_open(llm=llm, auto_build=True)
    index.add_documents(pages)
    before, found = exported(index), index.invoke("Who is Anna?")
    llm.failing = set(range(llm.calls + 1, 999))
    with pytest.raises(IndexingError):
        index.upsert(moved(pages))
    assert index.invoke("Who is Anna?") == found
    assert exported(index) == before
    llm.failing = set()
    index.build()
    assert {hit.metadata["shelf"] for hit in index.invoke("Who is Anna?")} == {"upper"}


def test_a_document_that_has_moved_is_not_found_in_its_old_tree_if_that_cannot_be_built(
    lc_open, pages
):
    llm = DigestChatModel()
    index = lc_open(llm=llm, auto_build=True, tree_per=lambda one: one.metadata.get("shelf", "low"))
    short = Document(id="short", page_content="Zoe saw Yan.")  # a tree of it needs no summary
    index.add_documents([short, *pages])
    llm.failing = set(range(llm.calls + 1, 999))
    with pytest.raises(IndexingError):
        index.upsert(moved([short]))
    hits = index.as_retriever(k=99).invoke("Who saw Yan?")
    assert [(hit.page_content, hit.metadata["shelf"]) for hit in hits] == [
        ("Later. Zoe saw Yan.", "upper")
    ]
    assert index.rag.freshness().pending == 1


def test_a_failing_extractor_leaves_documents_pending(lc_open, pages):
    class Failing(NameExtractor):
        broken = True

        def extract(self, texts):
            if self.broken:
                raise OSError("no model")
            return super().extract(texts)

    extractor = Failing()
    index = lc_open(extractor=extractor)
    with pytest.raises(IndexingError, match="no model"):
        index.add_documents(pages)
    extractor.broken = False
    assert index.build().documents == 2


# Killed processes

KILLS = ["before", "summary", "written", "end"]

CRASHES = """
import os, sys
from pathlib import Path
from langchain_fakes import DigestChatModel, two_sources
from e2graphrag_integrations.indexing import pending
from e2graphrag_integrations.options import grouped
from test_lc_faults import OPTIONS, E2GraphRAGIndex, HookedChatModel
folder, *kills = sys.argv[1:]
die = lambda *_: os._exit(9)
def crash(when):
    path = Path(folder) / f"{when}.e2g"
    llm = HookedChatModel(hook=lambda number: die() if when == "summary" and number == 3 else None)
    index = E2GraphRAGIndex.open(path, llm=llm, **grouped(OPTIONS))
    pages = two_sources()
    index.add_documents(pages[3:4])
    index.upsert(pages[:3])
    index.upsert(pages[4:])
    index.delete([pages[1].id])
    if when == "before":
        die()
    if when == "written":
        index.rag.delete_indexed = die
    if when == "end":
        pending.drop_pending = die
    index.build()
for when in kills:
    pid = os.fork()
    if pid == 0:
        try:
            crash(when)
        finally:
            os._exit(1)
    print(when, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


@pytest.fixture(scope="module")
def crashed_files(tmp_path_factory):
    """A folder with the file of each killed process.

    One process imports the frameworks and forks the others, because the imports take seconds.
    """
    folder = tmp_path_factory.mktemp("killed")
    process = subprocess.run(
        [sys.executable, "-c", CRASHES, folder, *KILLS],
        env={"PYTHONPATH": f"{TESTS}:{TESTS / 'langchain'}"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert process.stdout.splitlines() == [f"{when} 9" for when in KILLS]
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("when", KILLS)
def test_a_killed_process_loses_no_document(lc_open, new_index, pages, crashed_files, when):
    path = crashed_files / f"{when}.e2g"
    remaining = [pages[0], *pages[2:]]
    llm = DigestChatModel()
    index = lc_open(path, llm=llm)
    assert index.corpus.is_dirty
    assert sorted(index.ids()) == sorted(page.id for page in remaining)
    assert index.get([page.id for page in remaining]) == remaining
    estimated_calls = index.estimate().llm_calls
    assert index.invoke("Who is Anna?")
    assert llm.calls == 0
    index.build()
    assert llm.calls == estimated_calls
    if when in {"written", "end"}:
        assert llm.calls == 0
    assert exported(index) == exported(new_index(remaining))
    assert index.rag.verify().ok


# Several indexes of one file


def test_two_indexes_of_one_file_can_add_pages_of_one_source(lc_open, new_index, pages, tmp_path):
    one, other = (lc_open(tmp_path / "a.e2g", llm=DigestChatModel()) for _ in range(2))
    for index, page in zip(itertools.cycle([one, other]), pages, strict=False):
        index.upsert([page])
    assert sorted(one.ids()) == sorted(other.ids()) == sorted(page.id for page in pages)
    assert other.delete([pages[0].id])["num_deleted"] == 1
    assert one.delete([pages[0].id])["num_deleted"] == 0
    assert one.get([pages[0].id]) == []
    one.build()
    assert exported(one) == exported(other) == exported(new_index(pages[1:]))
    assert other.build().documents == 0


def test_a_build_does_not_undo_the_build_of_another_index(lc_open, new_index, pages, tmp_path):
    one, other = (lc_open(tmp_path / "a.e2g", llm=DigestChatModel()) for _ in range(2))
    one.upsert(pages)
    assert len(other.ids()) == 5  # reads the pending documents
    newer = pages[0].model_copy(update={"page_content": "Zoe came."})
    one.upsert([newer])
    one.delete([pages[1].id])
    one.build()
    other.build()
    assert other.invoke("Zoe?")
    assert exported(other) == exported(new_index([newer, *pages[2:]]))


def test_documents_added_during_a_build_stay_pending(lc_open, new_index, pages, tmp_path):
    newer = pages[0].model_copy(update={"page_content": "Zoe came."})
    other = lc_open(tmp_path / "a.e2g", llm=DigestChatModel())
    building: list[E2GraphRAGIndex] = []

    def hook(number):
        if number == 2:
            other.upsert([newer])
            building[0].upsert([pages[3]])
            assert building[0].get([newer.id, pages[1].id, pages[3].id]) == [
                newer,
                pages[1],
                pages[3],
            ]

    building.append(lc_open(tmp_path / "a.e2g", llm=HookedChatModel(hook=hook)))
    building[0].add_documents(pages[:3])
    assert building[0].corpus.is_dirty
    assert other.estimate().documents == 2
    other.build()
    assert building[0].build().documents == 0
    assert exported(building[0]) == exported(new_index([newer, *pages[1:4]]))


def test_two_indexes_of_one_file_can_build_and_upsert_concurrently(lc_open, new_index, tmp_path):
    documents = [
        Document(id=f"{s}{p}", page_content=f"{s}{p} met Anna.", metadata={"source": s, "page": p})
        for p in range(6)
        for s in ("Abe", "Bob", "Cid")
    ]
    indexes = [lc_open(tmp_path / "a.e2g", llm=DigestChatModel()) for _ in range(2)]

    def work(number):
        index = indexes[number % 2]
        for document in documents[number::3]:
            index.upsert([document])
            assert index.get([document.id]) == [document]
            if number < 2:
                try:
                    index.build()
                except (IndexingError, InvalidInputError):
                    continue  # the other index was faster; the documents stay pending

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))
    indexes[0].build()
    indexes[1].build()
    assert exported(indexes[0]) == exported(indexes[1]) == exported(new_index(documents))


# Threads


def test_threads_can_upsert_delete_and_search_concurrently(lc_open, new_index):
    rng = random.Random(4)  # noqa: S311 - not for cryptography
    sources = ["Oslo", "Rome", "Bonn"]
    text = "Anna met Bert in {}. Cleo came. Dora left {}. Emil stayed."
    documents = [page for s in sources for page in split_into_pages(text.format(s, s) * 3, s, 2)]
    deleted = rng.sample(documents, 6)
    index = lc_open(llm=DigestChatModel())
    index.upsert(deleted)
    ready = threading.Barrier(6)

    def write(documents):
        ready.wait()
        for document in documents:
            index.upsert([document])
            assert index.get([document.id]) in ([document], [])

    def delete():
        ready.wait()
        for document in deleted:
            index.delete([document.id])

    def search():
        ready.wait()
        for _ in range(10):
            hits = index.invoke("Who met Bert in Oslo?")
            assert len({hit.id for hit in hits}) == len(hits)

    remaining = [document for document in documents if document not in deleted]
    tasks = [lambda: write(remaining[::2]), lambda: write(remaining[1::2]), delete, *[search] * 3]
    with ThreadPoolExecutor(6) as pool:
        for future in [pool.submit(task) for task in tasks]:
            future.result(30)
    index.build()
    assert exported(index) == exported(new_index(remaining))


# Event loops


async def wait_until(condition):
    while not condition():  # noqa: ASYNC110 - threads change the condition
        await asyncio.sleep(0.005)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("finished_calls", [0, 2])
@pytest.mark.parametrize("call", ["abuild", "aadd_documents"])
async def test_a_cancelled_build_can_be_resumed(lc_open, new_index, pages, call, finished_calls):
    llm = DigestChatModel(seconds=0.03)
    index = lc_open(llm=llm)
    pages += split_into_pages(numbered(60).text, "numbered", 6)
    if call != "aadd_documents":
        index.upsert(pages)
    argument = [pages] if call == "aadd_documents" else []
    task = asyncio.create_task(getattr(index, call)(*argument))
    await wait_until(
        lambda: llm.calls >= finished_calls and (finished_calls or index.corpus.is_dirty)
    )
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    expected = new_index(pages)
    assert llm.calls <= finished_calls + 1 < expected.report.llm_calls
    assert index.corpus.is_dirty
    await index.abuild()
    assert llm.calls <= expected.report.llm_calls + 1
    assert exported(index) == exported(expected)


async def test_a_query_does_not_wait_for_a_build(lc_open, pages):
    llm = DigestChatModel(seconds=0.05)
    index = lc_open(llm=llm)
    index.upsert(pages)
    building = asyncio.create_task(index.abuild())
    await wait_until(lambda: llm.calls)
    assert await index.ainvoke("Who is Anna?") == []
    assert not building.done()
    await building
    assert await index.ainvoke("Who is Anna?")


async def test_upsert_get_and_delete_do_not_wait_for_a_build(lc_open, new_index, pages):
    llm = DigestChatModel(seconds=0.05)
    index = lc_open(llm=llm)
    index.upsert(pages[:3])
    build = asyncio.create_task(index.abuild())
    await wait_until(lambda: llm.calls)
    index.upsert(pages[3:])  # in the event loop that the build needs
    assert index.get([page.id for page in pages]) == pages
    assert index.estimate().llm_calls > 0
    index.delete([pages[4].id])
    for call in (index.build, lambda: index.save_local("no.e2g")):
        with pytest.raises(InvalidInputError, match=r"this event loop.*await abuild"):
            call()
    assert not build.done()
    await build
    await index.abuild()
    assert exported(index) == exported(new_index(pages[:4]))


async def test_close_stops_a_build_and_keeps_pending_documents(lc_open, pages, tmp_path):
    llm = DigestChatModel(seconds=0.05)
    index = lc_open(tmp_path / "a.e2g", llm=llm)
    index.upsert(pages)
    build = asyncio.create_task(index.abuild())
    await wait_until(lambda: llm.calls)
    await asyncio.to_thread(index.close)
    with pytest.raises(StoppedError):
        await build
    again = lc_open(tmp_path / "a.e2g", llm=llm)
    assert again.get([page.id for page in pages]) == pages
    assert again.build().documents == 2


# Random histories

IDS = [f"page{number}" for number in range(12)]
SOURCES = st.sampled_from(["Oslo", "Rome", "Bonn"])
TEXTS = st.sampled_from(["He left.", "Anna met Bert. Bert went away. Cleo saw Bert in Rome.", ""])


def document(id_, source, text):
    metadata = {"source": source, "page": IDS.index(id_)}
    return Document(id=id_, page_content=text, metadata=metadata)


class IndexHistories(RuleBasedStateMachine):
    """After any calls, an index contains the same as a dict and equals a new index of the dict."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.path = Path(self.folder.name) / "a.e2g"
        self.index = self.open()
        self.model: dict[str, Document] = {}

    def open(self):
        return E2GraphRAGIndex.open(self.path, **grouped({"llm": DigestChatModel(), **OPTIONS}))

    @rule(pages=st.lists(st.builds(document, st.sampled_from(IDS), SOURCES, TEXTS), max_size=4))
    def upsert(self, pages):
        assert self.index.upsert(pages)["succeeded"] == [page.id for page in pages]
        self.model |= {page.id: page for page in pages}

    @rule(ids=st.lists(st.sampled_from(IDS), max_size=4))
    def delete(self, ids):
        deleted = {id_ for id_ in ids if self.model.pop(id_, None)}
        response = self.index.delete(ids)
        assert set(response["succeeded"]) == deleted
        assert response["num_deleted"] == len(deleted)

    @rule()
    def build(self):
        estimated_calls = self.index.estimate().llm_calls
        assert self.index.build().llm_calls == estimated_calls
        new = E2GraphRAGIndex.from_documents(
            self.model.values(), **grouped({"llm": DigestChatModel(), **OPTIONS})
        )
        assert exported(self.index) == exported(new)
        assert content_keys(self.index) == content_keys(new)
        new.close()

    @rule()
    def search(self):
        hits = self.index.invoke("Did Bert meet Cleo in Rome?")
        assert {hit.metadata["e2_doc_id"] for hit in hits} - {""} <= self.model.keys()

    @rule(keep_old=st.booleans())
    def reopen(self, keep_old):
        old, new = self.index, self.open()
        self.index, unused = (old, new) if keep_old else (new, old)
        unused.close()

    @invariant()
    def contains_the_documents_of_the_model(self):
        assert sorted(self.index.ids()) == sorted(self.model)
        assert self.index.get(IDS) == [self.model[i] for i in IDS if i in self.model]

    def teardown(self):
        self.index.close()
        self.folder.cleanup()


TestIndexHistories = IndexHistories.TestCase
TestIndexHistories.settings = settings(examples(25), stateful_step_count=12)


def test_the_killed_process_used_the_same_pages(pages):
    assert pages == two_sources()


def test_a_search_finds_documents_that_another_index_added(pages, tmp_path):
    path = tmp_path / "a.e2g"
    with E2GraphRAGIndex.from_documents(pages, **grouped({"path": path, **SMALL})) as one:
        with E2GraphRAGIndex.load_local(path, **grouped(SMALL)) as other:
            other.delete([page.id for page in pages])
            other.upsert([Document(id="new", page_content="Kit met Lea in Rome.")])
        found = one.invoke("Anna?")
        assert [document.page_content for document in found] == ["Kit met Lea in Rome."]
        assert one.ids() == ["new"]


def test_a_delete_does_not_remove_a_source_that_was_rebuilt_meanwhile(lc_open, tmp_path):
    one, other = (lc_open(tmp_path / "a.e2g", llm=DigestChatModel()) for _ in range(2))
    page = Document(id="old", page_content="Anna met Bert.", metadata={"source": "s", "page": 1})
    one.upsert([page])
    one.build()
    assert other.get(["old"]) == [page]
    with ThreadPoolExecutor(1) as pool:
        with one.rag.write_lock():
            deleting = pool.submit(other.delete, ["old"])
            time.sleep(0.3)
            new = Document(id="new", page_content="Cleo left.", metadata={"source": "s", "page": 1})
            one.upsert([new])
            one.build()
        assert deleting.result()["succeeded"] == ["old"]
    assert one.ids() == other.ids() == ["new"]
    assert len(one.rag.document_ids) == 1
    assert one.get(["new"]) == [new]
