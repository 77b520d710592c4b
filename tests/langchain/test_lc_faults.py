"""Models that fail, processes that die, users of one file that cross: nothing is lost."""

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

from e2graphrag_integrations import RetryPolicy
from e2graphrag_integrations.errors import IndexingError, InvalidInputError, StoppedError
from e2graphrag_integrations.langchain import E2GraphRAGIndex
from fakes import NameExtractor, numbered
from langchain_fakes import Digests, paged, two_sources
from strategies import examples

TESTS = Path(__file__).parents[1]
OPTIONS: dict[str, Any] = {
    "embeddings": "hashing",
    "extractor": NameExtractor(),
    "chunk_size": 16,
    "chunk_overlap": 4,
    "group_size": 3,
    "retry": RetryPolicy(attempts=1),
    "max_concurrency": 1,
    "llm_id": "digests",
}
Open = Callable[..., E2GraphRAGIndex]


@pytest.fixture
def lc_open() -> Iterator[Open]:
    """Open indexes, also such with pending documents, without building."""
    opened: list[E2GraphRAGIndex] = []

    def make(path: Any = ":memory:", **options: Any) -> E2GraphRAGIndex:
        opened.append(E2GraphRAGIndex.open(path, **(OPTIONS | options)))
        return opened[-1]

    yield make
    for index in opened:
        index.close()


@pytest.fixture
def fresh(lc_open):
    """A new index of documents, made by the stand-in model: the same wherever it is made."""

    def build(documents):
        index = lc_open(llm=Digests())
        index.add_documents(documents)
        return index

    return build


def exported(index):
    return list(index.corpus.rag.export())


def contents(index):
    return index.corpus.rag.store.read("SELECT key FROM content ORDER BY key")


class Hooked(Digests):
    """Calls a function before each answer."""

    hook: Any = None

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        self.hook(self.calls + 1)
        return super()._generate(messages, stop)


# Models that fail


@pytest.mark.parametrize("is_async", [False, True])
async def test_after_a_failed_summary_the_rest_is_pending_and_nothing_is_paid_twice(
    lc_open, fresh, pages, tmp_path, is_async
):
    clean = fresh(pages)
    needed = clean.corpus.report.llm_calls
    llm = Digests(failing={3})
    index = lc_open(tmp_path / "a.e2g", llm=llm)
    with pytest.raises(IndexingError, match="call 3 failed"):
        await index.aadd_documents(pages) if is_async else index.add_documents(pages)
    assert llm.calls == 3
    assert index.corpus.is_dirty
    assert index.get([page.id for page in pages]) == pages
    assert index.estimate().llm_calls == needed - 2
    again = lc_open(tmp_path / "a.e2g", llm=llm)
    assert again.get([page.id for page in pages]) == pages
    assert again.build().llm_calls == needed - 2
    assert index.build().documents == 0
    assert exported(index) == exported(again) == exported(clean)


async def test_while_a_model_fails_searches_say_so_and_the_old_state_stands(lc_open, pages):
    llm = Digests()
    index = lc_open(llm=llm)
    index.add_documents(pages[:3])
    before = exported(index)
    llm.failing = set(range(llm.calls + 1, 999))
    index.upsert(pages[3:])
    index.delete([pages[0].id])
    for _ in range(2):
        with pytest.raises(IndexingError, match=r"document .* failed.*index again"):
            index.invoke("Who is Anna?")
        with pytest.raises(IndexingError):
            await index.ainvoke("Who is Anna?")
    assert exported(index) == before
    assert index.corpus.rag.retrieve("Who is Anna?").nodes
    index.delete([page.id for page in pages[3:]])
    index.upsert(pages[:1])  # nothing is left to be done
    assert index.invoke("Who is Anna?")
    assert exported(index) == before


def test_a_batch_on_an_index_whose_model_fails_raises_and_hangs_nowhere(lc_open, pages):
    index = lc_open(llm=Digests(failing=set(range(99))))
    index.upsert(pages)
    found = index.batch(["Who is Anna?"] * 6, return_exceptions=True)
    assert {type(each).__name__ for each in found} == {"SummaryError"}


def test_failing_embeddings_leave_documents_pending(lc_open, pages):
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


# Processes that die

DIE = """
import os, sys
from langchain_fakes import Digests, two_sources
from e2graphrag_integrations.indexing import pending
from test_lc_faults import OPTIONS, E2GraphRAGIndex, Hooked
path, when = sys.argv[1:]
die = lambda *_: os._exit(9)
llm = Hooked(hook=lambda number: die() if when == "summary" and number == 3 else None)
index = E2GraphRAGIndex.open(path, llm=llm, **OPTIONS)
pages = two_sources()
index.add_documents(pages[3:4])
index.upsert(pages[:3])
index.upsert(pages[4:])
index.delete([pages[1].id])
if when == "before":
    die()
if when == "written":
    index.corpus.rag.delete = die
if when == "end":
    pending.drop_pending = die
index.build()
"""


@pytest.mark.parametrize("when", ["before", "summary", "written", "end"])
def test_a_process_killed_anywhere_loses_nothing(lc_open, fresh, pages, tmp_path, when):
    path = tmp_path / "a.e2g"
    done = subprocess.run(
        [sys.executable, "-c", DIE, path, when],
        env={"PYTHONPATH": f"{TESTS}:{TESTS / 'langchain'}"},
        check=False,
    )
    assert done.returncode == 9
    left = [pages[0], *pages[2:]]
    llm = Digests()
    index = lc_open(path, llm=llm)
    assert index.corpus.is_dirty
    assert sorted(index.ids()) == sorted(page.id for page in left)
    assert index.get([page.id for page in left]) == left
    expected = index.estimate().llm_calls
    assert index.invoke("Who is Anna?")
    assert llm.calls == expected
    if when in {"written", "end"}:
        assert llm.calls == 0
    assert exported(index) == exported(fresh(left))
    assert index.corpus.rag.verify().ok


# Two users of one file


def test_two_indexes_take_pages_of_one_source(lc_open, fresh, pages, tmp_path):
    one, other = (lc_open(tmp_path / "a.e2g", llm=Digests()) for _ in range(2))
    for index, page in zip(itertools.cycle([one, other]), pages, strict=False):
        index.upsert([page])
    assert sorted(one.ids()) == sorted(other.ids()) == sorted(page.id for page in pages)
    assert other.delete([pages[0].id])["num_deleted"] == 1
    assert one.delete([pages[0].id])["num_deleted"] == 0
    assert one.get([pages[0].id]) == []
    one.build()
    assert exported(one) == exported(other) == exported(fresh(pages[1:]))
    assert other.build().documents == 0


def test_what_another_index_has_built_is_not_undone(lc_open, fresh, pages, tmp_path):
    one, other = (lc_open(tmp_path / "a.e2g", llm=Digests()) for _ in range(2))
    one.upsert(pages)
    assert len(other.ids()) == 5  # knows them as pending now
    newer = pages[0].model_copy(update={"page_content": "Zoe came."})
    one.upsert([newer])
    one.delete([pages[1].id])
    one.build()
    other.build()
    assert other.invoke("Zoe?")
    assert exported(other) == exported(fresh([newer, *pages[2:]]))


def test_what_is_taken_during_a_build_is_kept_for_the_next(lc_open, fresh, pages, tmp_path):
    newer = pages[0].model_copy(update={"page_content": "Zoe came."})
    other = lc_open(tmp_path / "a.e2g", llm=Digests())
    own: list[E2GraphRAGIndex] = []

    def hook(number):
        if number == 2:
            other.upsert([newer])
            own[0].upsert([pages[3]])
            assert own[0].get([newer.id, pages[1].id, pages[3].id]) == [newer, pages[1], pages[3]]

    own.append(lc_open(tmp_path / "a.e2g", llm=Hooked(hook=hook)))
    own[0].add_documents(pages[:3])
    assert own[0].corpus.is_dirty
    assert other.estimate().documents == 2
    other.build()
    assert own[0].build().documents == 0
    assert exported(own[0]) == exported(fresh([newer, *pages[1:4]]))


def test_two_indexes_may_build_and_take_at_once(lc_open, fresh, tmp_path):
    documents = [
        Document(id=f"{s}{p}", page_content=f"{s}{p} met Anna.", metadata={"source": s, "page": p})
        for p in range(6)
        for s in ("Abe", "Bob", "Cid")
    ]
    indexes = [lc_open(tmp_path / "a.e2g", llm=Digests()) for _ in range(2)]

    def work(number):
        index = indexes[number % 2]
        for document in documents[number::3]:
            index.upsert([document])
            assert index.get([document.id]) == [document]
            if number < 2:
                try:
                    index.build()
                except (IndexingError, InvalidInputError):
                    continue  # the other was quicker; what is pending stays

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))
    indexes[0].build()
    indexes[1].build()
    assert exported(indexes[0]) == exported(indexes[1]) == exported(fresh(documents))


# Threads


def test_threads_may_add_delete_and_search_at_once(lc_open, fresh):
    rng = random.Random(4)  # noqa: S311
    sources = ["Oslo", "Rome", "Bonn"]
    text = "Anna met Bert in {}. Cleo came. Dora left {}. Emil stayed."
    documents = [page for s in sources for page in paged(text.format(s, s) * 3, s, 2)]
    gone = rng.sample(documents, 6)
    index = lc_open(llm=Digests())
    index.upsert(gone)
    ready = threading.Barrier(6)

    def write(part):
        ready.wait()
        for document in part:
            index.upsert([document])
            assert index.get([document.id]) in ([document], [])

    def delete():
        ready.wait()
        for document in gone:
            index.delete([document.id])

    def search():
        ready.wait()
        for _ in range(10):
            hits = index.invoke("Who met Bert in Oslo?")
            assert len({hit.id for hit in hits}) == len(hits)

    left = [document for document in documents if document not in gone]
    work = [lambda: write(left[::2]), lambda: write(left[1::2]), delete, *[search] * 3]
    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(each) for each in work]:
            done.result(30)
    index.build()
    assert exported(index) == exported(fresh(left))


# Event loops


async def until(condition):
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("begun", [0, 2])
@pytest.mark.parametrize("call", ["abuild", "aadd_documents", "aretrieve"])
async def test_a_cancelled_build_can_go_on(lc_open, fresh, pages, call, begun):
    llm = Digests(seconds=0.03)
    index = lc_open(llm=llm)
    pages += paged(numbered(60).text, "numbered", 6)
    if call != "aadd_documents":
        index.upsert(pages)
    argument = {"aadd_documents": [pages], "aretrieve": ["Who is Anna?"]}.get(call, [])
    task = asyncio.create_task(getattr(index, call)(*argument))
    await until(lambda: llm.calls >= begun and (begun or index.corpus.is_dirty))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    clean = fresh(pages)
    assert llm.calls <= begun + 1 < clean.corpus.report.llm_calls
    assert index.corpus.is_dirty
    await index.abuild()
    assert llm.calls <= clean.corpus.report.llm_calls + 1
    assert exported(index) == exported(clean)


async def test_who_gives_up_waiting_does_not_stop_the_build_of_another(lc_open, pages):
    llm = Digests(seconds=0.05)
    index = lc_open(llm=llm)
    index.upsert(pages)
    builds = asyncio.create_task(index.aretrieve("Who is Anna?"))
    await until(lambda: llm.calls)
    waits = asyncio.create_task(index.aretrieve("Who is Anna?"))
    await asyncio.sleep(0.01)
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    assert not builds.done()
    assert (await builds).nodes


async def test_calls_that_do_not_build_do_not_wait_for_a_build(lc_open, fresh, pages):
    llm = Digests(seconds=0.05)
    index = lc_open(llm=llm)
    index.upsert(pages[:3])
    build = asyncio.create_task(index.abuild())
    await until(lambda: llm.calls)
    index.upsert(pages[3:])  # in the loop that the build needs
    assert index.get([page.id for page in pages]) == pages
    assert index.estimate().llm_calls > 0
    index.delete([pages[4].id])
    for call in (index.build, lambda: index.invoke("Who?"), lambda: index.save_local("no.e2g")):
        with pytest.raises(InvalidInputError, match=r"this event loop.*await abuild"):
            call()
    assert not build.done()
    await build
    await index.abuild()
    assert exported(index) == exported(fresh(pages[:4]))


async def test_closing_ends_a_build_and_keeps_what_is_pending(lc_open, pages, tmp_path):
    llm = Digests(seconds=0.05)
    index = lc_open(tmp_path / "a.e2g", llm=llm)
    index.upsert(pages)
    build = asyncio.create_task(index.abuild())
    await until(lambda: llm.calls)
    await asyncio.to_thread(index.close)
    with pytest.raises(StoppedError):
        await build
    again = lc_open(tmp_path / "a.e2g", llm=llm)
    assert again.get([page.id for page in pages]) == pages
    assert again.build().documents == 2


# Any history

IDS = [f"page{number}" for number in range(12)]
SOURCES = st.sampled_from(["Oslo", "Rome", "Bonn"])
WORDS = st.sampled_from(["He left.", "Anna met Bert. Bert went away. Cleo saw Bert in Rome.", ""])


def document(id_, source, words):
    metadata = {"source": source, "page": IDS.index(id_)}
    return Document(id=id_, page_content=words, metadata=metadata)


class Histories(RuleBasedStateMachine):
    """An index after any calls is what a dict is, and what a new index of the dict is."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.path = Path(self.folder.name) / "a.e2g"
        self.index = self.open()
        self.model: dict[str, Document] = {}

    def open(self):
        return E2GraphRAGIndex.open(self.path, llm=Digests(), **OPTIONS)

    @rule(pages=st.lists(st.builds(document, st.sampled_from(IDS), SOURCES, WORDS), max_size=4))
    def upsert(self, pages):
        assert self.index.upsert(pages)["succeeded"] == [page.id for page in pages]
        self.model |= {page.id: page for page in pages}

    @rule(ids=st.lists(st.sampled_from(IDS), max_size=4))
    def delete(self, ids):
        gone = {id_ for id_ in ids if self.model.pop(id_, None)}
        response = self.index.delete(ids)
        assert set(response["succeeded"]) == gone
        assert response["num_deleted"] == len(gone)

    @rule()
    def build(self):
        estimated = self.index.estimate().llm_calls
        assert self.index.build().llm_calls == estimated
        new = E2GraphRAGIndex.from_documents(self.model.values(), llm=Digests(), **OPTIONS)
        assert exported(self.index) == exported(new)
        assert contents(self.index) == contents(new)
        new.close()

    @rule()
    def search(self):
        hits = self.index.invoke("Did Bert meet Cleo in Rome?")
        assert {hit.metadata["e2_doc_id"] for hit in hits} - {None} <= self.model.keys()

    @rule(closes=st.booleans())
    def reopen(self, closes):
        before, self.index = self.index, self.open()
        if closes:
            before.close()
        else:  # it goes on, and the other is let go
            self.index.close()
            self.index = before

    @invariant()
    def holds_what_the_model_holds(self):
        assert sorted(self.index.ids()) == sorted(self.model)
        assert self.index.get(IDS) == [self.model[i] for i in IDS if i in self.model]

    def teardown(self):
        self.index.close()
        self.folder.cleanup()


TestHistories = Histories.TestCase
TestHistories.settings = settings(examples(25), stateful_step_count=12)


def test_two_sources_are_what_the_killed_process_had(pages):
    assert pages == two_sources()


def test_what_another_handle_has_taken_is_built_in_by_a_search(pages, tmp_path):
    options = {"embeddings": "hashing", "extractor": NameExtractor(), "chunk_size": 16}
    path = tmp_path / "a.e2g"
    options |= {"chunk_overlap": 4}
    with E2GraphRAGIndex.from_documents(pages, path=path, **options) as one:
        with E2GraphRAGIndex.load_local(path, **options) as other:
            other.delete([page.id for page in pages])
            other.upsert([Document(id="new", page_content="Kit met Lea in Rome.")])
        found = one.invoke("Anna?")
        assert [document.page_content for document in found] == ["Kit met Lea in Rome."]
        assert one.ids() == ["new"]


def test_a_source_built_anew_meanwhile_is_not_deleted_with_its_old_pages(lc_open, tmp_path):
    one, other = (lc_open(tmp_path / "a.e2g", llm=Digests()) for _ in range(2))
    page = Document(id="old", page_content="Anna met Bert.", metadata={"source": "s"})
    one.upsert([page])
    one.build()
    assert other.get(["old"]) == [page]
    with ThreadPoolExecutor(1) as pool:
        with one.corpus.rag.write_lock():
            deleting = pool.submit(other.delete, ["old"])
            time.sleep(0.3)
            new = Document(id="new", page_content="Cleo left.", metadata={"source": "s"})
            one.upsert([new])
            one.build()
        assert deleting.result()["succeeded"] == ["old"]
    assert one.ids() == other.ids() == ["new"]
    assert one.corpus.rag.document_ids == ["s"]
    assert one.get(["new"]) == [new]
