"""Scopes: trials that look for leaks, and the time and memory of a thousand tenants."""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from e2graphrag_integrations import E2GraphRAG
from goals import Goal
from postgres.part import Part
from runs import memory, output_of, percentiles, timed
from scale import open_index
from scope_trials import Trials, new_index
from synthetic import Corpus

TRIALS, TRIALS_IN_POSTGRES = 10_000, 500
CHUNKS = 1_000
"""Chunks of a tenant."""

TENANTS = 60
"""Tenants that are asked about: enough for the cache to overflow."""

QUESTIONS = 5
"""Questions to each tenant."""


def measure(part: Part) -> dict[str, Any]:
    """Look for leaks in a file and in Postgres, and measure tenants of ready indexes."""
    n_trials, in_postgres = (100, 20) if part.short else (TRIALS, TRIALS_IN_POSTGRES)
    figures: dict[str, Any] = {"leak trials": _trials(n_trials)}
    numbers = count()

    def in_schema() -> E2GraphRAG:
        return new_index(f"{part.server.url}?schema=trial{next(numbers)}")

    figures["leak trials in Postgres"] = _trials(in_postgres, in_schema)
    folder = part.indexes
    for size in (100_000, 1_000_000):
        if folder is not None and not part.short and (folder / f"{size}.e2g").exists():
            # In a process of its own, so that its memory is that of this index.
            name = f"tenants of {CHUNKS} chunks among {size:,}"
            figures[name] = output_of(__file__, folder / f"{size}.e2g")
    return figures


def goals(result: Mapping[str, Any]) -> list[Goal]:
    """Return the goals: no leak, and a first question within a second."""
    found = []
    for name, figures in result.items():
        if name.startswith("leak"):
            found.append(Goal(f"leaks in {figures['trials']} trials", figures["leaks"], max=0))
        elif name.startswith("tenants"):
            slowest = figures["first question, ms"]["p95"]
            found.append(Goal(f"first question, p95 in ms, {name}", slowest, max=1000))
    return found


def _trials(number: int, open_index: Any = new_index) -> dict[str, Any]:
    started = time.perf_counter()
    trials = Trials(seed=23, open_index=open_index)
    trials.run(number)
    seconds = round(time.perf_counter() - started, 1)
    for leak in trials.leaks[:5]:
        print(leak, file=sys.stderr)
    return {"trials": trials.asked, "leaks": len(trials.leaks), "seconds": seconds}


def _seconds(reader: Any, questions: Sequence[str]) -> list[float]:
    return [timed(lambda q=question: reader.retrieve(q))[1] for question in questions]


def _tenants(index: Path) -> dict[str, Any]:
    real = np.load(index.parent / "real.npy")
    with open_index(index, real) as rag:
        ids, chunks = rag.document_ids, rag.stats().chunks
        per_tenant = max(1, round(CHUNKS * len(ids) / chunks))
        scopes = [
            {"document_id": {"$in": ids[first : first + per_tenant]}}
            for first in range(0, len(ids), per_tenant)
        ][:TENANTS]
        questions = Corpus(chunks).questions(QUESTIONS)
        for question in questions:
            rag.retrieve(question)
            rag.scoped(scopes[-1]).retrieve(question)
        before = memory()["anonymous"]
        first, later, windows = [], [], 0
        for where in scopes:
            reader = rag.scoped(where)
            first += _seconds(reader, questions[:1])
            later += _seconds(reader, questions)
            windows = reader.stats().windows
        gc.collect()
        grown = memory()["anonymous"] - before
        unscoped = _seconds(rag, [question for question in questions for _ in range(10)])
        return {
            "chunks": chunks,
            "tenants": len(scopes),
            "windows of a tenant": windows,
            "first question, ms": percentiles(first),
            "later questions, ms": percentiles(later),
            "questions to the index, ms": percentiles(unscoped),
            "memory of a tenant, MiB": round(grown / len(scopes), 2),
            "memory of the index, MiB": before,
        }


if __name__ == "__main__":
    print(json.dumps(_tenants(Path(sys.argv[1]))))
