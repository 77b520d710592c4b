r"""Compare this package with sentence-transformers on a CPU: texts per second, and vectors.

    python benchmarks/embedding_speed.py --data ../shared/data \
        --out benchmarks/results/embedding_speed.json

Each round embeds the same texts with both in turn. The figures of one thread are texts per CPU
second of this process, and a speedup is the median of the ratios within each round, so that other
processes on the machine hardly matter. Exits with an error if a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import torch

from e2graphrag_integrations import E2GraphRAG, Models, SentenceTransformerEmbedder, SourceDocument
from e2graphrag_integrations.embedders.packed_bert import packed_bert
from e2graphrag_integrations.embedders.sentence_transformers import DEFAULT_MODEL, find_model
from e2graphrag_integrations.embedders.windowed import WindowedEmbedder
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.testing import CapitalizedWordExtractor
from goals import Goal, finish
from quality_bench.corpora import Corpus, corpora
from runs import output_of, parser_of, this_run

Embed = Callable[[Sequence[str]], FloatArray]

BEFORE = "sentence-transformers"
PACKAGE = "this package"

SPEED_SETS = ("multihop_rag_facts-text", "hotpotqa-text", "graphrag_bench_novel")
"""Sets with short, medium and long windows."""

VECTOR_SETS = (
    *SPEED_SETS,
    "lihuaworld-text",
    "qmsum",
    "wild_mathematics",
    "wild_philosophy",
)
"""Sets whose vectors are compared; the protocols of a set have almost the same texts."""

RECALL_SET = "multihop_rag_facts-text"
"""A set that is embedded completely."""

SLICE = 64
"""Texts per call, as in indexing."""

_BATCH_SIZE = 32

TOP = 5

_CHARACTERS = 1_200
"""Characters of documents that are indexed for each window that is needed."""


def models() -> dict[str, Embed]:
    """Return both ways to run the default model; each maps texts to unit vectors."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(find_model(DEFAULT_MODEL)), device="cpu")
    bert = packed_bert(SentenceTransformer(str(find_model(DEFAULT_MODEL)), device="cpu"))
    if bert is None:
        raise SystemExit("this processor or this version of PyTorch is not supported")

    def before(texts: Sequence[str]) -> FloatArray:
        found: FloatArray = model.encode(
            list(texts), batch_size=_BATCH_SIZE, show_progress_bar=False
        )
        return found

    return {BEFORE: before, PACKAGE: lambda texts: bert.encode(texts, batch_size=_BATCH_SIZE)}


def windows(corpus: Corpus, count: int, embedder: WindowedEmbedder) -> list[str]:
    """Return windows of chunks and summaries from the middle of a set, as indexing embeds them."""
    documents = corpus.documents()
    chosen: list[SourceDocument] = []
    for document in documents[len(documents) // 2 :]:
        if sum(len(one.text) for one in chosen) >= count * _CHARACTERS or len(chosen) == count:
            break
        chosen.append(replace(document, text=document.text[: count * _CHARACTERS]))
    extractor = CapitalizedWordExtractor()
    with E2GraphRAG.open(":memory:", embedder="hashing", models=Models(extractor=extractor)) as rag:
        rag.add(chosen)
        lines = [json.loads(line) for line in rag.export()]
    prefixes = {one.id: embedder.title_prefix(one.title) for one in chosen}
    texts = [
        text
        for node in lines
        if "node" in node
        for text in _windows(node["text"], prefixes[node["document"]], embedder)
    ]
    return texts[:count]


def _windows(text: str, prefix: str, embedder: WindowedEmbedder) -> Iterator[str]:
    for start, end in embedder.windows(text, prefix):
        yield prefix + text[start:end]


def in_slices(embed: Embed, texts: Sequence[str]) -> FloatArray:
    parts = [embed(texts[start : start + SLICE]) for start in range(0, len(texts), SLICE)]
    return np.concatenate(parts)


def speeds(
    compared: Mapping[str, Embed],
    texts: Sequence[str],
    rounds: int,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, dict[str, float]]:
    """Return texts per second, and the speedup over the first model."""
    seconds: dict[str, list[float]] = {name: [] for name in compared}
    for embed in compared.values():
        embed(texts[:8])  # warm up
    for _ in range(rounds):
        for name, embed in compared.items():
            began = clock()
            in_slices(embed, texts)
            seconds[name].append(clock() - began)
    base = next(iter(seconds.values()))
    return {
        name: {
            "texts per second": round(len(texts) / statistics.median(own), 1),
            "speedup": round(statistics.median(map(_ratio, base, own)), 2),
        }
        for name, own in seconds.items()
    }


def _ratio(one: float, other: float) -> float:
    return one / other


def with_threads(threads: int, options: argparse.Namespace) -> Any:
    """Return speeds by wall time, of a process whose libraries use so many threads."""
    arguments = ["--data", options.data, "--texts", options.texts, "--rounds", options.rounds]
    return output_of(__file__, *arguments, "--by-wall-time", threads=threads)


def deviation(embed: Embed, texts: Sequence[str], expected: FloatArray) -> dict[str, float]:
    """Return the deviation from other vectors, and from those of each text alone."""
    vectors = in_slices(embed, texts)
    alone = np.concatenate([embed([text]) for text in texts[:16]])
    cosines = (vectors.astype(float) * expected).sum(1)
    return {
        "smallest cosine": round(float(cosines.min()), 7),
        "largest difference": float(f"{np.abs(vectors - expected).max():.1e}"),
        "largest difference to the text alone": float(f"{np.abs(alone - vectors[:16]).max():.1e}"),
    }


def recall(compared: Mapping[str, Embed], corpus: Corpus, embedder: WindowedEmbedder) -> Any:
    """Return R@5 of dense search on the report half of a set of passages.

    A passage is found if one of its windows is, and each ranks by its best window.
    """
    documents, questions = corpus.documents(), corpus.questions("report")
    texts, owners = [], []
    for document in documents:
        own = list(_windows(document.text, embedder.title_prefix(document.title), embedder))
        texts += own
        owners += [document.id] * len(own)
    return {
        name: round(_recall(embed, texts, owners, questions), 4) for name, embed in compared.items()
    }


def _recall(
    embed: Embed, texts: Sequence[str], owners: Sequence[str], questions: Sequence[Any]
) -> float:
    vectors = in_slices(embed, texts)
    found = []
    for question in questions:
        order = np.argsort(-(vectors @ embed([question.text])[0]), kind="stable")
        best = list(islice(dict.fromkeys(owners[row] for row in order), TOP))
        found.append(len(question.gold.intersection(best)) / len(question.gold))
    return statistics.mean(found)


def goals_of(result: Mapping[str, Any]) -> list[Goal]:
    recalls = result["dense R@5"][RECALL_SET]
    loss = recalls[BEFORE] - recalls[PACKAGE]
    differences = [row[PACKAGE]["largest difference"] for row in result["vectors"].values()]
    alone = "largest difference to the text alone"
    return [
        *(
            Goal(f"{label}: speedup, one thread", row[PACKAGE]["speedup"], min=2)
            for label, row in result["one thread"].items()
        ),
        *(
            Goal(f"speedup by wall time, threads: {threads}", row[PACKAGE]["speedup"], min=2)
            for threads, row in result["threads"].items()
        ),
        Goal("loss of dense R@5", round(loss, 4), max=0.005),
        Goal("largest difference of a component of a vector", max(differences), max=1e-6),
        Goal(alone, max(row[PACKAGE][alone] for row in result["vectors"].values()), max=1e-6),
    ]


def main() -> None:
    parser = parser_of(__doc__, "data")
    parser.add_argument("--texts", type=int, default=64, help="texts per set and round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--by-wall-time", action="store_true", help="internal: see with_threads")
    options = parser.parse_args()
    embedder = WindowedEmbedder(SentenceTransformerEmbedder())
    if options.by_wall_time:
        [corpus] = corpora(options.data, [SPEED_SETS[1]])
        texts = windows(corpus, options.texts, embedder)
        print(json.dumps(speeds(models(), texts, options.rounds, time.perf_counter)))
        return
    torch.set_num_threads(1)
    sets = {corpus.label: corpus for corpus in corpora(options.data, VECTOR_SETS)}
    all_texts = {label: windows(one, options.texts, embedder) for label, one in sets.items()}
    compared = models()
    result: dict[str, Any] = {
        **this_run(),
        "tokens per text": {
            label: round(statistics.mean(map(embedder.embedder.tokens.count, all_texts[label])))
            for label in SPEED_SETS
        },
        "one thread": {
            label: speeds(compared, all_texts[label], options.rounds) for label in SPEED_SETS
        },
        "threads": {str(count): with_threads(count, options) for count in (1, 2)},
        "vectors": {
            label: {
                PACKAGE: deviation(compared[PACKAGE], texts, in_slices(compared[BEFORE], texts))
            }
            for label, texts in all_texts.items()
        },
        "dense R@5": {RECALL_SET: recall(compared, sets[RECALL_SET], embedder)},
    }
    finish(result, goals_of(result), options.out)


if __name__ == "__main__":
    main()
