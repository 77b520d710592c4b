"""`RayShards`: the shards in actors of a Ray cluster (extra `ray`)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

from e2graphrag_integrations._utils.concurrency import process_lock
from e2graphrag_integrations._utils.failures import on_error
from e2graphrag_integrations._utils.validation import check_int, check_seconds
from e2graphrag_integrations.errors import (
    ClosedError,
    NotPicklableError,
)
from e2graphrag_integrations.indexing.ray.engine import connected, import_ray
from e2graphrag_integrations.shards.calls import LOST, Request, ShardActors, UnavailableError
from e2graphrag_integrations.shards.host import ShardHost, ShardSpec
from e2graphrag_integrations.shards.replicas import Replicas

_PAUSE = 0.1
"""Seconds between two attempts to ask a shard none of whose actors answers."""


@dataclass(frozen=True, slots=True)
class RayShards:
    """Holds each shard in actors of a Ray cluster (extra `ray`).

    An actor opens the index file or schema of its shard, so its node must reach that location: a
    folder that all nodes share, or a database. An actor that dies is started again, on any node.

    Args:
        address: `host:port` of the cluster's head, or `"auto"`; None as in `RayEngine`.
        replicas: Number of actors of each shard, which answer questions in turns. If one dies, the
            others answer. The first one writes.
        cpus: CPUs that Ray reserves for each actor; 0 lets Ray place any number on a node.
        threads: Number of requests that an actor answers at the same time.
        timeout: Seconds after which a shard that does not answer cannot be asked.
        connect_timeout: Maximum seconds until the cluster answers.

    Raises:
        InvalidInputError: If an argument is invalid.
    """

    address: str | None = None
    replicas: int = 1
    cpus: float = 0.0
    threads: int = 8
    timeout: float = 30.0
    connect_timeout: float = 30.0

    def __post_init__(self) -> None:
        check_int("replicas", self.replicas)
        check_int("threads", self.threads)
        check_seconds("timeout", self.timeout)
        check_seconds("connect_timeout", self.connect_timeout)

    def start(self, specs: Sequence[ShardSpec]) -> ShardActors:
        """Start the actors of all shards.

        Raises:
            MissingDependencyError: If Ray is not installed.
            IndexingError: If the cluster does not answer.
            NotPicklableError: If an argument of the index cannot be sent to an actor.
        """
        ray = import_ray(self.address)
        stack = ExitStack()
        with on_error(lambda _: stack.close()):
            stack.enter_context(connected(ray, self.address, self.connect_timeout))
            return RayActors(self, ray, specs, stack)


class RayActors:
    """The actors of all shards in a Ray cluster; see `ShardActors`.

    Attributes:
        replicas: The actors of each shard.
    """

    def __init__(
        self, engine: RayShards, ray: Any, specs: Sequence[ShardSpec], stack: ExitStack
    ) -> None:
        self._engine = engine
        self._ray = ray
        self._specs = specs
        self._stack = stack
        self._lock = process_lock()
        self._turns = count()
        self._host: Any = ray.remote(ShardHost)
        self.replicas = [
            Replicas(ray, [self._start(spec) for _ in range(engine.replicas)]) for spec in specs
        ]

    def _start(self, spec: ShardSpec) -> Any:
        options = {
            "num_cpus": self._engine.cpus,
            "max_concurrency": self._engine.threads,
            "max_restarts": -1,
        }
        try:
            return self._host.options(**options).remote(spec)
        except TypeError as error:
            raise NotPicklableError(
                f"an argument of the index cannot be sent to the actor of {spec.location} "
                f"({error}): pass models by name"
            ) from error

    def ask(self, requests: Mapping[int, Request]) -> Mapping[int, Any]:
        """Return the results of requests; see `ShardActors`."""
        shards = self.replicas  # empty after `close`
        if not shards:
            raise ClosedError("the index in shards is closed: open it again")
        until = time.monotonic() + self._engine.timeout
        turn, attempt = next(self._turns), 0
        results: dict[int, Any] = {}
        waiting = dict(requests)
        while waiting:
            sent = {}
            for shard, request in waiting.items():
                actor = shards[shard].choose(request, turn + attempt)
                sent[shard] = actor, getattr(actor, request.method).remote(*request.all_arguments)
            for shard, (actor, reference) in sent.items():
                found = self._receive(reference, waiting[shard], until)
                results[shard] = found
                if isinstance(found, UnavailableError):
                    self._replace_dead(shards[shard], actor, self._specs[shard])
                    continue
                shards[shard].note_answer(actor, found)
                del waiting[shard]
            attempt += 1
            if waiting and time.monotonic() > until:
                break
            if waiting and attempt % self._engine.replicas == 0:
                time.sleep(_PAUSE)
            if not self.replicas:
                raise ClosedError("the index in shards was closed meanwhile")
        return results

    def _receive(self, reference: Any, request: Request, until: float) -> Any:
        """Return the result of a request, an error of the index, or `UnavailableError`."""
        errors = self._ray.exceptions
        left = None if request.writes else max(0.0, until - time.monotonic())
        try:
            return self._ray.get(reference, timeout=left)
        except errors.GetTimeoutError:
            return UnavailableError(f"no answer within {self._engine.timeout:g} s")
        except errors.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, LOST):
                return UnavailableError(f"{type(cause).__name__}: {cause}")
            return cause if isinstance(cause, Exception) else error
        except errors.RayActorError as error:
            return UnavailableError(f"its actor died: {str(error).strip().splitlines()[0]}")
        except errors.RayError as error:  # its node died with the result, or had no memory
            return UnavailableError(f"{type(error).__name__}: {str(error).strip().splitlines()[0]}")

    def _replace_dead(self, replicas: Replicas, actor: Any, spec: ShardSpec) -> None:
        """Start an actor in the place of one that Ray does not start again."""
        replicas.note_lost(actor)
        try:
            self._ray.get(actor.__ray_ready__.remote(), timeout=0)
        except self._ray.exceptions.ActorDiedError:
            with self._lock:
                if self.replicas and actor in replicas.actors:
                    replicas.note_lost(actor, self._start(spec))
        except (self._ray.exceptions.RayError, TimeoutError):
            return  # it is being started again

    def close(self) -> None:
        """Stop all actors; idempotent."""
        with self._lock:  # afterwards, no actor is started
            shards, self.replicas = self.replicas, []
        for actor in (actor for replicas in shards for actor in replicas.actors):
            with suppress(Exception):
                self._ray.get(actor.close.remote(), timeout=10)
            with suppress(Exception):
                self._ray.kill(actor)
        self._stack.close()
