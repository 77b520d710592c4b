"""Writing from event loops: turns are taken without a deadlock, and nothing waits for itself."""

from __future__ import annotations

import asyncio
import os

import pytest

from e2graphrag_integrations.errors import InvalidInputError, StoppedError
from fakes import numbered

FOUR = {"chunk_size": 4, "chunk_overlap": 0}


async def summarize(prompt: str) -> str:
    # Like a client that looks names up, it needs a thread of the loop's pool.
    return await asyncio.to_thread(lambda: f"Summary of {len(prompt)} characters.")


async def test_more_writers_than_the_loop_has_threads_take_their_turns(open_index):
    rag = open_index(summarizer=summarize, **FOUR)
    count = min(32, (os.cpu_count() or 1) + 4) + 2
    adding = (rag.aadd(numbered(6, f"d{n}", 10 * n)) for n in range(count))
    await asyncio.wait_for(asyncio.gather(*adding), 30)
    assert len(rag.document_ids) == count


def held():
    begun, go = asyncio.Event(), asyncio.Event()

    async def wait(prompt: str) -> str:
        begun.set()
        await go.wait()
        return f"Summary of {len(prompt)} characters."

    return begun, go, wait


async def test_a_write_that_would_wait_for_its_own_loop_is_refused(open_index):
    begun, go, wait = held()
    rag = open_index(summarizer=wait, **FOUR)
    adding = asyncio.create_task(rag.aadd(numbered(6)))
    await begun.wait()
    for write in (lambda: rag.add(numbered(2, "other")), lambda: rag.delete("x"), rag.compact):
        with pytest.raises(InvalidInputError, match="await it first"):
            write()
    go.set()
    assert (await adding).documents == 1
    assert rag.add(numbered(1, "other")).documents == 1


async def test_an_index_closed_while_its_loop_writes_lets_go_of_the_file_at_the_end(
    open_index, tmp_path
):
    begun, go, wait = held()
    path = tmp_path / "i.e2g"
    rag = open_index(path, summarizer=wait, **FOUR)
    adding = asyncio.create_task(rag.aadd(numbered(30)))
    await begun.wait()
    rag.close()
    go.set()
    with pytest.raises(StoppedError):
        await adding
    assert rag.store.is_closed
    with open_index(path) as again:
        assert [state.status for state in again.status()] == ["pending"]


async def test_a_write_that_waits_for_another_can_be_cancelled(open_index):
    begun, go, wait = held()
    rag = open_index(summarizer=wait, **FOUR)
    adding = asyncio.create_task(rag.aadd(numbered(6)))
    await begun.wait()
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(rag.aadd(numbered(6, "late")), 0.2)
    go.set()
    await adding
    assert rag.document_ids == ["numbered"]
