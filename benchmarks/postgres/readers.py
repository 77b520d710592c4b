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
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from concurrency import READERS, WRITERS, read_during, work, write
from e2graphrag_integrations import E2GraphRAG, copy_index
from fresh import changes, finds
from goals import Goal
from postgres.part import Part
from runs import percentiles, timed
from scale import index, open_index
from synthetic import Corpus, Floats

CHUNKS = 100_000
QUESTIONS = 200
PASSES = 4
CHANGES = 10
"""Changes by another process whose time until they are found is measured."""

GIVE_UP = 60.0
"""Seconds after which a change counts as not found."""

WRITTEN = 40
"""Documents of 100 chunks that measure the writes."""

DOCUMENTS = 25
"""Documents of each writer while others read."""

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
    readers, writers, per_writer = (2, 2, 3) if part.short else (READERS, WRITERS, DOCUMENTS)
    for name, target in (("writes", write), ("work", work)):
        # Workers do not wait for each other.
        count = per_writer * (4 if target is work else 1)
        during = f"{part.server.url}?schema=during_{name}"
        result[f"readers during {name}"] = read_during(during, target, readers, writers, count)
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
