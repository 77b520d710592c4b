r"""How long a question takes, in three parts: embedding it, spaCy on it, and the rest.

From the repository's root:

    python benchmarks/query_speed.py --data ../shared/data --out benchmarks/results/query_speed.json

On one novel (Pride and Prejudice, all-MiniLM-L6-v2, no LLM): questions about pairs of its people.
Fails when a goal is missed. The rest is linking, routing, ranking, packing and reading the texts.
Beside it, in the same run, the dense search alone, and for the paper's strategy its hops against
networkx's shortest paths as the official code uses them, on the same graph and the same entities.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from e2graphrag_integrations import E2GraphRAG, HybridStrategy, PaperStrategy, SourceDocument
from e2graphrag_integrations.graph.entity_graph import EntityGraph
from goals import Goal, end_by
from runs import percentiles, this_run, timed

PEOPLE = (
    *("Elizabeth Bennet", "Mr. Darcy", "Jane Bennet", "Mr. Bingley", "Charlotte Lucas"),
    *("Mr. Collins", "Lydia Bennet", "Wickham", "Lady Catherine", "Georgiana Darcy"),
)
QUESTIONS = [f"What does {one} think of {other}?" for one, other in combinations(PEOPLE, 2)]
QUICKEST = "p50 of the quickest pass"
PASSES = 10
APART = 15
"""Seconds between passes: the machine's own speed changes by a half from one minute to the next."""

ASKS: Mapping[str, Mapping[str, Any]] = {
    "hybrid, k=10": {"strategy": HybridStrategy()},
    "hybrid, 2000 tokens": {"strategy": HybridStrategy(), "token_budget": 2000},
    "paper, k=10": {"strategy": PaperStrategy()},
}

PARTS = {"embed": "embedding", "entities": "spaCy and names"}


def asked(rag: E2GraphRAG) -> dict[str, dict[str, Any]]:
    """Return what each part takes, over all passes, and in the one that was quickest."""
    passes: dict[str, list[dict[str, list[float]]]] = {name: [] for name in ASKS}
    for number in range(PASSES):
        if number:
            time.sleep(APART)
        for name, options in ASKS.items():
            passes[name].append(one_pass(rag, **options))
    return {name: told_of(of_name) for name, of_name in passes.items()}


def told_of(passes: Sequence[Mapping[str, list[float]]]) -> dict[str, Any]:
    quietest = min(passes, key=lambda rows: np.median(rows["all but embedding"]))
    return {
        part: percentiles([seconds for rows in passes for seconds in rows[part]])
        | {QUICKEST: percentiles(quietest[part])["p50"]}
        for part in quietest
    }


def one_pass(rag: E2GraphRAG, **options: Any) -> dict[str, list[float]]:
    rows: dict[str, list[float]] = {
        "embedding": [],
        "spaCy and names": [],
        "the rest": [],
        "all but embedding": [],
    }
    for question in QUESTIONS:
        timings = rag.retrieve(question, **options).trace.timings
        rest = sum(s for step, s in timings.items() if step not in {*PARTS, "load"})
        for step, part in PARTS.items():
            rows[part].append(timings.get(step, 0.0))
        rows["the rest"].append(rest)
        rows["all but embedding"].append(rest + timings.get("entities", 0.0))
    return rows


def hops(rag: E2GraphRAG) -> dict[str, Any]:
    """Time the distances of the questions' entities: ours, and as the official code finds them."""
    graph = rag.graph
    plain = graph.to_networkx()
    asked = []
    for question in QUESTIONS:
        links = rag.retrieve(question, strategy=PaperStrategy(), k=5).trace.links
        asked.append([graph.index[link.entity] for link in links])
    fresh = replace(graph)  # remembers nothing
    first = [timed(lambda e=entities: fresh.hops(e, 4))[1] for entities in asked]
    ours = [timed(lambda e=entities: fresh.hops(e, 4))[1] for entities in asked * 3]
    theirs = [timed(lambda e=entities: official(graph, plain, e))[1] for entities in asked * 3]
    return {
        "ours": percentiles(ours),
        "ours, asked for the first time": percentiles(first),
        "official, networkx": percentiles(theirs),
        "times faster, mean": round(sum(theirs) / sum(ours), 1),
        "times faster, mean, the first time": round(sum(theirs) / 3 / sum(first), 1),
    }


def official(graph: EntityGraph, plain: nx.Graph, entities: Sequence[int], most: int = 25) -> None:
    """Find the paths of all pairs anew for each h, which falls while too many chunks are found.

    So the official code does it (research/peers.md, B.1).
    """
    for h in range(4, 0, -1):
        found: set[int] = set()
        for a, b in combinations(entities, 2):
            try:
                path = nx.shortest_path(plain, graph.names[a], graph.names[b])
            except nx.NetworkXNoPath:
                continue
            if len(path) - 1 <= h:
                found |= set(graph.chunks(a)[0].tolist()) & set(graph.chunks(b)[0].tolist())
        if len(found) <= most:
            return


def goals_of(ms: Mapping[str, Any]) -> list[Goal]:
    found, hops = ms["hybrid, k=10"], ms["hops of the paper's strategy"]
    return [
        Goal("ms of the rest, p50 of the quickest pass", found["the rest"][QUICKEST], most=2),
        Goal(
            "ms of all but embedding, p50 of the quickest pass",
            found["all but embedding"][QUICKEST],
            most=8,
        ),
        Goal("hops, times faster than networkx", hops["times faster, mean"], least=20),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    text = (options.data / "novels" / "pride_and_prejudice.txt").read_text(encoding="utf-8")
    document = SourceDocument("pride_and_prejudice", text, title="Pride and Prejudice")
    with (
        tempfile.TemporaryDirectory() as folder,
        E2GraphRAG.open(Path(folder) / "novel.e2g") as rag,
    ):
        rag.add(document)
        for question in QUESTIONS[:5]:
            rag.retrieve(question)  # models load at first use
            rag.retrieve(question, strategy=PaperStrategy())
        snapshot = rag._session.snapshot()  # noqa: SLF001 - for the search alone
        vectors = [rag._index.components.embedder.embed_query(q) for q in QUESTIONS]  # noqa: SLF001
        result = {
            **this_run(),
            "nodes": len(snapshot.nodes.ids),
            "windows": len(snapshot.dense.window_nodes),
            "questions": len(QUESTIONS),
            "milliseconds": {
                **asked(rag),
                "dense search alone": percentiles(
                    [timed(lambda v=v: snapshot.dense.search_windows(v, 200))[1] for v in vectors]
                ),
                "hops of the paper's strategy": hops(rag),
            },
        }
    goals = goals_of(result["milliseconds"])
    result["goals"] = [goal.told() for goal in goals]
    print(json.dumps(result, indent=2))
    if options.out:
        options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    end_by(goals)


if __name__ == "__main__":
    main()
