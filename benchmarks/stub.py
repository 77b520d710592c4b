"""Start and stop the stub of an OpenAI server on the loopback interface."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def stub_server(script: Path, latency_ms: float = 0, wrapper: Path | None = None) -> Iterator[str]:
    """Run the server on a free port and yield its base URL.

    Args:
        script: The stub.
        latency_ms: Latency of each call of the LLM.
        wrapper: A script that changes the stub and runs it.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    scripts = [str(one) for one in (wrapper, script) if one]
    command = [sys.executable, *scripts, "--port", str(port), "--latency-ms", str(latency_ms)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    base = f"http://127.0.0.1:{port}"
    try:
        for _ in range(240):
            if process.poll() is not None:
                raise SystemExit(f"{script} exited with code {process.returncode}")
            try:
                server_stats(base)
                break
            except OSError:
                time.sleep(0.25)
        yield base
    finally:
        process.terminate()
        process.wait()


def server_stats(base: str) -> dict[str, Any]:
    """Return the server's counters of calls and tokens."""
    with urllib.request.urlopen(f"{base}/stats", timeout=10) as reply:  # noqa: S310 - loopback
        return json.load(reply)
