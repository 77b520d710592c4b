"""Jobs of the server, seen by a client."""

from __future__ import annotations

import time
from typing import Any


def finished(client: Any, answer: Any) -> dict[str, Any]:
    """Wait for the job that an answer names, and return it."""
    assert answer.status_code == 202, answer.text
    path = f"/jobs/{answer.json()['job_id']}"
    for _ in range(2_000):
        job: dict[str, Any] = client.get(path).json()
        if job["state"] in ("done", "failed", "stopped"):
            return job
        time.sleep(0.005)
    raise AssertionError(job)
