r"""Index one novel and report stage times, file size, query times, and estimated LLM calls.

From the repository's root:

    python benchmarks/novel.py --data ../shared/data --stub ../shared/tools/openai_stub.py \
        --out benchmarks/results/novel.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from e2graphrag_integrations import (
    E2GraphRAG,
    OpenAISummarizer,
    SentenceTransformerEmbedder,
    SourceDocument,
    SpacyEntityExtractor,
)
from e2graphrag_integrations.embedders.windowed import WindowedEmbedder
from runs import this_run, timed, write_result
from stub import server_stats, stub_server

QUESTIONS = (
    "What does Mr. Darcy think of Elizabeth Bennet?",
    "Why does Charlotte Lucas marry Mr. Collins?",
    "What happens between Wickham and Georgiana Darcy?",
    "Where is Pemberley?",
    "How do pride and first impressions mislead people?",
)


def without_llm(document: SourceDocument, folder: Path) -> dict:
    """Index without an LLM; also time spaCy and embedding alone, the lower bounds."""
    embedder, extractor = SentenceTransformerEmbedder(), SpacyEntityExtractor()
    embedder.embed(["warm up"])
    extractor.extract(["Warm up."])
    path = folder / "novel.e2g"
    with E2GraphRAG.open(path, embedder=embedder, extractor=extractor) as rag:
        estimate = rag.estimate(document)
        report = rag.add(document)
        again, again_seconds = timed(lambda: rag.add(document))
        _, first_query = timed(lambda: rag.retrieve(QUESTIONS[0]))
        seconds = []
        routes = {}
        for question in QUESTIONS * 4:
            result = rag.retrieve(question)
            routes[question] = f"{result.route}: {result.trace.reason}"
            times = result.trace.timings
            seconds.append(sum(times.values()) - times.get("embed", 0) - times["entities"])
        stats = rag.stats()
        nodes = [json.loads(line) for line in rag.export()]
    texts = [n["text"] for n in nodes if "node" in n]
    chunks = [n["text"] for n in nodes if n.get("level") == 0]
    windowed = WindowedEmbedder(embedder)
    prefix = windowed.title_prefix(document.title)
    windows = [prefix + t[a:b] for t in texts for a, b in windowed.windows(t, prefix)]
    _, embedding = timed(lambda: embedder.embed(windows))
    _, spacy_alone = timed(lambda: list(extractor.nlp.pipe(chunks, batch_size=16)))
    return {
        "estimate": estimate.to_dict(),
        "report": report.to_dict(),
        "re-index seconds": round(again_seconds, 4),
        "re-index LLM calls": again.llm_calls,
        "lower bound seconds": {"spaCy": round(spacy_alone, 2), "embedding": round(embedding, 2)},
        "file bytes": path.stat().st_size,
        "stats": asdict(stats) | {"settings": dict(stats.settings)},
        "first query seconds": round(first_query, 3),
        "query ms without embedding and extraction": {
            "p50": round(1000 * statistics.median(seconds), 3),
            "p95": round(1000 * sorted(seconds)[int(0.95 * len(seconds))], 3),
        },
        "routes": routes,
    }


def with_stub_llm(document: SourceDocument, folder: Path, script: Path) -> dict:
    """Index with the stub LLM and compare the estimate with the server's counts."""
    with stub_server(script) as base:
        summarizer = OpenAISummarizer("stub", base_url=f"{base}/v1", api_key="none")
        with E2GraphRAG.open(folder / "stub.e2g", embedder="hashing", summarizer=summarizer) as rag:
            estimate = rag.estimate(document)
            report = rag.add(document)
        stats = server_stats(base)
    return {
        "estimated calls": estimate.llm_calls,
        "reported calls": report.llm_calls,
        "calls counted by the server": stats["llm_calls"],
        "estimated prompt tokens, upper bound": estimate.prompt_tokens,
        "prompt tokens counted by the server": stats["prompt_tokens"],
        "peak concurrent calls": stats["max_inflight"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--stub", type=Path, required=True)
    parser.add_argument("--novel", default="pride_and_prejudice")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    text = (options.data / "novels" / f"{options.novel}.txt").read_text(encoding="utf-8")
    title = options.novel.replace("_", " ").title()
    document = SourceDocument(options.novel, text, title=title)
    with tempfile.TemporaryDirectory() as folder:
        result = {
            **this_run(),
            "novel": options.novel,
            "without an LLM": without_llm(document, Path(folder)),
            "with the stub LLM": with_stub_llm(document, Path(folder), options.stub),
        }
    write_result(result, options.out)


if __name__ == "__main__":
    main()
