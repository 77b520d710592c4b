r"""Kill an indexing process again and again, at random moments: is anything lost or paid twice?

From the repository's root:

    python benchmarks/crash.py --stub ../shared/tools/openai_stub.py --kills 200 \
        --out benchmarks/results/crash.json

A child process works through one file: it indexes pieces of The Time Machine with spaCy and
the stub LLM over HTTP, changes some, deletes one, and is killed with SIGKILL before it is done.
After each kill another process opens the file: it must open, `verify()` must be clean, whatever was
indexed before must be there, and the next child goes on with `resume()`. When a file is finished it
must equal, byte for byte, one made in one go. LLM calls beyond those of one undisturbed run are
repeated ones: at most as many as were in flight when a process died.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    OpenAISummarizer,
    SourceDocument,
    SpacyEntityExtractor,
)
from e2graphrag_integrations.cli.demo import demo_text
from runs import this_run
from stub import served, stub_server

CONCURRENCY = 4
SETTINGS = {"chunk_size": 150, "chunk_overlap": 0, "group_size": 4, "summary_tokens": 60}
CHANGED, GONE = (1, 5, 9), 3
PART = 5000
"""Characters of a document."""


def pieces(count: int) -> list[SourceDocument]:
    text = demo_text().read_text(encoding="utf-8")
    return [
        SourceDocument(f"part {n:02}", text[n * PART : (n + 1) * PART], metadata={"part": n})
        for n in range(count)
    ]


def work(rag: E2GraphRAG, documents: list[SourceDocument]) -> None:
    """Do everything that is not done: what a program would do that is started again and again."""
    rag.resume()
    state = {status.id for status in rag.status() if status.indexed}
    changed = {
        f"part {n:02}": SourceDocument(
            f"part {n:02}", f"Word came at last. {documents[n].text}", metadata={"part": n}
        )
        for n in CHANGED
    }
    gone = documents[GONE].id
    begun = rag.document(documents[0].id).metadata.get("edited") if documents[0].id in state else 0
    if not begun:
        rag.add(documents)
        rag.update(SourceDocument(documents[0].id, documents[0].text, metadata={"edited": 1}))
    rag.update(list(changed.values()))
    if gone in {status.id for status in rag.status()}:
        rag.delete(gone)
    rag.compact()


def child(task: Callable[[], None], seconds: float | None) -> tuple[bool, float]:
    """Run a task in a process of its own; kill it after so many seconds. Return if it finished."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            task()
            code = 0
        except BaseException as error:  # noqa: BLE001 - told, then the process ends
            print(f"child: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    began = time.perf_counter()
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        spent = time.perf_counter() - began
        if ended:
            if status:
                raise SystemExit(f"a child ended with {status}")
            return True, spent
        if seconds is not None and spent >= seconds:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return False, spent
        time.sleep(0.002)


class Run:
    """One file after the other, until so many kills were survived."""

    def __init__(self, folder: Path, base: str, parts: int, seed: int) -> None:
        self.folder = folder
        self.base = base
        self.documents = pieces(parts)
        self.random = random.Random(seed)  # noqa: S311 - when to kill is no secret
        self.extractor = SpacyEntityExtractor()
        self.extractor.extract(["Warm up."])  # loaded once: children are copies of this process
        self.kills = 0
        self.counts: Counter[str] = Counter()
        self.repeated: list[int] = []

    def open(self, path: Path) -> E2GraphRAG:
        return E2GraphRAG.open(
            path,
            embedder=HashingEmbedder(64),
            extractor=self.extractor,
            summarizer=OpenAISummarizer("stub", base_url=f"{self.base}/v1", api_key="none"),
            concurrency=CONCURRENCY,
            **SETTINGS,
        )

    def task(self, path: Path) -> None:
        with self.open(path) as rag:
            work(rag, self.documents)

    def calls(self) -> int:
        return int(served(self.base)["llm_calls"])

    def whole(self) -> None:
        """Make one file undisturbed: what it costs, what it is, and how long it takes."""
        path, before = self.folder / "whole.e2g", self.calls()
        _, self.seconds = child(lambda: self.task(path), None)
        self.cost = self.calls() - before
        with self.open(path) as rag:
            self.expected = list(rag.export())

    def file(self, number: int, kills: int) -> None:
        """Kill the making of one file up to so many times, then let it finish."""
        path = self.folder / f"{number}.e2g"
        before, killed, known = self.calls(), 0, set[str]()
        while killed < kills:
            finished, _ = child(lambda: self.task(path), self.random.uniform(0, 0.7 * self.seconds))
            if finished:
                break
            killed += 1
            known = self.look(path, known)
        child(lambda: self.task(path), None)
        self.look(path, set())
        with self.open(path) as rag:
            if list(rag.export()) != self.expected:
                self.counts["files that differ from one made in one go"] += 1
        self.kills += killed
        # A killed process may leave its requests running at the server.
        time.sleep(0.2)
        self.repeated.append(self.calls() - before - self.cost)
        if self.repeated[-1] > CONCURRENCY * killed:
            self.counts["files with more repeated calls than were in flight"] += 1
        for rest in self.folder.glob(f"{number}.e2g*"):
            if rest.is_file():
                rest.unlink()

    def look(self, path: Path, known: set[str]) -> set[str]:
        """Check a file as a kill left it; return what is indexed."""
        if not path.exists():
            self.counts["kills before there was a file"] += 1
            return known
        with self.open(path) as rag:
            report = rag.verify()
            states = rag.status()
        if not report.ok:
            self.counts["failed verifies"] += 1
            print(path, report.problems[:3], file=sys.stderr)
        indexed = {state.id for state in states if state.indexed}
        gone = known - indexed - {self.documents[GONE].id}
        self.counts["lost documents"] += len(gone)
        for state in states:
            self.counts[f"seen {state.status}"] += 1
        return known | indexed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stub", type=Path, required=True)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--kills-a-file", type=int, default=12)
    parser.add_argument("--parts", type=int, default=12)
    parser.add_argument("--latency-ms", type=float, default=120)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    began = time.perf_counter()
    with (
        tempfile.TemporaryDirectory() as folder,
        stub_server(options.stub, options.latency_ms) as base,
    ):
        run = Run(Path(folder), base, options.parts, options.seed)
        run.whole()
        files = 0
        while run.kills < options.kills:
            run.file(files, options.kills_a_file)
            files += 1
            print(f"{run.kills} kills, {files} files, repeated calls {run.repeated}", flush=True)
    bad = {
        name: run.counts.pop(name, 0)
        for name in (
            "failed verifies",
            "lost documents",
            "files that differ from one made in one go",
            "files with more repeated calls than were in flight",
        )
    }
    result: dict[str, Any] = {
        **this_run(),
        "kills": run.kills,
        "files": files,
        "concurrency": CONCURRENCY,
        "LLM calls of one undisturbed file": run.cost,
        "seconds of one undisturbed file": round(run.seconds, 2),
        "repeated LLM calls": sum(run.repeated),
        "repeated LLM calls a kill": round(sum(run.repeated) / max(1, run.kills), 3),
        **bad,
        "states of documents seen after kills": dict(run.counts),
        "seconds": round(time.perf_counter() - began, 1),
    }
    print(json.dumps(result, indent=2))
    if options.out:
        options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    if any(bad.values()):
        raise SystemExit("something was lost, damaged or paid twice")


if __name__ == "__main__":
    main()
