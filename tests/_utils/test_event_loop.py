import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from e2graphrag_integrations._utils.event_loop import CallerLoop, OwnLoop


@pytest.fixture
def own_loop():
    loop = OwnLoop()
    yield loop
    loop.close()


async def where():
    await asyncio.sleep(0)
    return asyncio.get_running_loop(), threading.current_thread()


def test_all_coroutines_run_in_one_loop_beside_the_caller(own_loop):
    first, thread = own_loop.run(where())
    second, _ = own_loop.run(where())
    assert first is second
    assert thread is not threading.current_thread()


def test_any_awaitable_can_be_run(own_loop):
    class Awaitable:
        def __await__(self):
            yield from asyncio.sleep(0).__await__()
            return 7

    assert own_loop.run(Awaitable()) == 7


def test_an_exception_reaches_the_caller(own_loop):
    async def fail():
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        own_loop.run(fail())


def test_coroutines_of_several_threads_run_side_by_side(own_loop):
    """Each waits for the other: one after the other they would never end."""
    here, there = asyncio.Event(), asyncio.Event()

    async def meet(mine, other):
        mine.set()
        return await other.wait()

    with ThreadPoolExecutor(2) as pool:
        assert list(
            pool.map(lambda pair: own_loop.run(meet(*pair)), [(here, there), (there, here)])
        ) == [True, True]


def test_a_closed_loop_can_be_closed_again_and_started_anew():
    loop = OwnLoop()
    loop.close()
    first, thread = loop.run(where())
    loop.close()
    loop.close()
    assert first.is_closed()
    assert not thread.is_alive()
    second, _ = loop.run(where())
    loop.close()
    assert second is not first


async def test_the_callers_loop_runs_what_a_worker_thread_asks_for():
    loop = asyncio.get_running_loop()
    bridge = CallerLoop(loop)
    ran_in, thread = await asyncio.to_thread(lambda: bridge.run(where()))
    assert ran_in is loop
    assert thread is threading.current_thread()


async def test_an_exception_in_the_callers_loop_reaches_the_worker():
    async def fail():
        raise ValueError("no")

    bridge = CallerLoop(asyncio.get_running_loop())
    with pytest.raises(ValueError, match="no"):
        await asyncio.to_thread(lambda: bridge.run(fail()))


def test_an_interrupt_in_a_coroutine_reaches_the_caller_and_not_the_loop():
    async def interrupted():
        raise KeyboardInterrupt

    loop = OwnLoop()
    with pytest.raises(KeyboardInterrupt):
        loop.run(interrupted())
    first, _ = loop.run(where())
    assert first.is_running()
    loop.close()
