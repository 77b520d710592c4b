"""`ThreadShards`: the shards in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from e2graphrag_integrations._utils.concurrency import process_lock
from e2graphrag_integrations.errors import (
    ClosedError,
)
from e2graphrag_integrations.shards.calls import LOST, Request, ShardActors, UnavailableError
from e2graphrag_integrations.shards.host import ShardHost, ShardSpec

_THREADS_PER_SHARD = 4
"""Number of questions whose requests a shard answers at the same time."""

_ATTEMPTS = 2
"""Number of times that a request is tried, each after its shard was opened again."""


@dataclass(frozen=True, slots=True)
class ThreadShards:
    """Holds all shards in this process, and asks them in threads.

    It needs no other package. A shard whose file or server is gone is opened again at the next
    request.
    """

    def start(self, specs: Sequence[ShardSpec]) -> ShardActors:
        """Open all shards at their first requests."""
        return _Threads(specs)


class _Threads:
    def __init__(self, specs: Sequence[ShardSpec]) -> None:
        self._specs = specs
        self._hosts: dict[int, ShardHost] = {}
        self._lock = process_lock()  # guards the hosts and the flag
        self._is_closed = False
        self._pool = ThreadPoolExecutor(_THREADS_PER_SHARD * len(specs), "e2graphrag-shard")

    def ask(self, requests: Mapping[int, Request]) -> Mapping[int, Any]:
        """Return the results of requests; see `ShardActors`."""
        if len(requests) == 1:
            [(shard, request)] = requests.items()
            return {shard: self._answer(shard, request)}
        with self._lock:
            self._check_open()
            futures = {
                shard: self._pool.submit(self._answer, shard, request)
                for shard, request in requests.items()
            }
        return {shard: future.result() for shard, future in futures.items()}

    def _answer(self, shard: int, request: Request) -> Any:
        problem = ""
        for _ in range(_ATTEMPTS):
            host = self._host(shard)
            try:
                return getattr(host, request.method)(*request.all_arguments)
            except LOST as error:
                problem = f"{type(error).__name__}: {error}"
                self._drop(shard, host)
            except Exception as error:  # noqa: BLE001 - the caller raises it
                return error
        return UnavailableError(problem)

    def _host(self, shard: int) -> ShardHost:
        with self._lock:
            self._check_open()
            host = self._hosts.get(shard)
            if host is None:
                host = self._hosts[shard] = ShardHost(self._specs[shard])
        return host

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the index in shards is closed: open it again")

    def _drop(self, shard: int, host: ShardHost) -> None:
        """Close a host, unless another one has replaced it already."""
        with self._lock:
            if self._hosts.get(shard) is not host:
                return
            del self._hosts[shard]
        host.close()

    def close(self) -> None:
        """Stop all writes, and close all shards; idempotent."""
        with self._lock:
            self._is_closed = True
            hosts = list(self._hosts.items())
        for _, host in hosts:
            host.stop()
        self._pool.shutdown()
        for shard, host in hosts:
            self._drop(shard, host)
