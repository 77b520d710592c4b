"""Locks, threads, loops and caches that survive forks, cancellation and the end of the interpreter.

A forked process has only the thread that called `fork`. A lock that another thread held at that
moment stays locked forever in the child, and work handed to another thread never finishes.

An async client binds its connections to the event loop of its first call, so a new loop for each
call would break it. `add` starts a loop in a separate thread; `aadd` uses the caller's loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import ctypes
import os
import sys
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, TypeVarTuple, Unpack, overload
from weakref import ref

from e2graphrag_integrations._utils.lazy import lazy


class ProcessLock:
    """A lock that each process has for itself: a forked process starts with an unlocked one.

    Args:
        create: Creates the lock of a process: `threading.Lock` or `threading.RLock`.
    """

    def __init__(self, create: Callable[[], Any]) -> None:
        self._create = create
        self._locks: dict[int, Any] = {}

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire the lock of this process; see `threading.Lock.acquire`."""
        pid = os.getpid()
        lock = self._locks.get(pid)
        if lock is None:
            lock = self._locks.setdefault(pid, self._create())  # atomic
        acquired: bool = lock.acquire(blocking, timeout)
        return acquired

    def release(self) -> None:
        """Release the lock; do nothing if it was acquired before a fork."""
        lock = self._locks.get(os.getpid())
        if lock is not None:
            lock.release()

    def __enter__(self) -> None:
        """Acquire the lock."""
        self.acquire()

    def __exit__(self, *_: object) -> None:
        """Release the lock."""
        self.release()


def process_lock() -> ProcessLock:
    """Return a `ProcessLock` that is not reentrant."""
    return ProcessLock(threading.Lock)


def process_rlock() -> ProcessLock:
    """Return a reentrant `ProcessLock`."""
    return ProcessLock(threading.RLock)


def use_one_thread_after_fork(loaded_in: int) -> None:
    """Make PyTorch and FAISS use one thread if this process is a fork of the given one.

    Their worker threads do not exist in a forked process, and OpenMP would wait for them forever.

    Args:
        loaded_in: Id of the process that loaded the model or the index.
    """
    if loaded_in == os.getpid():
        return
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.get_num_threads() > 1:
        torch.set_num_threads(1)
    faiss: Any = sys.modules.get("faiss")
    if faiss is not None and faiss.omp_get_max_threads() > 1:
        faiss.omp_set_num_threads(1)


STOP_SECONDS = 10.0
"""How long `stop` waits for the step in progress. The thread ends after it in any case."""


class BackgroundTask:
    """Calls a function in a thread while there are requests; at most one call at a time.

    The thread starts with the first request and ends when nothing is requested. A forked process
    starts its own. When the interpreter exits, the thread is stopped first: a thread that is inside
    a C++ library at that moment could crash the process.

    Args:
        name: Name of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = process_lock()
        self._is_requested = False
        self._thread: threading.Thread | None = None
        self.stopping = threading.Event()
        """Set when the work should end early, because nobody needs it any more."""
        self._at_exit: weakref.finalize[..., BackgroundTask] | None = None

    @property
    def is_running(self) -> bool:
        """Whether the function is being called, or is about to be."""
        thread = self._thread
        return thread is not None and thread.is_alive()  # False for the thread of a parent process

    def request(self, work: Callable[[], None]) -> None:
        """Call a function in the thread; after the call in progress, if there is one.

        Args:
            work: The function. It must not raise.
        """
        with self._lock:
            if self.stopping.is_set():
                return
            self._is_requested = True
            if self.is_running:
                return
            thread = threading.Thread(target=self._run, args=(work,), name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the interpreter is shutting down, or has no more threads
                return
            self._thread = thread
            if self._at_exit is not None:
                self._at_exit.detach()
            self._at_exit = weakref.finalize(self, _stop, self.stopping, thread)

    def _run(self, work: Callable[[], None]) -> None:
        while True:
            with self._lock:
                if not self._is_requested or self.stopping.is_set():
                    self._thread = None
                    return
                self._is_requested = False
            work()

    def cancel(self) -> None:
        """Ask the thread to end, and accept no more requests."""
        with self._lock:
            self._is_requested = False
            self.stopping.set()

    def stop(self) -> bool:
        """Ask the thread to end, wait a bounded time for it, and accept no more requests.

        Returns:
            Whether the thread has ended.
        """
        self.cancel()
        return _stop(self.stopping, self._thread)


def _stop(stopping: threading.Event, thread: threading.Thread | None) -> bool:
    """Ask a thread to end, and return whether it has ended within `STOP_SECONDS`."""
    stopping.set()
    if thread is None or not thread.is_alive():
        return True
    if thread is not threading.current_thread():
        thread.join(STOP_SECONDS)
    return not thread.is_alive()


def lower_thread_priority(niceness: int) -> None:
    """Lower the priority of this thread, where the system has one for each thread.

    Args:
        niceness: By how much its niceness exceeds that of the process, at least 0.
    """
    if sys.platform == "linux":  # elsewhere, it would be that of the whole process
        with contextlib.suppress(OSError):
            of_process = os.getpriority(os.PRIO_PROCESS, os.getpid())
            lower = min(of_process + niceness, 19)
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), lower)


_LONGEST_PAUSE = 0.1
"""Maximum pause in seconds, so that a long step does not delay the next one for long."""


class Pace:
    """Leaves the interpreter to other threads most of the time.

    Of two busy threads, each waits for the other at every call that gives up the interpreter lock,
    for 5 ms at most. A question that meets 60 ms of work takes up to 60 ms longer; if the work is
    spread, many questions take a little longer instead.

    Args:
        share: The share of the time in which the thread works, in (0, 1].
        is_urgent: Whether somebody waits for the thread, so that it must not pause.
    """

    def __init__(self, share: float, is_urgent: Callable[[], bool]) -> None:
        self._pause = 1 / share - 1
        self._is_urgent = is_urgent
        self._worked = time.thread_time()

    def __call__(self) -> None:
        """Pause for a multiple of the processor time since the last call."""
        spent = time.thread_time() - self._worked
        if not self._is_urgent():
            time.sleep(min(spent * self._pause, _LONGEST_PAUSE))
        self._worked = time.thread_time()


T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
Ts = TypeVarTuple("Ts")
Decorated = TypeVar("Decorated")


class ContextThreads(ThreadPoolExecutor):
    """A thread pool that runs each call in a copy of the submitting thread's context."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Submit a call that runs in a copy of the current context."""
        return super().submit(contextvars.copy_context().run, fn, *args, **kwargs)


class AwaitableRunner(Protocol):
    """Runs awaitables to completion from a thread without an event loop."""

    def run(self, awaitable: Awaitable[T]) -> T:
        """Wait for the awaitable and return its result."""


@dataclass(frozen=True)
class _Interrupted:
    """Wraps an exception that would stop the loop's thread if it were raised there."""

    error: BaseException


async def _await(awaitable: Awaitable[T]) -> T | _Interrupted:
    try:
        return await awaitable
    except (KeyboardInterrupt, SystemExit) as error:
        return _Interrupted(error)


def _run_in(loop: asyncio.AbstractEventLoop, awaitable: Awaitable[T]) -> T:
    outcome = asyncio.run_coroutine_threadsafe(_await(awaitable), loop).result()
    if isinstance(outcome, _Interrupted):
        raise outcome.error
    return outcome


async def _cancel_others() -> None:
    """Cancel all other tasks in this loop, so that no thread waits forever for their results."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class CallerLoop:
    """Runs awaitables in a loop that is already running in another thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop

    def run(self, awaitable: Awaitable[T]) -> T:
        """Wait for the awaitable and return its result."""
        return _run_in(self.loop, awaitable)


class OwnLoop:
    """Runs awaitables in a new loop, in a thread that is started on first use."""

    def __init__(self) -> None:
        self._lock = process_lock()
        self._started_in = os.getpid()
        self._inherited: list[object] = []  # a discarded loop would warn that it is not closed
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, awaitable: Awaitable[T]) -> T:
        """Wait for the awaitable and return its result."""
        with self._lock:
            self._forget_inherited_loop()
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="e2graphrag-loop", daemon=True
                )
                self._thread.start()
        return _run_in(self._loop, awaitable)

    def close(self) -> None:
        """Stop the loop and its thread. The next call of `run` starts new ones."""
        with self._lock:
            self._forget_inherited_loop()
            if self._loop is None or self._thread is None:
                return
            asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._loop = self._thread = None

    def _forget_inherited_loop(self) -> None:
        """After a fork, drop the parent's loop: its thread exists only in the parent."""
        if self._started_in != os.getpid():
            self._started_in = os.getpid()
            self._inherited.append(self._loop)
            self._loop = self._thread = None


async def run_in_thread(work: Callable[[], T], stop: Callable[[], None]) -> T:
    """Run `work` in a thread. If cancelled, call `stop` and wait until `work` returns."""
    # The loop's default thread pool could deadlock: all its threads may wait for the write lock,
    # while the model call of the thread that has the lock needs one of them.
    threads = ContextThreads(1, "e2graphrag-write")
    task = asyncio.wrap_future(threads.submit(work))
    threads.shutdown(wait=False)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stop()
        await asyncio.wait([task])
        task.exception()  # otherwise asyncio logs that the exception was never retrieved
        raise


_TORCH_LIBRARIES = ("libtorch_cpu.so", "libtorch_cpu.dylib", "torch_cpu.dll")


@cache
def _openmp_libraries() -> Any:
    """Return the OpenMP libraries of this process, with PyTorch; finding them takes milliseconds.

    None if threadpoolctl is missing, which is installed with sentence-transformers.
    """
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController().select(user_api="openmp")


class SingleThread:
    """Runs PyTorch on the CPU in one thread while its context is active.

    With several threads, embedding one short text on a busy machine mostly waits for threads that
    the operating system has not scheduled. The numbers of OpenMP and MKL threads belong to each
    thread, so the limit does not affect other threads, and the previous numbers are restored at the
    end. `torch.set_num_threads` would change the number for threads that start later.
    """

    @lazy
    def _set_mkl(self) -> Callable[[int], int]:
        """Set the number of MKL threads of this thread, and return the previous one.

        The number 0 means that of the process, which `torch.set_num_threads` sets. It applies to
        matrix products even if OpenMP has only one thread. PyTorch contains MKL, which
        threadpoolctl therefore does not find.
        """
        folder = Path(sys.modules["torch"].__file__ or "").parent / "lib"
        for name in _TORCH_LIBRARIES:
            try:
                function = ctypes.CDLL(str(folder / name)).MKL_Set_Num_Threads_Local
            except (OSError, AttributeError):  # another system, or PyTorch without MKL
                continue
            function.argtypes, function.restype = [ctypes.c_int], ctypes.c_int
            return lambda number: int(function(number))
        return lambda _: 0

    @contextmanager
    def active(self) -> Iterator[None]:
        """Run the `with` body in one thread, if PyTorch is loaded."""
        torch = sys.modules.get("torch")
        openmp = None if torch is None else _openmp_libraries()
        if torch is None or openmp is None:
            yield
            return
        # The first parallel call in a thread sets its number of threads and would undo the limit.
        torch.get_num_threads()
        previous = self._set_mkl(1)
        try:
            with openmp.limit(limits=1):
                yield
        finally:
            self._set_mkl(previous)


def release_free_memory() -> None:
    """Return free memory to the operating system, if the C library is glibc.

    For every thread that allocates, glibc keeps a heap of its own, and reuses little of it after
    the thread has built large arrays.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


class BoundedCache(Generic[K, T]):
    """Remembers the most recently used values of keys; safe for concurrent use by threads.

    Unlike `functools.lru_cache`, it does not refer to the object that computes the values, so it
    creates no reference cycle.

    Args:
        size: Maximum number of values.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = process_lock()
        self._values: OrderedDict[K, T] = OrderedDict()

    def get(self, key: K, compute: Callable[[K], T]) -> T:
        """Return the value of a key, computing it if it is not remembered."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = compute(key)  # not under the lock: models take long
        with self._lock:
            self._values[key] = value
            while len(self._values) > self._size:
                self._values.popitem(last=False)
        return value

    def clear(self) -> None:
        """Forget all values."""
        with self._lock:
            self._values.clear()


class CachedMethod(Generic[*Ts, T]):
    """A method whose values each instance remembers; see `cached_method`."""

    def __init__(self, compute: Callable[[Any, Unpack[Ts]], T], size: int) -> None:
        self._compute = compute
        self._size = size
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> CachedMethod[*Ts, T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Callable[[Unpack[Ts]], T]: ...

    def __get__(
        self, instance: object | None, owner: type
    ) -> Callable[[Unpack[Ts]], T] | CachedMethod[*Ts, T]:
        """Return the method of an instance, which looks into the cache of that instance."""
        if instance is None:
            return self
        reference = ref(instance)

        def compute(*arguments: *Ts) -> T:
            owner = reference()
            if owner is None:
                raise ReferenceError(f"the object of {self._name} no longer exists")
            return self._compute(owner, *arguments)

        # Found before this descriptor from now on: calls take no detour through Python.
        method: Callable[[Unpack[Ts]], T]
        method = instance.__dict__.setdefault(self._name, lru_cache(self._size)(compute))
        return method


def cached_method(
    size: int,
) -> Callable[[Callable[[Decorated, Unpack[Ts]], T]], CachedMethod[*Ts, T]]:
    """Decorate a method so that each instance remembers its most recently used values.

    The values live and die with the instance. `functools.lru_cache` on a method would either keep
    all instances alive, or create a reference cycle, which the garbage collector breaks late.

    Args:
        size: Maximum number of values of an instance.
    """

    def decorate(compute: Callable[[Decorated, Unpack[Ts]], T]) -> CachedMethod[*Ts, T]:
        return CachedMethod(compute, size)

    return decorate
