r"""Kill the actors, the nodes and the coordinator of an index in shards, and check every answer.

From the repository's root:

    python benchmarks/crash_shards.py --kills 100 --out benchmarks/results/crash_shards.json

Two shards with two replicas each are actors on a Ray cluster of two nodes, which runs on this
machine. A coordinator, in a process of its own, updates documents one after the other and asks
questions at the same time. Each answer must contain every document exactly once, except those that
its trace counts as left out because they change. Their versions must be neither older than the last
update that returned before the question, nor newer than the last that began. A question that cannot
be answered must raise a `ShardUnavailableError`. At the end, the shards must pass `verify()`, and
give the answers of one index of the same documents.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from e2graphrag_integrations import E2GraphRAG, Models, SourceDocument
from e2graphrag_integrations.errors import ShardUnavailableError
from e2graphrag_integrations.shards import RayShards, ShardedIndex, create_shards, open_shards
from e2graphrag_integrations.testing import CapitalizedWordExtractor
from goals import Goal, finish
from runs import parser_of, this_run

DOCUMENTS = 24
QUESTION = "Where did Carl meet Dora?"
MODELS = Models(extractor=CapitalizedWordExtractor())
KINDS = {"actor": 7, "node": 1, "coordinator": 2}
"""What is killed, and how often."""

MOST_SECONDS = 240.0
"""Seconds after a kill in which a question must be answered."""

TIMEOUT = 120.0
"""Seconds for an actor to answer, which include its start on a busy machine."""

OBJECT_STORE = 150 * 2**20
"""Memory of a node's object store in bytes."""

Node = Any


def version(number: int) -> SourceDocument:
    """Return the document of an update."""
    name = number % DOCUMENTS
    return SourceDocument(f"note{name}", f"Carl met Dora in City{name}. It was visit {number}.")


def number_of(text: str) -> int:
    """Return the number of the update that wrote a text."""
    return int(re.findall(r"\d+", text)[-1])


def newest(number: int, document: int) -> int:
    """Return the last update of a document up to an update, or -1."""
    return number - (number - document) % DOCUMENTS if number >= document else -1


# The coordinator


class Coordinator:
    """Updates documents in a thread and asks questions in another, and prints what it finds.

    Args:
        index: The open shards.
        first: Number of the first update.
    """

    def __init__(self, index: ShardedIndex, first: int) -> None:
        self.index = index
        self.first = first
        self.begun = first  # may have been written before a kill
        self.returned = first - 1
        self.stopping = threading.Event()

    def run(self) -> None:
        writing = threading.Thread(target=self.write)
        writing.start()
        asking = threading.Thread(target=self.ask)
        asking.start()
        sys.stdin.read()  # until the parent closes it
        self.stopping.set()
        writing.join()
        asking.join()

    def write(self) -> None:
        while not self.stopping.is_set():
            self.begun = self.returned + 1
            try:
                self.index.update(version(self.begun))
            except ShardUnavailableError:
                say("updates to repeat")
                continue
            self.returned = self.begun
            say("updates", returned=self.returned)

    def ask(self) -> None:
        while not self.stopping.is_set():
            before = self.returned
            try:
                result = self.index.retrieve(QUESTION, k=2 * DOCUMENTS)
            except ShardUnavailableError:
                say("questions with ShardUnavailableError")
                continue
            found = sorted(number_of(node.text) for node in result.nodes)
            freshness = result.trace.freshness
            left_out = 0 if freshness is None else freshness.left_out
            is_right = is_valid(found, before, self.begun, left_out)
            say("complete answers" if is_right else "wrong answers", found=found, before=before)


def is_valid(found: list[int], before: int, begun: int, left_out: int = 0) -> bool:
    """Return whether an answer has one allowed version of each document that is not left out."""
    versions = {number % DOCUMENTS: number for number in found}
    is_complete = len(found) == len(versions) == DOCUMENTS - left_out
    return is_complete and all(
        newest(before, one) <= number <= newest(begun, one) for one, number in versions.items()
    )


def say(event: str, **details: Any) -> None:
    # One write per line, because two threads print.
    sys.stdout.write(json.dumps({"event": event, **details}) + "\n")
    sys.stdout.flush()


def coordinate(path: Path, address: str, first: int) -> None:
    engine = RayShards(address, replicas=2, cpus=1, timeout=TIMEOUT)
    with open_shards(path, engine=engine, models=MODELS) as index:
        Coordinator(index, first).run()


# What kills it


class ShardCrashTest:
    """Runs the coordinator, kills processes, and counts what the coordinator prints.

    Args:
        path: The file of the shards.
        cluster: The Ray cluster.
        seed: Decides what is killed, and when.

    Attributes:
        counts: Numbers of events.
        returned: Number of the last update that returned.
    """

    def __init__(self, path: Path, cluster: Any, seed: int) -> None:
        self.path = path
        self.cluster = cluster
        self.random = random.Random(seed)  # noqa: S311 - chooses when to kill
        self.counts: Counter[str] = Counter()
        self.returned = DOCUMENTS - 1
        self.nodes = [add_worker(cluster) for _ in range(2)]
        self.start()

    def start(self) -> None:
        """Start a coordinator, which continues after the last update that returned."""
        arguments = [self.path, self.cluster.address, self.returned + 1]
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--coordinate", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.reading = threading.Thread(target=self.read, args=[self.process])
        self.reading.start()

    def read(self, process: subprocess.Popen[str]) -> None:
        for line in process.stdout or ():
            if not line.endswith("}\n"):
                continue  # it was killed while it printed
            event = json.loads(line)
            self.counts[event["event"]] += 1
            self.returned = event.get("returned", self.returned)
            if event["event"] == "wrong answers":
                print(line, file=sys.stderr, flush=True)

    def run(self, kills: int) -> None:
        self.wait_for_answer()
        kinds = self.random.choices(list(KINDS), list(KINDS.values()), k=kills)
        for number, kind in enumerate(kinds):
            time.sleep(self.random.uniform(0, 1))
            getattr(self, f"kill_{kind}")()
            self.counts[f"kills: {kind}"] += 1
            self.wait_for_answer()
            hangs = self.counts["hangs"]
            print(f"{number + 1} of {kills}: {kind}; hangs: {hangs}", file=sys.stderr, flush=True)
        self.stop()

    def wait_for_answer(self) -> None:
        """Wait for a complete answer and an update, and count a hang if there is none."""
        names = ("complete answers", "updates")
        before = [self.counts[name] for name in names]
        until = time.monotonic() + MOST_SECONDS
        while any(self.counts[name] <= count for name, count in zip(names, before, strict=True)):
            if time.monotonic() > until or self.process.poll() is not None:
                self.counts["hangs"] += 1
                return
            time.sleep(0.02)

    def kill_actor(self) -> None:
        actors = [pid for pid, title in processes() if title.startswith(b"ray::ShardHost")]
        if actors:
            os.kill(self.random.choice(actors), signal.SIGKILL)

    def kill_node(self) -> None:
        node = self.nodes.pop(self.random.randrange(len(self.nodes)))
        self.cluster.remove_node(node, allow_graceful=False)
        self.nodes.append(add_worker(self.cluster))

    def kill_coordinator(self) -> None:
        self.process.kill()
        self.process.communicate()
        self.reading.join()
        self.start()

    def stop(self) -> None:
        self.process.communicate("")
        self.reading.join()


def processes() -> Iterator[tuple[int, bytes]]:
    """Yield the id and the title of each process of this machine."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            yield int(folder.name), (folder / "cmdline").read_bytes()
        except OSError:
            continue  # it has ended


def add_worker(cluster: Any) -> Node:
    return cluster.add_node(
        num_cpus=4, node_ip_address="127.0.0.1", object_store_memory=OBJECT_STORE
    )


@contextmanager
def ray_cluster() -> Iterator[Any]:
    """Start a Ray cluster whose head runs no actors."""
    # Before Ray is imported: its servers listen on the loopback interface, and report nothing.
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    try:
        cluster.add_node(
            num_cpus=0,
            node_ip_address="127.0.0.1",
            object_store_memory=OBJECT_STORE,
            include_dashboard=False,
        )
        yield cluster
    finally:
        cluster.shutdown()


def compare(path: Path, returned: int) -> dict[str, int]:
    """Return what the shards lack at the end, in comparison with one index."""
    with (
        open_shards(path, models=MODELS) as shards,
        E2GraphRAG.open(":memory:", embedder="hashing", models=MODELS) as one,
    ):
        kept = {id_: shards.document(id_).text for id_ in shards.document_ids}
        numbers = [number_of(text) for text in kept.values()]
        one.add([SourceDocument(id_, text) for id_, text in kept.items()])
        found, known = (
            [(node.document_id, node.text) for node in index.retrieve(QUESTION).nodes]
            for index in (shards, one)
        )
        return {
            "lost updates": int(not is_valid(numbers, returned, returned + 1)),
            "failed verifications": int(not shards.verify().ok),
            "different answers at the end": int(found != known),
        }


def main() -> None:
    if sys.argv[1:2] == ["--coordinate"]:
        listing, address, first = sys.argv[2:]
        coordinate(Path(listing), address, int(first))
        return
    parser = parser_of(__doc__, data=False)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ray_cluster() as cluster:
        path = Path(folder) / "notes.shards.json"
        create_shards(path, 2, embedder="hashing")
        with open_shards(path, models=MODELS) as shards:
            shards.add([version(number) for number in range(DOCUMENTS)])
        test = ShardCrashTest(path, cluster, options.seed)
        began = time.perf_counter()
        test.run(options.kills)
        seconds = time.perf_counter() - began
        figures = dict(sorted(test.counts.items())) | compare(path, test.returned)
    names = (
        "wrong answers",
        "hangs",
        "lost updates",
        "failed verifications",
        "different answers at the end",
    )
    goals = [Goal(name, figures.get(name, 0), max=0) for name in names]
    finish(this_run() | figures | {"seconds": round(seconds, 1)}, goals, options.out)


if __name__ == "__main__":
    main()
