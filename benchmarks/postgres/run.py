r"""Measure indexes in Postgres: readers, and the other parts that are modules of this folder.

From the repository's root:

    python benchmarks/postgres/run.py --data ../shared/data --out benchmarks/results/postgres.json
    python benchmarks/postgres/run.py ... --only readers    # keeps the other parts of the file

Each part runs in a process of its own, with a server of its own on the loopback interface, which is
stopped at the end. A part is a module with two functions: `measure(part: Part) -> dict` returns its
figures, and `goals(result) -> list[Goal]` the limits on them. `--indexes FOLDER` takes ready
indexes of scale.py instead of building them.
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

from goals import Goal, exit_if_missed
from postgres.part import Part
from postgres_server import running_postgres
from runs import this_run, timed, write_result

PARTS = ("readers", "vectors", "workers", "scopes")
"""Modules of this folder, in the order in which they run."""

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
        part = Part(server, Path(folder), options.data, options.indexes, options.short)
        figures, seconds = timed(lambda: module.measure(part))
    goals = [] if options.short else [goal.to_dict() for goal in module.goals(figures)]
    options.out.write_text(
        json.dumps({"seconds": round(seconds, 1), **figures, "goals": goals}), encoding="utf-8"
    )


def run(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Measure one part in a process of its own, on one thread per library."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "part.json"
        arguments = ["--part", name, "--data", str(options.data), "--out", str(out)]
        arguments += ["--indexes", str(options.indexes)] if options.indexes else []
        arguments += ["--short"] if options.short else []
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        subprocess.run([sys.executable, __file__, *arguments], check=True, env=environment)
        result: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    print(name, json.dumps(result, ensure_ascii=False), flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--indexes", type=Path, help="folder with ready indexes of scale.py")
    parser.add_argument("--only", help="names of parts, separated by commas; keeps the others")
    parser.add_argument("--short", action="store_true", help="only check that the parts work")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--part", choices=PARTS, help="internal")
    options = parser.parse_args()
    if options.part:
        measure(options.part, options)
        return
    chosen = options.only.split(",") if options.only else PARTS
    parts: dict[str, Any] = {}
    if options.only and options.out and options.out.exists():
        parts = json.loads(options.out.read_text(encoding="utf-8"))["parts"]
    for name in chosen:
        parts[name] = {**this_run(), **run(name, options)}
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
