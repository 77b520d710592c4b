"""Signals that stop a command: the work that runs, and what begins after them."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from e2graphrag_integrations.cli.stop_signals import stopped_by_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_work_that_begins_after_the_signal_is_stopped_too(number):
    running: list[threading.Event] = []
    first = threading.Event()

    def stop():
        for one in running:
            one.set()
        first.set()

    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with stopped_by_signals(stop):
        os.kill(os.getpid(), number)
        assert first.wait(10)
        work = threading.Event()
        running.append(work)
        assert work.wait(10)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers
    assert "e2graphrag-stop" not in {one.name for one in threading.enumerate()}
