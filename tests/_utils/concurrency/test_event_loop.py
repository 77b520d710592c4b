"""Running coroutines from synchronous code."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from e2graphrag_integrations._utils.concurrency.event_loop import CallerLoop, OwnLoop


@pytest.fixture
def own_loop():
    loop = OwnLoop()
    yield loop
    loop.close()


async def current_loop_and_thread():
    await asyncio.sleep(0)
    return asyncio.get_running_loop(), threading.current_thread()


def test_all_coroutines_run_in_one_loop_in_another_thread(own_loop):
    first, thread = own_loop.run(current_loop_and_thread())
    second, _ = own_loop.run(current_loop_and_thread())
    assert first is second
    assert thread is not threading.current_thread()


def test_any_awaitable_can_run(own_loop):
    class Awaitable:
        def __await__(self):
            yield from asyncio.sleep(0).__await__()
            return 7

    assert own_loop.run(Awaitable()) == 7


def test_exception_reaches_the_caller(own_loop):
    async def fail():
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        own_loop.run(fail())


def test_coroutines_of_several_threads_run_concurrently(own_loop):
    """The two coroutines wait for each other, so they would never end one after the other."""
    first, second = asyncio.Event(), asyncio.Event()

    async def meet(mine, other):
        mine.set()
        return await other.wait()

    with ThreadPoolExecutor(2) as pool:
        assert list(
            pool.map(lambda pair: own_loop.run(meet(*pair)), [(first, second), (second, first)])
        ) == [True, True]


def test_closed_loop_can_be_closed_again_and_restarted():
    loop = OwnLoop()
    loop.close()
    first, thread = loop.run(current_loop_and_thread())
    loop.close()
    loop.close()
    assert first.is_closed()
    assert not thread.is_alive()
    second, _ = loop.run(current_loop_and_thread())
    loop.close()
    assert second is not first


async def test_callers_loop_runs_coroutines_of_a_worker_thread():
    loop = asyncio.get_running_loop()
    bridge = CallerLoop(loop)
    ran_in, thread = await asyncio.to_thread(lambda: bridge.run(current_loop_and_thread()))
    assert ran_in is loop
    assert thread is threading.current_thread()


async def test_exception_in_the_callers_loop_reaches_the_worker():
    async def fail():
        raise ValueError("no")

    bridge = CallerLoop(asyncio.get_running_loop())
    with pytest.raises(ValueError, match="no"):
        await asyncio.to_thread(lambda: bridge.run(fail()))


def test_interrupt_in_a_coroutine_reaches_the_caller_but_not_the_loop():
    async def interrupted():
        raise KeyboardInterrupt

    loop = OwnLoop()
    with pytest.raises(KeyboardInterrupt):
        loop.run(interrupted())
    first, _ = loop.run(current_loop_and_thread())
    assert first.is_running()
    loop.close()
