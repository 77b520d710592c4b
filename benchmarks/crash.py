r"""Kill an indexing process at random moments and check that nothing is lost or paid for twice.

From the repository's root:

    python benchmarks/crash.py --stub ../shared/tools/openai_stub.py --kills 200 \
        --out benchmarks/results/crash.json

A child process indexes parts of The Time Machine with spaCy and the stub LLM over HTTP, updates
some of them, deletes one, and is killed with SIGKILL before it finishes. After each kill another
process opens the file: opening must work, `verify()` must pass, and all documents indexed before
must still be there. The next child continues with `resume()`. A finished file must equal, byte for
byte, one indexed without interruption. LLM calls beyond those of an uninterrupted run count as
repeated: at most those in flight at a kill may be.

Then `crash_forks.py` forks processes that write, and checks that no acknowledged write is lost, and
`crash_persist.py` kills processes that persist a LlamaIndex index.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

from crash_forks import run_forks
from crash_persist import run_persist_kills
from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    OpenAISummarizer,
    SourceDocument,
    SpacyEntityExtractor,
)
from e2graphrag_integrations.cli.demo import demo_text
from e2graphrag_integrations.options import grouped
from runs import parser_of, run_child, this_run, write_result
from stub import server_stats, stub_server

CONCURRENCY = 4
SETTINGS = {"chunk_size": 150, "chunk_overlap": 0, "group_size": 4, "summary_tokens": 60}
UPDATED = (1, 5, 9)
"""Numbers of the parts that are updated."""

DELETED = 3
"""Number of the part that is deleted."""

PART = 5000
"""Characters of a part."""


def parts(count: int) -> list[SourceDocument]:
    text = demo_text().read_text(encoding="utf-8")
    return [
        SourceDocument(f"part {n:02}", text[n * PART : (n + 1) * PART], metadata={"part": n})
        for n in range(count)
    ]


def work(rag: E2GraphRAG, documents: list[SourceDocument]) -> None:
    """Do all remaining work, as a program does that is restarted after a crash."""
    rag.resume()
    indexed = {status.id for status in rag.status() if status.indexed}
    first = documents[0]
    if first.id not in indexed or not rag.document(first.id).metadata.get("edited"):
        rag.add(documents)
        rag.update(SourceDocument(first.id, first.text, metadata={"edited": 1}))
    rag.update(
        [
            SourceDocument(
                documents[n].id, f"Word came at last. {documents[n].text}", metadata={"part": n}
            )
            for n in UPDATED
        ]
    )
    if documents[DELETED].id in {status.id for status in rag.status()}:
        rag.delete(documents[DELETED].id)
    rag.compact()


class CrashTest:
    """Indexes one file after the other and kills the indexing processes.

    Attributes:
        kills: Number of kills so far.
        counts: Numbers of errors, and of document states after kills.
        repeated: Repeated LLM calls of each file.
        cost: LLM calls of an uninterrupted run.
        seconds: Duration of an uninterrupted run.
        expected: Export of an uninterrupted run.
    """

    def __init__(self, folder: Path, base: str, part_count: int, seed: int) -> None:
        self.folder = folder
        self.base = base
        self.documents = parts(part_count)
        self.random = random.Random(seed)  # noqa: S311 - chooses when to kill
        self.extractor = SpacyEntityExtractor()
        self.extractor.extract(["Warm up."])
        import_module("openai")  # forked processes share the import, and the model above
        self.kills = 0
        self.counts: Counter[str] = Counter()
        self.repeated: list[int] = []
        path, before = folder / "uninterrupted.e2g", self.llm_calls()
        _, self.seconds = run_child(lambda: self.task(path), None)
        self.cost = self.llm_calls() - before
        with self.open(path) as rag:
            self.expected = list(rag.export())

    def open(self, path: Path) -> E2GraphRAG:
        return E2GraphRAG.open(
            path,
            **grouped(
                {
                    "embedder": HashingEmbedder(64),
                    "extractor": self.extractor,
                    "summarizer": OpenAISummarizer(
                        "stub", base_url=f"{self.base}/v1", api_key="none"
                    ),
                    "concurrency": CONCURRENCY,
                    **SETTINGS,
                }
            ),
        )

    def task(self, path: Path) -> None:
        with self.open(path) as rag:
            work(rag, self.documents)

    def llm_calls(self) -> int:
        return int(server_stats(self.base)["llm_calls"])

    def index_file(self, number: int, max_kills: int) -> None:
        """Index one file with up to `max_kills` kills, then without, and check the result."""
        path = self.folder / f"{number}.e2g"
        before, kills, indexed = self.llm_calls(), 0, set[str]()
        while kills < max_kills:
            kill_after = self.random.uniform(0, 0.7 * self.seconds)
            finished, _ = run_child(lambda: self.task(path), kill_after)
            if finished:
                break
            kills += 1
            indexed = self.check(path, indexed)
        run_child(lambda: self.task(path), None)
        self.check(path, set())
        with self.open(path) as rag:
            if list(rag.export()) != self.expected:
                self.counts["files that differ from an uninterrupted run"] += 1
        self.kills += kills
        time.sleep(0.2)  # the server may still count requests of a killed process
        self.repeated.append(self.llm_calls() - before - self.cost)
        if self.repeated[-1] > CONCURRENCY * kills:
            self.counts["files with too many repeated calls"] += 1
        for file in self.folder.glob(f"{number}.e2g*"):
            if file.is_file():
                file.unlink()

    def check(self, path: Path, before: set[str]) -> set[str]:
        """Check a file after a kill.

        Args:
            path: The file.
            before: Ids of the documents indexed before the kill.

        Returns:
            Ids of all documents that have been indexed so far.
        """
        if not path.exists():
            self.counts["kills before the file existed"] += 1
            return before
        with self.open(path) as rag:
            report = rag.verify()
            statuses = rag.status()
        if not report.ok:
            self.counts["failed verifications"] += 1
            print(path, report.problems[:3], file=sys.stderr)
        indexed = {status.id for status in statuses if status.indexed}
        lost = before - indexed - {self.documents[DELETED].id}
        self.counts["lost documents"] += len(lost)
        self.counts.update(status.status for status in statuses)
        return before | indexed


def main() -> None:
    parser = parser_of(__doc__, data=False)
    parser.add_argument("--stub", type=Path, required=True)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--kills-per-file", type=int, default=12)
    parser.add_argument("--parts", type=int, default=12)
    parser.add_argument("--latency-ms", type=float, default=120)
    parser.add_argument("--forks", type=int, default=80)
    parser.add_argument("--persist-kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began = time.perf_counter()
    with (
        tempfile.TemporaryDirectory() as folder,
        stub_server(options.stub, options.latency_ms) as base,
    ):
        test = CrashTest(Path(folder), base, options.parts, options.seed)
        files = 0
        while test.kills < options.kills:
            test.index_file(files, options.kills_per_file)
            files += 1
            print(f"{test.kills} kills, {files} files, repeated calls {test.repeated}", flush=True)
        forks = run_forks(Path(folder), options.forks, options.seed)
        persist, is_broken = run_persist_kills(options.persist_kills, options.seed)
    errors = {
        name: test.counts.pop(name, 0)
        for name in (
            "failed verifications",
            "lost documents",
            "files that differ from an uninterrupted run",
            "files with too many repeated calls",
        )
    }
    fork_errors = {f"forks: {name}": count for name, count in forks.errors.items()}
    result: dict[str, Any] = {
        **this_run(),
        "kills": test.kills,
        "files": files,
        "concurrency": CONCURRENCY,
        "LLM calls without kills": test.cost,
        "seconds without kills": round(test.seconds, 2),
        "repeated LLM calls": sum(test.repeated),
        "repeated LLM calls per kill": round(sum(test.repeated) / max(1, test.kills), 3),
        **errors,
        "forks": forks.forks,
        **fork_errors,
        "persist": persist,
        "document states after kills": dict(test.counts),
        "seconds": round(time.perf_counter() - began, 1),
    }
    write_result(result, options.out)
    if is_broken or any((errors | fork_errors).values()):
        raise SystemExit("the run lost data, damaged a file or repeated too many LLM calls")


if __name__ == "__main__":
    main()
