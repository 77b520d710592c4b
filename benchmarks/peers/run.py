r"""Compare this package with other graph RAG packages: costs of indexing and queries, and recall.

From the repository's root:

    python benchmarks/peers/run.py --data ../shared/data --stub ../shared/tools/openai_stub.py \
        --out benchmarks/results/peers.json
    python benchmarks/peers/run.py ... --only lightrag,raptor    # keeps the other rows

Each peer is installed from PyPI into benchmarks/.peers, runs in its own process against a fresh
stub server, and retrieves without the answering LLM. All use the LLM and the embeddings of that
server over HTTP: its LLM is a set of rules without latency, its vectors are those of
all-MiniLM-L6-v2. There are two parts: one novel, which counts calls, tokens and time, and passages
of hotpotqa, which measure recall. The first line of a passage is its title, for all systems, and no
system gets the title in a field. The peers' graphs contain the entities that the stub's rules
extract, so the recall of a graph-based mode says nothing about that peer with a real LLM. Modes
over chunks alone use no LLM.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from environments import HERE, offline, python_of
from passages import passage_job
from questions import QUESTIONS, WARM_UP
from report import novel_row, passage_row

from runs import parser_of, this_run
from stub import stub_server

NOVEL = "pride_and_prejudice"

STUB_OF_PASSAGES = HERE / "passage_stub.py"

DIGEST = "passages and questions"
"""Key of a hash. Rows are compared only if they measured the same passages and questions."""


@dataclass(frozen=True)
class System:
    """A peer and how it runs.

    Attributes:
        adapter: Module of `adapters`.
        modes: Retrieval modes. The first is the peer's default, unless that needs an LLM.
        environment: A file of `requirements`; None for the environment of this script.
        variables: Environment variables for the adapter.
        parts: Parts of the benchmark. GraphRAG skips the passages, which would take too long.
    """

    adapter: str
    modes: tuple[str, ...]
    environment: str | None
    variables: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[str, ...] = ("novel", "hotpotqa")


SYSTEMS = {
    "e2graphrag": System("e2graphrag", ("hybrid", "paper"), None),
    "lightrag": System("lightrag", ("mix", "naive"), "lightrag"),
    "nano-graphrag": System("nano_graphrag", ("local", "naive"), "nano_graphrag"),
    "graphrag": System("graphrag", ("local",), "graphrag", parts=("novel",)),
    "graphrag-fast": System(
        "graphrag", ("local",), "graphrag", {"GRAPHRAG_METHOD": "fast"}, ("novel",)
    ),
    "fast-graphrag": System("fast_graphrag", ("PageRank",), "fast_graphrag"),
    "raptor": System("raptor", ("collapsed", "tree_traversal"), "raptor"),
}


def measure(
    system: System, job: dict[str, Any], server: AbstractContextManager[str], timeout: float
) -> dict[str, Any]:
    """Run the adapter on the job with a fresh stub; return its measurements or its error."""
    try:
        python = python_of(system.environment)
    except subprocess.CalledProcessError as error:
        return {"error": f"not installed: {error}"}
    with tempfile.TemporaryDirectory() as folder, server as base:
        job_file, log_file, out = (
            Path(folder) / name for name in ("job.json", "log.txt", "out.json")
        )
        index = Path(folder) / "index"
        index.mkdir()
        job = job | {"base": base, "folder": str(index), "modes": system.modes}
        job_file.write_text(json.dumps(job), encoding="utf-8")
        command = [python, "-m", f"adapters.{system.adapter}", str(job_file), str(out)]
        variables = offline() | dict(system.variables)
        if system.environment is None:
            variables["PYTHONPATH"] = str(HERE.parents[1] / "src")  # this checkout
        with log_file.open("w", encoding="utf-8") as log:
            try:
                subprocess.run(
                    command,
                    check=True,
                    cwd=HERE,
                    env=variables,
                    stdout=log,
                    stderr=log,
                    timeout=timeout,
                )
            except subprocess.TimeoutExpired:
                return {"error": f"timeout after {timeout:.0f} s"}
            except subprocess.CalledProcessError:
                lines = log_file.read_text(encoding="utf-8", errors="replace").strip().splitlines()
                return {"error": lines[-1][:300] if lines else "failed without output"}
        result: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return result


def novel_job(data: Path) -> dict[str, Any]:
    text = (data / "novels" / f"{NOVEL}.txt").read_text(encoding="utf-8")
    return {"texts": {NOVEL: text}, "questions": [WARM_UP, *QUESTIONS]}


def earlier(out: Path, job: dict[str, Any]) -> dict[str, Any]:
    """Return the rows in the result file, without those that measured other passages."""
    digest = hashlib.sha256(json.dumps(job).encode()).hexdigest()[:16]
    result: dict[str, Any] = {"novel": {}, "hotpotqa": {}}
    if out.exists():
        result = json.loads(out.read_text(encoding="utf-8"))
    if result.get(DIGEST) != digest:
        result["hotpotqa"] = {}
    return result | {
        "text": NOVEL,
        "questions": {"novel": len(QUESTIONS), "hotpotqa": len(job["questions"]) - 1},
        "passages": len(job["texts"]),
        DIGEST: digest,
    }


def add_row(result: dict[str, Any], part: str, name: str, row: dict[str, Any]) -> None:
    """Add the row of a system to its part, in the order of the systems."""
    rows = result[part] | {name: row}
    result[part] = {one: rows[one] for one in SYSTEMS if one in rows}


def main() -> None:
    parser = parser_of(__doc__, "data", "out")
    parser.add_argument("--stub", type=Path, required=True)
    parser.add_argument("--only", default=",".join(SYSTEMS), help="comma-separated systems")
    parser.add_argument("--parts", default="novel,hotpotqa")
    parser.add_argument("--passages", type=int, default=1000, help="number of hotpotqa passages")
    parser.add_argument("--questions", type=int, default=200, help="number of hotpotqa questions")
    parser.add_argument("--timeout", type=float, default=7200, help="seconds per system and part")
    options = parser.parse_args()
    passages, gold = passage_job(options.data, options.questions, options.passages)
    result = earlier(options.out, passages)
    stub = options.stub.resolve()
    for name in options.only.split(","):
        system = SYSTEMS[name]
        for part in [p for p in system.parts if p in options.parts.split(",")]:
            load = round(os.getloadavg()[0], 1)
            if part == "novel":
                job, server = novel_job(options.data), stub_server(stub)
                row = novel_row(measure(system, job, server, options.timeout))
            else:
                server = stub_server(stub, wrapper=STUB_OF_PASSAGES)
                raw = measure(system, passages, server, options.timeout)
                row = passage_row(raw, passages["texts"], gold)
            add_row(result, part, name, row | this_run() | {"load average before": load})
            print(name, part, json.dumps(row), flush=True)
            options.out.parent.mkdir(parents=True, exist_ok=True)
            options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
