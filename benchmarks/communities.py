r"""Measure the detection of communities: time, peak memory, modularity, and stability.

From the repository's root, after `make bench-quality` has built the indexes:

    python benchmarks/communities.py --data ../shared/data --out benchmarks/results/communities.json

The synthetic graph has 505,762 edges between 100,000 entities in groups of about 50, with Zipf
frequencies. networkx's Louvain is measured on the same graph. Each measurement runs in a process of
its own, whose peak memory includes building the graph.

Stability is the share of reports that need not be written again after the last document of a real
index is added: those of communities with the same entities and the same chunks to report on. The
synthetic graph's goals are less than 20 seconds and 1 GB.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from e2graphrag_integrations.graph.builder import MentionTable, graph_from_mentions
from e2graphrag_integrations.graph.communities import Communities, find_communities
from e2graphrag_integrations.graph.entity_graph import row_entries
from e2graphrag_integrations.graph.sentence_table import SentenceTable
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from quality_bench.corpora import corpora
from runs import this_run, timed, write_result

GOALS = {"seconds": 20.0, "megabytes": 1000.0}
SETS = ("graphrag_bench_novel", "hotpotqa-text", "qmsum")
SENTENCES_PER_CHUNK = 10
_REPORT_CHUNKS = 10

Ints = NDArray[np.int64]


def synthetic(entities: int, edges: int) -> tuple[list[str], MentionTable]:
    """Return the mentions of sentences that connect pairs of entities, mostly of one group."""
    random = np.random.default_rng(0)
    frequent = 1 / (np.arange(entities) + 10.0)
    bounds = np.cumsum(frequent / frequent.sum())

    def draw(count: int) -> Ints:
        return np.searchsorted(bounds, random.random(count)).clip(0, entities - 1)

    group = random.integers(0, entities // 50, entities)
    by_group = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[by_group], np.arange(entities // 50 + 1))
    first = draw(3 * edges)
    sizes = np.diff(starts)[group[first]]
    places = starts[group[first]] + (random.random(3 * edges) * sizes).astype(np.int64)
    second = np.where(random.random(3 * edges) < 0.7, by_group[places], draw(3 * edges))  # noqa: PLR2004
    pairs = np.stack([first, second], axis=1)[first != second]
    _, kept = np.unique(np.sort(pairs, axis=1), axis=0, return_index=True)
    pairs = pairs[np.sort(kept)[:edges]]
    repeated = pairs[np.sort(random.integers(0, len(pairs), 2 * edges))]
    mentions = np.concatenate([pairs, repeated])
    used, rows = np.unique(mentions, return_inverse=True)
    sentences = len(mentions)
    chunks = -(-sentences // SENTENCES_PER_CHUNK)
    chunk_sizes = np.full(chunks, SENTENCES_PER_CHUNK)
    chunk_sizes[-1] -= chunks * SENTENCES_PER_CHUNK - sentences
    table = MentionTable(
        rows.reshape(-1),
        np.ones(2 * sentences, dtype=np.bool_),
        np.full(sentences, 2, dtype=np.int64),
        chunk_sizes,
    )
    return [f"{number:07}" for number in used.tolist()], table


def leiden(names: list[str], mentions: MentionTable, edges: csr_array) -> dict[str, Any]:
    """Measure this package: all levels, and the chunks under the communities of each."""
    labels, seconds = timed(lambda: find_communities(edges))
    table = SentenceTable(mentions, len(names))
    found = Communities(labels, table, len(mentions.chunk_sizes))
    _, evidence = timed(lambda: [found.evidence(level) for level in range(len(labels))])
    return {
        "seconds": round(seconds, 2),
        "seconds for the chunks": round(evidence, 2),
        "communities per level": [len(found.members(level)) for level in range(len(labels))],
        "modularity": round(modularity(labels[0], edges), 4),
    }


def networkx_louvain(names: list[str], mentions: MentionTable, edges: csr_array) -> dict[str, Any]:
    """Measure networkx's Louvain."""
    import networkx as nx

    del names, mentions

    def partition() -> list[set[int]]:
        found: list[set[int]] = nx.community.louvain_communities(
            nx.from_scipy_sparse_array(edges), seed=0
        )
        return found

    found, seconds = timed(partition)
    labels = np.full(edges.shape[0], -1)
    for number, members in enumerate(found):
        labels[list(members)] = number
    return {
        "seconds": round(seconds, 2),
        "communities per level": [len(found)],
        "modularity": round(modularity(labels, edges), 4),
    }


METHODS: Mapping[str, Callable[[list[str], MentionTable, csr_array], dict[str, Any]]] = {
    "this package, graspologic-native's Leiden": leiden,
    "networkx's Louvain": networkx_louvain,
}


def modularity(labels: Ints, edges: csr_array) -> float:
    table, total = edges.tocoo(), edges.data.sum()
    rows, columns = table.coords
    inner = table.data[labels[rows] == labels[columns]].sum() / total
    degrees = np.asarray(edges.sum(axis=1))
    shares = np.bincount(labels - labels.min(), degrees) / total
    return float(inner - (shares**2).sum())


def measured(name: str, entities: int, edges: int) -> dict[str, Any]:
    """Return the figures of one method, with the peak memory of the process."""
    names, mentions = synthetic(entities, edges)
    graph = graph_from_mentions(names, mentions)
    result = METHODS[name](names, mentions, graph.edges)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size = {"entities": len(names), "edges": graph.edges.nnz // 2}
    return size | result | {"megabytes": round(peak)}


def stability(snapshot: Snapshot) -> dict[str, Any]:
    """Return the share of reports per level that stay the same when a document is added."""
    mentions, _ = snapshot.stored_parts()
    last = int((snapshot.chunk_documents < len(snapshot.documents) - 1).sum())
    names = snapshot.unedited_names
    sentences = int(mentions.chunk_sizes[:last].sum())
    count = int(mentions.sentence_sizes[:sentences].sum())
    used, rows = np.unique(mentions.entities[:count], return_inverse=True)
    before_names = [names[row] for row in used.tolist()]
    before = MentionTable(
        rows.reshape(-1),
        mentions.named[:count],
        mentions.sentence_sizes[:sentences],
        mentions.chunk_sizes[:last],
    )
    after, kept = reports(list(names), mentions), reports(before_names, before)
    levels = range(min(len(after), len(kept)))
    return {
        "documents": len(snapshot.documents),
        "communities": [len(level) for level in after],
        "kept": [round(len(after[n] & kept[n]) / len(after[n]), 3) for n in levels],
    }


def reports(names: list[str], mentions: MentionTable) -> list[set[tuple[Any, ...]]]:
    """Return the entities and the chunks of the report of each community, by level."""
    edges = graph_from_mentions(names, mentions).edges
    labels = find_communities(edges)
    found = Communities(labels, SentenceTable(mentions, len(names)), len(mentions.chunk_sizes))
    levels = []
    for level in range(len(labels)):
        evidence = found.evidence(level)
        own = set()
        for label, members in enumerate(found.members(level)):
            chunks, weights = row_entries(evidence.chunks, label)
            best = chunks[np.lexsort((chunks, -np.round(weights, 9)))[:_REPORT_CHUNKS]]
            entities = tuple(names[row] for row in members.tolist())
            own.add((entities, tuple(best.tolist())))
        levels.append(own)
    return levels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="also measure the stability on these sets")
    parser.add_argument("--entities", type=int, default=100_000)
    parser.add_argument("--edges", type=int, default=530_000, help="before the cap per entity")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    result: dict[str, Any] = {"goals": GOALS, "methods": {}, "stability": {}}
    for name in METHODS:
        with context.Pool(1) as pool:
            result["methods"][name] = pool.apply(measured, (name, options.entities, options.edges))
        print(name, result["methods"][name], flush=True)
    for corpus in corpora(options.data, SETS) if options.data else ():
        with corpus.index() as rag:
            result["stability"][corpus.label] = stability(rag._session.snapshot())  # noqa: SLF001 - as other benchmarks do
    write_result(this_run() | result, options.out)
    own = result["methods"][next(iter(METHODS))]
    missed = [name for name, most in GOALS.items() if own[name] >= most]
    if missed:
        raise SystemExit(f"missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
