r"""Measure indexes in Postgres: readers, and the other parts that are modules of this folder.

From the repository's root:

    python benchmarks/postgres/run.py --data ../shared/data --out benchmarks/results/postgres.json
    python benchmarks/postgres/run.py ... --only readers    # keeps the other parts of the file

Each part runs in a process of its own, with a server of its own on the loopback interface, which is
stopped at the end. A part is a module with two functions: `measure(part: Part) -> dict` returns its
figures, and `goals(result) -> list[Goal]` the limits on them. Three parts measure the index of
100,000 chunks of scale.py, which is built first. `--indexes FOLDER` takes ready indexes instead.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

from fresh import run_step
from goals import Goal, exit_if_missed
from postgres.part import Part
from postgres_server import running_postgres
from runs import parser_of, this_run, timed, write_result
from scale import real_vectors

PARTS = ("readers", "vectors", "workers", "scopes")
"""Modules of this folder, in the order in which they run."""

MEASURE_AN_INDEX = {"readers", "vectors", "scopes"}
"""The parts that need an index of 100,000 chunks."""

SETTINGS = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "shared_buffers": "512MB",
    "max_connections": "100",
    "max_wal_size": "2GB",
    "autovacuum": "on",
}
"""Settings of the server: those of Postgres, but with memory for an index of 100,000 chunks."""


def measure(name: str, options: argparse.Namespace) -> None:
    """Measure one part in this process, and write its figures and goals to `options.out`."""
    module = importlib.import_module(f"postgres.{name}")
    with tempfile.TemporaryDirectory() as folder, running_postgres(SETTINGS) as server:
        os.environ["E2GRAPHRAG_CACHE"] = str(Path(folder) / "cache")
        part = Part(server, Path(folder), options.indexes, options.short)
        figures, seconds = timed(lambda: module.measure(part))
    goals = [] if options.short else [goal.to_dict() for goal in module.goals(figures)]
    options.out.write_text(
        json.dumps({"seconds": round(seconds, 1), **figures, "goals": goals}), encoding="utf-8"
    )


def build_index(folder: Path, data: Path) -> None:
    """Build the index of 100,000 chunks and its snapshot, and save the vectors behind it."""
    vectors = folder / "real.npy"
    np.save(vectors, real_vectors(data), allow_pickle=False)
    run_step("build", folder / "100000.e2g", 100_000, vectors)


def run(name: str, indexes: Path | None, options: argparse.Namespace) -> dict[str, Any]:
    """Measure one part in a process of its own, on one thread per library."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "part.json"
        arguments = ["--part", name, "--out", str(out)]
        arguments += ["--indexes", str(indexes)] if indexes else []
        arguments += ["--short"] if options.short else []
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        subprocess.run([sys.executable, __file__, *arguments], check=True, env=environment)
        result: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    print(name, json.dumps(result, ensure_ascii=False), flush=True)
    return result


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--indexes", type=Path, help="folder with ready indexes of scale.py")
    parser.add_argument("--only", help="names of parts, separated by commas; keeps the others")
    parser.add_argument("--short", action="store_true", help="only check that the parts work")
    parser.add_argument("--part", choices=PARTS, help="internal")
    options = parser.parse_args()
    if options.part:
        measure(options.part, options)
        return
    chosen = options.only.split(",") if options.only else PARTS
    indexes = None if options.short else options.indexes
    builds = not options.short and indexes is None and not MEASURE_AN_INDEX.isdisjoint(chosen)
    if builds and options.data is None:
        parser.error("--data or --indexes is needed")
    parts: dict[str, Any] = {}
    if options.only and options.out and options.out.exists():
        parts = json.loads(options.out.read_text(encoding="utf-8"))["parts"]
    with tempfile.TemporaryDirectory() as folder:
        if builds:
            indexes = Path(folder)
            build_index(indexes, options.data)
        for name in chosen:
            parts[name] = {**this_run(), **run(name, indexes, options)}
    write_result({"parts": {name: parts[name] for name in PARTS if name in parts}}, options.out)
    exit_if_missed(
        [
            Goal(f"{name}: {goal['name']}", goal["value"], goal.get("max"), goal.get("min"))
            for name in chosen
            for goal in parts[name]["goals"]
        ]
    )


if __name__ == "__main__":
    main()
