r"""Measure query time in three parts: embedding, entity extraction, and everything else.

From the repository's root:

    python benchmarks/query_speed.py --data ../shared/data --out benchmarks/results/query_speed.json

Indexes one novel (Pride and Prejudice, all-MiniLM-L6-v2, no LLM) and asks about pairs of its
characters. "Without embedding and extraction" covers linking, filtering, ranking, packing and
reading the texts. The same run times the dense search alone. It also compares the hop distances of
the paper's strategy with networkx's shortest paths, called as in the official code, on the same
graph and entities. Exits with an error if a goal is missed.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from e2graphrag_integrations import (
    E2GraphRAG,
    HybridStrategy,
    PaperStrategy,
    SourceDocument,
    TreeTraversalStrategy,
)
from e2graphrag_integrations.graph.entity_graph import EntityGraph
from e2graphrag_integrations.retrieval.strategy import Mode, Strategy
from goals import Goal, finish
from runs import parser_of, percentiles, this_run, timed

CHARACTERS = (
    *("Elizabeth Bennet", "Mr. Darcy", "Jane Bennet", "Mr. Bingley", "Charlotte Lucas"),
    *("Mr. Collins", "Lydia Bennet", "Wickham", "Lady Catherine", "Georgiana Darcy"),
)
QUESTIONS = [f"What does {a} think of {b}?" for a, b in combinations(CHARACTERS, 2)]

PASSES = 10
PAUSE = 15
"""Seconds between passes: the speed of the machine varies by half from one minute to the next."""

FASTEST = "p50 of the fastest pass"
WITHOUT_EMBEDDING = "without embedding"
WITHOUT_MODELS = "without embedding and extraction"

QUERIES: Mapping[str, Mapping[str, Any]] = {
    "hybrid, k=10": {"strategy": HybridStrategy()},
    "hybrid, 2000 tokens": {"strategy": HybridStrategy(), "token_budget": 2000},
    "paper, k=10": {"strategy": PaperStrategy()},
}
"""Options of `retrieve` by name."""

MODEL_STEPS = {"embed": "embedding", "entities": "extraction"}
"""Steps of the trace that run a model, and their names in the result."""

Pass = dict[str, list[float]]
"""Seconds of each question, by part."""


def measure_queries(
    rag: E2GraphRAG, passes: int = PASSES, pause: float = PAUSE
) -> dict[str, dict[str, Any]]:
    """Return percentiles of each part over all passes, and its median in the fastest pass."""
    measured: dict[str, list[Pass]] = {name: [] for name in QUERIES}
    for number in range(passes):
        if number:
            time.sleep(pause)
        for name, options in QUERIES.items():
            measured[name].append(one_pass(rag, **options))
    return {name: combine(rows) for name, rows in measured.items()}


def one_pass(rag: E2GraphRAG, **options: Any) -> Pass:
    parts: Pass = {
        "embedding": [],
        "extraction": [],
        WITHOUT_MODELS: [],
        WITHOUT_EMBEDDING: [],
    }
    for question in QUESTIONS:
        timings = rag.retrieve(question, **options).trace.timings
        other = sum(s for step, s in timings.items() if step not in {*MODEL_STEPS, "load"})
        for step, part in MODEL_STEPS.items():
            parts[part].append(timings.get(step, 0.0))
        parts[WITHOUT_MODELS].append(other)
        parts[WITHOUT_EMBEDDING].append(other + timings.get("entities", 0.0))
    return parts


def combine(passes: Sequence[Pass]) -> dict[str, Any]:
    fastest = min(passes, key=lambda parts: np.median(parts[WITHOUT_EMBEDDING]))
    return {
        part: percentiles([seconds for parts in passes for seconds in parts[part]])
        | {FASTEST: percentiles(fastest[part])["p50"]}
        for part in fastest
    }


def measure_ranking(rag: E2GraphRAG, strategy: Strategy, mode: Mode) -> dict[str, Any]:
    """Time the ranking of ten nodes alone: five times, and the fastest time of each question."""
    runs = [
        [
            rag.retrieve(question, strategy=strategy, mode=mode).trace.timings["rank"]
            for question in QUESTIONS
        ]
        for _ in range(5)
    ]
    return percentiles([min(times) for times in zip(*runs, strict=True)])


def measure_hops(rag: E2GraphRAG) -> dict[str, Any]:
    """Time the hop distances between a question's entities, here and in the official code."""
    graph = rag.graph
    nx_graph = graph.to_networkx()
    queries = []
    for question in QUESTIONS:
        links = rag.retrieve(question, strategy=PaperStrategy(), k=5).trace.links
        queries.append([graph.index[link.entity] for link in links])
    fresh = replace(graph)  # a copy with an empty cache
    first = [timed(lambda e=entities: fresh.hops(e, 4))[1] for entities in queries]
    cached = [timed(lambda e=entities: fresh.hops(e, 4))[1] for entities in queries * 3]
    official = [
        timed(lambda e=entities: official_hops(graph, nx_graph, e))[1] for entities in queries * 3
    ]
    return {
        "this package": percentiles(cached),
        "this package, empty cache": percentiles(first),
        "official code, networkx": percentiles(official),
        "mean speedup": round(sum(official) / sum(cached), 1),
        "mean speedup, empty cache": round(sum(official) / 3 / sum(first), 1),
    }


def official_hops(
    graph: EntityGraph, nx_graph: nx.Graph, entities: Sequence[int], max_chunks: int = 25
) -> None:
    """Search the shortest paths of all pairs for h = 4, 3, 2, 1, as the official code does.

    It lowers h, and searches all paths again, until at most `max_chunks` chunks are found
    (research/peers.md, B.1).
    """
    for h in range(4, 0, -1):
        chunks: set[int] = set()
        for a, b in combinations(entities, 2):
            try:
                path = nx.shortest_path(nx_graph, graph.names[a], graph.names[b])
            except nx.NetworkXNoPath:
                continue
            if len(path) - 1 <= h:
                chunks |= set(graph.chunks(a)[0].tolist()) & set(graph.chunks(b)[0].tolist())
        if len(chunks) <= max_chunks:
            return


def goals_of(ms: Mapping[str, Any]) -> list[Goal]:
    hybrid = ms["hybrid, k=10"]
    return [
        Goal(f"ms {part}, {FASTEST}", hybrid[part][FASTEST], max=limit)
        for part, limit in ((WITHOUT_MODELS, 2), (WITHOUT_EMBEDDING, 8))
    ] + [
        Goal(
            "ranking by the tree over ranking by flat search",
            round(ms["ranking by the tree"]["p50"] / ms["ranking by flat search"]["p50"], 2),
            max=2,
        ),
        Goal("speedup of hop distances over networkx", ms["hop distances"]["mean speedup"], min=20),
    ]


def main() -> None:
    parser = parser_of(__doc__, "data")
    parser.add_argument("--passes", type=int, default=PASSES)
    parser.add_argument("--pause", type=float, default=PAUSE, help="seconds between passes")
    options = parser.parse_args()
    text = (options.data / "novels" / "pride_and_prejudice.txt").read_text(encoding="utf-8")
    document = SourceDocument("pride_and_prejudice", text, title="Pride and Prejudice")
    with (
        tempfile.TemporaryDirectory() as folder,
        E2GraphRAG.open(Path(folder) / "novel.e2g") as rag,
    ):
        rag.add(document)
        for question in QUESTIONS[:5]:  # warm up: models load on first use
            rag.retrieve(question)
            rag.retrieve(question, strategy=PaperStrategy())
        snapshot = rag._session.snapshot()  # noqa: SLF001 - to time the dense search alone
        embedder = rag._index.components.embedder  # noqa: SLF001 - the model of the index
        vectors = [embedder.embed_query(question) for question in QUESTIONS]
        result = {
            **this_run(),
            "nodes": len(snapshot.nodes.ids),
            "windows": len(snapshot.dense.window_nodes),
            "questions": len(QUESTIONS),
            "milliseconds": {
                **measure_queries(rag, options.passes, options.pause),
                "dense search alone": percentiles(
                    [timed(lambda v=v: snapshot.dense.search_windows(v, 200))[1] for v in vectors]
                ),
                "ranking by the tree": measure_ranking(rag, TreeTraversalStrategy(), "global"),
                "ranking by flat search": measure_ranking(rag, PaperStrategy(), "global"),
                "hop distances": measure_hops(rag),
            },
        }
    finish(result, goals_of(result["milliseconds"]), options.out)


if __name__ == "__main__":
    main()
