"""The Ray engine: the same index as one process, with workers that die, fail, or lack a model."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import ray_parts
from e2graphrag_integrations import (
    E2GraphRAG,
    HashingEmbedder,
    Progress,
    RayEngine,
    SourceDocument,
    WorkerResources,
)
from e2graphrag_integrations.errors import (
    IndexingError,
    InvalidInputError,
    MissingDependencyError,
    NotPicklableError,
    SettingsMismatchError,
    StoppedError,
)
from e2graphrag_integrations.indexing.inputs import as_engine
from e2graphrag_integrations.indexing.stages.work import LocalEngine
from e2graphrag_integrations.options import grouped
from fakes import STORY, NameExtractor

# Before Ray is imported: all processes listen on the loopback interface only.
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

BARE = WorkerResources(custom={"bare": 1})
"""Resources that only the node without models has."""

cluster_test = pytest.mark.slow

# Ray leaves processes and files to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="session")
def cluster():
    """Start two nodes with one CPU each on this machine, and connect to them."""
    import ray

    folders = [str(Path(ray_parts.__file__).parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, folders))
    started = _start_nodes()
    try:
        ray.init(address=started.address, log_to_driver=False, logging_level="ERROR")
        yield started
    finally:
        ray.shutdown()
        started.shutdown()
        os.environ["PYTHONPATH"] = folders[1]


def _start_nodes():
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "node_ip_address": "127.0.0.1"}
    bare = {"resources": {"bare": 1}, "env_vars": {ray_parts.WITHOUT_MODELS: "1"}}
    for attempt in range(3):  # Ray waits only 30 s for a node, too short for a busy machine
        started = Cluster()
        try:
            started.add_node(**node, include_dashboard=False)
            started.add_node(**node, **bare)
        except Exception:
            started.shutdown()
            if attempt == 2:
                raise
        else:
            return started
    raise AssertionError


def sentences(first, count):
    places = ["Oslo", "Rome", "Paris", "Lima"]
    return "\n".join(
        f"Anna{i} met Bert{i % 7} in {places[i % 4]} and gave him map number {i}."
        for i in range(first, first + count)
    )


def open_rag(path, **options):
    components = {"embedder": HashingEmbedder(), "extractor": NameExtractor()}
    options = components | {"group_size": 3} | options
    return E2GraphRAG.open(path, **grouped({"chunk_size": 30, "chunk_overlap": 0, **options}))


def exported(rag):
    return list(rag.export())


@cluster_test
def test_the_index_equals_that_of_one_process_although_a_worker_is_killed(cluster, tmp_path):
    documents = [SourceDocument(f"d{i}", sentences(100 * i, 100), f"Part {i}") for i in range(2)]
    (tmp_path / "one").mkdir()
    embedder = ray_parts.LoggedEmbedder(tmp_path / "one")
    options = {"extractor": None, "group_size": 6}  # two levels: each starts workers of its own
    with open_rag(tmp_path / "one.e2g", embedder=embedder, **options) as rag:
        alone = rag.add(documents)
        expected = exported(rag)
        assert {one.node.level for one in rag.store.all_nodes(["d0"])} == {0, 1, 2}
    embedder = ray_parts.LoggedEmbedder(tmp_path, kills=True)
    events: list[Progress] = []
    with open_rag(tmp_path / "ray.e2g", embedder=embedder, **options) as rag:
        report = rag.add(documents, engine="ray", progress=events.append)
        assert exported(rag) == expected
        assert rag.verify().ok
        again = rag.add([*documents, replace(documents[0], id="copy")], engine=RayEngine())
    assert replace(report, seconds={}) == replace(alone, seconds={})
    # A slice that did not come back is processed again. Nothing else is, and not in this process.
    calls = [tuple(map(int, line.split())) for line in ray_parts.lines(tmp_path / "embed.log")]
    windows = sum(int(line.split()[1]) for line in ray_parts.lines(tmp_path / "one" / "embed.log"))
    assert windows < sum(texts for _, texts in calls) <= windows + 64
    assert os.getpid() not in {process for process, _ in calls}
    assert int((tmp_path / "killed").read_text(encoding="utf-8")) in {one for one, _ in calls}
    # Unchanged documents, and content that is cached, are not sent.
    assert again.skipped == ("d0", "d1")
    assert (again.documents, again.embedded) == (1, 0)
    last = {event.stage: event for event in events}
    assert all(event.done == event.total for event in last.values())
    assert set(last) == {"chunk", "extract", "embed", "summarize", "write"}
    for stage in last:
        done = [event.done for event in events if event.stage == stage]
        assert done == sorted(done)


@cluster_test
def test_the_command_line_creates_the_vectors_of_one_process(cluster, tmp_path, real_embedder):
    (tmp_path / "story.txt").write_text(STORY, encoding="utf-8")
    command = [sys.executable, "-m", "e2graphrag_integrations.cli", "index"]
    command += [str(tmp_path / "story.txt"), "--engine", "ray", "--address", cluster.address]
    command += ["--out", str(tmp_path / "ray.e2g")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    with E2GraphRAG.open(tmp_path / "one.e2g", embedder=real_embedder) as rag:
        rag.add(SourceDocument("story.txt", STORY))
        expected = vectors(rag)
    with E2GraphRAG.open(tmp_path / "ray.e2g", embedder=real_embedder) as rag:
        assert rag.retrieve("Who sold the map?", k=3).nodes
        found = vectors(rag)
    assert found.keys() == expected.keys()
    assert found
    for key, vector in expected.items():
        np.testing.assert_allclose(found[key], vector, atol=1e-6)


def vectors(rag):
    keys = [key for one in rag.store.all_nodes(rag.document_ids) for _, key in one.windows]
    return {key: np.frombuffer(one, "<f4") for key, one in rag.store.cached(keys).items()}


@cluster_test
async def test_a_failing_document_is_reported_as_in_one_process(cluster, tmp_path):
    documents = [
        SourceDocument("good", sentences(0, 5)),
        SourceDocument("bad", f"{sentences(5, 5)}\nEmil drank {ray_parts.POISON}."),
    ]
    embedder = ray_parts.LoggedEmbedder(tmp_path)
    reports = []
    for name, engine in (("local", "local"), ("ray", RayEngine(max_workers=1))):
        with open_rag(tmp_path / f"{name}.e2g", embedder=embedder) as rag:
            reports.append(await rag.aadd(documents, engine=engine))
            assert [(one.id, one.status) for one in rag.status()] == [
                ("bad", "failed"),
                ("good", "done"),
            ]
    assert reports[0].failed == reports[1].failed
    assert "poisoned" in reports[1].failed["bad"]


@cluster_test
def test_a_node_without_the_model_is_named(cluster, tmp_path):
    engine = RayEngine(embed=BARE)
    with open_rag(tmp_path / "a.e2g", embedder=ray_parts.NeedsModel()) as rag:
        with pytest.raises(MissingDependencyError) as raised:
            rag.add(SourceDocument("d", STORY), engine=engine)
        assert "the Ray node 127.0.0.1" in str(raised.value)
        assert "pip install tiny" in str(raised.value)
        assert "on every node" in str(raised.value)
        other = RayEngine(embedder=lambda: HashingEmbedder(8))
        with pytest.raises(SettingsMismatchError, match=r"the embedder is .*-d.*on every node"):
            rag.resume(engine=other)
        # Nothing is lost: the document waits in the queue.
        assert rag.resume(engine=RayEngine(embedder=HashingEmbedder)).documents == 1


@cluster_test
def test_a_slice_that_kills_each_worker_ends_the_run(cluster, tmp_path):
    documents = [SourceDocument("bad", f"Emil drank {ray_parts.POISON}.")]
    with (
        open_rag(tmp_path / "a.e2g", embedder=ray_parts.FatalEmbedder()) as rag,
        pytest.raises(IndexingError, match=r"embedding failed on the Ray cluster: .*Actor"),
    ):
        rag.add(documents, engine=RayEngine(retries=1))


@cluster_test
def test_llm_calls_keep_to_the_limit_and_keys_stay_out_of_logs(cluster, tmp_path, caplog):
    key = "sk-secret-0123456789abcdef"
    documents = [
        SourceDocument("d", sentences(0, 9)),
        SourceDocument("e", ray_parts.POISON * 60 + STORY),
    ]
    reports = []
    for name, engine in (("local", "local"), ("workers", RayEngine(summaries="workers"))):
        llm = ray_parts.LoggedLLM(tmp_path / f"{name}.log", key)
        with open_rag(tmp_path / f"{name}.e2g", summarizer=llm, concurrency=1) as rag:
            reports.append(rag.add(documents, engine=engine))
    alone, by_workers = reports
    assert (by_workers.documents, by_workers.failed) == (alone.documents, alone.failed)
    assert by_workers.llm_calls > 1
    assert "summary 0 of level 1 of document 'e' failed" in by_workers.failed["e"]
    calls = [line.split() for line in ray_parts.lines(tmp_path / "workers.log")]
    assert os.getpid() not in {int(process) for process, _, _ in calls}
    spans = sorted((float(start), float(end)) for _, start, end in calls)
    assert all(first[1] <= second[0] for first, second in pairwise(spans))
    logs = Path(cluster.head_node.get_logs_dir_path()).rglob("*.*")
    texts = [one.read_text(encoding="utf-8", errors="replace") for one in logs if one.is_file()]
    assert texts
    texts += [caplog.text, *by_workers.failed.values()]
    assert not [text for text in texts if key in text]


@cluster_test
def test_a_stop_request_releases_the_workers(cluster, tmp_path):
    import ray

    def free():
        return ray.available_resources().get("CPU", 0.0)

    documents = [SourceDocument(f"d{i}", sentences(1000 * i, 200)) for i in range(3)]
    with open_rag(tmp_path / "a.e2g") as rag:

        def stop(progress: Progress) -> None:
            if progress.stage == "extract" and progress.done:
                rag.stop()

        # Ray can still hold the processor of a worker that an earlier test has killed.
        before = free()
        with pytest.raises(StoppedError):
            rag.add(documents, engine="ray", progress=stop)
        deadline = time.monotonic() + 180  # Ray restarts a killed worker before it gives up
        while free() < before and time.monotonic() < deadline:
            time.sleep(0.1)
        assert free() >= before


@cluster_test
def test_a_stage_without_a_fitting_node_is_rejected(cluster, tmp_path):
    with (
        open_rag(tmp_path / "a.e2g") as rag,
        pytest.raises(IndexingError, match=r"no node .*'GPU': 2.*RayEngine\(extract="),
    ):
        rag.add(SourceDocument("d", STORY), engine=RayEngine(extract=WorkerResources(gpus=2)))


@cluster_test
def test_a_splitter_is_sent_and_an_embedder_that_cannot_be_is_created_there(cluster, tmp_path):
    class Locked(HashingEmbedder):
        def __reduce__(self):
            raise TypeError("cannot pickle '_thread.lock' object")

    log = str(tmp_path / "split.log")

    def split(text):
        ray_parts.append(log, os.getpid())
        middle = text.index(" ", len(text) // 2)
        return [(0, middle), (middle, len(text))]

    llm = ray_parts.LoggedLLM(tmp_path / "llm.log", "")
    options = {"embedder": Locked(), "splitter": split, "summarizer": llm}
    with open_rag(tmp_path / "a.e2g", **options) as rag:
        with pytest.raises(NotPicklableError, match=r"embedder \(Locked\).*RayEngine\(embedder="):
            rag.add(SourceDocument("d", STORY), engine="ray")
        assert rag.resume(engine=RayEngine(embedder=HashingEmbedder)).chunks == 2
    assert ray_parts.lines(log)
    assert str(os.getpid()) not in ray_parts.lines(log)
    assert [line.split()[0] for line in ray_parts.lines(tmp_path / "llm.log")] == [str(os.getpid())]


class CountingEngine:
    """Counts its runs in this process."""

    def __init__(self):
        self.runs = 0

    def start(self, stop):
        self.runs += 1
        return LocalEngine().start(stop)


def test_both_integrations_pass_the_engine(tmp_path):
    from langchain_core.documents import Document as LangChainDocument
    from llama_index.core import Document

    from e2graphrag_integrations.langchain import E2GraphRAGIndex as LangChainIndex
    from e2graphrag_integrations.llama_index import E2GraphRAGIndex

    engine = CountingEngine()
    options = {"extractor": NameExtractor(), "engine": engine}
    E2GraphRAGIndex.from_documents(
        [Document(text=STORY)], **grouped({"embed_model": "hashing", **options})
    )
    assert engine.runs == 1
    documents, path = [LangChainDocument(STORY)], str(tmp_path / "a.e2g")
    with LangChainIndex.from_documents(
        documents, **grouped({"embedding": "hashing", "path": path, **options})
    ):
        assert engine.runs == 2


@pytest.mark.slow
def test_a_closed_port_is_reported_at_once(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with (
        open_rag(tmp_path / "a.e2g") as rag,
        pytest.raises(IndexingError, match=f"no Ray cluster answers at 127.0.0.1:{port}"),
    ):
        rag.add(SourceDocument("d", STORY), engine=RayEngine(f"127.0.0.1:{port}"))


def test_a_port_that_never_answers_is_reported_in_time(tmp_path, monkeypatch):
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with socket.create_server(("127.0.0.1", 0)) as server, open_rag(tmp_path / "a.e2g") as rag:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(IndexingError, match=r"within 1 s .*does not answer.*connect_timeout="):
            rag.add(SourceDocument("d", STORY), engine=RayEngine(address, connect_timeout=1))
        assert rag.status() == []


def test_without_ray_the_error_names_the_command(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        open_rag(tmp_path / "a.e2g") as rag,
        pytest.raises(
            MissingDependencyError, match=r"pip install 'e2graphrag-integrations\[ray\]'"
        ),
    ):
        rag.add(SourceDocument("d", STORY), engine="ray")


@pytest.mark.parametrize("engine", ["spark", None, RayEngine, 3])
def test_unknown_engines_are_rejected(engine, tmp_path):
    with pytest.raises(InvalidInputError, match='must be "local", "ray", or an engine'):
        as_engine(engine)


@pytest.mark.parametrize(
    "arguments",
    [
        {"address": "ray://host:10001"},
        {"address": "host"},
        {"address": "host:0"},
        {"address": 6379},
        {"summaries": "nowhere"},
        {"extract": 2},
        {"extract": None},
        {"embedder": "hashing"},
        {"max_workers": 0},
        {"batch_chunks": 0},
        {"retries": -1},
        {"connect_timeout": -1},
    ],
)
def test_invalid_arguments_are_rejected(arguments):
    with pytest.raises(InvalidInputError, match=next(iter(arguments))):
        RayEngine(**arguments)


@pytest.mark.parametrize("amounts", [{"cpus": -1}, {"cpus": 0}, {"custom": {"a": -1}}])
def test_invalid_resources_are_rejected(amounts):
    with pytest.raises(InvalidInputError, match="amounts"):
        WorkerResources(**amounts)
