r"""Check that readers see consistent states while other processes write.

From the repository's root, for a file; `postgres/readers.py` does the same in Postgres:

    python benchmarks/concurrency.py --out benchmarks/results/concurrency.json

Writers add documents, one per call, and replace one of them from time to time. Readers ask all the
time for all nodes. Every answer must contain the documents of each writer up to some number, each
with all of its nodes and in one version. A reader that allows no staleness must also find what was
written before its question.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2graphrag_integrations import E2GraphRAG, HashingEmbedder, PaperStrategy, SourceDocument
from e2graphrag_integrations.options import grouped
from runs import parser_of, percentiles, this_run, write_result
from synthetic import Corpus, FirstTextSummarizer, LineSplitter, SyntheticNameExtractor

READERS, WRITERS = 8, 4
ALL_NODES = 100_000
"""A `k` above the number of nodes."""

_SMALL = Corpus(1_000_000)
"""Documents that are written while others read are the beginnings of documents of this corpus."""

ERRORS = "errors and inconsistent answers"
"""Key of the number of errors."""


@dataclass(frozen=True)
class Expected:
    """The documents that are written while others read.

    Attributes:
        documents: Number of documents of all writers.
        nodes: Number of nodes of each document.
        in_order: Whether each writer adds its documents one after the other.
    """

    documents: int
    nodes: int
    in_order: bool


def open_small(url: str, **options: Any) -> E2GraphRAG:
    return E2GraphRAG.open(
        url,
        **grouped(
            {
                "embedder": HashingEmbedder(64),
                "extractor": SyntheticNameExtractor(),
                "summarizer": FirstTextSummarizer(),
                "splitter": LineSplitter(),
                "group_size": 3,
                "lock_timeout": 300.0,
                **options,
            }
        ),
    )


def small_document(writer: int, number: int, version: int = 0) -> SourceDocument:
    """Return a document in which each line names its version."""
    [document] = _SMALL.documents(1000 * writer + number, 1000 * writer + number + 1)
    lines = document.text.split("\n")[:7]
    text = "\n".join(f"Version {version}. {line}" for line in lines)
    return SourceDocument(f"{writer}-{number:03}", text)


def write(url: str, writer: int, count: int, written: Any) -> None:
    """Add documents, and replace the first one after every fifth; count those that are added."""
    try:
        with open_small(url) as rag:
            for number in range(count):
                rag.add(small_document(writer, number))
                written[writer] = number + 1
                if number % 5 == 4:  # noqa: PLR2004 - every fifth
                    rag.update(small_document(writer, 0, number))
    finally:
        written[writer] = count  # the readers end


def work(url: str, worker: int, count: int, written: Any) -> None:
    """Index documents from the queue until it is empty."""
    try:
        with open_small(url) as rag:
            rag.work()
    finally:
        written[worker] = count


def read(url: str, reader: int, expected: Expected, written: Any, connection: Any) -> None:
    """Ask until all documents are written, and send the figures and errors of the answers.

    Args:
        url: The index.
        reader: Number of the reader; those with an odd number allow no staleness.
        expected: The documents that are written.
        written: Shared numbers of written documents, by writer.
        connection: The figures are sent to it.
    """
    seconds: list[float] = []
    errors: list[str] = []
    states: set[str] = set()
    seen: set[str] = set()
    strict = bool(reader % 2)
    questions = _SMALL.questions(100)
    with open_small(url, max_staleness=0 if strict else None) as rag:
        rag.retrieve(questions[0])
        connection.send("ready")
        finished = False
        while not finished:
            before = list(written)
            finished = sum(before) == expected.documents
            question = questions[(7 * reader + len(seconds)) % len(questions)]
            began = time.perf_counter()
            try:
                answer = rag.retrieve(
                    question, k=ALL_NODES, mode="global", strategy=PaperStrategy()
                )
            except Exception as error:  # noqa: BLE001 - reported as a figure
                errors.append(f"{type(error).__name__}: {error}")
                continue
            seconds.append(time.perf_counter() - began)
            freshness = answer.trace.freshness
            states.add(freshness.generation)
            present = {node.document_id for node in answer.nodes}
            missing = seen - present
            if expected.in_order:
                missing |= gaps(present)
                errors += [
                    f"document {number} of writer {writer} is missing"
                    for writer, number in enumerate(before)
                    if strict and number and f"{writer}-{number - 1:03}" not in present
                ]
            seen |= present
            if len(missing) > freshness.left_out:
                errors.append(f"{sorted(missing)} are missing: {freshness.describe()}")
            errors += problems(answer.nodes, expected.nodes)
    connection.send({"seconds": seconds, "errors": errors, "states": len(states)})


def gaps(present: Collection[str]) -> set[str]:
    """Return the documents that were added before one that is present, but are not."""
    last: dict[str, int] = defaultdict(int)
    for one in present:
        writer, number = one.split("-")
        last[writer] = max(last[writer], int(number))
    earlier = {f"{writer}-{number:03}" for writer, end in last.items() for number in range(end)}
    return earlier.difference(present)


def problems(found: Sequence[Any], nodes: int) -> list[str]:
    """Return the documents of which an answer does not have all nodes, of one version.

    Args:
        found: The nodes of the answer, which are all that were in the state.
        nodes: Number of nodes of each document.
    """
    counts = Counter(node.document_id for node in found)
    versions = defaultdict(set)
    for node in found:
        versions[node.document_id].add(node.text.partition("Version ")[2].partition(".")[0])
    errors = [f"{one}: {count} of {nodes} nodes" for one, count in counts.items() if count != nodes]
    return errors + [f"{one}: versions {own}" for one, own in versions.items() if len(own) != 1]


def read_during(
    url: str,
    target: Callable[[str, int, int, Any], None],
    readers: int,
    writers: int,
    documents: int,
) -> dict[str, Any]:
    """Let processes read and write at the same time, and check all answers.

    Args:
        url: The path or URL of a new index.
        target: `write`, or `work`, for which all documents are in the queue.
        readers: Number of processes that ask.
        writers: Number of processes that write.
        documents: Documents of each writer.
    """
    with open_small(url) as rag:
        rag.add([small_document(writer, 0) for writer in range(writers)])
        stats = rag.stats()
        if target is work:
            all_documents = [
                small_document(writer, number, int(number == 0))
                for number in range(documents)
                for writer in range(writers)
            ]
            rag.add(all_documents, on_duplicate="replace", wait=False)
    nodes = (stats.chunks + stats.summaries) // writers
    expected = Expected(writers * documents, nodes, in_order=target is write)
    context = multiprocessing.get_context("spawn")
    written = context.Array("i", writers)
    pipes = [context.Pipe() for _ in range(readers)]
    processes = [
        context.Process(target=read, args=(url, reader, expected, written, pipe[1]))
        for reader, pipe in enumerate(pipes)
    ]
    for process, pipe in zip(processes, pipes, strict=True):
        process.start()
        pipe[1].close()  # so that `recv` raises when the reader has failed
    for pipe in pipes:
        pipe[0].recv()  # the first answer
    processes += [
        context.Process(target=target, args=(url, writer, documents, written))
        for writer in range(writers)
    ]
    began = time.perf_counter()
    for process in processes[readers:]:
        process.start()
    reports = [pipe[0].recv() for pipe in pipes]
    for process in processes:
        process.join()
    seconds = time.perf_counter() - began
    with open_small(url) as rag:
        verified = rag.verify().ok and len(rag.document_ids) == expected.documents
    errors = [error for report in reports for error in report["errors"]]
    return {
        "readers": readers,
        "writers": writers,
        "documents": expected.documents,
        "seconds": round(seconds, 1),
        "answers": sum(len(report["seconds"]) for report in reports),
        "answer ms": percentiles([s for report in reports for s in report["seconds"]]),
        "distinct states per reader": [report["states"] for report in reports],
        ERRORS: len(errors),
        "first errors": errors[:5],
        "failed processes": sum(1 for process in processes if process.exitcode),
        "verified": verified,
    }


def main() -> None:
    parser = parser_of(__doc__, data=False)
    parser.add_argument("--documents", type=int, default=100, help="documents of each writer")
    parser.add_argument("--readers", type=int, default=READERS)
    parser.add_argument("--writers", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "index.e2g")
        figures = read_during(path, write, options.readers, options.writers, options.documents)
    write_result(this_run() | figures, options.out)
    if figures[ERRORS] or figures["failed processes"] or not figures["verified"]:
        raise SystemExit("a process failed, an answer was inconsistent or verify failed")


if __name__ == "__main__":
    main()
