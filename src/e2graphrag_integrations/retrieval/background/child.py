"""The process that prepares snapshots; see `retrieval/background/process.py`.

It reads one JSON value per line: where the index is, and then requests. A request is the folder to
hand a snapshot over in. Each answer is a line, too: `generation`, `large`, the generation of the
large segment, and whether the snapshot was `handed`; or `error`, after which the process ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from e2graphrag_integrations.errors import IndexGoneError
from e2graphrag_integrations.options import FreshnessPolicy
from e2graphrag_integrations.retrieval.generations import GenerationKeeper
from e2graphrag_integrations.snapshot.files import load_or_build_snapshot, vector_kind
from e2graphrag_integrations.snapshot.handover import RULES, hand_over
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.store.store import Store

_NICENESS = 10
"""By how much the priority is below that of the processes that answer questions. With the same
priority, questions on a machine without a free core would be slower than with a thread."""

_IDLE_SECONDS = 60.0
"""Seconds without a request after which the process ends, so that it needs no memory."""

_BLOCK = 1 << 16
_STDIN, _STDOUT, _STDERR = 0, 1, 2


def main() -> None:
    """Answer requests until the input ends, or until there were none for a minute."""
    if sys.platform != "win32":  # where the program chose a priority class
        with contextlib.suppress(OSError):
            os.nice(_NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the program that asks
    answers = os.dup(_STDOUT)
    os.dup2(_STDERR, _STDOUT)  # a library may print something
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read_lines, args=(lines.put,), daemon=True).start()

    def answer(value: dict[str, Any]) -> None:
        os.write(answers, json.dumps(value).encode() + b"\n")

    try:
        where = json.loads(lines.get())
        _check_rules(where["rules"])
        serve(where["path"], where["kind"], lambda: lines.get(timeout=_IDLE_SECONDS), answer)
    except Exception as error:  # noqa: BLE001 - the program that asks reports it
        answer({"error": f"{type(error).__name__}: {error}"})


def serve(
    path: str, kind: str, next_line: Callable[[], bytes], answer: Callable[[dict[str, Any]], None]
) -> None:
    """Answer the requests for the newest snapshot of an index.

    Args:
        path: The index file.
        kind: Name of the kind of the vectors.
        next_line: Returns the next request; no bytes, or an exception `queue.Empty`, is the end.
        answer: Gets the answer to each request.

    Raises:
        E2GraphRAGError: If the index cannot be read.
        OSError: If the snapshot cannot be written.
    """
    of_kind = vector_kind(kind)

    def build(store: Store, older: Snapshot | None) -> tuple[Snapshot, Snapshot]:
        built = load_or_build_snapshot(store, older, kind=of_kind)
        return built, built

    store = Store(path, before_creation=lambda: _refuse(path))
    keeper = GenerationKeeper(store, build, FreshnessPolicy())
    try:
        while line := _next_line(next_line, keeper):
            folder = Path(json.loads(line))
            found = _prepared(keeper, folder)
            if found is None:  # another process may have merged the segments: read its files
                keeper.close()
                keeper = GenerationKeeper(store, build, FreshnessPolicy())
                found = _prepared(keeper, folder)
            if found is None:
                raise RuntimeError("the state could not be saved")
            answer(found)
    finally:
        keeper.close()
        store.close(merge_log=False)


def _next_line(next_line: Callable[[], bytes], keeper: GenerationKeeper) -> bytes:
    """Return the next request; no bytes if there is none, and no merge that must be finished."""
    while True:
        try:
            return next_line()
        except queue.Empty:
            if not keeper.is_merging:
                return b""


def _prepared(keeper: GenerationKeeper, folder: Path) -> dict[str, Any] | None:
    """Prepare the newest snapshot, and return where it is; None if it could not be saved."""
    snapshot = keeper.newest().base
    segments = snapshot.segments
    if segments is None:  # another process has deleted its segments, or the disk is full
        return None
    is_handed = hand_over(snapshot, folder)
    large = segments.generations[0]
    return {"generation": snapshot.generation, "large": large, "handed": is_handed}


def _check_rules(rules: object) -> None:
    if rules != RULES:
        raise RuntimeError("the installed package is not that of the running program")


def _refuse(path: str) -> None:
    raise IndexGoneError(f"{path} was deleted or moved")


def _read_lines(put: Callable[[bytes], None]) -> None:
    """Pass on the lines of the standard input, and no bytes at its end.

    Unlike a buffered reader, `os.read` does not hinder the end of the interpreter.
    """
    rest = b""
    while block := os.read(_STDIN, _BLOCK):
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            put(line)
    put(b"")
