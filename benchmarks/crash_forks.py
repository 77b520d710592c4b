"""Fork a process while its threads write, and check that no acknowledged write is lost.

In each round, a parent process writes documents in a thread and forks children at random moments.
Each child reads through the inherited index, whose writes must be refused, and then opens the file
again and writes a document. Some children are killed, and some outlive the parent's handle.
"""

from __future__ import annotations

import os
import random
import select
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    IndexSettings,
    Models,
    SourceDocument,
)
from e2graphrag_integrations.errors import StoreError
from e2graphrag_integrations.testing import CapitalizedWordExtractor
from runs import forked

CHILDREN = 4
"""Children of a round. Every second one is killed at a random moment."""

HANG_SECONDS = 60.0
"""A child that runs longer counts as hanging."""

Report = Callable[[str], object]
"""Reports the id of a document whose write returned."""


def open_index(path: Path) -> E2GraphRAG:
    return E2GraphRAG.open(
        path,
        embedder=HashingEmbedder(64),
        models=Models(extractor=CapitalizedWordExtractor()),
        settings=IndexSettings(chunk_size=40, chunk_overlap=0),
    )


def document(name: str) -> SourceDocument:
    return SourceDocument(name, " ".join(f"Anna met Bert in room {n}." for n in range(30)))


class ForkTest:
    """Runs rounds of forks on new files.

    Attributes:
        forks: Number of forks so far.
        errors: Numbers of errors by kind.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)  # noqa: S311 - chooses when to fork and to kill
        self.forks = 0
        self.errors: Counter[str] = Counter(
            {"lost documents": 0, "failed verifications": 0, "hangs": 0, "failed children": 0}
        )

    def round(self) -> None:
        """Write in a thread while forking, then check the file."""
        path = self.folder / f"forks {self.forks}.e2g"
        rag, done, written = open_index(path), threading.Event(), list[str]()

        def write() -> None:
            while not done.is_set():
                rag.add(document(f"parent {len(written):04}"))
                written.append(f"parent {len(written):04}")

        writer = threading.Thread(target=write)
        writer.start()
        reader, pipe = os.pipe()
        children = []
        for number in range(CHILDREN):
            time.sleep(self.random.uniform(0, 0.2))
            name = f"child {number}"
            seconds = self.random.uniform(0, 1)
            children.append(self.fork(lambda r, n=name, s=seconds: child(rag, path, n, s, r), pipe))
        os.close(pipe)
        done.set()
        writer.join()
        rag.close()  # some children still use the file
        for number, pid in enumerate(children):
            if number % 2:
                time.sleep(self.random.uniform(0, 0.5))
                os.kill(pid, signal.SIGKILL)
        self.wait(children)
        with os.fdopen(reader) as lines:
            acknowledged = {*written, *lines.read().splitlines()}
        with open_index(path) as rag:
            self.errors["lost documents"] += len(acknowledged - set(rag.document_ids))
            self.errors["failed verifications"] += not rag.verify().ok

    def fork(self, work: Callable[[Report], None], pipe: int) -> int:
        self.forks += 1
        return forked(lambda: work(lambda name: os.write(pipe, f"{name}\n".encode())))

    def wait(self, children: list[int]) -> None:
        deadline = time.monotonic() + HANG_SECONDS
        for pid in children:
            while not (exited := os.waitpid(pid, os.WNOHANG))[0] and time.monotonic() < deadline:
                select.select([], [], [], 0.01)
            if not exited[0]:
                self.errors["hangs"] += 1
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            elif exited[1] not in (0, signal.SIGKILL):
                self.errors["failed children"] += 1


def child(rag: E2GraphRAG, path: Path, name: str, seconds: float, report: Report) -> None:
    rag.retrieve("Who met Anna?")
    try:
        rag.add(document(f"{name} refused"))
    except StoreError as error:
        if "open the index again" not in str(error):
            raise
    else:
        raise SystemExit("the write was not refused")
    with open_index(path) as own:
        own.add(document(name))
        report(name)
        time.sleep(seconds)
        own.add(document(f"{name} later"))
        report(f"{name} later")
    rag.close()


def run_forks(folder: Path, forks: int, seed: int) -> ForkTest:
    """Run rounds until there were at least this many forks."""
    test = ForkTest(folder, seed)
    while test.forks < forks:
        test.round()
        print(f"{test.forks} forks, {dict(test.errors)}", flush=True)
    return test
