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
from dataclasses import dataclass
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
from e2graphrag_integrations._utils.event_loop import OwnLoop
from e2graphrag_integrations.embedders.windowed import WindowedEmbedder
from e2graphrag_integrations.indexing.planning import plan_document
from e2graphrag_integrations.indexing.summaries import SummaryBuilder, summarize_trees
from e2graphrag_integrations.settings import Settings
from e2graphrag_integrations.store.sqlite import Store
from e2graphrag_integrations.summarizers.retry import RetryPolicy
from e2graphrag_integrations.text.tokens import ApproximateTokenCounter
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


@dataclass(frozen=True)
class Floors:
    """What the embedder and spaCy have to do for a document, each alone.

    Attributes:
        embedder: Of the windows.
        extractor: Whose pipe goes over the chunks.
        windows: Texts of all windows, in batches.
        chunks: Texts of all chunks.
        hashed: What all of indexing took with vectors by hashing, which cost next to nothing.
    """

    embedder: SentenceTransformerEmbedder
    extractor: SpacyEntityExtractor
    windows: Sequence[Sequence[str]]
    chunks: Sequence[str]
    hashed: Spent

    @classmethod
    def of(cls, document: SourceDocument, embedder: Any, extractor: Any) -> Floors:
        windowed = WindowedEmbedder(embedder)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "n.e2g"
            with E2GraphRAG.open(path, embedder="hashing", extractor=extractor) as rag:
                _, hashed = spent(lambda: rag.add(document))
                nodes = [json.loads(line) for line in rag.export()]
        texts = [node["text"] for node in nodes if "node" in node]
        chunks = [node["text"] for node in nodes if node.get("level") == 0]
        prefix = windowed.title_prefix(document.title)
        pieces = [prefix + text[a:b] for text in texts for a, b in windowed.windows(text, prefix)]
        batches = [pieces[at : at + 64] for at in range(0, len(pieces), 64)]
        return cls(embedder, extractor, batches, chunks, hashed)

    def embedding(self) -> Spent:
        return spent(lambda: [self.embedder.embed(batch) for batch in self.windows])[1]

    def spacy(self) -> tuple[int, Spent]:
        """Return the tokens, too."""
        pipe = self.extractor.nlp.pipe
        return spent(lambda: sum(map(len, pipe(self.chunks, batch_size=16))))

    def cores(self) -> float:
        """Return the seconds that both take if they are spread evenly over the cores."""
        return (self.embedding().cpu + self.spacy()[1].cpu) / (os.cpu_count() or 1)


def without_llm(document: SourceDocument, floors: Floors) -> dict[str, Any]:
    """Index with no LLM: what is ours beside spaCy and embedding; then the same again."""
    embedding, hashed = floors.embedding(), floors.hashed
    tokens, spacy = floors.spacy()
    parts = {"embedder": floors.embedder, "extractor": floors.extractor}
    with (
        tempfile.TemporaryDirectory() as folder,
        E2GraphRAG.open(Path(folder) / "novel.e2g", **parts) as rag,
    ):
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
            "alone": round(tokens / spacy.wall),
            "within indexing": round(tokens / report.seconds["extract"]),
        },
        "ours, share of CPU": round(ours / (hashed.cpu + embedding.cpu), 4),
        "again, share of wall": round(second.wall / whole.wall, 5),
        "again, LLM calls": again.llm_calls,
        "seconds of stages": dict(report.seconds),
    }


def with_llms(document: SourceDocument, floors: Floors, stub: Path) -> dict[str, Any]:
    """Index with LLMs that take their time, and make their calls alone.

    The floor of the cores is measured before and after: the machine's own speed changes.
    """
    found = {}
    before = floors.cores()
    for latency in LATENCIES:
        with stub_server(stub, 1000 * latency) as base:
            told = with_llm(document, floors, f"{base}/v1")
        after = floors.cores()
        floor = max(told["LLM alone, wall"], (before + after) / 2)
        found[f"LLM of {latency} s"] = told | {
            "the cores' floor before and after": [round(before, 2), round(after, 2)],
            "floor": round(floor, 2),
            "times the floor": round(told["wall"] / floor, 3),
        }
        before = after
    return found


def with_llm(document: SourceDocument, floors: Floors, url: str) -> dict[str, Any]:
    summarizer = OpenAISummarizer("stub", base_url=url, api_key="none")
    alone = calls_alone(document, summarizer)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "novel.e2g"
        with E2GraphRAG.open(
            path,
            summarizer=summarizer,
            concurrency=CONCURRENCY,
            embedder=floors.embedder,
            extractor=floors.extractor,
        ) as rag:
            report, whole = spent(lambda: rag.add(document))
    return {
        "calls": report.llm_calls,
        "wall": round(whole.wall, 2),
        "LLM alone, wall": round(alone, 2),
    }


def calls_alone(document: SourceDocument, summarizer: Any) -> float:
    """Return the seconds that the calls of a document take, children first, with nothing else."""
    settings, counter = Settings(), ApproximateTokenCounter()
    tree = plan_document(document, settings, counter)
    store = Store(":memory:")
    maker = SummaryBuilder(
        summarizer=summarizer,
        fingerprint="alone",
        counter=counter,
        max_tokens=settings.summary_tokens,
        retry=RetryPolicy(),
        store=store,
        runner=OwnLoop(),
    )
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        _, found = spent(
            lambda: summarize_trees([tree], maker, pool, lambda: None, threading.Event())
        )
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
    floors = Floors.of(document, embedder, extractor)
    result: dict[str, Any] = {
        **this_run(),
        "no LLM": without_llm(document, floors),
        **with_llms(document, floors, options.stub),
    }
    result["growth"] = growth(novels / "war_and_peace.txt", extractor)
    goals = goals_of(result)
    result["goals"] = [goal.told() for goal in goals]
    print(json.dumps(result, indent=2))
    if options.out:
        options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    end_by(goals)


if __name__ == "__main__":
    main()
