"""The engine that runs the stages of indexing on a Ray cluster, with Ray Data.

Each stage is a Ray Data execution: its slices are rows, and a pool of workers that hold the model
maps them to results. The process that called `add` receives the results as they arrive, and is the
only one that writes the file.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import queue
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeVar, get_args

from e2graphrag_integrations import errors
from e2graphrag_integrations._utils.failures import redact_error
from e2graphrag_integrations._utils.validation import (
    check_choice,
    check_int,
    check_seconds,
    short_repr,
    type_name,
)
from e2graphrag_integrations.errors import (
    IndexingError,
    InvalidInputError,
    MissingDependencyError,
    NotPicklableError,
    SettingsMismatchError,
)
from e2graphrag_integrations.indexing.ray import worker as ray_worker
from e2graphrag_integrations.indexing.run import WorkStopped
from e2graphrag_integrations.indexing.stages.work import (
    Slice,
    SliceResult,
    StageRunner,
    StageWork,
)
from e2graphrag_integrations.reports import Stage

T = TypeVar("T")

SummariesOn = Literal["auto", "driver", "workers"]

_POLL_SECONDS = 0.2
"""Seconds between checks for a stop request while workers are busy."""

_IN_FLIGHT = 2
"""Slices that each worker holds: while it processes one, the next is already there."""

_EXECUTION_END_SECONDS = 10.0
"""Maximum seconds to wait for the end of an abandoned execution, whose workers may be busy."""

_END = object()


@dataclass(frozen=True, slots=True)
class WorkerResources:
    """The resources of one worker of a stage, in the units of Ray.

    Attributes:
        cpus: Number of CPUs; libraries use as many threads.
        gpus: Number of GPUs.
        custom: Your own resources, such as `{"licensed": 1}`.

    Raises:
        InvalidInputError: If a number is negative, or all are 0.
    """

    cpus: float = 1.0
    gpus: float = 0.0
    custom: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        amounts = self.amounts()
        valid = all(
            isinstance(one, int | float) and not isinstance(one, bool) and 0 <= one < math.inf
            for one in (self.cpus, self.gpus, *self.custom.values())
        )
        if not valid or not amounts:
            raise InvalidInputError(
                f"{self} must have amounts of at least 0, of which one is greater than 0"
            )

    def amounts(self) -> dict[str, float]:
        """Return the amounts greater than 0 by Ray's names of the resources."""
        amounts = {"CPU": self.cpus, "GPU": self.gpus, **self.custom}
        return {name: amount for name, amount in amounts.items() if amount}


@dataclass(frozen=True)
class RayEngine:
    """Runs splitting, extraction, embedding and summaries on a Ray cluster (extra `ray`).

    Without an address, the engine uses the cluster to which this process is connected, or else
    that of the environment variable RAY_ADDRESS. If there is none, it starts Ray on this machine
    for the duration of a run, on the loopback interface and without usage statistics.

    The components of the index are sent to the workers with cloudpickle. For one that cannot be
    sent, pass a function that creates an equal one there.

    Args:
        address: `host:port` of the cluster's head, or `"auto"` for the cluster of this machine,
            which must be one of the cluster's nodes.
        extract, embed, summarize: Resources of one worker of the stage. By default one CPU, and
            one GPU for `embed` if the cluster has one.
        max_workers: Maximum number of workers of each stage; None means as many as fit.
        summaries: Where summaries are created. With `"auto"`, this process calls an LLM, and
            workers create summaries that need none. With `"workers"`, workers also call the LLM,
            never more than `concurrency` at the same time.
        splitter, extractor, embedder, summarizer: Functions without arguments that create the
            component on a worker.
        batch_chunks: Number of chunks that go through the stages together. Documents are written
            after each batch.
        connect_timeout: Maximum seconds until the cluster answers.
        retries: How often a slice is processed again after its worker has died.

    Raises:
        InvalidInputError: If an argument is invalid.
    """

    address: str | None = None
    extract: WorkerResources = field(default_factory=WorkerResources)
    embed: WorkerResources | None = None
    summarize: WorkerResources = field(default_factory=WorkerResources)
    max_workers: int | None = None
    summaries: SummariesOn = "auto"
    splitter: Callable[[], Any] | None = None
    extractor: Callable[[], Any] | None = None
    embedder: Callable[[], Any] | None = None
    summarizer: Callable[[], Any] | None = None
    batch_chunks: int = 8192
    connect_timeout: float = 30.0
    retries: int = 3

    def __post_init__(self) -> None:
        if self.address is not None:
            _check_address(self.address)
        check_choice("summaries", self.summaries, get_args(SummariesOn))
        for name in ("extract", "embed", "summarize"):
            value = getattr(self, name)
            if not isinstance(value, WorkerResources) and (name != "embed" or value is not None):
                raise InvalidInputError(
                    f"{name} ({type_name(value)}) must be WorkerResources(cpus=, gpus=)"
                )
        for name in ("splitter", "extractor", "embedder", "summarizer"):
            factory = getattr(self, name)
            if factory is not None and not callable(factory):
                raise InvalidInputError(
                    f"{name} ({type_name(factory)}) must be a function without arguments that "
                    f"creates the {name}"
                )
        if self.max_workers is not None:
            check_int("max_workers", self.max_workers)
        check_int("batch_chunks", self.batch_chunks)
        check_int("retries", self.retries, 0)
        check_seconds("connect_timeout", self.connect_timeout)

    @contextlib.contextmanager
    def start(self, stop: threading.Event) -> Iterator[StageRunner]:
        """Connect to the cluster, and disconnect at the end; see `IndexingEngine`.

        Raises:
            MissingDependencyError: If Ray is not installed.
            IndexingError: If the cluster does not answer, or cannot run a stage.
        """
        ray = import_ray(self.address)
        with connected(ray, self.address, self.connect_timeout):
            yield _RayRunner(self, ray, stop)


def _check_address(address: Any) -> None:
    if address == "auto":
        return
    host, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
    if isinstance(address, str) and address.startswith("ray://"):
        raise InvalidInputError(
            f"address={address!r}: Ray Client does not support Ray Data. Run this process on a "
            "node of the cluster, and pass host:port of its head, for example 10.0.0.1:6379"
        )
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise InvalidInputError(
            f'address={short_repr(address)} must be "auto", or host:port of the head of a Ray '
            "cluster, for example 10.0.0.1:6379"
        )


def import_ray(address: str | None) -> Any:
    """Return Ray, which is imported so that a cluster of this machine stays on it.

    Raises:
        MissingDependencyError: If it is not installed.
    """
    if address is None and "RAY_ADDRESS" not in os.environ:
        # Ray reads this when it is imported: the servers of a local Ray listen on the loopback
        # interface only, on every system.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise MissingDependencyError(
            "engine='ray' needs Ray: pip install 'e2graphrag-integrations[ray]'"
        ) from error
    return ray


@contextlib.contextmanager
def connected(ray: Any, address: str | None, timeout: float) -> Iterator[None]:
    """Connect this process to a cluster, unless it is connected already."""
    if ray.is_initialized():
        _check_is_same(address, ray.get_runtime_context().gcs_address)
        yield
        return
    address = address or os.environ.get("RAY_ADDRESS") or None
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        options |= {"address": "local", "include_dashboard": False}
    else:
        _check_answers(address, timeout)
        options["address"] = address
    where = f"the Ray cluster at {address}" if address else "Ray on this machine"
    try:
        ray.init(**options)
    except Exception as error:  # Ray raises errors of many classes
        raise IndexingError(
            f"cannot use {where}: {type(error).__name__}: {_first_line(error)}. This process must "
            "run on a node of the cluster, with the same versions of Python and Ray"
        ) from error
    try:
        with _quiet():
            yield
    finally:
        ray.shutdown()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep Ray Data from logging each execution."""
    data_logger = logging.getLogger("ray.data")
    level = data_logger.level
    data_logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        data_logger.setLevel(level)


def _check_is_same(address: str | None, connected_to: str) -> None:
    """Check that this process is not connected to another cluster.

    Raises:
        InvalidInputError: If it is.
    """
    if address in (None, "auto"):
        return
    asked, connected = (_resolve(one) for one in (str(address), connected_to))
    # Ray replaces a loopback address with the address of the machine.
    is_local = "127." in (asked[0][:4], connected[0][:4])
    if asked[1] != connected[1] or (asked[0] != connected[0] and not is_local):
        raise InvalidInputError(
            f"address={address!r}: this process is connected to the Ray cluster at {connected_to}: "
            "leave out the address, or call ray.shutdown() first"
        )


def _resolve(address: str) -> tuple[str, str]:
    """Return the IP address, or else the name of a host, and the port."""
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError):
        host = socket.gethostbyname(host.strip("[]"))
    return host, port


def _check_answers(address: str, timeout: float) -> None:
    """Check that a Ray cluster answers, in another process: `ray.init` can wait without end.

    Raises:
        IndexingError: If it does not.
    """
    failure = (
        f"no Ray cluster answers at {address} within {timeout:g} s ({{}}): check the address, "
        "start Ray there (ray start --head), or pass connect_timeout="
    )
    if address != "auto":
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=timeout).close()
        except OSError as error:
            raise IndexingError(failure.format(error)) from error
    command = [
        sys.executable,
        "-c",
        "from ray.scripts.scripts import main; main()",
        "health-check",
    ]
    command += [] if address == "auto" else ["--address", address]
    try:
        checked = subprocess.run(  # noqa: S603 - our own command
            command, capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise IndexingError(failure.format("the port is open, but Ray does not answer")) from error
    if checked.returncode:
        last = (checked.stderr.strip() or checked.stdout.strip()).splitlines()[-1:]
        raise IndexingError(failure.format(" ".join(last) or "not healthy"))


def _first_line(error: BaseException) -> str:
    return redact_error(error).strip().partition("\n")[0]


class _RayRunner:
    """Runs stages on the workers of a cluster; see `StageRunner`."""

    def __init__(self, engine: RayEngine, ray: Any, stop: threading.Event) -> None:
        self._engine = engine
        self._ray = ray
        self._stop = stop
        self._lock = threading.Lock()
        self._turns = {"CPU": threading.Lock(), "GPU": threading.Lock()}
        self._nodes: list[dict[str, float]] = [
            node["Resources"] for node in ray.nodes() if node["Alive"]
        ]

    @property
    def batch_chunks(self) -> int:
        return self._engine.batch_chunks

    def is_remote(self, stage: Stage, *, uses_llm: bool = False) -> bool:
        if stage == "summarize" and self._engine.summaries != "workers":
            return self._engine.summaries == "auto" and not uses_llm
        return True

    def run(
        self, work: StageWork[T], slices: Iterable[Slice[T]]
    ) -> Generator[SliceResult, None, None]:
        rows = [{"number": one.number, "inputs": json.dumps(one.inputs)} for one in slices]
        if not rows:
            return
        resources = self._resources(work.stage)
        limits = (len(rows), self._engine.max_workers, work.max_workers)
        size = min(self._capacity(work, resources), *(one for one in limits if one is not None))
        payload = _payload(work, self._engine)
        with (
            self._turn(work, resources),
            contextlib.closing(
                self._results(self._dataset(rows, payload, resources, size), work)
            ) as results,
        ):
            for number, values, report in results:
                if "fatal" in report:
                    raise _unusable_node(work, report["node"], report["fatal"])
                failed = report.get("error")
                error = None if failed is None else _same_error(failed, work.error_type)
                yield SliceResult(number, values, error, report["seconds"], report["usage"])

    @contextlib.contextmanager
    def _turn(self, work: StageWork[Any], resources: WorkerResources) -> Iterator[None]:
        """Wait until no other stage needs the same processors.

        Ray Data divides a cluster among executions that run at the same time, so each would use a
        part of it, and the rest would be idle when one ends.
        """
        if work.max_workers is not None:  # an LLM answers; the processors of the workers wait
            yield
            return
        turn = self._turns["GPU" if resources.gpus else "CPU"]
        while not turn.acquire(timeout=_POLL_SECONDS):
            if self._stop.is_set():
                raise WorkStopped
        try:
            yield
        finally:
            turn.release()

    def _resources(self, stage: Stage) -> WorkerResources:
        if stage == "embed" and self._engine.embed is None:
            has_gpu = any(node.get("GPU", 0) >= 1 for node in self._nodes)
            return WorkerResources(cpus=0.0, gpus=1.0) if has_gpu else WorkerResources()
        chosen = {
            "embed": self._engine.embed,
            "extract": self._engine.extract,
            "summarize": self._engine.summarize,
        }.get(stage)
        return chosen or WorkerResources()

    def _capacity(self, work: StageWork[Any], resources: WorkerResources) -> int:
        """Return the number of workers for which the cluster has room.

        Raises:
            IndexingError: If it has none. Ray would wait for another node without end.
        """
        needed = resources.amounts()
        capacity = sum(
            int(min(node.get(name, 0) / amount for name, amount in needed.items()))
            for node in self._nodes
        )
        if not capacity:
            raise IndexingError(
                f"no node of the Ray cluster has the resources {needed} that a worker for "
                f"{work.name} needs: start such a node, or pass RayEngine({work.stage}="
                "WorkerResources(cpus=, gpus=)) with smaller amounts"
            )
        return capacity

    def _dataset(
        self, rows: list[dict[str, Any]], payload: bytes, resources: WorkerResources, size: int
    ) -> Any:
        data = self._ray.data
        self._ray.cloudpickle.register_pickle_by_value(ray_worker)
        source = data.from_items(rows, override_num_blocks=len(rows))
        with self._lock, warnings.catch_warnings():
            # Ray plans to remove `ray_remote_args_fn`, without another way to limit the retries. By
            # default, it repeats a task without end whose worker dies each time.
            warnings.simplefilter("ignore")
            dataset = source.map(
                ray_worker.RayWorker,
                fn_constructor_args=(payload,),
                compute=data.ActorPoolStrategy(
                    min_size=1,
                    max_size=size,
                    initial_size=size,
                    max_tasks_in_flight_per_actor=_IN_FLIGHT,
                ),
                num_cpus=resources.cpus,
                num_gpus=resources.gpus or None,
                resources=dict(resources.custom),
                ray_remote_args_fn=partial(dict, max_task_retries=self._engine.retries),
            )
        dataset.context.enable_progress_bars = False
        return dataset

    def _results(
        self, dataset: Any, work: StageWork[Any]
    ) -> Generator[tuple[int, list[bytes], dict[str, Any]], None, None]:
        """Yield results as they arrive.

        A thread waits for them, so that this one notices a stop request while workers are busy or
        the cluster has no room.
        """
        arrived: queue.SimpleQueue[Any] = queue.SimpleQueue()
        abandoned = threading.Event()

        receiver = threading.Thread(
            target=_receive, args=(dataset, arrived, abandoned), name="e2graphrag-ray", daemon=True
        )
        receiver.start()
        try:
            while True:
                try:
                    row = arrived.get(timeout=_POLL_SECONDS)
                except queue.Empty:
                    if self._stop.is_set():
                        raise WorkStopped from None
                    continue
                if row is _END:
                    return
                if isinstance(row, BaseException):
                    raise IndexingError(
                        f"{work.name} failed on the Ray cluster: {type(row).__name__}: "
                        f"{_first_line(row)}. Finished results are kept: fix the cause and index "
                        "again"
                    ) from row
                yield int(row["number"]), row["values"], json.loads(row["report"])
        finally:
            abandoned.set()
            # If this process disconnects first, the execution connects it again, from its thread.
            receiver.join(_EXECUTION_END_SECONDS)


def _receive(dataset: Any, arrived: queue.SimpleQueue[Any], abandoned: threading.Event) -> None:
    """Put the rows of a dataset into a queue, and in the end `_END` or the error."""
    try:
        batches = dataset.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0)
        with contextlib.closing(iter(batches)) as tables:
            for table in tables:
                if abandoned.is_set():
                    return
                for row in table.to_pylist():
                    arrived.put(row)
        arrived.put(_END)
    except BaseException as error:  # noqa: BLE001 - of Ray; the other thread converts it
        arrived.put(error)


def _payload(work: StageWork[Any], engine: RayEngine) -> bytes:
    """Serialize the work for the workers.

    Raises:
        NotPicklableError: If a part of it cannot be serialized.
    """
    from ray import cloudpickle

    name = work.component_name
    factory = getattr(engine, name)
    component = None if factory is not None else work.component
    try:
        dumps: Callable[[Any], bytes] = cloudpickle.dumps
        return dumps((work.recipe(), component, factory))
    except Exception as error:  # the component decides what its serialization raises
        described = (
            f"function RayEngine({name}=)" if factory else f"{name} ({type_name(component)})"
        )
        raise NotPicklableError(
            f"the {described} cannot be sent to Ray workers: {type(error).__name__}: "
            f"{redact_error(error, component)}. Pass a function that creates an equal one there, "
            f"such as RayEngine({name}=lambda: ...), and create clients and locks in it"
        ) from error


def _unusable_node(
    work: StageWork[Any], node: str, error: Mapping[str, Any]
) -> errors.E2GraphRAGError:
    """Return the error for a node that cannot do the work."""
    name = work.component_name
    failure = f"the Ray node {node} cannot use the {name}: {error['types'][0]}: {error['message']}"
    if "ImportError" in error["types"]:
        return MissingDependencyError(
            f"{failure}. Install the same packages and models on every node"
        )
    if "SettingsMismatchError" in error["types"]:
        return SettingsMismatchError(
            f"{failure}. Install the same versions of packages and models on every node"
        )
    return IndexingError(
        f"{failure}. Check this node, or pass a function that creates the {name} there: "
        f"RayEngine({name}=lambda: ...)"
    )


def _same_error(error: Mapping[str, Any], default: type[IndexingError]) -> IndexingError:
    """Return an error from a worker, with the first of its types that this package defines."""
    own = (getattr(errors, name, None) for name in error["types"])
    kinds = (one for one in own if isinstance(one, type) and issubclass(one, IndexingError))
    return next(kinds, default)(error["message"])
