r"""Measure how soon a change is found, and questions while the next state is prepared.

From the repository's root:

    python benchmarks/fresh.py --data ../shared/data --out benchmarks/results/fresh.json

The documents and vectors are those of scale.py. Each measurement runs in its own process, on one
thread per library. Two cores are needed: one asks, the other prepares the next state: in a process
of its own, as by default, or in a thread. As controls, an unrelated process is busy, or another
process updates a copy of the index, so that no state is prepared. `--indexes FOLDER` copies ready
indexes, `100000.e2g` with its snapshot, instead of building them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from e2graphrag_integrations import E2GraphRAG, Freshness, SourceDocument
from e2graphrag_integrations.options import FreshnessPolicy
from goals import Goal, finish
from runs import memory, output_of, parser_of, percentiles, this_run
from scale import Floats, open_index, real_vectors
from scale import build as build_snapshot
from scale import index as index_documents
from synthetic import CHUNKS_PER_DOCUMENT, Corpus, word

SIZES = (100_000, 1_000_000)
QUESTIONS = 200
CHANGES = 5
"""Changes whose time until they are found is measured."""

PERIOD = 1.0
"""Seconds between two updates while questions are asked."""

DURATION = {100_000: 30.0, 1_000_000: 90.0}
"""Seconds of questions during updates."""

UNRELATED = """
import numpy as np
numbers = np.random.default_rng(0).integers(0, 10**6, 8_000_000)
order = np.random.default_rng(1).permutation(len(numbers))
print(flush=True)
while True:
    np.take(numbers, order)
    np.sort(numbers[:1_000_000])
"""

GIVE_UP = 300.0
"""Seconds after which a change counts as not found."""

SEARCHABLE = {100_000: 1.0, 1_000_000: 5.0}
"""Goals: seconds until a change is found."""

THREADS = 4
"""Number of threads that ask at the same time, in one of the measurements."""

MAX_RATIO = {100_000: 1.3, 1_000_000: 1.5}
"""Goals: p95 of the questions during updates, relative to that at rest."""

MAX_MEMORY_RATIO = 1.5
"""Goal: peak memory during updates, relative to that at rest, without the other process."""

BY_PROCESS, BY_THREAD = "updates by another process", "updates by a thread"
IN_THREAD = "updates by another process, states prepared by a thread"
UNRELATED_PROCESS = "control: an unrelated process sorts numbers"
OTHER_INDEX = "control: another process updates another index"
BY_MANY = f"updates by another process, {THREADS} threads ask"


PREPARED = ("nobody", "thread", "process")
"""Who prepares the next state, in the order of the measurements."""

Figures = dict[str, Any]


def changes(corpus: Corpus, seed: int) -> Iterator[tuple[SourceDocument, str]]:
    """Yield documents with a new name in one line, and the name; the names never repeat."""
    random = np.random.default_rng([seed, time.time_ns()])
    while True:
        number = int(random.integers(corpus.chunks // CHUNKS_PER_DOCUMENT))
        new_name = f"Fresh {word(int(random.integers(1 << 40, 1 << 50))).title()}"
        [document] = corpus.documents(number, number + 1)
        lines = document.text.split("\n")
        place = int(random.integers(len(lines)))
        lines[place] = f"{new_name} {lines[place]}"
        yield replace(document, text="\n".join(lines)), new_name


def ask(
    rag: E2GraphRAG, questions: Sequence[str], until: Callable[[int], bool]
) -> tuple[list[float], dict[str, Any]]:
    """Ask questions one after another; return their seconds, and how fresh the answers were."""
    seconds: list[float] = []
    ages, waited, newest, generations = [], 0, 0, set()
    number = 0
    while not until(number):
        began = time.perf_counter()
        result = rag.retrieve(questions[number % len(questions)])
        seconds.append(time.perf_counter() - began)
        freshness = cast(Freshness, result.trace.freshness)
        ages.append(freshness.max_age)
        waited += freshness.waited > 0
        newest += freshness.is_newest
        generations.add(freshness.generation)
        number += 1
    return seconds, {
        "questions": number,
        "ms": percentiles(seconds),
        "longest, ms": round(1000 * max(seconds), 1),
        "waited": waited,
        "answered by the newest state": newest,
        "states": len(generations),
        "greatest age, s": round(max(ages), 2),
    }


def ask_in_threads(
    rag: E2GraphRAG, questions: Sequence[str], until: Callable[[int], bool], threads: int
) -> tuple[list[float], dict[str, Any]]:
    """Ask questions in several threads at the same time; see `ask`."""
    if threads == 1:
        return ask(rag, questions, until)
    with ThreadPoolExecutor(threads) as pool:
        asked = [
            pool.submit(ask, rag, [*questions[first:], *questions[:first]], until)
            for first in range(0, len(questions), len(questions) // threads)
        ]
    results = [one.result() for one in asked]
    seconds = [one for own, _ in results for one in own]
    described = [one for _, one in results]
    return seconds, {
        "questions": len(seconds),
        "ms": percentiles(seconds),
        "longest, ms": round(1000 * max(seconds), 1),
        "waited": sum(one["waited"] for one in described),
        "answered by the newest state": sum(
            one["answered by the newest state"] for one in described
        ),
        "states": max(one["states"] for one in described),
        "greatest age, s": max(one["greatest age, s"] for one in described),
    }


def time_until_found(rag: E2GraphRAG, corpus: Corpus) -> dict[str, Any]:
    """Update documents one at a time, and ask for the change until it is found."""
    from_return, from_call = [], []
    for number, (document, new_name) in zip(range(CHANGES), changes(corpus, 1), strict=False):
        called = time.perf_counter()
        rag.update(document)
        returned = time.perf_counter()
        while not finds(rag, document, new_name):
            if time.perf_counter() - returned > GIVE_UP:
                raise SystemExit(f"change {number} was not found in {GIVE_UP:.0f} s")
            time.sleep(0.005)
        found = time.perf_counter()
        from_return.append(found - returned)
        from_call.append(found - called)
    return {
        "seconds from the return of update": _summary(from_return),
        "seconds from its call": _summary(from_call),
    }


def finds(rag: E2GraphRAG, document: SourceDocument, new_name: str) -> bool:
    nodes = rag.retrieve(f"Who met {new_name}?").nodes
    return any(one.document_id == document.id and new_name in one.text for one in nodes)


def _summary(seconds: Sequence[float]) -> dict[str, float]:
    values = {"median": float(np.median(seconds)), "longest": max(seconds)}
    return {name: round(value, 3) for name, value in values.items()}


@contextmanager
def updates_in_a_thread(rag: E2GraphRAG, corpus: Corpus) -> Iterator[list[float]]:
    """Update one document per period in a thread; yield the list of the durations."""
    done, durations = threading.Event(), []

    def write() -> None:
        for document, _ in changes(corpus, 2):
            began = time.perf_counter()
            rag.update(document)
            durations.append(time.perf_counter() - began)
            if done.wait(max(0.0, PERIOD - durations[-1])):
                return

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield durations
    finally:
        done.set()
        thread.join()


@contextmanager
def updates_in_a_process(path: Path, chunks: int, vectors: Path) -> Iterator[list[float]]:
    """Update one document per period in another process; yield the list of the durations."""
    arguments = [sys.executable, __file__, "--step", "write", str(path), str(chunks), str(vectors)]
    durations: list[float] = []
    process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process, cast(IO[str], process.stdin) as told, cast(IO[str], process.stdout) as printed:
        printed.readline()  # the process has opened the index and written once
        try:
            yield durations
        finally:
            told.close()
            durations += json.loads(printed.read())


@contextmanager
def unrelated_process() -> Iterator[None]:
    """Keep the other core busy with arrays, as a control: nothing of the index changes."""
    process = subprocess.Popen([sys.executable, "-c", UNRELATED], stdout=subprocess.PIPE)
    with process, cast(IO[bytes], process.stdout) as printed:
        printed.readline()
        try:
            yield
        finally:
            process.kill()


def write_until_told(path: Path, chunks: int, real: Floats) -> None:
    """Update one document per period until the standard input ends."""
    ended, durations = threading.Event(), []

    def wait_for_the_end() -> None:
        sys.stdin.read()
        ended.set()

    with open_index(path, real) as rag:
        threading.Thread(target=wait_for_the_end, daemon=True).start()
        for document, _ in changes(Corpus(chunks), 3):
            began = time.perf_counter()
            rag.update(document)
            durations.append(time.perf_counter() - began)
            if len(durations) == 1:
                print("ready", flush=True)
            if ended.wait(max(0.0, PERIOD - durations[-1])):
                break
    print(json.dumps(durations))


@dataclass(frozen=True)
class Reader:
    """Asks questions of an index, at rest and during changes.

    Attributes:
        rag: The index.
        questions: The questions.
        duration: Seconds of questions during changes.
    """

    rag: E2GraphRAG
    questions: Sequence[str]
    duration: float

    def at_rest(self, threads: int = 1) -> list[float]:
        """Return the seconds of questions without changes."""
        self.rag.refresh()
        enough = 2 * QUESTIONS // threads
        return ask_in_threads(self.rag, self.questions, lambda n: n == enough, threads)[0]

    def during(self, updates: AbstractContextManager[list[float]], threads: int = 1) -> Figures:
        """Return what questions cost during changes, and before and after."""
        rest = self.at_rest(threads)
        at_rest = memory()
        reset_peak()
        with updates as durations:
            deadline = time.monotonic() + self.duration
            seconds, asked = ask_in_threads(
                self.rag, self.questions, lambda _: time.monotonic() > deadline, threads
            )
            megabytes = memory_of_preparing_process()
        peak = memory()["peak"]
        rest += self.at_rest(threads)  # again, because the speed of the machine varies
        ratio = float(np.quantile(seconds, 0.95) / np.quantile(rest, 0.95))
        return {
            **asked,
            "ms at rest, before and after": percentiles(rest),
            "p95 relative to rest": round(ratio, 2),
            "updates": len(durations),
            "seconds per update": _summary(durations),
            "memory at rest, MiB": at_rest,
            "peak memory, MiB": peak,
            "peak memory relative to rest": round(peak / at_rest["resident"], 2),
            **({} if megabytes is None else {"memory of the preparing process, MiB": megabytes}),
        }

    def beside_an_unrelated_process(self) -> Figures:
        """Return what questions cost while another core is busy."""
        rest = self.at_rest()
        with unrelated_process():
            seconds, _ = ask(self.rag, self.questions, lambda number: number == 4 * QUESTIONS)
        rest += self.at_rest()
        ratio = float(np.quantile(seconds, 0.95) / np.quantile(rest, 0.95))
        return {"ms": percentiles(seconds), "p95 relative to rest": round(ratio, 2)}


def memory_of_preparing_process() -> dict[str, int] | None:
    """Return the memory of the process that prepares the next states; None if there is none."""
    for children in Path("/proc/self/task").glob("*/children"):
        for process in children.read_text(encoding="ascii").split():
            if b"background.child" in Path(f"/proc/{process}/cmdline").read_bytes():
                return memory(process)
    return None


def measure(path: Path, chunks: int, vectors: Path, *, prepared: str) -> Figures:
    """Measure an existing index, with a reader that never waits.

    Args:
        path: The index.
        chunks: Number of chunks.
        vectors: File of real vectors.
        prepared: Who prepares the next state: "process", "thread" or "nobody".
    """
    import faiss

    faiss.omp_set_num_threads(1)
    real = np.load(vectors, allow_pickle=False)
    corpus = Corpus(chunks)
    policy = FreshnessPolicy(
        read_your_writes=False, process_from=0 if prepared == "process" else None
    )
    with open_index(path, real, freshness=policy) as rag:
        reader = Reader(rag, corpus.questions(QUESTIONS), DURATION.get(chunks, 20.0))
        ask(rag, reader.questions, lambda number: number == QUESTIONS)  # reads the files

        def by_process() -> AbstractContextManager[list[float]]:
            return updates_in_a_process(path, chunks, vectors)

        if prepared == "nobody":
            other = path.with_name(f"other-{path.name}")
            copy_index(path, other)
            return {
                UNRELATED_PROCESS: reader.beside_an_unrelated_process(),
                OTHER_INDEX: reader.during(updates_in_a_process(other, chunks, vectors)),
            }
        if prepared == "thread":
            return {IN_THREAD: reader.during(by_process())}
        return {
            # First, because a process that also writes needs more memory.
            BY_PROCESS: reader.during(by_process()),
            "until a change is found": time_until_found(rag, corpus),
            BY_THREAD: reader.during(updates_in_a_thread(rag, corpus)),
            # Last: after about 100 changes of a hundred chunks each, the segments are merged.
            BY_MANY: reader.during(by_process(), THREADS),
            "final memory, MiB": memory(),
        }


def reset_peak() -> None:
    """Reset the peak of the resident memory of this process; it counts mapped files, too."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def build(path: Path, chunks: int, vectors: Path) -> dict[str, Any]:
    """Index the documents and build the snapshot."""
    with open_index(path, np.load(vectors, allow_pickle=False)) as rag:
        seconds = index_documents(rag, Corpus(chunks))["seconds"]
        return {"index": seconds, "snapshot": build_snapshot(rag, Corpus(chunks))["seconds"]}


def copy_index(source: Path, target: Path) -> None:
    """Copy an index with its snapshot; without using more disk space where possible."""
    for suffix in ("", ".snapshot"):
        arguments = ["cp", "--reflink=auto", "-r", f"{source}{suffix}", f"{target}{suffix}"]
        subprocess.run(arguments, check=True)


def run_step(step: str, path: Path, chunks: int, vectors: Path) -> dict[str, Any]:
    """Run a step in its own process, on one thread per library."""
    result: dict[str, Any] = output_of(__file__, "--step", step, path, chunks, vectors, threads=1)
    return result


def run_on_a_copy(step: str, path: Path, chunks: int, vectors: Path) -> Figures:
    """Run a step on a copy of an index, so that no changes of an earlier one are in segments."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        copy = Path(folder) / path.name
        copy_index(path, copy)
        result: Figures = run_step(step, copy, chunks, vectors)
        return result


def goals_of(sizes: Mapping[str, Any]) -> list[Goal]:
    goals = []
    for name, size in sizes.items():
        found = size["until a change is found"]["seconds from its call"]["median"]
        limit = SEARCHABLE.get(int(name))
        goals.append(Goal(f"{name}: seconds until a change is found, median", found, max=limit))
        for writer in (BY_PROCESS, BY_MANY, BY_THREAD):
            measured = size[writer]
            goals += [
                Goal(f"{name}, {writer}: questions that waited", measured["waited"], max=0),
                Goal(
                    f"{name}, {writer}: p95 relative to rest",
                    measured["p95 relative to rest"],
                    max=MAX_RATIO.get(int(name)),
                ),
                Goal(
                    f"{name}, {writer}: peak memory relative to rest",
                    measured["peak memory relative to rest"],
                    max=MAX_MEMORY_RATIO,
                ),
            ]
    return goals


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--indexes", type=Path, help="folder of ready indexes, which are copied")
    parser.add_argument("--vectors", type=Path, help="real vectors, as an .npy file")
    parser.add_argument(
        "--step", nargs=4, metavar=("STEP", "INDEX", "CHUNKS", "VECTORS"), help="internal"
    )
    options = parser.parse_args()
    if options.step:
        step, path, chunks, vectors = options.step
        if step == "write":
            write_until_told(Path(path), int(chunks), np.load(vectors, allow_pickle=False))
            return
        work = build if step == "build" else partial(measure, prepared=step)
        print(json.dumps(work(Path(path), int(chunks), Path(vectors))))
        return
    result: dict[str, Any] = {**this_run(), "sizes": {}}
    with tempfile.TemporaryDirectory() as folder:
        vectors = Path(folder) / "real.npy"
        if options.vectors:
            shutil.copy(options.vectors, vectors)
        else:
            np.save(vectors, real_vectors(options.data), allow_pickle=False)
        for size in options.sizes:
            path = Path(folder) / f"{size}.e2g"
            if options.indexes:
                copy_index(options.indexes / path.name, path)
            else:
                print(size, "built", json.dumps(run_step("build", path, size, vectors)), flush=True)
            measured = [run_on_a_copy(one, path, size, vectors) for one in PREPARED]
            result["sizes"][str(size)] = {
                name: one for own in measured for name, one in own.items()
            }
            print(size, json.dumps(result["sizes"][str(size)]), flush=True)
    finish(result, goals_of(result["sizes"]), options.out)


if __name__ == "__main__":
    main()
