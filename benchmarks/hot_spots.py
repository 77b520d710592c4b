r"""Where time goes in indexing and in asking: samples of a process at work, by py-spy.

From the repository's root:

    python benchmarks/hot_spots.py --data ../shared/data --out benchmarks/results/hot_spots.json

Three works: one novel indexed without an LLM, questions to it, questions to 100,000 made-up chunks
(scale.py). The process loads its models first; then all its threads are sampled while they run. A
sample counts for the library it is in, and for the innermost function of ours that led there.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from scale import opened, real_vectors
from synthetic import Corpus

SECONDS = 60
RATE = 200
"""Samples a second."""

CHUNKS = 100_000
SHOWN = 12
PACKAGE = "e2graphrag_integrations/"
LIBRARIES = {
    "PyTorch and its models": ("/torch/", "/transformers/", "/sentence_transformers/"),
    "spaCy": ("/spacy/", "/thinc/"),
    "FAISS": ("/faiss/",),
    "NumPy and SciPy": ("/numpy/", "/scipy/"),
    "ours": (PACKAGE,),
}
_FRAME = re.compile(r"(?P<function>[^;]+) \((?P<file>[^;]+):\d+\)")


# Works, each in a process of its own: says that it is ready, then works until it is killed.


def index_novel(_: Path, data: Path) -> None:
    embedder, extractor = SentenceTransformerEmbedder(), SpacyEntityExtractor()
    embedder.embed(["warm"])
    extractor.extract(["Anna met Bert."])
    document = novel(data)
    print("ready", flush=True)
    while True:
        with E2GraphRAG.open(":memory:", embedder=embedder, extractor=extractor) as rag:
            rag.add(document)


def ask_novel(path: Path, _: Path) -> None:
    with E2GraphRAG.open(path) as rag:
        ask_on(rag, QUESTIONS)


def ask_many(path: Path, _: Path) -> None:
    with opened(path, np.load(path.parent / "real.npy", allow_pickle=False)) as rag:
        ask_on(rag, Corpus(CHUNKS).questions(200))


def ask_on(rag: E2GraphRAG, questions: list[str]) -> None:
    for question in questions:
        rag.retrieve(question)
    print("ready", flush=True)
    for question in cycle(questions):
        rag.retrieve(question)


WORKS: dict[str, Callable[[Path, Path], None]] = {
    "index a novel": index_novel,
    "ask a novel": ask_novel,
    f"ask {CHUNKS} chunks": ask_many,
}


def novel(data: Path) -> SourceDocument:
    text = (data / "novels" / "pride_and_prejudice.txt").read_text(encoding="utf-8")
    return SourceDocument("pride_and_prejudice", text, title="Pride and Prejudice")


@contextmanager
def working(work: str, path: Path, data: Path) -> Iterator[int]:
    """Run a work and yield its process id once it is ready."""
    command = [sys.executable, __file__, "--work", work, str(path), "--data", str(data)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            if next(iter(process.stdout or ()), "").strip() != "ready":
                raise SystemExit(f"{work}: it ended before it was ready")
            yield process.pid
        finally:
            process.kill()


def sampled(pid: int, folder: Path) -> list[tuple[list[tuple[str, str]], int]]:
    """Return stacks, outermost frame first, as (function, file), and how often each was seen."""
    out = folder / "stacks.txt"
    command = [
        str(Path(sys.executable).with_name("py-spy")),
        "record",
        "--pid",
        str(pid),
        "--duration",
        str(SECONDS),
    ]
    command += ["--rate", str(RATE), "--format", "raw", "--full-filenames", "--output", str(out)]
    subprocess.run(command, check=True, capture_output=True)
    stacks = []
    for line in out.read_text(encoding="utf-8").splitlines():
        stack, _, count = line.rpartition(" ")
        stacks.append(([(m["function"], m["file"]) for m in _FRAME.finditer(stack)], int(count)))
    return stacks


def shares(stacks: list[tuple[list[tuple[str, str]], int]]) -> dict[str, Any]:
    """Return the share of samples in each library, and under each innermost function of ours."""
    libraries: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    for frames, count in stacks:
        libraries[library_of(frames)] += count
        ours = [frame for frame in frames if PACKAGE in frame[1]]
        name, file = (ours or frames or [("no Python", "")])[-1]
        functions[f"{Path(file).stem}.{name}"] += count
    total = sum(libraries.values())
    return {
        "samples": total,
        "libraries": {name: round(n / total, 3) for name, n in libraries.most_common()},
        "functions": {name: round(n / total, 3) for name, n in functions.most_common(SHOWN)},
    }


def library_of(frames: list[tuple[str, str]]) -> str:
    """Return the library of the innermost frame that is of one."""
    for _, file in reversed(frames):
        for name, places in LIBRARIES.items():
            if any(place in file for place in places):
                return name
    return "others"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--work", nargs=2, metavar=("WORK", "INDEX"))
    options = parser.parse_args()
    if options.work:
        work, path = options.work
        WORKS[work](Path(path), options.data)
        return
    result: dict[str, Any] = {**this_run(), "seconds": SECONDS, "works": {}}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        real = real_vectors(options.data)
        np.save(folder / "real.npy", real, allow_pickle=False)
        paths = {work: folder / f"{number}.e2g" for number, work in enumerate(WORKS)}
        with E2GraphRAG.open(paths["ask a novel"]) as rag:
            rag.add(novel(options.data))
        with opened(paths[f"ask {CHUNKS} chunks"], real) as rag:
            rag.add(list(Corpus(CHUNKS).documents()))
        for work, path in paths.items():
            with working(work, path, options.data) as pid:
                result["works"][work] = shares(sampled(pid, folder))
            print(work, json.dumps(result["works"][work], indent=2), flush=True)
    if options.out:
        options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
