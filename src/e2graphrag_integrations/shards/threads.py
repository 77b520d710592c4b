"""`ThreadShards`: the shards in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from e2graphrag_integrations._utils.concurrency import process_lock
from e2graphrag_integrations.errors import (
    ClosedError,
    IndexGoneError,
    StoreConnectionError,
)
from e2graphrag_integrations.shards.calls import Request, ShardActors, UnavailableError
from e2graphrag_integrations.shards.host import HostFactory, ShardHost, ShardSpec

_THREADS_PER_SHARD = 4
"""Number of questions whose requests a shard answers at the same time."""

_ATTEMPTS = 2
"""Number of times that a request is tried, each after its shard was opened again."""

_LOST = (StoreConnectionError, IndexGoneError, ClosedError, OSError)
"""Errors after which a shard is opened again at the next request."""


@dataclass(frozen=True, slots=True)
class ThreadShards:
    """Holds all shards in this process, and asks them in threads.

    It needs no other package. A shard whose file or server is gone is opened again at the next
    request.
    """

    def start(self, specs: Sequence[ShardSpec]) -> ShardActors:
        """Open all shards at their first requests."""
        return _Threads(specs, ShardHost)


class _Threads:
    def __init__(self, specs: Sequence[ShardSpec], open_host: HostFactory) -> None:
        self._specs = specs
        self._open = open_host
        self._hosts: dict[int, ShardHost] = {}
        self._lock = process_lock()
        self._pool = ThreadPoolExecutor(_THREADS_PER_SHARD * len(specs), "e2graphrag-shard")

    def ask(self, requests: Mapping[int, Request]) -> Mapping[int, Any]:
        """Return the results of requests; see `ShardActors`."""
        if len(requests) == 1:
            [(shard, request)] = requests.items()
            return {shard: self._answer(shard, request)}
        futures = {
            shard: self._pool.submit(self._answer, shard, request)
            for shard, request in requests.items()
        }
        wait(futures.values())  # a write to one shard does not end with the error of another
        return {shard: future.result() for shard, future in futures.items()}

    def _answer(self, shard: int, request: Request) -> Any:
        problem = ""
        for _ in range(_ATTEMPTS):
            host = None
            try:
                host = self._host(shard)
                return getattr(host, request.method)(*request.all_arguments)
            except _LOST as error:
                problem = f"{type(error).__name__}: {error}"
                self._drop(shard, host)
        return UnavailableError(problem)

    def _host(self, shard: int) -> ShardHost:
        host = self._hosts.get(shard)
        if host is None:
            with self._lock:
                host = self._hosts.get(shard)
                if host is None:
                    host = self._hosts[shard] = self._open(self._specs[shard])
        return host

    def _drop(self, shard: int, host: ShardHost | None) -> None:
        """Close a host, unless another one has replaced it already."""
        with self._lock:
            if host is None or self._hosts.get(shard) is not host:
                return
            del self._hosts[shard]
        host.close()

    def close(self) -> None:
        """Close all shards; idempotent."""
        self._pool.shutdown()
        for shard, host in list(self._hosts.items()):
            self._drop(shard, host)
