r"""Index a novel with Ray: one worker of one core, then two of them.

From the repository's root:

    python benchmarks/ray_engine.py --data ../shared/data --out benchmarks/results/ray_engine.json

Each worker is a Ray node of its own, pinned to one core. The nodes run on this machine and listen
on the loopback interface. The node of the driver has no CPU for workers. The time is that of one
call of `add`, which includes the start of the workers and the loading of the models: the bundled
spaCy pipeline and all-MiniLM-L6-v2. Summaries are extractive. Both indexes must have the same
nodes, spans, mentions and edges, and vectors that are equal within 1e-5.

The control is the limit of the machine: the same models in one plain process and in two, without
Ray and after loading. Cores that share caches or execution units do not double the speed.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import IO, Any, cast

import numpy as np

from e2graphrag_integrations import E2GraphRAG, RayEngine, SourceDocument
from goals import Goal, exit_if_missed
from runs import this_run, timed, write_result

MIN_SPEEDUP = 1.6
MAX_DIFFERENCE = 1e-5

CONTROL_CHARACTERS = 300_000
"""Length of a text that a process of the control indexes."""

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


def index_on_command(path: Path) -> None:
    """Load the models, then index a text in memory whenever a line is read; print the seconds."""
    text = path.read_text(encoding="utf-8")
    with E2GraphRAG.open(":memory:") as rag:
        rag.add(SourceDocument("warm-up", text[: CONTROL_CHARACTERS // 10]))
        print("ready", flush=True)
        for number, _ in enumerate(sys.stdin):
            part = text[number * CONTROL_CHARACTERS : (number + 1) * CONTROL_CHARACTERS]
            document = SourceDocument(f"part-{number}", part)
            _, seconds = timed(lambda one=document: rag.add(one))
            print(seconds, flush=True)


def limit_of_machine(text: str) -> dict[str, float]:
    """Index in one process, then in two at the same time, each pinned to one core."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.txt"
        path.write_text(text, encoding="utf-8")
        processes = []
        for core in cores:
            with pinned_to({core}):
                processes.append(_start_control(path))
        try:
            before = [_index_at_once([one])[0] for one in processes]
            together = _index_at_once(processes)
            after = [_index_at_once([one])[0] for one in processes]
        finally:
            for one in processes:
                one.kill()
                one.wait()
    alone = fmean(before + after)  # other parts of the text, of the same length
    return {
        "seconds alone": round(alone, 2),
        "seconds beside the other": round(fmean(together), 2),
        "speedup": round(2 * alone / fmean(together), 2),
    }


def _start_control(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, __file__, "--control", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    if _lines_of(process).readline().strip() != "ready":
        raise SystemExit("the control did not start")
    return process


def _index_at_once(processes: Sequence[subprocess.Popen[str]]) -> list[float]:
    for one in processes:
        print(file=one.stdin, flush=True)
    return [float(_lines_of(one).readline()) for one in processes]


def _lines_of(process: subprocess.Popen[str]) -> IO[str]:
    return cast("IO[str]", process.stdout)


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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--characters", type=int, help="index only the first N characters")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--control", type=Path, help="internal: run a process of the control")
    arguments = parser.parse_args()
    if arguments.control:
        index_on_command(arguments.control)
        return
    # Before Ray is imported: its servers listen on the loopback interface, and report nothing.
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    text = (arguments.data / "novels" / "war_and_peace.txt").read_text(encoding="utf-8")
    document = SourceDocument("war_and_peace", text[: arguments.characters], "War and Peace")
    with tempfile.TemporaryDirectory() as folder:
        paths = {workers: Path(folder) / f"{workers}.e2g" for workers in (1, 2)}
        runs = [index(path, document, workers) for workers, path in paths.items()]
        (lines, vectors), (other_lines, other_vectors) = (exported(one) for one in paths.values())
    control = limit_of_machine(text)
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
    result = this_run() | {
        "characters": len(document.text),
        "runs": runs,
        "control: two processes without Ray": control,
        "goals": [goal.to_dict() for goal in goals],
    }
    write_result(result, arguments.out)
    exit_if_missed(goals)


def _count_different(lines: list[str], others: list[str]) -> int:
    return len({*lines} ^ {*others}) + abs(len(lines) - len(others))


if __name__ == "__main__":
    main()
