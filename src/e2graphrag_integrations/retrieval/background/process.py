"""Asks a process of its own for the next snapshot, so that questions wait for no preparation.

Merging the arrays of a large index takes hundreds of milliseconds of a processor, in a thread of
the program that answers questions. In a process with a low priority, they cost questions little.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from e2graphrag_integrations._utils.concurrency import process_lock
from e2graphrag_integrations._utils.files import discard_folder
from e2graphrag_integrations.search.dense import FLOAT32, VectorKind
from e2graphrag_integrations.snapshot.array_files import unused_name
from e2graphrag_integrations.snapshot.files import load_segment, load_snapshot
from e2graphrag_integrations.snapshot.handover import (
    RULES,
    LargeSegment,
    take_over,
)
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.store.store import Store

logger = logging.getLogger(__name__)

_START = (
    "import sys; sys.path[:] = sys.argv[1:]; "
    "from e2graphrag_integrations.retrieval.background.child import main; main()"
)
"""Not `multiprocessing`, which would import the main module of the program again."""

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

_MAX_SECONDS = 900.0
"""Seconds after which a process that does not answer is ended."""

_RETRY_SECONDS, _MAX_RETRY_SECONDS = 1.0, 600.0
"""Delay until the process is asked again after a failure; it doubles with every further one."""

_STOP_SECONDS = 2.0


class PreparingProcess:
    """Prepares the snapshots of an index in another process, which starts with the first one.

    Safe for use by one thread at a time, and `close` by any.

    Args:
        file: The index file.
        kind: The kind of the vectors.
    """

    def __init__(self, file: Path, *, kind: VectorKind = FLOAT32) -> None:
        self._file = file
        self._kind = kind
        self._lock = process_lock()  # guards the start and the end of the process
        self._process: subprocess.Popen[bytes] | None = None
        self._started_in = os.getpid()
        self._finish: weakref.finalize[..., PreparingProcess] | None = None
        self._is_closed = False
        self._failures = 0
        self._retry_at = -math.inf
        self._taken_over: list[Path] = []  # folders that may still be mapped

    def suits(self, older: Snapshot) -> bool:
        """Return whether to ask the process for what follows a snapshot."""
        is_time = time.monotonic() >= self._retry_at
        return is_time and _is_python() and LargeSegment.of(older) is not None

    def prepare(self, store: Store, older: Snapshot, pause: Callable[[], None]) -> Snapshot | None:
        """Return the newest snapshot; None if this process must prepare it.

        Args:
            store: The store.
            older: The last snapshot.
            pause: Called between steps.
        """
        if store.snapshot_folder is None:
            return None
        folder = unused_name(store.snapshot_folder / self._kind.name)
        problem = "its files are missing, damaged or of another version"
        self._taken_over.append(folder)
        try:
            snapshot = self._taken(self._ask(folder), folder, store, older, pause)
        except (OSError, ValueError, KeyError, TypeError) as error:
            problem, snapshot = f"{type(error).__name__}: {error}", None
            self._stop()
        finally:
            self._discard()
        if snapshot is not None:
            self._failures = 0
            return snapshot
        delay = min(_RETRY_SECONDS * 2**self._failures, _MAX_RETRY_SECONDS)
        self._failures, self._retry_at = self._failures + 1, time.monotonic() + delay
        if not self._is_closed:
            logger.info("%s: prepared here, not in another process: %s", self._file, problem)
        return None

    @property
    def is_running(self) -> bool:
        """Whether the process is running, which also merges segments."""
        process = self._process
        return process is not None and self._is_own and process.poll() is None

    @property
    def pid(self) -> int | None:
        """The id of the process; None if it is not running."""
        process = self._process
        return process.pid if process is not None and self.is_running else None

    def close(self) -> None:
        """End the process, and delete what was taken over and is no longer used."""
        self._is_closed = True
        self._stop()
        self._discard()

    @property
    def _is_own(self) -> bool:
        return self._started_in == os.getpid()

    def _taken(
        self,
        answer: dict[str, Any],
        folder: Path,
        store: Store,
        older: Snapshot,
        pause: Callable[[], None],
    ) -> Snapshot | None:
        if "error" in answer:
            raise OSError(answer["error"])
        if not answer["handed"]:
            return load_snapshot(store, answer["generation"], pause, kind=self._kind)
        own = LargeSegment.of(older)
        if own is None or own.generation != answer["large"]:
            segment = load_segment(store, answer["large"], pause, kind=self._kind)
            own = None if segment is None else LargeSegment.of(segment)
        return None if own is None else take_over(folder, own, pause)

    def _discard(self) -> None:
        """Delete the folders that were taken over; Windows deletes none that is still mapped."""
        self._taken_over = [one for one in self._taken_over if not discard_folder(one)]

    def _ask(self, folder: Path) -> dict[str, Any]:
        """Return the answer to the request for a snapshot in a folder.

        Raises:
            OSError: If the process cannot be started, or ends before it answers.
            ValueError: If the answer is not JSON.
        """
        process = self._running()
        timer = threading.Timer(_MAX_SECONDS, process.kill)
        timer.daemon = True
        timer.start()
        try:
            _send(process, str(folder))
            line = _pipes(process)[1].readline()
        finally:
            timer.cancel()
        if not line:
            raise OSError("the process ended before it answered")
        found: dict[str, Any] = json.loads(line)
        return found

    def _running(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._is_closed:
                raise OSError("the index is closed")
            if self._process is not None and self.is_running:
                return self._process
            self._end_last()
            paths = [path for path in sys.path if isinstance(path, str)]
            process = subprocess.Popen(  # noqa: S603 - this interpreter, with a constant program
                # -P, because the folder that the program runs in may contain modules.
                [sys.executable, "-P", "-c", _START, *paths],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **_ONE_THREAD},
                creationflags=getattr(subprocess, "BELOW_NORMAL_PRIORITY_CLASS", 0),  # Windows
            )
            self._process, self._started_in = process, os.getpid()
            self._finish = weakref.finalize(self, _end, process, os.getpid())
            path = str(self._file.absolute())
            _send(process, {"path": path, "kind": self._kind.name, "rules": RULES})
            return process

    def _stop(self) -> None:
        with self._lock:
            self._end_last()

    def _end_last(self) -> None:
        """End the last process, which may have ended itself; not in a fork of its program."""
        if self._finish is not None:
            self._finish()
        self._process = self._finish = None


def _is_python() -> bool:
    """Return whether the interpreter can be started again.

    A frozen program, or a server such as uWSGI, gives itself as `sys.executable`.
    """
    name = Path(sys.executable or "").name.lower()
    return name.startswith(("python", "pypy")) and not getattr(sys, "frozen", False)


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    if process.stdin is None or process.stdout is None:
        raise OSError("the process has no pipes")
    return process.stdin, process.stdout


def _send(process: subprocess.Popen[bytes], value: object) -> None:
    _pipes(process)[0].write(json.dumps(value).encode() + b"\n")


def _end(process: subprocess.Popen[bytes], started_in: int) -> None:
    """Ask a process to end by closing its input, and kill it if it does not.

    A fork of the program that started it does nothing.
    """
    if os.getpid() != started_in:
        return
    requests, answers = _pipes(process)
    with contextlib.suppress(OSError):
        requests.close()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    with contextlib.suppress(OSError):
        answers.close()
