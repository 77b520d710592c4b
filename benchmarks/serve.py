r"""Measure questions over HTTP against direct calls, and the memory of the server.

From the repository's root:

    python benchmarks/serve.py --out benchmarks/results/serve.json

The index contains The Time Machine, with real vectors. `e2graphrag serve` runs in a process of its
own; the clients run in this one. Direct calls come from as many threads as the server has. Both
share the cores, and each figure is the median of several rounds, which alternate.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from e2graphrag_integrations import E2GraphRAG, SourceDocument
from e2graphrag_integrations.server.web import Limits
from goals import Goal, exit_if_missed
from runs import percentiles, this_run, write_result

BOOK = Path(__file__).parents[1] / "examples" / "data" / "the_time_machine.txt"
NAMES = ("Weena", "Filby", "the Time Traveller", "the Morlocks", "the Psychologist", "the Eloi")
ASKS = ("Who is {}?", "What did {} do at night?", "Why was {} afraid?", "Where does {} live?")
QUESTIONS = [ask.format(name) for name in NAMES for ask in ASKS]
K = 5

ROUNDS = 2
PER_ROUND = 100
"""Number of questions of a round."""

CLIENTS = 100
"""Number of clients that ask at the same time."""

MANY = 2_000
"""Number of questions between two measurements of memory."""

UPLOADS = 10
"""Number of refused uploads, each as large as a server receives."""

UPLOAD_BYTES = Limits().upload_bytes


@contextmanager
def serving(index: Path) -> Iterator[tuple[str, int]]:
    """Run the command, and yield the URL and the process."""
    command = [sys.executable, "-m", "e2graphrag_integrations.cli", "serve", str(index)]
    with subprocess.Popen([*command, "--port", "0"], stderr=subprocess.PIPE, text=True) as process:
        line = process.stderr.readline() if process.stderr else ""
        [url] = re.findall(r"http://\S+(?=/)", line)
        try:
            yield url, process.pid
        finally:
            process.terminate()


def questions(count: int) -> list[str]:
    return [QUESTIONS[number % len(QUESTIONS)] for number in range(count)]


def direct(rag: E2GraphRAG, threads: int, count: int) -> tuple[float, list[float]]:
    """Ask from threads; return the questions per second, and the seconds of each."""

    def ask(question: str) -> float:
        began = time.perf_counter()
        rag.retrieve(question, k=K)
        return time.perf_counter() - began

    began = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        seconds = list(pool.map(ask, questions(count)))
    return count / (time.perf_counter() - began), seconds


async def over_http(url: str, clients: int, count: int) -> tuple[float, list[float]]:
    """Ask over HTTP; return the questions per second, and the seconds of each."""
    seconds: list[float] = []
    waiting = questions(count)

    async def client(http: httpx.AsyncClient) -> None:
        while waiting:
            body = {"question": waiting.pop(), "settings": {"k": K}}
            began = time.perf_counter()
            answer = await http.post("/retrieve", json=body)
            answer.raise_for_status()
            seconds.append(time.perf_counter() - began)

    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=120) as http:
        began = time.perf_counter()
        await asyncio.gather(*(client(http) for _ in range(clients)))
        return count / (time.perf_counter() - began), seconds


def summary(runs: Sequence[tuple[float, list[float]]]) -> dict[str, Any]:
    rate = statistics.median(rate for rate, _ in runs)
    times = percentiles([one for _, seconds in runs for one in seconds])
    return {"questions per second": round(rate, 1), "ms": times}


def refused_uploads(url: str) -> Counter[str]:
    """Send files that are too large, once with and once without saying so in advance."""

    def parts() -> Iterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.txt"\r\n\r\n'
        for _ in range(UPLOAD_BYTES // 2**20 + 1):
            yield bytes(2**20)

    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    kinds: Counter[str] = Counter()
    for _ in range(UPLOADS):
        try:
            answer = httpx.post(f"{url}/documents", content=parts(), headers=headers, timeout=120)
            kinds[str(answer.status_code)] += 1
        except httpx.TransportError:  # the server has closed the connection before the end
            kinds["connection closed"] += 1
    return kinds


def megabytes(process: int) -> float:
    """Return the resident memory of a process."""
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    [kilobytes] = re.findall(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    return round(int(kilobytes) / 1024, 1)


def measure(index: Path) -> tuple[dict[str, Any], list[Goal]]:
    threads = Limits().parallel
    with E2GraphRAG.open(index) as rag, serving(index) as (url, process):
        direct(rag, threads, 50)
        asyncio.run(over_http(url, threads, 50))
        one, own, few, many = [], [], [], []
        for _ in range(ROUNDS):
            one.append(direct(rag, 1, PER_ROUND))
            own.append(direct(rag, threads, PER_ROUND))
            few.append(asyncio.run(over_http(url, 1, PER_ROUND)))
            many.append(asyncio.run(over_http(url, CLIENTS, PER_ROUND)))
        before = megabytes(process)
        asyncio.run(over_http(url, CLIENTS, MANY))
        after = megabytes(process)
        refused = refused_uploads(url)
        uploaded = megabytes(process)
    results = {
        "direct calls": summary(own),
        "HTTP, 100 clients": summary(many),
        "direct calls, one thread": summary(one),
        "HTTP, one client": summary(few),
    }
    served, called = results["HTTP, one client"], results["direct calls, one thread"]
    overhead = served["ms"]["p50"] - called["ms"]["p50"]
    memory = {
        "before, MB": before,
        f"after {MANY} questions, MB": after,
        f"after {UPLOADS} refused uploads, MB": uploaded,
    }
    share = (
        results["HTTP, 100 clients"]["questions per second"]
        / results["direct calls"]["questions per second"]
    )
    goals = [
        Goal("questions per second over HTTP, share of direct calls", round(share, 2), min=0.5),
        Goal("ms that HTTP adds to a question", round(overhead, 2), max=20),
        Goal(f"MB added by {MANY} questions", round(after - before, 1), max=50),
        Goal(f"MB added by {UPLOADS} refused uploads", round(uploaded - after, 1), max=50),
    ]
    figures = {
        "threads": threads,
        "clients": CLIENTS,
        "questions of a round": PER_ROUND,
        "rounds": ROUNDS,
        "results": results,
        "memory of the server": memory,
        "refused uploads": {"MB of each": UPLOAD_BYTES // 2**20, "answers": dict(refused)},
    }
    return figures, goals


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "time_machine.e2g"
        with E2GraphRAG.open(index) as rag:
            rag.add([SourceDocument(BOOK.name, BOOK.read_text(encoding="utf-8"))])
        figures, goals = measure(index)
    result = {**this_run(), **figures, "goals": [goal.to_dict() for goal in goals]}
    write_result(result, arguments.out)
    exit_if_missed(goals)


if __name__ == "__main__":
    main()
