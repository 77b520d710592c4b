"""What benchmarks have in common: who ran what, how long something took."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def this_run() -> dict[str, str]:
    """Return the command that is running, and on what."""
    python = f"Python {platform.python_version()}"
    return {
        "command": " ".join(["python", *sys.argv]),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {python}",
    }


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what work returns, and the seconds it took."""
    began = time.perf_counter()
    value = work()
    return value, time.perf_counter() - began


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return the 50th and the 95th percentile in milliseconds."""
    return {f"p{q}": round(1000 * float(np.quantile(seconds, q / 100)), 3) for q in (50, 95)}
