"""Stopping the work of a command when it gets a signal."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

_STOP_AGAIN = 0.2
"""Seconds after which work that has begun since a signal is stopped, too."""


@contextlib.contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call a function at the first SIGINT or SIGTERM; a second one has its usual effect.

    It is called again until the block ends, because work that begins after a call is not stopped.
    """
    ended = threading.Event()
    stopping: list[threading.Thread] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def stop_until_the_end() -> None:
        while not ended.is_set():
            stop()
            ended.wait(_STOP_AGAIN)

    def handle(number: int, frame: object) -> None:
        del number, frame
        restore()
        # The interrupted thread may hold a lock that `stop` needs.
        thread = threading.Thread(target=stop_until_the_end, name="e2graphrag-stop")
        stopping.append(thread)
        thread.start()

    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        restore()
        ended.set()
        for thread in stopping:
            thread.join()
