r"""Index a novel with Ray: one worker of one core, then two of them.

From the repository's root:

    python benchmarks/ray_engine.py --data ../shared/data --out benchmarks/results/ray_engine.json

Each worker is a Ray node of its own, pinned to one core. The nodes run on this machine and listen
on the loopback interface. The node of the driver has no CPU for workers. The time is that of one
call of `add`, which includes the start of the workers and the loading of the models: the bundled
spaCy pipeline and all-MiniLM-L6-v2. Summaries are extractive. Both indexes must have the same
nodes, spans, mentions and edges, and vectors that are equal within 1e-5.
"""

from __future__ import annotations

import base64
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from e2graphrag_integrations import E2GraphRAG, RayEngine, SourceDocument
from goals import Goal, finish
from runs import parser_of, this_run, timed

MIN_SPEEDUP = 1.6
MAX_DIFFERENCE = 1e-5

OBJECT_STORE = 150 * 2**20
"""Memory of a node's object store in bytes."""


@contextmanager
def pinned_to(cores: set[int]) -> Iterator[None]:
    """Run the processes that start in the block on some cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def cluster(workers: int) -> Iterator[str]:
    """Start a cluster with worker nodes of one core each, and return its address."""
    from ray.cluster_utils import Cluster

    options = {"node_ip_address": "127.0.0.1", "object_store_memory": OBJECT_STORE}
    nodes = Cluster()
    try:
        nodes.add_node(**options, num_cpus=0, include_dashboard=False)
        for core in sorted(os.sched_getaffinity(0))[:workers]:
            with pinned_to({core}):
                nodes.add_node(**options, num_cpus=1)
        yield str(nodes.address)
    finally:
        nodes.shutdown()


def index(path: Path, document: SourceDocument, workers: int) -> dict[str, Any]:
    """Index a document on a cluster, and return the figures of the run."""
    import ray

    load = os.getloadavg()[0]
    with cluster(workers) as address, E2GraphRAG.open(path) as rag:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        try:
            report, seconds = timed(lambda: rag.add(document, engine=RayEngine()))
        finally:
            ray.shutdown()
    stages = {stage: round(spent, 1) for stage, spent in report.seconds.items()}
    return {
        "workers": workers,
        "seconds": round(seconds, 1),
        "work_seconds": stages,
        "load_before": round(load, 2),
        "chunks": report.chunks,
        "summaries": report.summaries,
        "entities": report.entities,
        "edges": report.edges,
    }


def exported(path: Path) -> tuple[list[str], np.ndarray]:
    """Return the exported lines of an index without vectors, and the vectors."""
    lines: list[str] = []
    vectors: list[np.ndarray] = []
    with E2GraphRAG.open(path) as rag:
        for line in rag.export():
            record = json.loads(line)
            windows = record.get("windows", ())
            vectors += [np.frombuffer(base64.b64decode(one[2]), "<f4") for one in windows]
            lines.append(json.dumps(record | {"windows": [one[:2] for one in windows]}))
    return lines, np.stack(vectors)


def main() -> None:
    parser = parser_of(__doc__, "data")
    parser.add_argument("--characters", type=int, help="index only the first N characters")
    arguments = parser.parse_args()
    # Before Ray is imported: its servers listen on the loopback interface, and report nothing.
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    text = (arguments.data / "novels" / "war_and_peace.txt").read_text(encoding="utf-8")
    document = SourceDocument("war_and_peace", text[: arguments.characters], "War and Peace")
    with tempfile.TemporaryDirectory() as folder:
        paths = {workers: Path(folder) / f"{workers}.e2g" for workers in (1, 2)}
        runs = [index(path, document, workers) for workers, path in paths.items()]
        (lines, vectors), (other_lines, other_vectors) = (exported(one) for one in paths.values())
    difference = float(np.abs(vectors - other_vectors).max())
    goals = [
        Goal(
            "speedup with two workers",
            round(runs[0]["seconds"] / runs[1]["seconds"], 2),
            min=MIN_SPEEDUP,
        ),
        Goal("lines of the export that differ", _count_different(lines, other_lines), max=0),
        Goal("largest difference of a vector", difference, max=MAX_DIFFERENCE),
    ]
    result = this_run() | {"characters": len(document.text), "runs": runs}
    finish(result, goals, arguments.out)


def _count_different(lines: list[str], others: list[str]) -> int:
    return len({*lines} ^ {*others}) + abs(len(lines) - len(others))


if __name__ == "__main__":
    main()
