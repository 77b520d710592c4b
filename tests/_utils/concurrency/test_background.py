"""`BackgroundTask`: one thread, only while there is work."""

from __future__ import annotations

import gc
import threading
import weakref

from e2graphrag_integrations._utils.concurrency import background
from e2graphrag_integrations._utils.concurrency.background import BackgroundTask


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
    monkeypatch.setattr(background, "STOP_SECONDS", 0.01)
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
    task = BackgroundTask("test")
    task.request(lambda: None)
    thread = task._thread
    if thread is not None:
        thread.join(30)
    reference = weakref.ref(task)
    del task, thread
    gc.collect()
    assert reference() is None
