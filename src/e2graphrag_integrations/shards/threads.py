"""`ThreadShards`: the shards in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from e2graphrag_integrations._utils.concurrency.processes import process_lock
from e2graphrag_integrations.errors import (
    ClosedError,
    IndexGoneError,
    StoreConnectionError,
)
from e2graphrag_integrations.shards.calls import Request, ShardActors, UnavailableError
from e2graphrag_integrations.shards.host import HostFactory, ShardHost, ShardSpec

_THREADS_PER_SHARD = 4
"""Number of questions whose requests a shard answers at the same time."""

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
        return {shard: future.result() for shard, future in futures.items()}

    def _answer(self, shard: int, request: Request) -> Any:
        try:
            return getattr(self._host(shard), request.method)(*request.arguments)
        except _LOST as error:
            self._drop(shard)
            return UnavailableError(f"{type(error).__name__}: {error}")

    def _host(self, shard: int) -> ShardHost:
        host = self._hosts.get(shard)
        if host is None:
            with self._lock:
                host = self._hosts.get(shard)
                if host is None:
                    host = self._hosts[shard] = self._open(self._specs[shard])
        return host

    def _drop(self, shard: int) -> None:
        with self._lock:
            host = self._hosts.pop(shard, None)
        if host is not None:
            host.close()

    def close(self) -> None:
        """Close all shards; idempotent."""
        self._pool.shutdown()
        for shard in list(self._hosts):
            self._drop(shard)
