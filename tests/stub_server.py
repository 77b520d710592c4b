"""Starts and stops the fake OpenAI server of ../shared and reads its counters."""

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

import pytest

from light_stub import SCRIPT

LIGHT_STUB = Path(__file__).with_name("light_stub.py")


@contextmanager
def running_stub(summary_tokens: int) -> Iterator[str]:
    """Run the server on a free loopback port; yield its URL."""
    if not SCRIPT.exists():
        pytest.skip(f"{SCRIPT} is missing")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--port", str(port), "--summary-tokens", str(summary_tokens)]
    process = subprocess.Popen(
        [sys.executable, str(LIGHT_STUB), *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            if process.poll() is not None:
                pytest.fail(f"{SCRIPT} ended with {process.returncode}")
            try:
                stub_stats(url)
                break
            except OSError:
                time.sleep(0.1)
        else:
            pytest.fail(f"{SCRIPT} does not answer")
        yield url
    finally:
        process.terminate()
        process.wait(timeout=30)


def stub_stats(url: str) -> dict[str, Any]:
    """Return the counters of the server."""
    with urllib.request.urlopen(f"{url}/stats", timeout=5) as reply:  # noqa: S310 - our own server
        return json.load(reply)


def llm_calls(url: str) -> int:
    """Return the number of completions that the server returned."""
    return int(stub_stats(url)["llm_calls"])
