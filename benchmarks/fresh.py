r"""Measure how soon a change is found, and questions while the next state is prepared.

From the repository's root:

    python benchmarks/fresh.py --data ../shared/data --out benchmarks/results/fresh.json

The documents and vectors are those of scale.py. Each size runs in its own process, on one thread
per library. Two cores are needed: one asks, the other prepares the next state. `--indexes FOLDER`
copies ready indexes, `100000.e2g` with its snapshot, instead of building them.
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
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from e2graphrag_integrations import E2GraphRAG, Freshness, SourceDocument
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

MAX_RATIO = 1.5
"""Goal: p95 of the questions during updates, and peak memory, relative to those at rest."""


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


def measure(path: Path, chunks: int, vectors: Path) -> dict[str, Any]:
    """Measure an existing index, with a reader that never waits."""
    import faiss

    faiss.omp_set_num_threads(1)
    real = np.load(vectors, allow_pickle=False)
    corpus = Corpus(chunks)
    questions = corpus.questions(QUESTIONS)
    duration = DURATION.get(chunks, 20.0)

    def for_the_duration() -> Callable[[int], bool]:
        deadline = time.monotonic() + duration
        return lambda _: time.monotonic() > deadline

    with open_index(path, real, read_your_writes=False) as rag:

        def ask_at_rest() -> list[float]:
            rag.refresh()
            return ask(rag, questions, lambda number: number == 2 * QUESTIONS)[0]

        def during(updates: AbstractContextManager[list[float]]) -> dict[str, Any]:
            rest = ask_at_rest()
            at_rest = memory()
            reset_peak()
            with updates as durations:
                seconds, asked = ask(rag, questions, for_the_duration())
            peak = memory()["peak"]
            rest += ask_at_rest()  # before and after, because the speed of the machine varies
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
            }

        def beside_an_unrelated_process() -> dict[str, Any]:
            rest = ask_at_rest()
            with unrelated_process():
                seconds, _ = ask(rag, questions, lambda number: number == 4 * QUESTIONS)
            rest += ask_at_rest()
            ratio = float(np.quantile(seconds, 0.95) / np.quantile(rest, 0.95))
            return {"ms": percentiles(seconds), "p95 relative to rest": round(ratio, 2)}

        ask(rag, questions, lambda number: number == QUESTIONS)  # the first pass reads the files
        result: dict[str, Any] = {
            "control: an unrelated process sorts numbers": beside_an_unrelated_process(),
            # First, because a process that also writes needs more memory.
            "updates by another process": during(updates_in_a_process(path, chunks, vectors)),
            "until a change is found": time_until_found(rag, corpus),
            "updates by a thread": during(updates_in_a_thread(rag, corpus)),
        }
        result["final memory, MiB"] = memory()
    return result


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


def goals_of(sizes: Mapping[str, Any]) -> list[Goal]:
    goals = []
    for name, size in sizes.items():
        found = size["until a change is found"]["seconds from its call"]["median"]
        limit = SEARCHABLE.get(int(name))
        goals.append(Goal(f"{name}: seconds until a change is found, median", found, max=limit))
        for writer in ("updates by a thread", "updates by another process"):
            measured = size[writer]
            goals += [
                Goal(f"{name}, {writer}: questions that waited", measured["waited"], max=0),
                Goal(
                    f"{name}, {writer}: p95 relative to rest",
                    measured["p95 relative to rest"],
                    max=MAX_RATIO,
                ),
                Goal(
                    f"{name}, {writer}: peak memory relative to rest",
                    measured["peak memory relative to rest"],
                    max=MAX_RATIO,
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
        work = {"build": build, "measure": measure}[step]
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
            result["sizes"][str(size)] = run_step("measure", path, size, vectors)
            print(size, json.dumps(result["sizes"][str(size)]), flush=True)
    finish(result, goals_of(result["sizes"]), options.out)


if __name__ == "__main__":
    main()
