"""Writing from event loops: writers take turns without a deadlock."""

from __future__ import annotations

import asyncio
import os

import pytest

from e2graphrag_integrations.errors import InvalidInputError, StoppedError
from fakes import numbered

FOUR = {"chunk_size": 4, "chunk_overlap": 0}


async def summarize(prompt: str) -> str:
    # Needs a thread of the loop's pool, as an HTTP client does for DNS lookups.
    return await asyncio.to_thread(lambda: f"Summary of {len(prompt)} characters.")


async def test_more_writers_than_pool_threads_do_not_deadlock(open_index):
    rag = open_index(summarizer=summarize, **FOUR)
    count = min(32, (os.cpu_count() or 1) + 4) + 2
    adding = (rag.aadd(numbered(6, f"d{n}", 10 * n)) for n in range(count))
    await asyncio.wait_for(asyncio.gather(*adding), 30)
    assert len(rag.document_ids) == count


def blocking_summarizer():
    """Return an event that the summarizer sets, one that it waits for, and the summarizer."""
    started, release = asyncio.Event(), asyncio.Event()

    async def wait(prompt: str) -> str:
        started.set()
        await release.wait()
        return f"Summary of {len(prompt)} characters."

    return started, release, wait


async def test_write_that_would_wait_for_its_own_loop_is_rejected(open_index):
    started, release, wait = blocking_summarizer()
    rag = open_index(summarizer=wait, **FOUR)
    adding = asyncio.create_task(rag.aadd(numbered(6)))
    await started.wait()
    for write in (lambda: rag.add(numbered(2, "other")), lambda: rag.delete("x"), rag.compact):
        with pytest.raises(InvalidInputError, match="await it first"):
            write()
    release.set()
    assert (await adding).documents == 1
    assert rag.add(numbered(1, "other")).documents == 1


async def test_index_closed_during_an_async_write_releases_the_file_when_it_ends(
    open_index, tmp_path
):
    started, release, wait = blocking_summarizer()
    path = tmp_path / "i.e2g"
    rag = open_index(path, summarizer=wait, **FOUR)
    adding = asyncio.create_task(rag.aadd(numbered(30)))
    await started.wait()
    rag.close()
    release.set()
    with pytest.raises(StoppedError):
        await adding
    assert rag.store.is_closed
    with open_index(path) as again:
        assert [state.status for state in again.status()] == ["pending"]


async def test_waiting_write_can_be_cancelled(open_index):
    started, release, wait = blocking_summarizer()
    rag = open_index(summarizer=wait, **FOUR)
    adding = asyncio.create_task(rag.aadd(numbered(6)))
    await started.wait()
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(rag.aadd(numbered(6, "late")), 0.2)
    release.set()
    await adding
    assert rag.document_ids == ["numbered"]
