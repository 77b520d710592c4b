"""Parts that all adapters share: the job, the timing, and the counters of the stub server.

This module runs in each peer's environment, so it uses only the standard library.
"""

from __future__ import annotations

import json
import logging
import resource
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

COUNTED = (
    *("llm_calls", "prompt_tokens", "completion_tokens"),
    *("embed_calls", "embed_texts", "embed_seconds"),
)
DIMENSION = 384
"""Dimension of the stub's vectors (all-MiniLM-L6-v2)."""

TIMEOUT = 600
"""Seconds per request: one core computes all vectors, and retries would double its work."""


@dataclass(frozen=True)
class Job:
    """Documents to index and questions to ask.

    Attributes:
        base: URL of the stub server.
        folder: Folder for the peer's index.
        texts: Texts of the documents by id.
        questions: Questions for every mode. The first one is a warm-up and does not count.
        modes: Retrieval modes, as the peer names them.
    """

    base: str
    folder: Path
    texts: dict[str, str]
    questions: list[str]
    modes: list[str]

    @property
    def api(self) -> str:
        """The base URL for an OpenAI client."""
        return f"{self.base}/v1"


class Peer(Protocol):
    """Builds an index and retrieves from it, without the answering LLM."""

    package: str
    settings: dict[str, Any]

    def index(self) -> None: ...

    def ask(self, question: str, mode: str) -> Sequence[str]:
        """Return the retrieved passages, best first."""


def run(new: Callable[[Job], Peer]) -> None:
    """Run the job in the file `sys.argv[1]` and write the measurements to `sys.argv[2]`."""
    values = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    job = Job(**values | {"folder": Path(values["folder"])})
    logging.disable(logging.INFO)  # some peers log every request, which costs query time
    peer = new(job)
    _, index = _measure(job.base, peer.index)
    modes = {}
    for mode in job.modes:
        warm_up, *questions = job.questions
        peer.ask(warm_up, mode)
        modes[mode] = [_measure_question(peer, job.base, question, mode) for question in questions]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    result = {
        "version": f"{peer.package} {version(peer.package)}",
        "settings": peer.settings,
        "index": index,
        "peak_mb": round(peak),
        "modes": modes,
    }
    Path(sys.argv[2]).write_text(json.dumps(result), encoding="utf-8")


def _measure_question(peer: Peer, base: str, question: str, mode: str) -> dict[str, Any]:
    passages, counts = _measure(base, lambda: peer.ask(question, mode))
    return counts | {"passages": list(passages)}


def _measure(base: str, work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    before = _server_stats(base)
    began = time.perf_counter()
    value = work()
    seconds = time.perf_counter() - began
    after = _server_stats(base)
    return value, {"seconds": seconds} | {name: after[name] - before[name] for name in COUNTED}


def _server_stats(base: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{base}/stats", timeout=60) as reply:  # noqa: S310 - loopback
        stats: dict[str, Any] = json.load(reply)
        return stats
