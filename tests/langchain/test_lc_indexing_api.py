"""LangChain's `index()` and `aindex()` keep an `E2GraphRAGIndex` what the documents are."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, aindex, index

from langchain_fakes import Digests

CLEANUPS = ["incremental", "full", "scoped_full", None]


def document(source, page, words="the same"):
    text = f"{source} page {page} says {words}. Anna met Bert in {source}. It was page {page}."
    return Document(page_content=text, metadata={"source": source, "page": page})


BEFORE = [document(source, page) for source in ("Oslo", "Rome") for page in range(1, 6)]
AFTER = [document("Oslo", 3, "something new") if d == BEFORE[2] else d for d in BEFORE]
del AFTER[4]  # the last page of Oslo


class Runs:
    """An index and its record manager, filled by either function."""

    def __init__(self, target, *, is_async=False, **options):
        self.target = target
        self._async = is_async
        self._options = {"source_id_key": "source", "key_encoder": "sha256"} | options
        self._records = InMemoryRecordManager("test")
        self._records.create_schema()

    def __call__(self, documents, cleanup, **options):
        call = (documents, self._records, self.target)
        options = self._options | {"cleanup": cleanup} | options
        return asyncio.run(aindex(*call, **options)) if self._async else index(*call, **options)


def state(target):
    """Return all that the file holds, and the keys of all cached content."""
    keys = target.corpus.rag.store.read("SELECT key FROM content ORDER BY key")
    return list(target.corpus.rag.export()), keys


@pytest.fixture
def fresh(lc_index_of):
    def build(*batches):
        run = Runs(lc_index_of([], llm=Digests()))
        for documents in batches:
            run(documents, None)
        run.target.build()
        return run.target

    return build


@pytest.mark.parametrize("cleanup", CLEANUPS)
@pytest.mark.parametrize("batch_size", [2, 100])
@pytest.mark.parametrize("is_async", [False, True])
def test_the_index_is_what_a_new_one_of_the_documents_would_be(
    lc_index_of, fresh, cleanup, batch_size, is_async
):
    llm = Digests()
    target = lc_index_of([], llm=llm)
    run = Runs(target, is_async=is_async, batch_size=batch_size)
    assert run(BEFORE, cleanup)["num_added"] == 10
    assert llm.calls == 0
    target.build()
    assert state(target) == state(fresh(BEFORE))

    first = llm.calls
    done = run(AFTER, cleanup)
    assert llm.calls == first
    if batch_size == 100:  # with small batches incremental deletes pages and adds them again
        assert done["num_added"] == 1
        assert done["num_deleted"] == (0 if cleanup is None else 2)
    expected = fresh(BEFORE, AFTER) if cleanup is None else fresh(AFTER)
    report = target.build()
    assert state(target) == state(expected)
    assert report.documents == 1
    assert llm.calls - first < first / 2
    text = target.corpus.rag.document("Oslo").text
    pages = [1, 2, 3, 4] if cleanup else [1, 2, 3, 3, 4, 5]
    assert [int(part[10]) for part in text.split("\n\n")] == pages

    calls = llm.calls
    run(AFTER, cleanup)
    run(AFTER, cleanup, force_update=True)
    assert target.build().documents == 0
    assert llm.calls == calls
    assert state(target) == state(expected)


@pytest.mark.parametrize("batch_size", [1, 2, 3, 7])
def test_builds_between_runs_and_batches_change_nothing(lc_index_of, fresh, batch_size):
    target = lc_index_of([], llm=Digests())
    run = Runs(target, batch_size=batch_size)
    run(BEFORE[:7], "incremental")
    assert target.invoke("Who met Bert?")
    run(BEFORE[7:], "incremental")  # of Rome only these: the others are gone
    assert target.invoke("Who met Bert?")
    run(AFTER, "incremental")
    assert len(target.ids()) == 9
    target.build()
    assert state(target) == state(fresh(AFTER))


@pytest.mark.parametrize("cleanup", ["incremental", "scoped_full"])
def test_sources_that_are_not_in_a_run_stay(lc_index_of, fresh, cleanup):
    run = Runs(lc_index_of([], llm=Digests()))
    run(BEFORE, cleanup)
    run.target.build()
    run(AFTER[:4], cleanup)
    run.target.build()
    assert state(run.target) == state(fresh(AFTER))


def test_a_full_run_of_nothing_leaves_no_trace(lc_index_of):
    run = Runs(lc_index_of([], llm=Digests()))
    run(BEFORE, "full")
    run.target.build()
    assert run([], "full")["num_deleted"] == 10
    assert run.target.ids() == []
    assert run.target.invoke("Who met Bert?") == []
    lines, keys = state(run.target)
    assert len(lines) == 1
    assert keys == []


def test_documents_deleted_before_a_build_are_never_built(lc_index_of):
    llm = Digests()
    run = Runs(lc_index_of([], llm=llm))
    run(BEFORE, "full")
    run([], "full")
    assert run.target.build().documents == 0
    assert llm.calls == 0
    assert not run.target.corpus.is_dirty


class Pages(BaseLoader):
    def lazy_load(self):
        yield from BEFORE


def test_a_loader_is_indexed_and_ids_may_be_the_users(lc_index_of, fresh):
    run = Runs(lc_index_of([], llm=Digests()))
    run(Pages(), "incremental")
    run.target.build()
    assert state(run.target) == state(fresh(BEFORE))
    own = Runs(
        lc_index_of([]), key_encoder=lambda d: f"{d.metadata['source']}-{d.metadata['page']}"
    )
    own(BEFORE, "full")
    assert sorted(own.target.ids())[:2] == ["Oslo-1", "Oslo-2"]
