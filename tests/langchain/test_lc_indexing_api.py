"""LangChain's `index()` and `aindex()` keep an `E2GraphRAGIndex` equal to the documents."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, aindex, index

from langchain_fakes import DigestChatModel, exported

CLEANUPS = ["incremental", "full", "scoped_full", None]


def document(source, page, words="the same"):
    text = f"{source} page {page} says {words}. Anna met Bert in {source}. It was page {page}."
    return Document(page_content=text, metadata={"source": source, "page": page})


BEFORE = [document(source, page) for source in ("Oslo", "Rome") for page in range(1, 6)]
AFTER = [document("Oslo", 3, "something new") if d == BEFORE[2] else d for d in BEFORE]
del AFTER[4]  # the last page of Oslo


class Indexer:
    """Runs `index()` or `aindex()` with an index and its record manager."""

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
    """Return the canonical lines of an index and the keys of all cached content."""
    keys = target.rag.store.read("SELECT key FROM content ORDER BY key")
    return exported(target), keys


@pytest.fixture
def new_index(lc_index_of):
    def build(*batches):
        run = Indexer(lc_index_of([], auto_build=False, llm=DigestChatModel()))
        for documents in batches:
            run(documents, None)
        run.target.build()
        return run.target

    return build


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("cleanup", CLEANUPS)
@pytest.mark.parametrize("batch_size", [2, 100])
@pytest.mark.parametrize("is_async", [False, True])
def test_an_updated_index_equals_a_new_index(lc_index_of, new_index, cleanup, batch_size, is_async):
    llm = DigestChatModel()
    target = lc_index_of([], auto_build=False, llm=llm)
    run = Indexer(target, is_async=is_async, batch_size=batch_size)
    assert run(BEFORE, cleanup)["num_added"] == 10
    assert llm.calls == 0
    target.build()
    assert state(target) == state(new_index(BEFORE))

    first_calls = llm.calls
    counts = run(AFTER, cleanup)
    assert llm.calls == first_calls
    if batch_size == 100:  # in small batches, "incremental" deletes and adds the same pages
        assert counts["num_added"] == 1
        assert counts["num_deleted"] == (0 if cleanup is None else 2)
    expected = new_index(BEFORE, AFTER) if cleanup is None else new_index(AFTER)
    report = target.build()
    assert state(target) == state(expected)
    is_restored = (batch_size, cleanup) == (2, "incremental")
    assert report.documents == 1 + is_restored
    assert llm.calls - first_calls < (first_calls / 2 if cleanup else first_calls)
    text = target.rag.document("Oslo").text
    pages = [1, 2, 3, 4] if cleanup else [1, 2, 3, 3, 4, 5]
    assert [int(part[10]) for part in text.split("\n\n")] == pages

    calls = llm.calls
    run(AFTER, cleanup)
    run(AFTER, cleanup, force_update=True)
    assert target.build().documents == (2 if is_restored else 0)
    assert llm.calls == calls
    assert state(target) == state(expected)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("batch_size", [1, 2, 3, 7])
def test_intermediate_builds_do_not_change_the_result(lc_index_of, new_index, batch_size):
    target = lc_index_of([], llm=DigestChatModel())
    run = Indexer(target, batch_size=batch_size)
    run(BEFORE[:7], "incremental")
    assert target.invoke("Who met Bert?")
    run(BEFORE[7:], "incremental")  # deletes the other pages of Rome
    assert target.invoke("Who met Bert?")
    assert not target.corpus.is_dirty
    run(AFTER, "incremental")
    assert len(target.ids()) == 9
    target.build()
    assert state(target) == state(new_index(AFTER))


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("cleanup", ["incremental", "scoped_full"])
def test_sources_missing_from_a_run_are_kept(lc_index_of, new_index, cleanup):
    run = Indexer(lc_index_of([], auto_build=False, llm=DigestChatModel()))
    run(BEFORE, cleanup)
    run.target.build()
    run(AFTER[:4], cleanup)
    run.target.build()
    assert state(run.target) == state(new_index(AFTER))


def test_a_full_run_without_documents_empties_the_index(lc_index_of):
    run = Indexer(lc_index_of([], auto_build=False, llm=DigestChatModel()))
    run(BEFORE, "full")
    run.target.build()
    assert run([], "full")["num_deleted"] == 10
    assert run.target.ids() == []
    assert run.target.invoke("Who met Bert?") == []
    lines, keys = state(run.target)
    assert len(lines) == 1
    assert keys == []


def test_documents_deleted_before_a_build_are_never_built(lc_index_of):
    llm = DigestChatModel()
    run = Indexer(lc_index_of([], auto_build=False, llm=llm))
    run(BEFORE, "full")
    run([], "full")
    assert run.target.build().documents == 0
    assert llm.calls == 0
    assert not run.target.corpus.is_dirty


class PageLoader(BaseLoader):
    def lazy_load(self):
        yield from BEFORE


def test_index_accepts_loaders_and_custom_ids(lc_index_of, new_index):
    run = Indexer(lc_index_of([], auto_build=False, llm=DigestChatModel()))
    run(PageLoader(), "incremental")
    run.target.build()
    assert state(run.target) == state(new_index(BEFORE))
    custom = Indexer(
        lc_index_of([]), key_encoder=lambda d: f"{d.metadata['source']}-{d.metadata['page']}"
    )
    custom(BEFORE, "full")
    assert sorted(custom.target.ids())[:2] == ["Oslo-1", "Oslo-2"]
