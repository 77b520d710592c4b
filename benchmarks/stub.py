"""The stub of an OpenAI server on the loopback: started for a benchmark, stopped by its pid."""

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
def stub_server(script: Path, latency_ms: float = 0) -> Iterator[str]:
    """Run the server on a free port; yield its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, str(script), "--port", str(port), "--latency-ms", str(latency_ms)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    base = f"http://127.0.0.1:{port}"
    try:
        for _ in range(240):
            if process.poll() is not None:
                raise SystemExit(f"{script} ended with {process.returncode}")
            try:
                served(base)
                break
            except OSError:
                time.sleep(0.25)
        yield base
    finally:
        process.terminate()
        process.wait()


def served(base: str) -> dict[str, Any]:
    """Return what the server has counted."""
    with urllib.request.urlopen(f"{base}/stats", timeout=10) as reply:  # noqa: S310 - loopback
        return json.load(reply)
