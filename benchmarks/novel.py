r"""Index one novel: seconds a stage, file size, query time; LLM calls against the estimate.

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
from runs import this_run, timed
from stub import served, stub_server

QUESTIONS = (
    "What does Mr. Darcy think of Elizabeth Bennet?",
    "Why does Charlotte Lucas marry Mr. Collins?",
    "What happens between Wickham and Georgiana Darcy?",
    "Where is Pemberley?",
    "How do pride and first impressions mislead people?",
)


def extractive(document: SourceDocument, folder: Path) -> dict:
    """Index with no LLM, with the floors of spaCy alone and embedding alone in the same run."""
    embedder, extractor = SentenceTransformerEmbedder(), SpacyEntityExtractor()
    embedder.embed(["warm up"])
    extractor.extract(["Warm up."])
    path = folder / "novel.e2g"
    with E2GraphRAG.open(path, embedder=embedder, extractor=extractor) as rag:
        estimate = rag.estimate(document)
        report = rag.add(document)
        again, again_seconds = timed(lambda: rag.add(document))
        _, first_query = timed(lambda: rag.retrieve(QUESTIONS[0]))
        rest = []
        routes = {}
        for question in QUESTIONS * 4:
            result = rag.retrieve(question)
            routes[question] = f"{result.route}: {result.trace.reason}"
            times = result.trace.timings
            rest.append(sum(times.values()) - times.get("embed", 0) - times["entities"])
        stats = rag.stats()
        nodes = [json.loads(line) for line in rag.export()]
    texts = [n["text"] for n in nodes if "node" in n]
    chunks = [n["text"] for n in nodes if n.get("level") == 0]
    windowed = WindowedEmbedder(embedder)
    prefix = windowed.title_prefix(document.title)
    pieces = [prefix + t[a:b] for t in texts for a, b in windowed.windows(t, prefix)]
    _, embedding = timed(lambda: embedder.embed(pieces))
    _, spacy_alone = timed(lambda: list(extractor.nlp.pipe(chunks, batch_size=16)))
    return {
        "estimate": estimate.to_dict(),
        "report": report.to_dict(),
        "re-index seconds": round(again_seconds, 4),
        "re-index LLM calls": again.llm_calls,
        "floor seconds": {"spaCy pipe": round(spacy_alone, 2), "embedding": round(embedding, 2)},
        "file bytes": path.stat().st_size,
        "stats": asdict(stats) | {"settings": dict(stats.settings)},
        "first query seconds": round(first_query, 3),
        "query ms without embedding and spaCy": {
            "p50": round(1000 * statistics.median(rest), 3),
            "p95": round(1000 * sorted(rest)[int(0.95 * len(rest))], 3),
        },
        "routes": routes,
    }


def against_stub(document: SourceDocument, folder: Path, script: Path) -> dict:
    with stub_server(script) as base:
        summarizer = OpenAISummarizer("stub", base_url=f"{base}/v1", api_key="none")
        with E2GraphRAG.open(folder / "stub.e2g", embedder="hashing", summarizer=summarizer) as rag:
            estimate = rag.estimate(document)
            report = rag.add(document)
        counted = served(base)
    return {
        "estimated calls": estimate.llm_calls,
        "reported calls": report.llm_calls,
        "calls the server saw": counted["llm_calls"],
        "estimated prompt tokens, at most": estimate.prompt_tokens,
        "prompt tokens the server counted": counted["prompt_tokens"],
        "most calls in flight": counted["max_inflight"],
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
            "no LLM": extractive(document, Path(folder)),
            "stub LLM": against_stub(document, Path(folder), options.stub),
        }
    print(json.dumps(result, indent=2))
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
