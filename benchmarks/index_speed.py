r"""Compare indexing time with its lower bounds: spaCy, embedding and LLM calls run alone.

From the repository's root:

    python benchmarks/index_speed.py --data ../shared/data --stub ../shared/tools/openai_stub.py \
        --out benchmarks/results/index_speed.json

All figures come from one run. Wall and CPU seconds are those of this process. Exits with an error
if a goal is missed.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from e2graphrag_integrations import (
    E2GraphRAG,
    IndexReport,
    Models,
    OpenAISummarizer,
    SentenceTransformerEmbedder,
    SourceDocument,
    SpacyEntityExtractor,
    WriteOptions,
)
from e2graphrag_integrations._utils.concurrency import OwnLoop
from e2graphrag_integrations.embedders.windowed import WindowedEmbedder
from e2graphrag_integrations.indexing.planning import plan_document
from e2graphrag_integrations.indexing.stages.summaries import SummaryBuilder, summarize_trees
from e2graphrag_integrations.settings import Settings
from e2graphrag_integrations.store.store import Store
from e2graphrag_integrations.summarizers.retry import RetryPolicy
from e2graphrag_integrations.text.tokens import ApproximateTokenCounter
from goals import Goal, finish
from runs import memory, output_of, parser_of, this_run
from stub import stub_server

CONCURRENCY = 4
LATENCIES = (0.3, 5.0)
"""Seconds that the stub waits before each reply."""

NOVEL = "pride_and_prejudice"
DOCUMENT_COUNTS = (1, 2, 4, 8)
PART = 200_000
"""Characters of *War and Peace* per document."""

ROUNDS = 3


@dataclass(frozen=True)
class Cost:
    """Wall and CPU seconds of some work."""

    wall: float
    cpu: float

    def to_dict(self) -> dict[str, float]:
        return {"wall": round(self.wall, 2), "cpu": round(self.cpu, 2)}


def measured(work: Callable[[], Any]) -> tuple[Any, Cost]:
    """Return the value of `work()` and its cost."""
    wall, cpu = time.perf_counter(), time.process_time()
    value = work()
    return value, Cost(time.perf_counter() - wall, time.process_time() - cpu)


@dataclass(frozen=True)
class LowerBounds:
    """The work that embedding and spaCy must do for a document, each run alone.

    Attributes:
        embedder: Embeds the windows.
        extractor: Its spaCy pipeline processes the chunks.
        windows: Texts of all windows, in batches.
        chunks: Texts of all chunks.
        hashed: Cost of indexing with hashed vectors, which cost almost nothing.
    """

    embedder: SentenceTransformerEmbedder
    extractor: SpacyEntityExtractor
    windows: Sequence[Sequence[str]]
    chunks: Sequence[str]
    hashed: Cost

    @classmethod
    def of(
        cls,
        document: SourceDocument,
        embedder: SentenceTransformerEmbedder,
        extractor: SpacyEntityExtractor,
    ) -> LowerBounds:
        windowed = WindowedEmbedder(embedder)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "novel.e2g"
            with E2GraphRAG.open(
                path, embedder="hashing", models=Models(extractor=extractor)
            ) as rag:
                _, hashed = measured(lambda: rag.add(document))
                nodes = [json.loads(line) for line in rag.export()]
        texts = [node["text"] for node in nodes if "node" in node]
        chunks = [node["text"] for node in nodes if node.get("level") == 0]
        prefix = windowed.title_prefix(document.title)
        windows = [prefix + text[a:b] for text in texts for a, b in windowed.windows(text, prefix)]
        batches = [windows[i : i + 64] for i in range(0, len(windows), 64)]
        return cls(embedder, extractor, batches, chunks, hashed)

    def embedding(self) -> Cost:
        return measured(lambda: [self.embedder.embed(batch) for batch in self.windows])[1]

    def spacy(self) -> tuple[int, Cost]:
        """Return the number of tokens and the cost."""
        pipe = self.extractor.nlp.pipe
        return measured(lambda: sum(map(len, pipe(self.chunks, batch_size=16))))

    def seconds_on_all_cores(self) -> float:
        """Return the CPU seconds of both, divided by the number of cores."""
        return (self.embedding().cpu + self.spacy()[1].cpu) / (os.cpu_count() or 1)


def without_llm(document: SourceDocument, bounds: LowerBounds) -> dict[str, Any]:
    """Index without an LLM, then index the same document again."""
    embedding, hashed = bounds.embedding(), bounds.hashed
    tokens, spacy = bounds.spacy()
    with (
        tempfile.TemporaryDirectory() as folder,
        E2GraphRAG.open(
            Path(folder) / "novel.e2g",
            embedder=bounds.embedder,
            models=Models(extractor=bounds.extractor),
        ) as rag,
    ):
        report, indexing = measured(lambda: rag.add(document))
        again, reindexing = measured(lambda: rag.add(document))
    # Measured with hashed vectors: PyTorch's waiting threads count as busy and would distort the
    # difference between indexing and embedding alone.
    overhead = hashed.cpu - spacy.cpu
    return {
        "indexing": indexing.to_dict(),
        "embedding alone": embedding.to_dict(),
        "spaCy alone": spacy.to_dict(),
        "indexing with hashed vectors": hashed.to_dict(),
        "spaCy tokens per second": {
            "alone": round(tokens / spacy.wall),
            "during indexing": round(tokens / report.seconds["extract"]),
        },
        "overhead, share of CPU": round(overhead / (hashed.cpu + embedding.cpu), 4),
        "re-indexing, share of wall time": round(reindexing.wall / indexing.wall, 5),
        "re-indexing, LLM calls": again.llm_calls,
        "stage seconds": dict(report.seconds),
    }


def with_llms(document: SourceDocument, bounds: LowerBounds, stub: Path) -> dict[str, Any]:
    """Index with LLMs of different latencies, and make the same calls alone.

    The CPU bound is measured before and after each, because the speed of the machine varies.
    """
    results = {}
    before = bounds.seconds_on_all_cores()
    for latency in LATENCIES:
        with stub_server(stub, 1000 * latency) as base:
            result = with_llm(document, bounds, f"{base}/v1")
        after = bounds.seconds_on_all_cores()
        lower_bound = max(result["LLM calls alone, wall"], (before + after) / 2)
        results[llm_name(latency)] = result | {
            "CPU bound before and after": [round(before, 2), round(after, 2)],
            "lower bound": round(lower_bound, 2),
            "ratio to the lower bound": round(result["wall"] / lower_bound, 3),
        }
        before = after
    return results


def llm_name(latency: float) -> str:
    return f"LLM with {latency} s latency"


def with_llm(document: SourceDocument, bounds: LowerBounds, url: str) -> dict[str, Any]:
    summarizer = OpenAISummarizer("stub", base_url=url, api_key="none")
    alone = llm_calls_alone(document, summarizer)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "novel.e2g"
        with E2GraphRAG.open(
            path,
            summarizer=summarizer,
            writes=WriteOptions(concurrency=CONCURRENCY),
            embedder=bounds.embedder,
            models=Models(extractor=bounds.extractor),
        ) as rag:
            report, indexing = measured(lambda: rag.add(document))
    return {
        "calls": report.llm_calls,
        "wall": round(indexing.wall, 2),
        "LLM calls alone, wall": round(alone, 2),
    }


def llm_calls_alone(document: SourceDocument, summarizer: OpenAISummarizer) -> float:
    """Return the wall seconds of a document's summary calls, children first, and nothing else."""
    settings, counter = Settings(), ApproximateTokenCounter()
    tree = plan_document(document, settings, counter)
    store = Store(":memory:")
    builder = SummaryBuilder(
        summarizer=summarizer,
        fingerprint="alone",
        counter=counter,
        max_tokens=settings.summary_tokens,
        retry=RetryPolicy(),
        store=store,
        runner=OwnLoop(),
    )
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        _, cost = measured(
            lambda: summarize_trees([tree], builder, pool, lambda: None, threading.Event())
        )
    store.close()
    return cost.wall


def scaling(long_novel: Path, extractor: SpacyEntityExtractor) -> dict[str, Any]:
    """Index 1, 2, 4 and 8 parts of a long novel as documents.

    Each round indexes all eight parts at every size (eight times one, four times two and so on) in
    random order, so that the varying speed of the machine affects all sizes alike. Vectors are
    hashed: embedding is linear and would hide other growth. Peak memory is measured in processes of
    its own.
    """
    documents = parts_of(long_novel)
    runs = [(count, i) for count in DOCUMENT_COUNTS for i in range(0, len(documents), count)]
    random = np.random.default_rng(0)
    rounds = []
    for _ in range(ROUNDS):
        cpu = dict.fromkeys(DOCUMENT_COUNTS, 0.0)
        for count, i in random.permutation(runs).tolist():
            _, cost = index_documents(documents[i : i + count], extractor)
            cpu[count] += cost.cpu
        rounds.append([cpu[count] * count / len(documents) for count in DOCUMENT_COUNTS])
    mean = np.mean(rounds, axis=0)
    counts = np.asarray(DOCUMENT_COUNTS)
    slope = float((counts * mean).sum() / (counts**2).sum())
    deviation = float(np.abs(mean / (slope * counts) - 1).max())
    return {
        "documents": [
            {"documents": count, "cpu": round(float(cpu), 2)}
            | output_of(__file__, "--parts", count, "--novel", long_novel)
            for count, cpu in zip(DOCUMENT_COUNTS, mean, strict=True)
        ],
        "CPU seconds per round": np.round(rounds, 2).tolist(),
        "largest deviation from linear": round(deviation, 4),
    }


def parts_of(novel: Path) -> list[SourceDocument]:
    text = novel.read_text(encoding="utf-8")
    return [
        SourceDocument(f"n{number}", text[number * PART : (number + 1) * PART])
        for number in range(max(DOCUMENT_COUNTS))
    ]


def index_documents(
    documents: Sequence[SourceDocument], extractor: SpacyEntityExtractor
) -> tuple[IndexReport, Cost]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "parts.e2g"
        with E2GraphRAG.open(path, embedder="hashing", models=Models(extractor=extractor)) as rag:
            return measured(lambda: rag.add(documents))


def index_parts(novel: Path, count: int) -> dict[str, Any]:
    """Index `count` parts in this process and return its peak memory."""
    extractor = SpacyEntityExtractor()
    extractor.extract(["Warm up."])
    documents = parts_of(novel)[:count]
    before = memory()["peak"]
    report, _ = index_documents(documents, extractor)
    peak = memory()["peak"]
    return {
        "chunks": report.chunks,
        "peak MiB": peak,
        "peak MiB above the models": peak - before,
    }


def goals_of(result: Mapping[str, Any]) -> list[Goal]:
    plain = result["without an LLM"]
    ratio = "ratio to the lower bound"
    deviation = "largest deviation from linear"
    unchanged = "re-indexing unchanged text"
    return [
        *(
            Goal(f"{name}, {ratio}", result[name][ratio], max=1.15)
            for name in map(llm_name, LATENCIES)
        ),
        Goal(
            "overhead over spaCy and embedding, share of CPU",
            plain["overhead, share of CPU"],
            max=0.1,
        ),
        Goal(
            f"{unchanged}, share of wall time", plain["re-indexing, share of wall time"], max=0.02
        ),
        Goal(f"{unchanged}, LLM calls", plain["re-indexing, LLM calls"], max=0),
        Goal(f"1 to 8 documents, {deviation}", result["scaling"][deviation], max=0.1),
    ]


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--stub", type=Path)
    parser.add_argument("--parts", type=int, help="internal: index this many parts of --novel")
    parser.add_argument("--novel", type=Path, help="internal: see --parts")
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
    bounds = LowerBounds.of(document, embedder, extractor)
    result: dict[str, Any] = {
        **this_run(),
        "without an LLM": without_llm(document, bounds),
        **with_llms(document, bounds, options.stub),
        "scaling": scaling(novels / "war_and_peace.txt", extractor),
    }
    finish(result, goals_of(result), options.out)


if __name__ == "__main__":
    main()
