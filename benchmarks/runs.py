"""Helpers of benchmarks: arguments, timing, memory, result files, child processes."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
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


def parser_of(description: str, *required: str, data: bool = True) -> argparse.ArgumentParser:
    """Return a parser of `--data`, the folder of the data sets, and `--out`, the result file.

    Args:
        description: The docstring of the script; its first line is shown.
        required: Which of `data` and `out` must be given.
        data: Whether the script reads data sets.
    """
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    options = {"data": "folder of the data sets"} if data else {}
    for name, text in (options | {"out": "JSON file of the results"}).items():
        parser.add_argument(f"--{name}", type=Path, required=name in required, help=text)
    return parser


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


def memory(process: int | str = "self") -> dict[str, int]:
    """Return the resident, anonymous and peak memory of a process in MiB."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    lines = (line.split() for line in status.splitlines() if line.endswith(" kB"))
    mib = {line[0].rstrip(":"): int(line[1]) >> 10 for line in lines}
    return {"resident": mib["VmRSS"], "anonymous": mib["RssAnon"], "peak": mib["VmHWM"]}


def output_of(script: str, *arguments: object, threads: int | None = None) -> Any:
    """Run a script in a process of its own, and return the JSON that it prints.

    Args:
        script: The `__file__` of the script.
        arguments: Its arguments.
        threads: Threads of each numerical library; None leaves the environment as it is.
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    if threads is not None:
        environment["OMP_NUM_THREADS"] = str(threads)
    words = [str(one) for one in arguments]
    done = subprocess.run(
        [sys.executable, script, *words],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        env=environment,
    )
    if done.returncode:
        raise SystemExit(f"{script} {' '.join(words)} failed")
    return json.loads(done.stdout)


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


def forked(task: Callable[[], object]) -> int:
    """Run a task in a forked process, and return the id of the process.

    It exits with 0, or prints the error and exits with 1.
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
    return pid


def run_child(task: Callable[[], object], kill_after: float | None) -> tuple[bool, float]:
    """Run a task in a forked process and kill it after `kill_after` seconds.

    Returns:
        Whether the task finished, and its seconds.
    """
    pid = forked(task)
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
