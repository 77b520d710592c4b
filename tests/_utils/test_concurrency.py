"""`BackgroundTask`: one thread, only while there is work."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from e2graphrag_integrations import HashingEmbedder
from e2graphrag_integrations._utils import concurrency
from e2graphrag_integrations._utils.concurrency import (
    BackgroundTask,
    BoundedCache,
    CallerLoop,
    OwnLoop,
    Pace,
    SingleThread,
    cached_method,
)
from e2graphrag_integrations.embedders.windowed import WindowedEmbedder


def test_requests_during_a_call_lead_to_one_further_call():
    task, proceed, calls = BackgroundTask("test"), threading.Semaphore(0), []

    def work():
        calls.append(threading.current_thread())
        assert proceed.acquire(timeout=30)

    for _ in range(3):
        task.request(work)
    while not calls:
        pass
    assert task.is_running
    for _ in range(3):
        task.request(work)
    thread = calls[0]
    proceed.release(2)
    thread.join(30)
    assert len(calls) == 2
    assert not task.is_running


def test_a_stopped_task_accepts_no_requests():
    task, calls = BackgroundTask("test"), []
    assert task.stop()
    task.request(lambda: calls.append(1))
    assert not task.is_running
    assert not calls
    assert task.stop()


def test_stop_waits_only_for_a_bounded_time(monkeypatch):
    monkeypatch.setattr(concurrency, "STOP_SECONDS", 0.01)
    task, entered, proceed = BackgroundTask("test"), threading.Event(), threading.Event()
    ended = []

    def work():
        entered.set()
        assert proceed.wait(30)
        ended.append(task.stopping.is_set())

    task.request(work)
    assert entered.wait(30)
    thread = task._thread
    assert not task.stop()
    proceed.set()
    thread.join(30)
    assert ended == [True]


def test_the_thread_can_stop_its_own_task():
    task = BackgroundTask("test")
    stopped = []
    task.request(lambda: stopped.append(task.stop()))
    thread = task._thread
    if thread is not None:
        thread.join(30)
    assert stopped == [False]


def test_a_task_without_work_is_collected():
    gc.freeze()  # older objects, of which there are a million
    task = BackgroundTask("test")
    task.request(lambda: None)
    thread = task._thread
    if thread is not None:
        thread.join(30)
    reference = weakref.ref(task)
    del task, thread
    gc.collect()
    assert reference() is None


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


torch = pytest.importorskip("torch")

THREADS = 3


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
def test_only_the_calling_thread_is_limited_and_only_inside_the_context():
    limiter = SingleThread()
    inside, checked = threading.Event(), threading.Event()
    seen = {}

    def limited():
        with limiter.active():
            seen["inside"] = torch.get_num_threads()
            inside.set()
            assert checked.wait(30)
        seen["after"] = torch.get_num_threads()

    with ThreadPoolExecutor(3) as pool:
        running = pool.submit(limited)
        assert inside.wait(30)
        assert pool.submit(torch.get_num_threads).result() == THREADS  # a new thread
        assert torch.get_num_threads() == THREADS
        checked.set()
        running.result()
    assert seen == {"inside": 1, "after": THREADS}


@pytest.mark.usefixtures("three_threads")
def test_the_limit_holds_for_matrix_products_after_set_num_threads():
    """MKL takes its number of threads from PyTorch's, not from OpenMP's."""
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    if not hasattr(library, "MKL_Get_Max_Threads"):
        pytest.skip("this PyTorch has no MKL")
    limiter, mkl_threads = SingleThread(), library.MKL_Get_Max_Threads
    with ThreadPoolExecutor(1) as pool:
        before, elsewhere = mkl_threads(), pool.submit(mkl_threads).result()
        assert before > 1  # a new thread begins with OMP_NUM_THREADS
        with limiter.active():
            assert mkl_threads() == 1
            assert pool.submit(mkl_threads).result() == elsewhere
            with limiter.active():
                assert mkl_threads() == 1
            assert mkl_threads() == 1
    assert mkl_threads() == before


@pytest.mark.slow
def test_a_question_costs_the_cpu_of_one_thread_whatever_the_numbers():
    """Run in a new process, because OpenMP reads OMP_NUM_THREADS once."""
    code = """
import time, torch
torch.set_num_threads(2)
from sentence_transformers import SentenceTransformer
from e2graphrag_integrations.embedders.sentence_transformers import DEFAULT_MODEL, find_model
from e2graphrag_integrations.embedders.windowed import WindowedEmbedder

class Wrapped:
    dimension, max_tokens = 384, 254
    def __init__(self):
        self.model = SentenceTransformer(str(find_model(DEFAULT_MODEL)), device="cpu")
    def embed(self, texts):
        return self.model.encode(texts, show_progress_bar=False)
    def embed_query(self, text):
        return self.model.encode([text], show_progress_bar=False)[0]

embedder = WindowedEmbedder(Wrapped())
question = "Who gave Anna the map of the harbour, and what did the captain say? " * 3
embedder.embed_query(question)
used = time.process_time(), time.thread_time()
for number in range(20):
    embedder.embed_query(f"{question}{number}")
print((time.process_time() - used[0]) / (time.thread_time() - used[1]))
"""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert float(run.stdout) < 1.2


@pytest.mark.usefixtures("three_threads")
def test_questions_are_embedded_in_one_thread_and_documents_in_all():
    class Recorder(HashingEmbedder):
        def __init__(self):
            super().__init__()
            self.threads = {}

        def embed(self, texts):
            self.threads["embed"] = torch.get_num_threads()
            return super().embed(texts)

        def embed_query(self, text):
            self.threads["embed_query"] = torch.get_num_threads()
            return HashingEmbedder().embed_query(text)

    embedder = Recorder()
    windowed = WindowedEmbedder(embedder)
    windowed.embed_query("Who is Anna?")
    windowed.embed(["Anna met Bert."])
    assert embedder.threads == {"embed_query": 1, "embed": THREADS}
    assert torch.get_num_threads() == THREADS


def test_the_limit_is_restored_after_an_error():
    before = torch.get_num_threads()
    with pytest.raises(ValueError, match="failed"), SingleThread().active():
        raise ValueError("failed")
    assert torch.get_num_threads() == before


@pytest.mark.usefixtures("three_threads")
def test_one_thread_gives_the_same_vector(real_embedder):
    question = "Who gave Anna the map of the harbour?"
    limited = WindowedEmbedder(real_embedder).embed_query(question)
    np.testing.assert_allclose(limited, real_embedder.embed_query(question), atol=1e-6)


class Words:
    """Counts how often a method computes."""

    def __init__(self):
        self.computed = []

    @cached_method(2)
    def repeated(self, word, times):
        """Return a word several times."""
        self.computed.append(word)
        return word * times


def test_the_least_recently_used_value_is_forgotten_first():
    cache, computed = BoundedCache[str, str](2), []

    def upper(text):
        computed.append(text)
        return text.upper()

    assert [cache.get(text, upper) for text in "abacab"] == list("ABACAB")
    assert computed == ["a", "b", "c", "b"]
    cache.clear()
    cache.get("b", upper)
    assert computed == ["a", "b", "c", "b", "b"]


def test_each_instance_remembers_the_values_of_its_methods():
    one, other = Words(), Words()
    assert [one.repeated(word, 2) for word in "abacab"] == ["aa", "bb", "aa", "cc", "aa", "bb"]
    assert one.computed == ["a", "b", "c", "b"]
    assert one.repeated("b", 3) == "bbb"
    assert other.repeated("b", 3) == "bbb"
    assert other.computed == ["b"]
    assert Words.repeated.__doc__ == "Return a word several times."


def test_a_cached_method_creates_no_reference_cycle():
    class WithCycle:
        def __init__(self):
            self.value = lru_cache(1)(self.compute)

        def compute(self, number):
            return number

    gc.freeze()  # older objects, of which there are a million
    gc.disable()  # only reference counts may free the instance
    try:
        words, with_cycle = Words(), WithCycle()
        words.repeated("a", 1)
        alive, alive_in_cycle = weakref.ref(words), weakref.ref(with_cycle)
        del words, with_cycle
        assert alive() is None
        assert alive_in_cycle() is not None
    finally:
        gc.enable()
        gc.collect()


def test_an_error_is_not_remembered():
    class Failing:
        calls = 0

        @cached_method(1)
        def value(self, number):
            self.calls += 1
            if self.calls == 1:
                raise ValueError("first")
            return number

    one = Failing()
    with pytest.raises(ValueError, match="first"):
        one.value(1)
    assert one.value(1) == 1


def test_a_pace_pauses_in_proportion_to_the_work(monkeypatch):
    clock, pauses = iter([0.0, 0.01, 0.01, 0.03, 0.03]), []
    monkeypatch.setattr(concurrency.time, "thread_time", lambda: next(clock))
    monkeypatch.setattr(concurrency.time, "sleep", pauses.append)
    pace = Pace(0.25, lambda: False)
    pace()
    pace()
    assert pauses == pytest.approx([0.03, 0.06])


def test_a_pace_does_not_pause_while_somebody_waits(monkeypatch):
    pauses = []
    monkeypatch.setattr(concurrency.time, "sleep", pauses.append)
    pace = Pace(0.01, lambda: True)
    pace()
    pace()
    assert pauses == []
