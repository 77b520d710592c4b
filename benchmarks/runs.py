"""Helpers of benchmarks: the command and the machine, timing, result files, child processes."""

from __future__ import annotations

import json
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:  # other packages are measured without this one
    from e2graphrag_integrations import E2GraphRAG
    from e2graphrag_integrations.snapshot.snapshot import Snapshot


def this_run() -> dict[str, str]:
    """Return the running command and a description of the machine."""
    python = f"Python {platform.python_version()}"
    return {
        "command": " ".join(["python", *sys.argv]),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {python}",
    }


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return the value of `work()` and its duration in seconds."""
    began = time.perf_counter()
    value = work()
    return value, time.perf_counter() - began


def answer_from(rag: E2GraphRAG, snapshot: Snapshot) -> None:
    """Answer questions from a changed copy of the newest snapshot."""
    kept = rag._session._generations  # noqa: SLF001 - no user needs this
    kept._last = replace(kept.current().generation, snapshot=snapshot)  # noqa: SLF001 - see above


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return the 50th and the 95th percentile in milliseconds."""
    return {f"p{q}": round(1000 * float(np.quantile(seconds, q / 100)), 3) for q in (50, 95)}


def write_result(result: Mapping[str, Any], out: Path | None) -> None:
    """Print the result as JSON, and write it to `out` if that is given."""
    text = json.dumps(result, indent=2, ensure_ascii=False)
    print(text)
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text + "\n", encoding="utf-8")


def run_child(task: Callable[[], None], kill_after: float | None) -> tuple[bool, float]:
    """Run a task in a forked process and kill it after `kill_after` seconds.

    Returns:
        Whether the task finished, and its seconds.
    """
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            task()
            code = 0
        except BaseException as error:  # noqa: BLE001 - printed, then the process exits
            print(f"child: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    began = time.perf_counter()
    while True:
        exited, status = os.waitpid(pid, os.WNOHANG)
        seconds = time.perf_counter() - began
        if exited:
            if status:
                raise SystemExit(f"the child process failed with status {status}")
            return True, seconds
        if kill_after is not None and seconds >= kill_after:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return False, seconds
        time.sleep(0.002)
