"""Kill workers and their connections while they index documents, and check that nothing is lost.

Four processes index 2,000 documents of an index in Postgres, and 100 times one of them, or one of
their connections, is killed. Some are paused for longer than their lease, so that they try to write
documents that others have taken over. Meanwhile, documents are added and updated, the last of them
after the last fault, so that the work cannot end before. The clocks of the workers differ by an
hour. The LLM is a function that logs its calls; a trigger of the database logs each document that
is written.

Calls beyond one per prompt count as repeated: at most those in flight at a kill may be.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, SourceDocument
from e2graphrag_integrations.options import grouped
from e2graphrag_integrations.testing import CapitalizedWordExtractor
from goals import Goal
from runs import forked
from synthetic import name

if TYPE_CHECKING:
    from postgres.part import Part

WORKERS = 4
CONCURRENCY = 4
LLM_LIMIT = 8
LEASE = 2.0
PAUSE = 3.0
"""Seconds for which a worker is paused; longer than its lease."""
LATENCY = 0.02
SETTINGS = {"chunk_size": 40, "chunk_overlap": 0, "group_size": 4}
PORTIONS = 10
"""Number of portions in which the second half of the documents is enqueued."""
SCHEMA = "workers"


def document(number: int, version: int = 0) -> SourceDocument:
    """Return a document. Every fifth has the text of another one, so they share summaries."""
    seed = number - number % 5 // 4
    words = random.Random(f"{seed} {version}")  # noqa: S311 - texts
    names = [name(words.randrange(500)) for _ in range(8)]
    sentences = [
        f"{words.choice(names)} met {words.choice(names)} at place {words.randrange(10_000)}, and "
        f"they spoke about the letter of {words.choice(names)}."
        for _ in range(words.randrange(8, 30))
    ]
    return SourceDocument(f"document {number:04}", " ".join(sentences))


def _last_version(number: int) -> int:
    """Return 1 for a document that is updated while it is in the queue or indexed, or 0."""
    return int(number % 40 == 0)


class LoggingLLM:
    """Logs the start and the end of each call to a file that all processes share."""

    fingerprint = "benchmark:logging"
    model = "logging"

    def __init__(self, log: Path) -> None:
        self._file = os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)

    def summarize(self, texts: Sequence[str], *, level: int, max_tokens: int) -> str:
        del max_tokens
        key = hashlib.sha256(f"{level} {texts!r}".encode()).hexdigest()[:24]
        self._write("start", key)
        time.sleep(LATENCY)
        self._write("end", key)
        return f"Summary {key} of {texts[0][:40]}."

    def _write(self, event: str, key: str) -> None:
        os.write(self._file, f"{event} {key} {os.getpid()} {time.monotonic():.4f}\n".encode())


def open_index(path: str, log: Path) -> E2GraphRAG:
    return E2GraphRAG.open(
        path,
        **grouped(
            {
                "embedder": HashingEmbedder(64),
                "extractor": CapitalizedWordExtractor(),
                "summarizer": LoggingLLM(log),
                "concurrency": CONCURRENCY,
                **SETTINGS,
            }
        ),
    )


@dataclass
class Run:
    """The worker processes, and the faults so far.

    Attributes:
        url: The index.
        log: The log of the LLM.
        alive: When each running worker was started, by process id.
        dead: When each killed process died.
        counts: Numbers of faults and errors.
    """

    url: str
    log: Path
    alive: dict[int, float] = field(default_factory=dict)
    dead: dict[int, float] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def start_workers(self) -> None:
        """Start as many workers as are missing."""
        while len(self.alive) < WORKERS:
            self.start_worker()

    def enqueue(self, first: int, end: int) -> None:
        """Enqueue some documents, and the second versions of those that have one."""
        with open_index(self.url, self.log) as rag:
            rag.add([document(n) for n in range(first, end)], wait=False)
        self.enqueue_updates(first, end)

    def enqueue_updates(self, first: int, end: int) -> None:
        """Enqueue the second versions of some documents."""
        updated = [document(n, 1) for n in range(first, end) if _last_version(n)]
        with open_index(self.url, self.log) as rag:
            rag.update(updated, wait=False)

    def start_worker(self) -> None:
        """Fork a worker; the models are loaded already."""
        number = len(self.alive) + len(self.dead)

        def work() -> None:
            now = time.time
            time.time = lambda: now() + 3600 * (number % 3 - 1)
            with open_index(self.url, self.log) as rag:
                rag.work(llm_limit=LLM_LIMIT, lease=LEASE)

        self.alive[forked(work)] = time.monotonic()

    def fault(self, chooser: random.Random) -> None:
        """Kill a connection of a worker, or kill a worker and start another one."""
        if chooser.choice((True, False)) and self._kill_connection(chooser):
            return
        pid = chooser.choice(list(self.alive))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self.dead[pid] = time.monotonic()
        del self.alive[pid]
        self.counts["kills of workers"] += 1
        self.start_worker()

    def _kill_connection(self, chooser: random.Random) -> bool:
        """Kill a connection; return False if no worker has one at this moment."""
        with psycopg.connect(self.url.partition("?")[0], autocommit=True) as db:
            rows = db.execute(
                "SELECT pid FROM pg_stat_activity WHERE starts_with(application_name, 'e2graphrag')"
                " AND strpos(application_name, %s) = 0 ORDER BY pid",
                (f"process {os.getpid()} ",),
            ).fetchall()
            if rows:
                [pid] = chooser.choice(rows)
                db.execute("SELECT pg_terminate_backend(%s)", (pid,))
                self.counts["kills of connections"] += 1
        return bool(rows)

    def pause(self, chooser: random.Random) -> None:
        """Stop a worker for longer than its lease."""
        pid = chooser.choice(list(self.alive))
        os.kill(pid, signal.SIGSTOP)
        time.sleep(PAUSE)
        os.kill(pid, signal.SIGCONT)
        self.counts["pauses"] += 1

    def collect(self) -> None:
        """Forget the workers that have ended."""
        for pid in list(self.alive):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del self.alive[pid]
                self.counts["workers that failed"] += bool(status)

    @property
    def kills(self) -> int:
        return self.counts["kills of workers"] + self.counts["kills of connections"]


def measure(part: Part) -> dict[str, Any]:
    count, kills, pauses = (30, 3, 0) if part.short else (2000, 100, 5)
    chooser = random.Random(0)  # noqa: S311 - chooses what to kill
    final = [document(n, _last_version(n)) for n in range(count)]
    single, single_log = str(part.folder / "single.e2g"), part.folder / "single.log"
    with open_index(single, single_log) as rag:
        report = rag.add(final)
        expected = list(rag.export())
        seconds_single = report.seconds["total"]
    run = Run(f"{part.server.url}?schema={SCHEMA}", part.folder / "workers.log")
    with open_index(run.url, run.log) as rag:
        _log_writes(part.server.url)
        rag.add([document(n) for n in range(count // 2)], wait=False)
    began = time.monotonic()
    run.start_workers()
    run.enqueue_updates(0, count // 2)
    try:
        _break(run, chooser, count, kills, pauses)
    finally:
        for pid in run.alive:
            os.kill(pid, signal.SIGKILL)
    seconds = time.monotonic() - began
    with open_index(run.url, run.log) as rag:
        problems = rag.verify().problems
        ids, export = rag.document_ids, list(rag.export())
        unfinished = [state for state in rag.status() if state.status != "done"]
        unused = rag.store.has_unused()
    with psycopg.connect(part.server.url) as db:
        rows = db.execute("SELECT count(*) FROM write_log GROUP BY id, content_hash").fetchall()
    calls, repeated, peak = _calls(run)
    return {
        "workers": WORKERS,
        "documents": count,
        **run.counts,
        "kills": run.kills,
        "seconds": round(seconds, 1),
        "seconds of a single process, without kills": seconds_single,
        "documents that are missing or not done": len(
            {one.id for one in final} ^ set(ids) | {state.id for state in unfinished}
        ),
        "versions written more than once": sum(number > 1 for (number,) in rows),
        "problems of verify": len(problems),
        "lines that differ from the export of a single process": sum(
            one != other for one, other in zip(export, expected, strict=False)
        )
        + abs(len(export) - len(expected)),
        "unused content is left": unused,
        "LLM calls": calls,
        "repeated LLM calls": repeated,
        "repeated LLM calls per kill": round(repeated / max(1, run.kills), 3),
        "workers that failed": run.counts["workers that failed"],
        "most LLM calls at the same time": peak,
        "llm_limit": LLM_LIMIT,
        "concurrency": CONCURRENCY,
    }


def _log_writes(url: str) -> None:
    """Log every document that is written, also by transactions of processes that die later."""
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("CREATE TABLE write_log (id text, content_hash text)")
        db.execute(
            "CREATE FUNCTION log_write() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN INSERT INTO public.write_log VALUES (NEW.id, NEW.content_hash); "
            "RETURN NULL; END'"
        )
        db.execute(
            f"CREATE TRIGGER log_writes AFTER INSERT ON {SCHEMA}.documents "
            "FOR EACH ROW EXECUTE FUNCTION log_write()"
        )


def _break(run: Run, chooser: random.Random, count: int, kills: int, pauses: int) -> None:
    """Spread the faults over the first half of the work, and wait for its end.

    The second half of the documents is enqueued in portions between the faults, so that the workers
    have enough to do until the last fault.
    """
    faults = [run.fault] * kills + [run.pause] * pauses
    chooser.shuffle(faults)
    total, half = len(faults), count // 2
    bounds = [half + (count - half) * n // PORTIONS for n in range(PORTIONS + 1)]
    portions = list(pairwise(bounds))
    query = f"SELECT count(*) FROM {SCHEMA}.documents"  # noqa: S608 - a constant
    deadline = time.monotonic() + 1800
    with psycopg.connect(run.url.partition("?")[0], autocommit=True) as db:
        while run.alive or portions:
            row = db.execute(query).fetchone()
            done = 0 if row is None else row[0]
            past = (total - len(faults)) / total
            if portions and past >= 1 - (len(portions) - 1) / PORTIONS:
                run.enqueue(*portions.pop(0))
                run.start_workers()
            if faults and done >= half * past:
                time.sleep(chooser.random() * 0.1)
                run.collect()
                run.start_workers()
                faults.pop()(chooser)
            if time.monotonic() > deadline:
                run.counts["workers that failed"] += len(run.alive)
                return
            time.sleep(0.01)
            run.collect()


def _calls(run: Run) -> tuple[int, int, int]:
    """Return the numbers of calls, of repeated calls, and of the most calls at the same time."""
    starts: Counter[str] = Counter()
    running: Counter[tuple[str, str]] = Counter()
    events: list[tuple[float, int]] = []
    for line in run.log.read_text(encoding="utf-8").splitlines():
        event, key, pid, seconds = line.split()
        change = 1 if event == "start" else -1
        starts[key] += change == 1
        running[pid, key] += change
        events.append((float(seconds), change))
    # A killed process has ended its calls.
    events += [(run.dead[int(pid)], -n) for (pid, _), n in running.items() if n]
    calls = peak = 0
    for _, change in sorted(events):
        calls += change
        peak = max(peak, calls)
    total = sum(starts.values())
    return total, total - len(starts), peak


def goals(result: dict[str, Any]) -> list[Goal]:
    zero = (
        "documents that are missing or not done",
        "versions written more than once",
        "problems of verify",
        "lines that differ from the export of a single process",
        "workers that failed",
    )
    return [
        Goal("kills of workers and connections", result["kills"], min=100),
        *(Goal(name, result[name], max=0) for name in zero),
        Goal(
            "repeated LLM calls per kill",
            result["repeated LLM calls per kill"],
            max=result["concurrency"],
        ),
    ]
