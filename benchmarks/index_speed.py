r"""Indexing against its floors: spaCy alone, embedding alone, the LLM's calls alone.

From the repository's root:

    python benchmarks/index_speed.py --data ../shared/data --stub ../shared/tools/openai_stub.py \
        --out benchmarks/results/index_speed.json

Fails when a goal is missed. All figures are of one run; walls and CPU seconds are of this process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from e2graphrag_integrations import (
    E2GraphRAG,
    IndexReport,
    OpenAISummarizer,
    SentenceTransformerEmbedder,
    SourceDocument,
    SpacyEntityExtractor,
)
from e2graphrag_integrations.bridge import OwnLoop
from e2graphrag_integrations.embedding import WindowedEmbedder
from e2graphrag_integrations.planning import plan
from e2graphrag_integrations.settings import Settings
from e2graphrag_integrations.store.sqlite import Store
from e2graphrag_integrations.summarising import SummaryMaker, fill_tree
from e2graphrag_integrations.summarizers import RetryPolicy
from e2graphrag_integrations.tokens import ApproximateTokenCounter
from goals import Goal, end_by
from runs import this_run
from stub import stub_server

CONCURRENCY = 4
LATENCIES = (0.3, 5.0)
NOVEL = "pride_and_prejudice"
COPIES = (1, 2, 4, 8)
PART = 200_000
"""Characters of a document whose growing number is indexed."""

ROUNDS = 3


class Spent:
    """Wall and CPU seconds of a piece of work."""

    wall = 0.0
    cpu = 0.0

    @contextmanager
    def taken(self) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.wall += time.perf_counter() - wall
        self.cpu += time.process_time() - cpu

    def told(self) -> dict[str, float]:
        return {"wall": round(self.wall, 2), "cpu": round(self.cpu, 2)}


def spent(work: Callable[[], Any]) -> tuple[Any, Spent]:
    found = Spent()
    with found.taken():
        value = work()
    return value, found


def floors(document: SourceDocument, embedder: Any, extractor: Any) -> dict[str, Any]:
    """Return what embedding all windows alone and `nlp.pipe` on all chunks alone take.

    Beside them all of indexing but the embedding: vectors by hashing cost next to nothing.
    """
    windowed = WindowedEmbedder(embedder)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "n.e2g"
        with E2GraphRAG.open(path, embedder="hashing", extractor=extractor) as rag:
            _, hashed = spent(lambda: rag.add(document))
            nodes = [json.loads(line) for line in rag.export()]
    texts = [node["text"] for node in nodes if "node" in node]
    chunks = [node["text"] for node in nodes if node.get("level") == 0]
    prefix = windowed.prefix(document.title)
    pieces = [prefix + text[a:b] for text in texts for a, b in windowed.windows(text, prefix)]
    slices = [pieces[at : at + 64] for at in range(0, len(pieces), 64)]
    _, embedding = spent(lambda: [embedder.embed(part) for part in slices])
    tokens, spacy = spent(lambda: sum(map(len, extractor.nlp.pipe(chunks, batch_size=16))))
    return {"embedding": embedding, "spaCy": spacy, "hashed": hashed, "tokens": tokens}


def without_llm(document: SourceDocument, embedder: Any, extractor: Any) -> dict[str, Any]:
    """Index with no LLM: what is ours beside spaCy and embedding; then the same again."""
    floor = floors(document, embedder, extractor)
    embedding, spacy, hashed = floor["embedding"], floor["spaCy"], floor["hashed"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "novel.e2g"
        with E2GraphRAG.open(path, embedder=embedder, extractor=extractor) as rag:
            report, whole = spent(lambda: rag.add(document))
            again, second = spent(lambda: rag.add(document))
    # Not the whole's CPU less the floors': threads that wait for each other count as busy.
    ours = hashed.cpu - spacy.cpu
    return {
        "whole": whole.told(),
        "embedding alone": embedding.told(),
        "spaCy alone": spacy.told(),
        "all but embedding": hashed.told(),
        "spaCy tokens a second": {
            "alone": round(floor["tokens"] / spacy.wall),
            "within indexing": round(floor["tokens"] / report.seconds["extract"]),
        },
        "ours, share of CPU": round(ours / (hashed.cpu + embedding.cpu), 4),
        "again, share of wall": round(second.wall / whole.wall, 5),
        "again, LLM calls": again.llm_calls,
        "seconds of stages": dict(report.seconds),
        "cores' worth of floor": round((embedding.cpu + spacy.cpu) / (os.cpu_count() or 1), 2),
    }


def with_llm(document: SourceDocument, parts: Mapping[str, Any], base: str, floor: float) -> dict:
    """Index with an LLM that takes its time, and make its calls alone."""
    summarizer = OpenAISummarizer("stub", base_url=f"{base}/v1", api_key="none")
    alone = calls_alone(document, summarizer)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "novel.e2g"
        with E2GraphRAG.open(path, summarizer=summarizer, concurrency=CONCURRENCY, **parts) as rag:
            report, whole = spent(lambda: rag.add(document))
    return {
        "calls": report.llm_calls,
        "wall": round(whole.wall, 2),
        "LLM alone, wall": round(alone, 2),
        "floor": round(max(alone, floor), 2),
        "times the floor": round(whole.wall / max(alone, floor), 3),
    }


def calls_alone(document: SourceDocument, summarizer: Any) -> float:
    """Return the seconds that the calls of a document take, children first, with nothing else."""
    settings, counter = Settings(), ApproximateTokenCounter()
    tree = plan(document, settings, counter)
    store = Store(":memory:")
    maker = SummaryMaker(
        summarizer=summarizer,
        fingerprint="alone",
        counter=counter,
        max_tokens=settings.summary_tokens,
        retry=RetryPolicy(),
        store=store,
        bridge=OwnLoop(),
    )
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        _, found = spent(lambda: fill_tree([tree], maker, pool, lambda: None, threading.Event()))
    store.close()
    return found.wall


def growth(long_novel: Path, extractor: SpacyEntityExtractor) -> dict[str, Any]:
    """Index 1, 2, 4 and 8 parts of a long novel as documents: CPU in turns, memory apart.

    Each round indexes all eight parts in every size: eight times one, four times two and so on, in
    a drawn order, so that the machine's speed, which changes all the time, meets all sizes alike.
    Vectors cost nothing here: embedding is linear by itself and would hide what is not.
    """
    documents = parts_of(long_novel)
    turns = [(count, at) for count in COPIES for at in range(0, len(documents), count)]
    draw = np.random.default_rng(0)
    rounds = []
    for _ in range(ROUNDS):
        cpu = dict.fromkeys(COPIES, 0.0)
        for count, at in draw.permutation(turns).tolist():
            _, found = indexed(documents[at : at + count], extractor)
            cpu[count] += found.cpu
        rounds.append([cpu[count] * count / len(documents) for count in COPIES])
    mean = np.mean(rounds, axis=0)
    sizes = np.asarray(COPIES)
    slope = float((sizes * mean).sum() / (sizes**2).sum())
    return {
        "documents": [
            {"documents": count, "cpu": round(float(cpu), 2)} | indexed_apart(long_novel, count)
            for count, cpu in zip(COPIES, mean, strict=True)
        ],
        "CPU of all rounds": np.round(rounds, 2).tolist(),
        "furthest from a straight line": round(float(np.abs(mean / (slope * sizes) - 1).max()), 4),
    }


def parts_of(novel: Path) -> list[SourceDocument]:
    text = novel.read_text(encoding="utf-8")
    return [
        SourceDocument(f"n{number}", text[number * PART : (number + 1) * PART])
        for number in range(max(COPIES))
    ]


def indexed(
    documents: Sequence[SourceDocument], extractor: SpacyEntityExtractor
) -> tuple[IndexReport, Spent]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "parts.e2g"
        with E2GraphRAG.open(path, embedder="hashing", extractor=extractor) as rag:
            return spent(lambda: rag.add(documents))


def indexed_apart(novel: Path, count: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--parts", str(count), "--novel", str(novel)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def index_parts(novel: Path, count: int) -> dict[str, Any]:
    extractor = SpacyEntityExtractor()
    extractor.extract(["Warm up."])
    documents = parts_of(novel)[:count]
    before = peak()
    report, _ = indexed(documents, extractor)
    return {
        "chunks": report.chunks,
        "peak MiB": peak(),
        "peak MiB beyond the start": peak() - before,
    }


def peak() -> int:
    told = Path("/proc/self/status").read_text(encoding="ascii")
    [line] = [line for line in told.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) >> 10


def goals_of(result: Mapping[str, Any]) -> list[Goal]:
    alone = result["no LLM"]
    names = [f"LLM of {seconds} s" for seconds in LATENCIES]
    slow = [
        Goal(f"{name}, times the floor", result[name]["times the floor"], most=1.15)
        for name in names
    ]
    line = result["growth"]["furthest from a straight line"]
    return [
        *slow,
        Goal("ours beside spaCy and embedding, of the CPU", alone["ours, share of CPU"], most=0.1),
        Goal("the same again, of the first time", alone["again, share of wall"], most=0.02),
        Goal("the same again, LLM calls", alone["again, LLM calls"], most=0),
        Goal("1 to 8 documents, furthest from a straight line", line, most=0.1),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--stub", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--parts", type=int)
    parser.add_argument("--novel", type=Path)
    options = parser.parse_args()
    if options.parts:
        print(json.dumps(index_parts(options.novel, options.parts)))
        return
    novels = options.data / "novels"
    text = (novels / f"{NOVEL}.txt").read_text(encoding="utf-8")
    document = SourceDocument(NOVEL, text, title="Pride and Prejudice")
    embedder, extractor = SentenceTransformerEmbedder(), SpacyEntityExtractor()
    embedder.embed(["warm up"])
    extractor.extract(["Warm up."])
    result: dict[str, Any] = {
        **this_run(),
        "no LLM": without_llm(document, embedder, extractor),
    }
    for latency in LATENCIES:
        parts = {"embedder": embedder, "extractor": extractor}
        floor = result["no LLM"]["cores' worth of floor"]
        with stub_server(options.stub, 1000 * latency) as base:
            result[f"LLM of {latency} s"] = with_llm(document, parts, base, floor)
    result["growth"] = growth(novels / "war_and_peace.txt", extractor)
    goals = goals_of(result)
    result["goals"] = [goal.told() for goal in goals]
    print(json.dumps(result, indent=2))
    if options.out:
        options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    end_by(goals)


if __name__ == "__main__":
    main()
