"""Helpers that every benchmark uses: its command and machine, timing, and its result file."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


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


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return the 50th and the 95th percentile in milliseconds."""
    return {f"p{q}": round(1000 * float(np.quantile(seconds, q / 100)), 3) for q in (50, 95)}


def write_result(result: Mapping[str, Any], out: Path | None) -> None:
    """Print the result as JSON, and write it to `out` if that is given."""
    text = json.dumps(result, indent=2)
    print(text)
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text + "\n", encoding="utf-8")
