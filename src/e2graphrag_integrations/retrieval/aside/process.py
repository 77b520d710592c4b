"""Asks a process of its own for the next snapshot, so that questions wait for no preparation.

Merging the arrays of a large index takes hundreds of milliseconds of a processor, in a thread of
the program that answers questions. In a process with a low priority, they cost questions little.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from e2graphrag_integrations._utils.concurrency import process_lock
from e2graphrag_integrations._utils.files import discard_folder
from e2graphrag_integrations.search.dense import FLOAT32, VectorKind
from e2graphrag_integrations.snapshot.files import load_segment, load_snapshot
from e2graphrag_integrations.snapshot.handover import LargeSegment, take_over
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.store.store import Store

logger = logging.getLogger(__name__)

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from e2graphrag_integrations.retrieval.aside.child import main; main()"
)
"""Not `multiprocessing`, which would import the main module of the program again."""

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

_MAX_SECONDS = 900.0
"""Seconds after which a process that does not answer is ended."""

_MAX_FAILURES = 3
"""Number of consecutive failures after which snapshots are prepared in this process."""

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
        self._lock = process_lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._started_in = os.getpid()
        self._failures = 0
        self._is_closed = False
        self._taken_over: list[Path] = []  # folders that are still mapped

    def suits(self, older: Snapshot) -> bool:
        """Return whether to ask the process for what follows a snapshot."""
        can_start = bool(sys.executable) and self._failures < _MAX_FAILURES
        return can_start and LargeSegment.of(older) is not None

    def prepare(self, store: Store, older: Snapshot, pause: Callable[[], None]) -> Snapshot | None:
        """Return the newest snapshot; None if this process must prepare it.

        Args:
            store: The store.
            older: The last snapshot.
            pause: Called between steps.
        """
        try:
            answer = self._ask()
            snapshot = None if "error" in answer else self._taken(answer, store, older, pause)
        except (OSError, ValueError, KeyError, TypeError) as error:
            answer, snapshot = {"error": f"{type(error).__name__}: {error}"}, None
            self._stop()
        self._failures = self._failures + 1 if snapshot is None else 0
        if snapshot is None and not self._is_closed:
            problem = answer.get("error", "its files are missing or damaged")
            logger.info("%s: prepared here, not in another process: %s", self._file, problem)
        return snapshot

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
        self, answer: dict[str, Any], store: Store, older: Snapshot, pause: Callable[[], None]
    ) -> Snapshot | None:
        generation, large, folder = answer["generation"], answer["large"], answer["folder"]
        if folder is None:
            return load_snapshot(store, generation, pause, kind=self._kind)
        own = LargeSegment.of(older)
        if own is None or own.generation != large:
            segment = load_segment(store, large, pause, kind=self._kind)
            own = None if segment is None else LargeSegment.of(segment)
        self._taken_over.append(Path(folder))
        try:
            return None if own is None else take_over(Path(folder), own, pause)
        finally:
            self._discard()

    def _discard(self) -> None:
        """Delete the folders that were taken over; Windows deletes none that is still mapped."""
        self._taken_over = [one for one in self._taken_over if not discard_folder(one)]

    def _ask(self) -> dict[str, Any]:
        """Return the answer to a request.

        Raises:
            OSError: If the process cannot be started, or ends before it answers.
            ValueError: If the answer is not JSON.
        """
        process = self._running()
        requests, answers = _pipes(process)
        timer = threading.Timer(_MAX_SECONDS, process.kill)
        timer.daemon = True
        timer.start()
        try:
            requests.write(b"next\n")
            requests.flush()
            line = answers.readline()
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
            if self._process is not None and self._is_own:
                _end(self._process)
            process = subprocess.Popen(  # noqa: S603 - this interpreter, with a constant program
                [sys.executable, "-c", _START, json.dumps(sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **_ONE_THREAD},
            )
            self._process, self._started_in = process, os.getpid()
            weakref.finalize(self, _end, process)
            requests, _ = _pipes(process)
            where = {"path": str(self._file.absolute()), "kind": self._kind.name}
            requests.write(json.dumps(where).encode() + b"\n")
            requests.flush()
            return process

    def _stop(self) -> None:
        process = self._process
        if process is not None and self._is_own:
            _end(process)


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    if process.stdin is None or process.stdout is None:
        raise OSError("the process has no pipes")
    return process.stdin, process.stdout


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to end by closing its input, and kill it if it does not."""
    for pipe in _pipes(process)[:1]:
        with contextlib.suppress(OSError, ValueError):
            pipe.close()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    with contextlib.suppress(OSError, ValueError):
        _pipes(process)[1].close()
