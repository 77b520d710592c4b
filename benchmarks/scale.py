r"""Measure time, memory, disk and recall of indexes of ten thousand to a million chunks.

From the repository's root:

    python benchmarks/scale.py --data ../shared/data --out benchmarks/results/scale.json

Documents are synthetic (synthetic.py). Their vectors are mixtures of real ones from the data sets,
whose indexes `make bench-quality` caches in benchmarks/.cache; building them here takes half an
hour. Each step runs in its own process and reports its memory at the end. Queries use one core.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from e2graphrag_integrations import E2GraphRAG, FreshnessPolicy, IndexSettings, Models
from e2graphrag_integrations.retrieval.filters.where import metadata_filter
from e2graphrag_integrations.search.dense import DenseIndex
from e2graphrag_integrations.search.fusion import top_rows
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from goals import Goal, finish
from quality_bench.corpora import corpora
from runs import (
    answer_from,
    memory,
    output_of,
    parser_of,
    percentiles,
    this_run,
    timed,
    write_result,
)
from synthetic import (
    Corpus,
    FirstTextSummarizer,
    Floats,
    LineSplitter,
    MixtureEmbedder,
    SyntheticNameExtractor,
)

SIZES = (10_000, 100_000, 1_000_000)
SETS = ("hotpotqa", "qmsum", "graphrag_bench_novel", "lihuaworld")
HELD_OUT = 500
"""Number of real vectors reserved for questions."""

QUESTIONS = 200
SEARCH_FOLDERS = "words", "cells", "codes"
"""Subfolders of a snapshot with the BM25 and the IVF index."""

FILTER = {"part": 3}
"""A metadata filter that allows a tenth of the documents."""

QUERIES: Mapping[str, Mapping[str, Any]] = {
    "k=10": {},
    "2000 tokens": {"token_budget": 2000},
    "filter on 10% of the documents": {"where": FILTER},
}
WITHOUT_MODELS = "without embedding and extraction, ms"
FASTEST = "fastest pass, ms"
FIRST_MISSPELLED = "first misspelled name, ms"
BATCH = 500
"""Documents of 100 chunks per call of `add`."""

UNLIMITED = 1 << 60
MOST = 400
"""Number of windows that exact search finds, more than any search here asks for."""

BLOCK = 100_000
"""Vectors that are compared at a time."""

LARGE = 9_000_000
"""Number of windows from which the goals for ten million apply."""

EIGHTH = 18
"""Maximum tokens of a window that splits a chunk into eight."""

EXCLUDED_STEPS = {"embed", "entities", "load"}
"""Steps of the trace that are left out of the query times."""


def real_vectors(data: Path) -> Floats:
    """Return the vectors of all windows of the data sets, shuffled."""
    parts = []
    for corpus in corpora(data, SETS):
        with corpus.index() as rag:
            parts.append(np.array(rag._session.snapshot().dense.vectors))  # noqa: SLF001 - no public access
    vectors = np.concatenate(parts)
    return vectors[np.random.default_rng(0).permutation(len(vectors))]


def open_index(
    path: Path,
    real: Floats,
    window: int | None = None,
    freshness: FreshnessPolicy | None = None,
) -> E2GraphRAG:
    return E2GraphRAG.open(
        path,
        embedder=MixtureEmbedder(real[HELD_OUT:], real[:HELD_OUT], window),
        models=Models(extractor=SyntheticNameExtractor()),
        summarizer=FirstTextSummarizer(),
        settings=IndexSettings(splitter=LineSplitter()),
        freshness=freshness,
    )


# Steps: each runs in its own process.


def index(rag: E2GraphRAG, corpus: Corpus) -> dict[str, Any]:
    """Add all documents in batches; the times are of those that no earlier run has added."""
    seconds: list[float] = []
    stages: dict[str, float] = {}
    chunks = 0
    documents = -(-corpus.chunks // 100)
    for first in range(0, documents, BATCH):
        batch = list(corpus.documents(first, min(documents, first + BATCH)))
        report, duration = timed(lambda batch=batch: rag.add(batch))
        if not report.chunks:
            continue
        chunks += report.chunks
        seconds.append(duration)
        for stage, stage_seconds in report.seconds.items():
            stages[stage] = round(stages.get(stage, 0.0) + stage_seconds, 2)
    return {
        "chunks": chunks,
        "seconds": round(sum(seconds), 1),
        "chunks per second": round(chunks / max(sum(seconds), 1e-9)),
        "stage seconds": stages,
    }


def build(rag: E2GraphRAG, corpus: Corpus) -> dict[str, Any]:
    """Build what the first question after a change builds, and stores for later processes."""
    snapshot, snapshot_seconds = timed(rag._session.snapshot)  # noqa: SLF001 - no public access
    snapshot_memory = memory()
    _, bm25_seconds = timed(lambda: snapshot.bm25)
    _, ivf_seconds = timed(lambda: snapshot.dense.search_windows(snapshot.dense.vectors[0], 10))
    _, question_seconds = timed(lambda: rag.retrieve(corpus.questions(1)[0]))
    folder = Path(f"{rag.path}.snapshot") / snapshot.generation
    files = {path.stem: path.stat().st_size for path in folder.rglob("*.npy")}
    sizes = {
        "vectors": files.pop("vectors"),
        "BM25 and IVF": sum(
            path.stat().st_size for name in SEARCH_FOLDERS for path in folder.glob(f"{name}/*.npy")
        ),
        "edges": sum(size for name, size in files.items() if name.startswith("edges_")),
        "mentions": sum(size for name, size in files.items() if name.startswith("mention_")),
    }
    total = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    sizes["other"] = total - sum(sizes.values())
    stats = rag.stats()
    return {
        "seconds": {
            "snapshot": round(snapshot_seconds, 1),
            "bm25": round(bm25_seconds, 1),
            "ivf": round(ivf_seconds, 1),
            "question": round(question_seconds, 1),
        },
        "snapshot memory, MiB": snapshot_memory,
        "MiB on disk": {name: round(size / 2**20, 1) for name, size in sizes.items()},
        "bytes": {
            "database file per chunk": Path(rag.path).stat().st_size // stats.chunks,
            "snapshot without vectors per chunk": (total - sizes["vectors"]) // stats.chunks,
            "per edge": round(sizes["edges"] / max(1, stats.edges), 1),
            "per mention": round(sizes["mentions"] / len(snapshot.mentions.entities), 1),
        },
        "nodes": stats.chunks + stats.summaries,
        "windows": len(snapshot.dense.window_nodes),
        "entities": stats.entities,
        "edges": stats.edges,
        "entity-chunk links": int(snapshot.graph.postings.nnz),
    }


def serve(rag: E2GraphRAG, corpus: Corpus) -> dict[str, Any]:
    """Answer questions on one core, and compare the results with exact search."""
    import faiss

    faiss.omp_set_num_threads(1)
    snapshot, loading = timed(rag._session.snapshot)  # noqa: SLF001 - no public access
    opened = memory()
    questions = corpus.questions(QUESTIONS)
    _, first = timed(lambda: rag.retrieve(questions[0]))
    misspelled = ask_misspelled_name(rag, snapshot)
    for question in questions[:20]:
        rag.retrieve(question)
    passes = [pass_of_each_query(rag, questions) for _ in range(2)]
    serving = memory()
    vectors = snapshot.dense.vectors
    embedder = rag._index.components.embedder  # noqa: SLF001 - the model of the index
    query_vectors = [embedder.embed_query(question) for question in questions]
    flat = FlatSearch(vectors, snapshot.dense.window_nodes)
    flat.search_windows(query_vectors[0], 1)  # reads the file
    flat_ms = percentiles([timed(lambda v=v: flat.nearest(v, 200))[1] for v in query_vectors])
    recall = measure_recall(rag, snapshot, questions, query_vectors, flat)
    # Minutes later, because the speed of the machine varies by half.
    passes += [pass_of_each_query(rag, questions) for _ in range(2)]
    queries = {name: combine([each[name] for each in passes]) for name in QUERIES}
    for times in queries.values():
        for quantile in ("p50", "p95"):
            ratio = times[FASTEST][quantile] / flat_ms[quantile]
            times[f"{quantile} relative to flat search"] = round(ratio, 2)
    return {
        "seconds to open": round(loading, 2),
        "seconds for the first query": round(first, 2),
        FIRST_MISSPELLED: misspelled,
        "memory, MiB": {"opened": opened, "serving": serving},
        "vectors, MiB": vectors.nbytes >> 20,
        "FAISS flat search, ms": flat_ms,
        "queries": queries,
        "recall": recall,
        "one changed document": change_document(rag, corpus),
    }


class FlatSearch(DenseIndex):
    """Exact search in mapped vectors, which may be as large as the memory."""

    def __init__(self, vectors: Floats, window_nodes: Any) -> None:
        super().__init__(vectors, window_nodes, exact_limit=UNLIMITED)
        self._found: dict[tuple[bytes, bytes | None], tuple[Any, Any]] = {}

    def nearest(self, query: Floats, count: int) -> Any:
        """Return the nearest windows, best first."""
        import faiss

        metric = faiss.METRIC_INNER_PRODUCT
        return faiss.knn(query[None], self.vectors, count, metric=metric)[1][0]

    def search_windows(self, query: Floats, count: int, allowed: Any = None) -> tuple[Any, Any]:
        """Search exactly; a question is searched once for all counts up to `MOST`."""
        key = query.tobytes(), None if allowed is None else allowed.tobytes()
        if key not in self._found:
            self._found[key] = self._search(query, allowed)
        windows, cosines = self._found[key]
        return windows[:count], cosines[:count]

    def _search(self, query: Floats, allowed: Any) -> tuple[Any, Any]:
        cosines = np.empty(len(self.vectors), dtype=np.float32)
        for first in range(0, len(cosines), BLOCK):
            cosines[first : first + BLOCK] = self.vectors[first : first + BLOCK] @ query
        rows = np.arange(len(cosines))
        if allowed is not None:
            rows = np.flatnonzero(allowed[self.window_nodes])
        windows = rows[top_rows(cosines[rows], MOST)]
        return windows, cosines[windows].astype(np.float64)


def ask_misspelled_name(rag: E2GraphRAG, snapshot: Snapshot) -> float:
    """Return the milliseconds of a question with the first misspelled name of the process."""
    entity = snapshot.graph.names[len(snapshot.graph.names) // 2]
    rag.retrieve(f"{entity.title()}?")
    vars(snapshot).pop("aliases", None)  # an earlier question may have had an unknown name
    result, seconds = timed(lambda: rag.retrieve(f"{entity[:3]}x{entity[3:]}?".title()))
    if [link.entity for link in result.trace.links] != [entity]:
        raise SystemExit(f"the misspelled {entity!r} was not found")
    return round(seconds * 1000, 1)


def pass_of_each_query(
    rag: E2GraphRAG, questions: Sequence[str]
) -> dict[str, list[dict[str, float]]]:
    return {name: one_pass(rag, questions, **options) for name, options in QUERIES.items()}


def one_pass(rag: E2GraphRAG, questions: Sequence[str], **options: Any) -> list[dict[str, float]]:
    """Return the seconds of each question by step, without embedding and extraction."""
    return [
        {
            step: seconds
            for step, seconds in rag.retrieve(question, **options).trace.timings.items()
            if step not in EXCLUDED_STEPS
        }
        for question in questions
    ]


def combine(passes: Sequence[Sequence[Mapping[str, float]]]) -> dict[str, Any]:
    """Return percentiles over all passes and of the fastest one.

    The first pass reads much of the files for the first time.
    """
    totals = [[sum(steps.values()) for steps in each] for each in passes]
    fastest = min(totals, key=lambda seconds: float(np.quantile(seconds, 0.95)))
    steps = [steps for each in passes for steps in each]
    return {
        WITHOUT_MODELS: percentiles([s for seconds in totals for s in seconds]),
        FASTEST: percentiles(fastest),
        "p95 ms per pass": [percentiles(seconds)["p95"] for seconds in totals],
        "p50 ms per step": {
            step: percentiles([each[step] for each in steps])["p50"] for step in steps[0]
        },
    }


def measure_recall(
    rag: E2GraphRAG,
    snapshot: Snapshot,
    questions: Sequence[str],
    vectors: Sequence[Floats],
    flat: FlatSearch,
) -> dict[str, float]:
    """Return the mean recall against exact search, by kind of search.

    A quarter of the questions are also asked with the filter.
    """
    recalls: dict[str, list[float]] = {}
    filtered = metadata_filter(FILTER)(snapshot)[snapshot.chunk_nodes]

    def record(name: str, rows: Any, expected: Any) -> None:
        if len(expected):
            recall = len(np.intersect1d(rows, expected)) / len(expected)
            recalls.setdefault(name, []).append(recall)

    exact = replace(snapshot, dense=flat)
    vars(exact)["personalized_pagerank"] = replace(
        snapshot.personalized_pagerank, exact_limit=UNLIMITED
    )
    vars(exact)["bm25"] = replace(snapshot.bm25, max_doc_freq=UNLIMITED)
    for number, (question, vector) in enumerate(zip(questions, vectors, strict=True)):
        filters: dict[str, Any] = {"": None}
        if number % 4 == 0:
            filters[" with a filter"] = filtered
        for count in (10, 200):
            rows, _ = snapshot.dense.search_windows(vector, count)
            record(f"vectors, top {count}", rows, flat.search_windows(vector, count)[0])
        seeds = seeds_of(rag, snapshot, question)
        for suffix, allowed in filters.items():
            if seeds:
                chunks, scores = snapshot.personalized_pagerank.rank(seeds, allowed=allowed)
                all_chunks, exact_scores = exact.personalized_pagerank.rank(seeds, allowed=allowed)
                for count in (10, 50, 200):
                    top = chunks[top_rows(scores, count)]
                    expected = all_chunks[top_rows(exact_scores, count)]
                    record(f"PageRank{suffix}, top {count}", top, expected)
            answers = []
            for version in (snapshot, exact):
                answer_from(rag, version)
                result = rag.retrieve(question, where=FILTER if suffix else None)
                answers.append([node.node_id for node in result.nodes])
            record(f"results{suffix}, top 10", *answers)
    answer_from(rag, snapshot)
    return {name: round(float(np.mean(values)), 4) for name, values in recalls.items()}


def seeds_of(rag: E2GraphRAG, snapshot: Snapshot, question: str) -> dict[int, float]:
    """Return the PageRank seeds of a question: entities, weighted by their inverse frequency."""
    links = rag.retrieve(question).trace.links
    rows = {snapshot.subjects.index[link.entity] for link in links}
    doc_freq = snapshot.personalized_pagerank.doc_freq
    return {row: 1 / int(doc_freq[row]) for row in rows if doc_freq[row]}


def change_document(rag: E2GraphRAG, corpus: Corpus) -> dict[str, float]:
    """Update one document, query the index, then restore the document."""
    [before] = corpus.documents(0, 1)
    after = replace(before, text=before.text.replace(".", " again.", 1))
    question = corpus.questions(1)[0]
    _, writing = timed(lambda: rag.update(after))
    _, querying = timed(lambda: rag.retrieve(question))
    rag.update(before)
    return {"seconds to write": round(writing, 2), "seconds for the next query": round(querying, 2)}


STEPS: Mapping[str, Callable[[E2GraphRAG, Corpus], dict[str, Any]]] = {
    "index": index,
    "build": build,
    "serve": serve,
}


def run_step(step: str, path: Path, chunks: int, vectors: Path, window: int | None) -> None:
    real = np.load(vectors, allow_pickle=False)
    with open_index(path, real, window) as rag:
        result = STEPS[step](rag, Corpus(chunks))
    print(json.dumps(result | {"final memory, MiB": memory()}))


def files_in(folder: Path | None) -> AbstractContextManager[Path]:
    """Return the folder of the indexes: a temporary one, or one that remains."""
    if folder is None:
        return temporary_folder()
    folder.mkdir(parents=True, exist_ok=True)
    return nullcontext(folder)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def result_of(step: str, path: Path, size: int, vectors: Path, window: int | None) -> Any:
    """Run a step in a process of its own, unless an earlier run has finished it."""
    finished = path.with_suffix(f".{step}.json")
    if finished.exists():
        return json.loads(finished.read_text())
    arguments: list[object] = ["--step", step, path, size, vectors]
    if window is not None:
        arguments += ["--window", window]
    result = output_of(__file__, *arguments, threads=1 if step == "serve" else None)
    finished.write_text(json.dumps(result))
    return result


def on_real_vectors(real: Floats) -> dict[str, float]:
    """Return the recall of the IVF index on vectors that are not mixtures."""
    import faiss

    stored, queries = real[HELD_OUT:], real[:HELD_OUT]
    ivf = DenseIndex(stored, np.arange(len(stored)), exact_limit=0)
    flat = faiss.IndexFlatIP(stored.shape[1])
    flat.add(stored)
    recalls = {}
    for count in (10, 200):
        expected = flat.search(queries, count)[1]
        values = [
            len(np.intersect1d(ivf.search_windows(vector, count)[0], rows)) / count
            for vector, rows in zip(queries, expected, strict=True)
        ]
        recalls[f"top {count} of {len(stored)}"] = round(float(np.mean(values)), 4)
    return recalls


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument(
        "--windows",
        type=int,
        default=100_000,
        help="chunks of a further run with eight windows per chunk; 0 for none",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        help="folder in which the indexes remain, so that an interrupted run continues; "
        "default: a temporary one",
    )
    parser.add_argument(
        "--step",
        nargs=4,
        metavar=("STEP", "INDEX", "CHUNKS", "VECTORS"),
        help="internal: run one step",
    )
    parser.add_argument("--window", type=int, help="internal: maximum tokens of a window")
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
    runs: list[tuple[int, int | None]] = [(size, None) for size in options.sizes]
    if options.windows:
        runs.append((options.windows, EIGHTH))
    with files_in(options.folder) as folder:
        vectors = folder / "real.npy"
        np.save(vectors, real, allow_pickle=False)
        for size, window in runs:
            name = f"{size}" if window is None else f"{size}, eight windows per chunk"
            path = folder / f"{size}_{window}.e2g"
            result["sizes"][name] = {}
            for step in STEPS:
                result["sizes"][name][step] = result_of(step, path, size, vectors, window)
                write_result(result, options.out)
    finish(result, goals_of(result), options.out)


def goals_of(result: Mapping[str, Any]) -> list[Goal]:
    """Return the goals for the sizes that were measured."""
    real = result["recall on real vectors"]
    goals = [
        Goal(f"recall on real vectors, {name}", value, min=0.98) for name, value in real.items()
    ]
    for name, size in result["sizes"].items():
        serving = size["serve"]
        goals += [
            Goal(f"{name}: recall, {search}", value, min=0.98)
            for search, value in serving["recall"].items()
        ]
        query = serving["queries"]["k=10"]
        ratio = "p50 relative to flat search"
        if name == "100000":
            goals.append(Goal(f"{name}: {ratio}", query[ratio], max=3))
        if name == "1000000":
            beyond = serving["memory, MiB"]["serving"]["resident"] - serving["vectors, MiB"]
            goals += [
                Goal(
                    f"{name}: p95 relative to flat search",
                    query["p95 relative to flat search"],
                    max=0.2,
                ),
                Goal(f"{name}: seconds to open", serving["seconds to open"], max=5),
                Goal(f"{name}: {FIRST_MISSPELLED}", serving[FIRST_MISSPELLED], max=200),
                Goal(f"{name}: MiB beyond the vectors", beyond, max=4096),
            ]
        if size["build"]["windows"] > LARGE:
            goals += [
                Goal(f"{name}: {FASTEST}, p95", query[FASTEST]["p95"], max=60),
                Goal(
                    f"{name}: MiB, serving",
                    serving["memory, MiB"]["serving"]["resident"],
                    max=24_000,
                ),
            ]
    return goals


if __name__ == "__main__":
    main()
