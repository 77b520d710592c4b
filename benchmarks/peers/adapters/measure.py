"""What every adapter shares: the job it is given, the clock, the counts of the stub server.

Runs inside each peer's own environment, so it needs the standard library alone.
"""

from __future__ import annotations

import json
import logging
import resource
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

COUNTED = (
    *("llm_calls", "prompt_tokens", "completion_tokens"),
    *("embed_calls", "embed_texts", "embed_seconds"),
)
DIMENSION = 384
"""Of the vectors that the stub serves: all-MiniLM-L6-v2."""
PATIENCE = 600
"""Seconds a request may take: all vectors come from one core, and a retry would double its work."""


@dataclass(frozen=True)
class Job:
    """What to index and to ask.

    Attributes:
        base: Address of the stub server.
        folder: Where the peer may keep its index.
        texts: Of the documents, by id.
        titles: Of those that have one, by id.
        questions: Asked in every mode; the first warms up and is not counted.
        modes: Ways of retrieving, in the peer's own words.
    """

    base: str
    folder: Path
    texts: dict[str, str]
    questions: list[str]
    modes: list[str]
    titles: dict[str, str] = field(default_factory=dict)

    @property
    def titled(self) -> dict[str, str]:
        """The texts, each after its title, for those who take texts alone."""
        return {
            id_: f"{self.titles[id_]}\n{text}" if id_ in self.titles else text
            for id_, text in self.texts.items()
        }

    @property
    def api(self) -> str:
        """Where an OpenAI client finds the stub."""
        return f"{self.base}/v1"


class Peer(Protocol):
    """A way to build an index and to retrieve from it, without the LLM that would answer."""

    package: str
    settings: dict[str, Any]

    def index(self) -> None: ...

    def ask(self, question: str, mode: str) -> Sequence[str]:
        """Return the passages found, best first."""
        ...


def run(new: Callable[[Job], Peer]) -> None:
    """Index, ask every question in every mode, and write what it took to the second argument."""
    given = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    job = Job(**given | {"folder": Path(given["folder"])})
    logging.disable(logging.INFO)  # some log every request, which would count as query time
    peer = new(job)
    _, index = _measured(job.base, peer.index)
    modes = {}
    for mode in job.modes:
        warm_up, *questions = job.questions
        peer.ask(warm_up, mode)
        modes[mode] = [_asked(peer, job.base, question, mode) for question in questions]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    result = {
        "version": f"{peer.package} {version(peer.package)}",
        "settings": peer.settings,
        "index": index,
        "peak_mb": round(peak),
        "modes": modes,
    }
    Path(sys.argv[2]).write_text(json.dumps(result), encoding="utf-8")


def _asked(peer: Peer, base: str, question: str, mode: str) -> dict[str, Any]:
    passages, counts = _measured(base, lambda: peer.ask(question, mode))
    return counts | {"passages": list(passages)}


def _measured(base: str, work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    before = _served(base)
    began = time.perf_counter()
    value = work()
    seconds = time.perf_counter() - began
    after = _served(base)
    return value, {"seconds": seconds} | {name: after[name] - before[name] for name in COUNTED}


def _served(base: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{base}/stats", timeout=60) as reply:  # noqa: S310 - loopback
        counted: dict[str, Any] = json.load(reply)
        return counted
