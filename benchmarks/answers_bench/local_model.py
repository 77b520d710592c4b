"""A very small model on this machine, served on the loopback interface."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quality_bench.corpora import CACHE

MODEL = "SmolLM2-135M-Instruct.Q4_1"

_SCRIPT = Path(__file__).with_name("small_model.py")

_TERMINATED = 128 + signal.SIGTERM
"""The exit code of a terminated process."""

_PATIENCE = 60
"""Seconds in which the server must start, and stop."""


@contextmanager
def local_model(python: Path, threads: int) -> Iterator[str]:
    """Run the server on a free port and yield its base URL; stop it at the end.

    Args:
        python: Interpreter of an environment with the dependency group `answers`.
        threads: Threads of the server.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = {"folder": CACHE, "name": MODEL, "port": port, "threads": threads}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    log = CACHE / "small_model.log"
    with log.open("wb") as output:
        process = subprocess.Popen([python, _SCRIPT, *words], stdout=output, stderr=output)
    base = f"http://127.0.0.1:{port}/v1"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))  # so that the server stops too
    try:
        _wait(process, f"{base}/models", log)
        yield base
    finally:
        process.terminate()
        try:
            process.wait(_PATIENCE)  # it finishes the answer that it is writing
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit(f"the model's server ended with code {process.returncode}: see {log}")
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310 - our own server
                return
        except OSError:
            time.sleep(0.25)
    raise SystemExit(f"the model's server did not start in {_PATIENCE} seconds: see {log}")
