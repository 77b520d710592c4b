r"""Indexes of ten thousand to a million chunks: time, memory, disk, and what quickness loses.

From the repository's root:

    python benchmarks/scale.py --data ../shared/data --out benchmarks/results/scale.json

Documents are made up (synthetic.py), vectors are mixed of those of the shared sets, whose indexes
`make bench-quality` keeps in benchmarks/.cache (else they are made: half an hour). Every step runs
in a process of its own, whose memory is read at its end. Questions are answered on one core.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from e2graphrag_integrations import E2GraphRAG
from e2graphrag_integrations.retrieval.filters import metadata_filter
from e2graphrag_integrations.search.dense import DenseIndex
from e2graphrag_integrations.search.fusion import top_rows
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from goals import Goal, end_by
from quality_bench.corpora import corpora
from runs import percentiles, this_run, timed
from synthetic import Beginning, CapitalPairs, Corpus, Floats, Lines, MixedVectors

SIZES = (10_000, 100_000, 1_000_000)
SETS = ("hotpotqa", "qmsum", "graphrag_bench_novel", "lihuaworld")
HELD_OUT = 500
"""Real vectors that questions are mixed of."""

ASKED = 200
TENTH = {"part": 3}
ASKS: Mapping[str, Mapping[str, Any]] = {
    "k=10": {},
    "2000 tokens": {"token_budget": 2000},
    "a tenth of the documents": {"where": TENTH},
}
QUICKEST = "the rest in the quickest pass, ms"
ADDED = 500
"""Documents of 100 chunks handed over at once."""

ALL = 1 << 60
SIXTH = 18
"""Longest window that cuts a chunk in six."""

NO_PARTS = {"embed", "entities", "load"}


def memory() -> dict[str, int]:
    """Return MiB of this process: all, what is its own, and the most there was."""
    told = Path("/proc/self/status").read_text(encoding="ascii")
    lines = (line.split() for line in told.splitlines() if line.endswith(" kB"))
    found = {line[0].rstrip(":"): int(line[1]) >> 10 for line in lines}
    return {"resident": found["VmRSS"], "own": found["RssAnon"], "peak": found["VmHWM"]}


def real_vectors(data: Path) -> Floats:
    """Return the vectors of the shared sets' windows, shuffled."""
    parts = []
    for corpus in corpora(data, SETS):
        with corpus.index() as rag:
            parts.append(np.array(rag._session.snapshot().dense.vectors))  # noqa: SLF001
    together = np.concatenate(parts)
    return together[np.random.default_rng(0).permutation(len(together))]


def opened(path: Path, real: Floats, window: int | None = None) -> E2GraphRAG:
    return E2GraphRAG.open(
        path,
        embedder=MixedVectors(real[HELD_OUT:], real[:HELD_OUT], window),
        extractor=CapitalPairs(),
        summarizer=Beginning(),
        splitter=Lines(),
    )


# Steps, each in a process of its own.


def index(rag: E2GraphRAG, corpus: Corpus) -> dict[str, Any]:
    """Add everything, some documents at a time."""
    seconds: list[float] = []
    stages: dict[str, float] = {}
    documents = -(-corpus.chunks // 100)
    for first in range(0, documents, ADDED):
        some = list(corpus.documents(first, min(documents, first + ADDED)))
        report, took = timed(lambda some=some: rag.add(some))
        seconds.append(took)
        for stage, spent in report.seconds.items():
            stages[stage] = round(stages.get(stage, 0.0) + spent, 2)
    return {
        "seconds": round(sum(seconds), 1),
        "chunks a second": round(corpus.chunks / sum(seconds)),
        "seconds of stages": stages,
    }


def derive(rag: E2GraphRAG, _: Corpus) -> dict[str, Any]:
    """Make the snapshot, and what is made at its first use."""
    snapshot, built = timed(rag._session.snapshot)  # noqa: SLF001
    after = memory()
    _, words = timed(lambda: snapshot.bm25)
    _, cells = timed(lambda: snapshot.dense.search_windows(snapshot.dense.vectors[0], 10))
    folder = Path(f"{rag._store.path}.snapshot") / snapshot.generation  # noqa: SLF001
    files = {path.stem: path.stat().st_size for path in folder.rglob("*.npy")}
    sizes = {
        "vectors": files.pop("vectors"),
        "words and cells": sum(path.stat().st_size for path in folder.glob("*/*.npy")),
        "edges": sum(size for name, size in files.items() if name.startswith("edges_")),
        "mentions": sum(size for name, size in files.items() if name.startswith("mention_")),
    }
    whole = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    sizes["the rest"] = whole - sum(sizes.values())
    stats = rag.stats()
    return {
        "seconds": {
            "snapshot": round(built, 1),
            "words": round(words, 1),
            "cells": round(cells, 1),
        },
        "memory of the snapshot, MiB": after,
        "MiB on disk": {name: round(size / 2**20, 1) for name, size in sizes.items()},
        "bytes": {
            "the file, a chunk": Path(rag._store.path).stat().st_size // stats.chunks,  # noqa: SLF001
            "snapshot without vectors, a chunk": (whole - sizes["vectors"]) // stats.chunks,
            "an edge": round(sizes["edges"] / max(1, stats.edges), 1),
            "a mention": round(sizes["mentions"] / len(snapshot.mentions.entities), 1),
        },
        "nodes": stats.chunks + stats.summaries,
        "windows": len(snapshot.dense.window_nodes),
        "entities": stats.entities,
        "edges": stats.edges,
        "links of entities and chunks": int(snapshot.graph.postings.nnz),
    }


def serve(rag: E2GraphRAG, corpus: Corpus) -> dict[str, Any]:
    """Answer questions, on one core; see what an exact search would have found."""
    import faiss

    faiss.omp_set_num_threads(1)
    snapshot, loaded = timed(rag._session.snapshot)  # noqa: SLF001
    opening = memory()
    questions = corpus.questions(ASKED)
    _, first = timed(lambda: rag.retrieve(questions[0]))
    for question in questions[:20]:
        rag.retrieve(question)
    passes = [one_pass_of_each(rag, questions) for _ in range(2)]
    serving = memory()
    vectors = snapshot.dense.vectors
    asked = [rag._index.components.embedder.embed_query(question) for question in questions]  # noqa: SLF001
    flat = faiss.IndexFlatIP(vectors.shape[1])
    flat.add(np.ascontiguousarray(vectors))
    flat.search(asked[0][None], 200)
    floor = percentiles([timed(lambda v=v: flat.search(v[None], 200))[1] for v in asked])
    recall = recalls(rag, snapshot, questions, asked, flat)
    # Minutes later: the machine's own speed changes by a half from one to the next.
    passes += [one_pass_of_each(rag, questions) for _ in range(2)]
    found = {name: told_of([each[name] for each in passes]) for name in ASKS}
    for told in found.values():
        told["times flat search, p50"] = round(told["the rest, ms"]["p50"] / floor["p50"], 2)
    return {
        "seconds to open": round(loaded, 2),
        "seconds of the first question": round(first, 2),
        "memory, MiB": {"opened": opening, "serving": serving},
        "vectors, MiB": vectors.nbytes >> 20,
        "FAISS flat search alone, ms": floor,
        "questions": found,
        "recall": recall,
        "one document changed": changed(rag, corpus),
    }


def ask(rag: E2GraphRAG, corpus: Corpus) -> dict[str, Any]:
    """Answer questions alone: `--step ask INDEX CHUNKS VECTORS`, on an index that was kept."""
    import faiss

    faiss.omp_set_num_threads(1)
    questions = corpus.questions(ASKED)
    for question in questions[:20]:
        rag.retrieve(question)
    passes = [one_pass(rag, questions) for _ in range(4)]
    return {"questions": {"k=10": told_of(passes)}}


def one_pass_of_each(
    rag: E2GraphRAG, questions: Sequence[str]
) -> dict[str, list[dict[str, float]]]:
    return {name: one_pass(rag, questions, **options) for name, options in ASKS.items()}


def one_pass(rag: E2GraphRAG, questions: Sequence[str], **options: Any) -> list[dict[str, float]]:
    """Return the seconds that each question takes by step, beside embedding and extraction."""
    return [
        {
            step: spent
            for step, spent in rag.retrieve(question, **options).trace.timings.items()
            if step not in NO_PARTS
        }
        for question in questions
    ]


def told_of(passes: Sequence[Sequence[Mapping[str, float]]]) -> dict[str, Any]:
    """Return what all passes took together, and the quickest.

    In the first one much of the files is read for the first time.
    """
    rests = [[sum(steps.values()) for steps in each] for each in passes]
    quickest = min(rests, key=lambda rest: float(np.quantile(rest, 0.95)))
    steps = [steps for each in passes for steps in each]
    return {
        "the rest, ms": percentiles([spent for rest in rests for spent in rest]),
        QUICKEST: percentiles(quickest),
        "passes, p95 ms": [percentiles(rest)["p95"] for rest in rests],
        "steps, p50 ms": {
            step: percentiles([each[step] for each in steps])["p50"] for step in steps[0]
        },
    }


def recalls(
    rag: E2GraphRAG,
    snapshot: Snapshot,
    questions: Sequence[str],
    asked: Sequence[Floats],
    flat: Any,
) -> dict[str, float]:
    """Return the share of what exact search finds that is found.

    Within a tenth of the documents, a quarter of the questions are asked.
    """
    shares: dict[str, list[float]] = {}
    tenth = metadata_filter(TENTH)(snapshot)[snapshot.chunk_nodes]

    def note(what: str, found: Any, expected: Any) -> None:
        if len(expected):
            share = len(np.intersect1d(found, expected)) / len(expected)
            shares.setdefault(what, []).append(share)

    whole = replace(
        snapshot,
        dense=DenseIndex(snapshot.dense.vectors, snapshot.dense.window_nodes, exact_limit=ALL),
    )
    vars(whole.dense)["_flat_index"] = flat
    vars(whole)["personalized_pagerank"] = replace(snapshot.personalized_pagerank, exact_limit=ALL)
    vars(whole)["bm25"] = replace(snapshot.bm25, max_doc_freq=ALL)
    reader = rag._session  # noqa: SLF001
    for number, (question, vector) in enumerate(zip(questions, asked, strict=True)):
        filters: dict[str, Any] = {"": None}
        if number % 4 == 0:
            filters[" within a tenth"] = tenth
        for count in (10, 200):
            rows, _ = snapshot.dense.search_windows(vector, count)
            note(f"vectors, best {count}", rows, flat.search(vector[None], count)[1][0])
        start = seeds_of(rag, snapshot, question)
        for where, seen in filters.items():
            if start:
                chunks, shares_found = snapshot.personalized_pagerank.rank(start, allowed=seen)
                every, exact = whole.personalized_pagerank.rank(start, allowed=seen)
                for count in (10, 50, 200):
                    best = every[top_rows(exact, count)]
                    mine = chunks[top_rows(shares_found, count)]
                    note(f"walk{where}, best {count}", mine, best)
            answers = []
            for one in (snapshot, whole):
                reader._snapshot = one  # noqa: SLF001
                result = rag.retrieve(question, where=TENTH if where else None)
                answers.append([node.node_id for node in result.nodes])
            note(f"results{where}, best 10", *answers)
    reader._snapshot = snapshot  # noqa: SLF001
    return {what: round(float(np.mean(found)), 4) for what, found in shares.items()}


def seeds_of(rag: E2GraphRAG, snapshot: Snapshot, question: str) -> dict[int, float]:
    links = rag.retrieve(question).trace.links
    rows = {one.entity: snapshot.titled_entities.index[one.entity] for one in links}
    held = snapshot.personalized_pagerank.doc_freq
    return {row: 1 / int(held[row]) for row in rows.values() if held[row]}


def changed(rag: E2GraphRAG, corpus: Corpus) -> dict[str, float]:
    """Replace one document and ask again, then put the old one back."""
    [before] = corpus.documents(0, 1)
    after = replace(before, text=before.text.replace(".", " anew.", 1))
    question = corpus.questions(1)[0]
    _, written = timed(lambda: rag.update(after))
    _, asked = timed(lambda: rag.retrieve(question))
    rag.update(before)
    return {"seconds to write": round(written, 2), "seconds of the next question": round(asked, 2)}


STEPS: Mapping[str, Callable[[E2GraphRAG, Corpus], dict[str, Any]]] = {
    "index": index,
    "derive": derive,
    "serve": serve,
}


def run_step(step: str, path: Path, chunks: int, vectors: Path, window: int | None) -> None:
    real = np.load(vectors, allow_pickle=False)
    with opened(path, real, window) as rag:
        result = {**STEPS, "ask": ask}[step](rag, Corpus(chunks))
    print(json.dumps(result | {"memory at the end, MiB": memory()}))


def in_process(arguments: Sequence[str]) -> dict[str, Any]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"} if "serve" in arguments else None
    done = subprocess.run(
        [sys.executable, __file__, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def on_real_vectors(real: Floats) -> dict[str, float]:
    """Return the recall of cells among vectors that are not mixed."""
    import faiss

    stored, asked = real[HELD_OUT:], real[:HELD_OUT]
    cells = DenseIndex(stored, np.arange(len(stored)), exact_limit=0)
    flat = faiss.IndexFlatIP(stored.shape[1])
    flat.add(stored)
    found = {}
    for count in (10, 200):
        expected = flat.search(asked, count)[1]
        shares = [
            len(np.intersect1d(cells.search_windows(vector, count)[0], rows)) / count
            for vector, rows in zip(asked, expected, strict=True)
        ]
        found[f"best {count} of {len(stored)}"] = round(float(np.mean(shares)), 4)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--windows", type=int, default=100_000, help="chunks, also cut in six")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--step", nargs=4, metavar=("STEP", "INDEX", "CHUNKS", "VECTORS"))
    parser.add_argument("--window", type=int)
    options = parser.parse_args()
    if options.step:
        step, path, chunks, vectors = options.step
        run_step(step, Path(path), int(chunks), Path(vectors), options.window)
        return
    real = real_vectors(options.data)
    result: dict[str, Any] = {
        **this_run(),
        "recall on real vectors": on_real_vectors(real),
        "sizes": {},
    }
    runs = [(size, None) for size in options.sizes]
    if options.windows:
        runs.append((options.windows, SIXTH))
    with tempfile.TemporaryDirectory() as folder:
        vectors = Path(folder) / "real.npy"
        np.save(vectors, real, allow_pickle=False)
        for size, window in runs:
            name = f"{size}" if window is None else f"{size}, six windows each"
            path = Path(folder) / f"{size}_{window}.e2g"
            result["sizes"][name] = {}
            for step in STEPS:
                arguments = ["--step", step, str(path), str(size), str(vectors)]
                if window is not None:
                    arguments += ["--window", str(window)]
                result["sizes"][name][step] = in_process(arguments)
                print(name, step, json.dumps(result["sizes"][name][step]), flush=True)
                if options.out:
                    options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    if options.out:
        plot(result["sizes"], options.out.with_suffix(".svg"))
    goals = goals_of(result)
    result["goals"] = [goal.told() for goal in goals]
    print(json.dumps(result["goals"], indent=2))
    if options.out:
        options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    end_by(goals)


def goals_of(result: Mapping[str, Any]) -> list[Goal]:
    """Return the goals for the sizes that were measured."""
    real = result["recall on real vectors"]
    goals = [
        Goal(f"recall on real vectors, {what}", share, least=0.98) for what, share in real.items()
    ]
    for name, told in result["sizes"].items():
        serving = told["serve"]
        goals += [
            Goal(f"{name}: recall, {what}", share, least=0.98)
            for what, share in serving["recall"].items()
        ]
        asked = serving["questions"]["k=10"]
        if name == "100000":
            goals.append(
                Goal(f"{name}: times flat search", asked["times flat search, p50"], most=3)
            )
        if name == "1000000":
            beyond = serving["memory, MiB"]["serving"]["resident"] - serving["vectors, MiB"]
            goals += [
                Goal(
                    f"{name}: ms of the rest, p95 of the quickest pass",
                    asked[QUICKEST]["p95"],
                    most=25,
                ),
                Goal(f"{name}: seconds to open", serving["seconds to open"], most=5),
                Goal(f"{name}: MiB beyond the vectors", beyond, most=4096),
            ]
    return goals


def plot(sizes: Mapping[str, Any], path: Path) -> None:
    """Draw time, memory and disk against size, both axes logarithmic."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    whole = {int(name): told for name, told in sizes.items() if name.isdigit()}
    lines: Mapping[str, Callable[[Mapping[str, Any]], float]] = {
        "index, s": lambda told: told["index"]["seconds"],
        "snapshot, s": lambda told: told["derive"]["seconds"]["snapshot"],
        "open, s": lambda told: told["serve"]["seconds to open"],
        "question p50, ms": lambda told: told["serve"]["questions"]["k=10"]["the rest, ms"]["p50"],
        "question p95, ms": lambda told: told["serve"]["questions"]["k=10"]["the rest, ms"]["p95"],
        "FAISS flat p50, ms": lambda told: told["serve"]["FAISS flat search alone, ms"]["p50"],
        "indexing peak, MiB": lambda told: told["index"]["memory at the end, MiB"]["peak"],
        "serving, MiB": lambda told: told["serve"]["memory, MiB"]["serving"]["resident"],
    }
    figure, axes = plt.subplots(figsize=(7, 5))
    for label, value in lines.items():
        axes.loglog(list(whole), [value(told) for told in whole.values()], "o-", label=label)
    axes.set_xlabel("chunks")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path)


if __name__ == "__main__":
    main()
