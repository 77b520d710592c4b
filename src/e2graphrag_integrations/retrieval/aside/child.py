"""The process that prepares snapshots aside; see `retrieval/aside/process.py`.

It reads one JSON value per line: where the index is, and then a value per request. It answers each
request with a line: `generation` and `large`, the generation of the large segment, and `folder` if
the snapshot was handed over; or `error`.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import threading
from collections.abc import Callable
from typing import Any

from e2graphrag_integrations.errors import E2GraphRAGError, IndexGoneError
from e2graphrag_integrations.options import FreshnessPolicy
from e2graphrag_integrations.retrieval.generations import GenerationKeeper
from e2graphrag_integrations.snapshot.files import load_or_build_snapshot, vector_kind
from e2graphrag_integrations.snapshot.handover import hand_over
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.store.store import Store

_NICENESS = 10
"""How far the process steps back behind those that answer questions. With equal priority, p95 of
questions beside it was 2.1 to 2.8 times that at rest on two busy cores (docs/freshness.md)."""

_IDLE_SECONDS = 60.0
"""Seconds without a request after which the process ends, so that it needs no memory."""

_BLOCK = 1 << 16
_STDIN, _STDOUT = 0, 1


def main() -> None:
    """Answer requests until the input ends, or until there were none for a minute."""
    with contextlib.suppress(OSError, AttributeError):  # Windows has no such priorities
        os.nice(_NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the program that asks
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read_lines, args=(lines.put,), daemon=True).start()
    where = json.loads(lines.get())

    def answer(value: dict[str, Any]) -> None:
        os.write(_STDOUT, json.dumps(value).encode() + b"\n")

    serve(where["path"], where["kind"], lambda: lines.get(timeout=_IDLE_SECONDS), answer)


def serve(
    path: str, kind: str, next_line: Callable[[], bytes], answer: Callable[[dict[str, Any]], None]
) -> None:
    """Answer the requests for the newest snapshot of an index.

    Args:
        path: The index file.
        kind: Name of the kind of the vectors.
        next_line: Returns the next request; no bytes, or an exception `queue.Empty`, is the end.
        answer: Gets the answer to each request.
    """
    of_kind = vector_kind(kind)

    def build(store: Store, older: Snapshot | None) -> tuple[Snapshot, Snapshot]:
        built = load_or_build_snapshot(store, older, kind=of_kind)
        return built, built

    store = Store(path, before_creation=lambda: _refuse(path))
    keeper = GenerationKeeper(store, build, FreshnessPolicy())
    try:
        with contextlib.suppress(queue.Empty):
            while next_line():
                answer(_prepared(keeper, store))
    finally:
        keeper.close()
        store.close(merge_log=False)


def _prepared(keeper: GenerationKeeper, store: Store) -> dict[str, Any]:
    """Prepare the newest snapshot, and return where it is."""
    try:
        snapshot = keeper.newest().base
        folder = None
        if store.snapshot_folder is not None:
            folder = hand_over(snapshot, store.snapshot_folder / snapshot.kind.name)
    except (E2GraphRAGError, OSError, MemoryError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    segments = snapshot.segments
    return {
        "generation": snapshot.generation,
        "large": None if segments is None else segments.generations[0],
        "folder": None if folder is None else str(folder),
    }


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
