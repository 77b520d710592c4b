r"""Sample where indexing and queries spend their time, with py-spy.

From the repository's root:

    python benchmarks/hot_spots.py --data ../shared/data --out benchmarks/results/hot_spots.json

Three workloads: indexing one novel without an LLM, queries to it, and queries to 100,000 synthetic
chunks (scale.py). Each process loads its models first; then all its threads are sampled. A sample
counts for the library of its innermost frame, and for the innermost function of this package.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from e2graphrag_integrations import (
    E2GraphRAG,
    SentenceTransformerEmbedder,
    SourceDocument,
    SpacyEntityExtractor,
)
from query_speed import QUESTIONS
from runs import this_run
from scale import open_index, real_vectors
from synthetic import Corpus

SECONDS = 60
RATE = 200
"""Samples per second."""

CHUNKS = 100_000
TOP_FUNCTIONS = 12
PACKAGE = "e2graphrag_integrations/"
LIBRARIES = {
    "PyTorch and its models": ("/torch/", "/transformers/", "/sentence_transformers/"),
    "spaCy": ("/spacy/", "/thinc/"),
    "FAISS": ("/faiss/",),
    "NumPy and SciPy": ("/numpy/", "/scipy/"),
    "this package": (PACKAGE,),
}
"""Parts of the file paths of each library."""

_FRAME = re.compile(r"(?P<function>[^;]+) \((?P<file>[^;]+):\d+\)")


@dataclass(frozen=True)
class Stack:
    """A sampled stack.

    Attributes:
        frames: Function and file of each frame, outermost first.
        count: Number of samples.
    """

    frames: Sequence[tuple[str, str]]
    count: int


# Workloads: each runs in its own process, prints "ready", then works until it is killed.


def index_novel(_: Path, data: Path) -> None:
    embedder, extractor = SentenceTransformerEmbedder(), SpacyEntityExtractor()
    embedder.embed(["warm"])
    extractor.extract(["Anna met Bert."])
    document = novel(data)
    print("ready", flush=True)
    while True:
        with E2GraphRAG.open(":memory:", embedder=embedder, extractor=extractor) as rag:
            rag.add(document)


def query_novel(path: Path, _: Path) -> None:
    with E2GraphRAG.open(path) as rag:
        query_forever(rag, QUESTIONS)


def query_synthetic(path: Path, _: Path) -> None:
    with open_index(path, np.load(path.parent / "real.npy", allow_pickle=False)) as rag:
        query_forever(rag, Corpus(CHUNKS).questions(200))


def query_forever(rag: E2GraphRAG, questions: list[str]) -> None:
    for question in questions:
        rag.retrieve(question)
    print("ready", flush=True)
    for question in cycle(questions):
        rag.retrieve(question)


WORKLOADS: dict[str, Callable[[Path, Path], None]] = {
    "index a novel": index_novel,
    "query a novel": query_novel,
    f"query {CHUNKS} chunks": query_synthetic,
}
"""Functions of an index file and the data folder."""


def novel(data: Path) -> SourceDocument:
    text = (data / "novels" / "pride_and_prejudice.txt").read_text(encoding="utf-8")
    return SourceDocument("pride_and_prejudice", text, title="Pride and Prejudice")


@contextmanager
def running(workload: str, path: Path, data: Path) -> Iterator[int]:
    """Run a workload and yield its process id once it is ready."""
    command = [sys.executable, __file__, "--workload", workload, str(path), "--data", str(data)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            if next(iter(process.stdout or ()), "").strip() != "ready":
                raise SystemExit(f"the workload {workload!r} exited before it was ready")
            yield process.pid
        finally:
            process.kill()


def sample(pid: int, folder: Path) -> list[Stack]:
    out = folder / "stacks.txt"
    command = [
        *(str(Path(sys.executable).with_name("py-spy")), "record", "--pid", str(pid)),
        *("--duration", str(SECONDS), "--rate", str(RATE)),
        *("--format", "raw", "--full-filenames", "--output", str(out)),
    ]
    subprocess.run(command, check=True, capture_output=True)
    stacks = []
    for line in out.read_text(encoding="utf-8").splitlines():
        frames, _, count = line.rpartition(" ")
        found = [(m["function"], m["file"]) for m in _FRAME.finditer(frames)]
        stacks.append(Stack(found, int(count)))
    return stacks


def shares(stacks: Sequence[Stack]) -> dict[str, Any]:
    """Return the fraction of samples in each library and in each innermost function."""
    libraries: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    for stack in stacks:
        libraries[library_of(stack)] += stack.count
        functions[function_of(stack)] += stack.count
    total = sum(libraries.values())
    return {
        "samples": total,
        "libraries": {name: round(n / total, 3) for name, n in libraries.most_common()},
        "functions": {
            name: round(n / total, 3) for name, n in functions.most_common(TOP_FUNCTIONS)
        },
    }


def library_of(stack: Stack) -> str:
    """Return the library of the innermost frame that belongs to one."""
    for _, file in reversed(stack.frames):
        for name, parts in LIBRARIES.items():
            if any(part in file for part in parts):
                return name
    return "other"


def function_of(stack: Stack) -> str:
    """Return the innermost function of this package."""
    for function, file in reversed(stack.frames):
        if PACKAGE in file:
            return f"{Path(file).stem}.{function}"
    return "outside this package"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument(
        "--workload", nargs=2, metavar=("WORKLOAD", "INDEX"), help="internal: run one workload"
    )
    options = parser.parse_args()
    if options.workload:
        workload, path = options.workload
        WORKLOADS[workload](Path(path), options.data)
        return
    result: dict[str, Any] = {**this_run(), "seconds": SECONDS, "workloads": {}}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        real = real_vectors(options.data)
        np.save(folder / "real.npy", real, allow_pickle=False)
        paths = {workload: folder / f"{n}.e2g" for n, workload in enumerate(WORKLOADS)}
        with E2GraphRAG.open(paths["query a novel"]) as rag:
            rag.add(novel(options.data))
        with open_index(paths[f"query {CHUNKS} chunks"], real) as rag:
            rag.add(list(Corpus(CHUNKS).documents()))
        for workload, path in paths.items():
            with running(workload, path, options.data) as pid:
                result["workloads"][workload] = shares(sample(pid, folder))
            print(workload, json.dumps(result["workloads"][workload], indent=2), flush=True)
    if options.out:
        options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
