"""Questions to an index in Postgres, compared with a file of the same content.

Two objects of one process ask each question one after the other, in changing order, so that both
meet the same load of the machine. The models are synthetic and take microseconds, which makes the
comparison strict: with real models, the database takes a smaller share.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    PaperStrategy,
    SourceDocument,
    copy_index,
)
from fresh import changes, finds
from goals import Goal
from postgres.part import Part
from runs import percentiles, timed
from scale import index, open_index
from synthetic import Corpus, FirstTextSummarizer, Floats, LineSplitter, SyntheticNameExtractor

CHUNKS = 100_000
QUESTIONS = 200
PASSES = 4
CHANGES = 10
"""Changes by another process whose time until they are found is measured."""

GIVE_UP = 60.0
"""Seconds after which a change counts as not found."""

WRITTEN = 40
"""Documents of 100 chunks that measure the writes."""

READERS, WRITERS = 8, 4
DOCUMENTS = 25
"""Documents of each writer while others read."""

ALL_NODES = 100_000
"""A `k` above the number of nodes."""

_SMALL = Corpus(1_000_000)
"""Documents that are written while others read are the beginnings of documents of this corpus."""

MAX_RATIO = 1.1
"""Goal: p95 of the questions relative to a file."""


def measure(part: Part) -> dict[str, Any]:
    """Measure questions, writes, changes of another process, and readers while others write."""
    import faiss

    faiss.omp_set_num_threads(1)
    chunks = 2_000 if part.short else CHUNKS
    path, vectors = part.folder / f"{chunks}.e2g", part.folder / "real.npy"
    corpus = Corpus(chunks)
    questions = corpus.questions(20 if part.short else QUESTIONS)
    if part.indexes is not None:
        shutil.copy(part.indexes / path.name, path)
        shutil.copy(part.indexes / "real.npy", vectors)
    else:
        real = np.random.default_rng(0).standard_normal((1500, 64), dtype=np.float32)
        np.save(vectors, real, allow_pickle=False)
        with open_index(path, real) as rag:
            index(rag, corpus)
    url = f"{part.server.url}?schema=readers"
    _, copying = timed(lambda: copy_index(path, url))
    real = np.load(vectors, allow_pickle=False)
    result: dict[str, Any] = {"chunks": chunks, "seconds to copy to Postgres": round(copying, 1)}
    with open_index(path, real) as file, open_index(url, real) as postgres:
        for name, rag in (("file", file), ("Postgres", postgres)):
            _, seconds = timed(lambda r=rag: r.retrieve(questions[0]))
            result[f"seconds until the first answer, {name}"] = round(seconds, 1)
        for name, options in {"k=10": {}, "2000 tokens": {"token_budget": 2000}}.items():
            result[f"questions, {name}"] = compare(file, postgres, questions, options)
        result["until a change by another process is found"] = {
            name: until_found(rag, location, vectors, 2 if part.short else CHANGES)
            for name, rag, location in (("file", file, path), ("Postgres", postgres, url))
        }
    documents = 4 if part.short else WRITTEN
    result["writes"] = compare_writes(part, real, documents)
    result["readers during writes"] = read_during(part, write)
    result["readers during work"] = read_during(part, work)
    return result


def compare(
    file: E2GraphRAG, postgres: E2GraphRAG, questions: Sequence[str], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Ask both the same questions, and return the times of `PASSES` passes after a first one."""
    rags = {"file": file, "Postgres": postgres}
    seconds: dict[str, list[list[float]]] = {name: [] for name in rags}
    reading: dict[str, list[float]] = {name: [] for name in rags}
    for number in range(PASSES + 1):
        for name in rags:
            seconds[name].append([])
        for place, question in enumerate(questions):
            answers = {}
            for name in sorted(rags, reverse=bool((place + number) % 2)):
                asked = rags[name]
                answers[name], taken = timed(lambda q=question, a=asked: a.retrieve(q, **options))
                seconds[name][-1].append(taken)
                reading[name].append(answers[name].trace.timings["read"])
            ids = [[node.node_id for node in answer.nodes] for answer in answers.values()]
            if ids[0] != ids[1]:
                raise SystemExit(f"different answers to {question!r}")
    ratios = [
        round(float(np.quantile(own, 0.95) / np.quantile(base, 0.95)), 3)
        for own, base in zip(seconds["Postgres"][1:], seconds["file"][1:], strict=True)
    ]
    totals = {name: np.concatenate(each[1:]) for name, each in seconds.items()}
    quantiles = {q: [float(np.quantile(totals[name], q)) for name in rags] for q in (0.5, 0.95)}
    return {
        **{f"ms, {name}": percentiles(values.tolist()) for name, values in totals.items()},
        **{f"ms to read texts, {name}": percentiles(reading[name]) for name in rags},
        **{
            f"p{100 * q:.0f} relative to the file": round(b / a, 3)
            for q, (a, b) in quantiles.items()
        },
        "p95 relative to the file, per pass": ratios,
    }


# Changes by another process


def change_on_request(location: str, chunks: int, vectors: Path, connection: Any) -> None:
    """Update a document for each message, and answer with it and the time of the return."""
    with open_index(location, np.load(vectors, allow_pickle=False)) as rag:
        for document, name in changes(Corpus(chunks), 1):
            if not connection.recv():
                return
            rag.update(document)
            connection.send((document, name, time.monotonic()))


def until_found(
    rag: E2GraphRAG, location: Path | str, vectors: Path, count: int
) -> dict[str, float]:
    """Let another process update documents, one at a time, and ask until each change is found."""
    context = multiprocessing.get_context("spawn")
    own, other = context.Pipe()
    arguments = (str(location), rag.stats().chunks, vectors, other)
    process = context.Process(target=change_on_request, args=arguments)
    process.start()
    seconds = []
    for number in range(count + 1):
        own.send("change")
        document, name, returned = own.recv()
        while not finds(rag, document, name):
            if time.monotonic() - returned > GIVE_UP:
                raise SystemExit(f"{name} was not found")
            time.sleep(0.002)
        if number:  # the first change also loads the models of the other process
            seconds.append(time.monotonic() - returned)
        time.sleep(0.2)
    own.send("")
    process.join()
    return {
        "seconds from the return of update, median": round(float(np.median(seconds)), 3),
        "longest": round(max(seconds), 3),
    }


# Writes


def compare_writes(part: Part, real: Floats, count: int) -> dict[str, Any]:
    """Add the same documents of 100 chunks to a file and to Postgres, one by one, in turn."""
    locations = {
        "file": part.folder / "written.e2g",
        "Postgres": f"{part.server.url}?schema=written",
    }
    seconds: dict[str, list[float]] = defaultdict(list)
    updates: dict[str, list[float]] = defaultdict(list)
    with contextlib.ExitStack() as stack:
        rags = {name: stack.enter_context(open_index(at, real)) for name, at in locations.items()}
        for document in Corpus(100 * (count + 1)).documents():
            changed = replace(document, text=f"Changed {document.text}")
            for name, rag in rags.items():
                seconds[name].append(timed(lambda d=document, r=rag: r.add(d))[1])
                updates[name].append(timed(lambda d=changed, r=rag: r.update(d))[1])
    rates = {name: 100 * count / sum(times[1:]) for name, times in seconds.items()}
    rates_of_updates = {name: count / sum(times[1:]) for name, times in updates.items()}
    return {
        **{f"chunks added per second, {name}": round(rate) for name, rate in rates.items()},
        **{
            f"documents updated per second, {name}": round(rate, 1)
            for name, rate in rates_of_updates.items()
        },
        "rate of additions relative to the file": round(rates["Postgres"] / rates["file"], 2),
    }


# Readers while others write


@dataclass(frozen=True)
class Expected:
    """The documents that are written while others read.

    Attributes:
        documents: Number of documents of all writers.
        nodes: Number of nodes of each document.
        in_order: Whether each writer adds its documents one after the other.
    """

    documents: int
    nodes: int
    in_order: bool


def open_small(url: str, **options: Any) -> E2GraphRAG:
    return E2GraphRAG.open(
        url,
        embedder=HashingEmbedder(64),
        extractor=SyntheticNameExtractor(),
        summarizer=FirstTextSummarizer(),
        splitter=LineSplitter(),
        group_size=3,
        lock_timeout=300.0,
        **options,
    )


def small_document(writer: int, number: int, version: int = 0) -> SourceDocument:
    """Return a document in which each line names its version."""
    [document] = _SMALL.documents(1000 * writer + number, 1000 * writer + number + 1)
    lines = document.text.split("\n")[:7]
    text = "\n".join(f"Version {version}. {line}" for line in lines)
    return SourceDocument(f"{writer}-{number:03}", text)


def write(url: str, writer: int, count: int, written: Any) -> None:
    """Add documents, and replace the first one after every fifth; count those that are added."""
    try:
        with open_small(url) as rag:
            for number in range(count):
                rag.add(small_document(writer, number))
                written[writer] = number + 1
                if number % 5 == 4:  # noqa: PLR2004 - every fifth
                    rag.update(small_document(writer, 0, number))
    finally:
        written[writer] = count  # the readers end


def work(url: str, worker: int, count: int, written: Any) -> None:
    """Index documents from the queue until it is empty."""
    try:
        with open_small(url) as rag:
            rag.work()
    finally:
        written[worker] = count


def read(url: str, reader: int, expected: Expected, written: Any, connection: Any) -> None:
    """Ask until all documents are written, and send the figures and errors of the answers.

    Args:
        url: The index.
        reader: Number of the reader; those with an odd number allow no staleness.
        expected: The documents that are written.
        written: Shared numbers of written documents, by writer.
        connection: The figures are sent to it.
    """
    seconds: list[float] = []
    errors: list[str] = []
    states: set[str] = set()
    seen: set[str] = set()
    strict = bool(reader % 2)
    questions = _SMALL.questions(100)
    with open_small(url, max_staleness=0 if strict else None) as rag:
        rag.retrieve(questions[0])
        connection.send("ready")
        finished = False
        while not finished:
            before = list(written)
            finished = sum(before) == expected.documents
            question = questions[(7 * reader + len(seconds)) % len(questions)]
            began = time.perf_counter()
            try:
                answer = rag.retrieve(
                    question, k=ALL_NODES, mode="global", strategy=PaperStrategy()
                )
            except Exception as error:  # noqa: BLE001 - reported as a figure
                errors.append(f"{type(error).__name__}: {error}")
                continue
            seconds.append(time.perf_counter() - began)
            freshness = answer.trace.freshness
            states.add(freshness.generation)
            present = {node.document_id for node in answer.nodes}
            missing = seen - present
            if expected.in_order:
                missing |= gaps(present)
                errors += [
                    f"document {number} of writer {writer} is missing"
                    for writer, number in enumerate(before)
                    if strict and number and f"{writer}-{number - 1:03}" not in present
                ]
            seen |= present
            if len(missing) > freshness.left_out:
                errors.append(f"{sorted(missing)} are missing: {freshness.describe()}")
            errors += problems(answer.nodes, expected.nodes)
    connection.send({"seconds": seconds, "errors": errors, "states": len(states)})


def gaps(present: Collection[str]) -> set[str]:
    """Return the documents that were added before one that is present, but are not."""
    last: dict[str, int] = defaultdict(int)
    for one in present:
        writer, number = one.split("-")
        last[writer] = max(last[writer], int(number))
    earlier = {f"{writer}-{number:03}" for writer, end in last.items() for number in range(end)}
    return earlier.difference(present)


def problems(found: Sequence[Any], nodes: int) -> list[str]:
    """Return the documents of which an answer does not have all nodes, of one version.

    Args:
        found: The nodes of the answer, which are all that were in the state.
        nodes: Number of nodes of each document.
    """
    counts = Counter(node.document_id for node in found)
    versions = defaultdict(set)
    for node in found:
        versions[node.document_id].add(node.text.partition("Version ")[2].partition(".")[0])
    errors = [f"{one}: {count} of {nodes} nodes" for one, count in counts.items() if count != nodes]
    return errors + [f"{one}: versions {own}" for one, own in versions.items() if len(own) != 1]


def read_during(part: Part, target: Callable[[str, int, int, Any], None]) -> dict[str, Any]:
    """Let processes read and write at the same time, and check all answers.

    Args:
        part: The part.
        target: `write`, or `work`, for which all documents are in the queue.
    """
    url = f"{part.server.url}?schema=during_{target.__name__}"
    readers, writers, documents = (2, 2, 3) if part.short else (READERS, WRITERS, DOCUMENTS)
    documents *= 4 if target is work else 1  # workers do not wait for each other
    with open_small(url) as rag:
        rag.add([small_document(writer, 0) for writer in range(writers)])
        stats = rag.stats()
        if target is work:
            all_documents = [
                small_document(writer, number, int(number == 0))
                for number in range(documents)
                for writer in range(writers)
            ]
            rag.add(all_documents, on_duplicate="replace", wait=False)
    nodes = (stats.chunks + stats.summaries) // writers
    expected = Expected(writers * documents, nodes, in_order=target is write)
    context = multiprocessing.get_context("spawn")
    written = context.Array("i", writers)
    pipes = [context.Pipe() for _ in range(readers)]
    processes = [
        context.Process(target=read, args=(url, reader, expected, written, pipe[1]))
        for reader, pipe in enumerate(pipes)
    ]
    for process, pipe in zip(processes, pipes, strict=True):
        process.start()
        pipe[1].close()  # so that `recv` raises when the reader has failed
    for pipe in pipes:
        pipe[0].recv()  # the first answer
    processes += [
        context.Process(target=target, args=(url, writer, documents, written))
        for writer in range(writers)
    ]
    began = time.perf_counter()
    for process in processes[readers:]:
        process.start()
    reports = [pipe[0].recv() for pipe in pipes]
    for process in processes:
        process.join()
    seconds = time.perf_counter() - began
    with open_small(url) as rag:
        verified = rag.verify().ok and len(rag.document_ids) == expected.documents
    errors = [error for report in reports for error in report["errors"]]
    return {
        "readers": readers,
        "writers": writers,
        "documents": expected.documents,
        "seconds": round(seconds, 1),
        "answers": sum(len(report["seconds"]) for report in reports),
        "answer ms": percentiles([s for report in reports for s in report["seconds"]]),
        "distinct states per reader": [report["states"] for report in reports],
        "errors and inconsistent answers": len(errors),
        "first errors": errors[:5],
        "failed processes": sum(1 for process in processes if process.exitcode),
        "verified": verified,
    }


def goals(result: Mapping[str, Any]) -> list[Goal]:
    """Return the goals of the figures."""
    return [
        Goal(
            f"{chunks}, {name}: p95 relative to the file",
            result[f"questions, {name}"]["p95 relative to the file"],
            max=MAX_RATIO,
        )
        for chunks in [f"{result['chunks']:,} chunks"]
        for name in ("k=10", "2000 tokens")
    ] + [
        Goal(f"{name}: {figure}", value, max=0)
        for name in ("readers during writes", "readers during work")
        for figure, value in {
            "errors and inconsistent answers": result[name]["errors and inconsistent answers"],
            "failed processes": result[name]["failed processes"],
            "problems of verify": int(not result[name]["verified"]),
        }.items()
    ]
