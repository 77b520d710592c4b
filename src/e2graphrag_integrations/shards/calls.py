"""Requests to the shards: to one, to those that own some rows, or to all of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from e2graphrag_integrations._utils.concurrency import process_lock
from e2graphrag_integrations.errors import (
    ClosedError,
    IndexGoneError,
    ShardUnavailableError,
    StoreConnectionError,
)
from e2graphrag_integrations.shards.host import ShardSpec

T = TypeVar("T")

_SLOW = 1.0
"""Seconds from which a request to a lost shard is too slow to be repeated by each question."""

_PROBE_PAUSE = 1.0
"""Seconds between two attempts to ask a shard that was lost slowly."""

LOST = (StoreConnectionError, IndexGoneError, ClosedError, OSError)
"""Errors of an actor that cannot read its shard, which is then opened or asked again."""


@dataclass(frozen=True)
class Request:
    """A call of a method of a `ShardHost`.

    Attributes:
        method: Name of the method.
        arguments: Its positional arguments, without the generation.
        generation: The generation that it reads, its first argument; empty for the newest one.
        writes: Whether it changes the shard, so that it has no time limit.
    """

    method: str
    arguments: tuple[Any, ...] = ()
    generation: str = ""
    writes: bool = False

    @property
    def all_arguments(self) -> tuple[Any, ...]:
        """The arguments, with the generation if there is one."""
        return (self.generation, *self.arguments) if self.generation else self.arguments


class UnavailableError(Exception):
    """Raised internally by actors for a shard that does not answer."""


class ShardActors(Protocol):
    """The running actors of all shards. Safe for concurrent use by threads."""

    def ask(self, requests: Mapping[int, Request]) -> Mapping[int, Any]:
        """Send each shard its request at once, and return the results by shard.

        A request that raises an error has this error as its result, which is an `UnavailableError`
        if the shard does not answer. An actor that died is started again. A request may be
        repeated.

        Raises:
            ClosedError: If the actors were stopped.
        """

    def close(self) -> None:
        """Stop all actors; idempotent."""


class ShardEngine(Protocol):
    """Where the actors of shards run."""

    def start(self, specs: Sequence[ShardSpec]) -> ShardActors:
        """Start an actor for each shard."""


class ShardCalls:
    """Asks shards, and knows which of them the current question does without.

    Args:
        actors: The running actors.
        names: The names of the shards, for error messages.
        partial: Whether readers do without shards that cannot be asked.
    """

    def __init__(self, actors: ShardActors, names: Sequence[str], *, partial: bool = False) -> None:
        self.names = tuple(names)
        self.partial = partial
        self._actors = actors
        self._local = threading.local()
        self._lost_slowly: set[int] = set()  # each is asked by a thread until it answers
        self._lock = process_lock()  # guards the set
        self._closing = threading.Event()

    @property
    def missing(self) -> frozenset[int]:
        """The shards that the question of this thread does without."""
        found: frozenset[int] = getattr(self._local, "missing", frozenset())
        return found

    @contextmanager
    def without(self, shards: frozenset[int]) -> Iterator[None]:
        """Do without some shards in this thread during a `with` block."""
        before = self.missing
        self._local.missing = shards
        self._noted.update(shards)
        try:
            yield
        finally:
            self._local.missing = before

    @contextmanager
    def noting(self) -> Iterator[set[int]]:
        """Collect the shards that this thread does without during a `with` block."""
        before, noted = self._noted, set[int]()
        self._local.noted = noted
        try:
            yield noted
        finally:
            before |= noted
            self._local.noted = before

    @property
    def _noted(self) -> set[int]:
        found: set[int] = getattr(self._local, "noted", set())
        return found

    def partially(self, read: Callable[[], T]) -> T:
        """Return what a function reads, without lost shards if readers do without them.

        Raises:
            ShardUnavailableError: If a shard does not answer, and it or all are needed.
        """
        missing = self.missing
        if self.partial and len(missing | self._lost_slowly) < len(self.names):
            missing = missing.union(self._lost_slowly)
        while True:
            try:
                with self.without(missing):
                    return read()
            except ShardUnavailableError as error:
                more = missing.union(error.shards)
                if not self.partial or more == missing or len(more) == len(self.names):
                    raise
                missing = more

    def ask(self, requests: Mapping[int, Request]) -> dict[int, Any]:
        """Return the results by shard, ascending, without those of missing shards.

        Raises:
            ShardUnavailableError: If a shard does not answer.
            Exception: The error of a request.
        """
        wanted = {one: request for one, request in requests.items() if one not in self.missing}
        if not wanted:
            return {}
        began = time.monotonic()
        results = self.ask_each(wanted)
        lost = {one: error for one, error in results.items() if isinstance(error, UnavailableError)}
        if lost:
            if self.partial and time.monotonic() - began >= _SLOW:
                self._note_slow(lost)
            raise self.unavailable(lost)
        for one in results.values():
            if isinstance(one, Exception):
                raise one
        return results

    def ask_each(self, requests: Mapping[int, Request]) -> dict[int, Any]:
        """Return the results by shard, ascending, or the errors of requests."""
        results = self._actors.ask(requests)
        return {one: results[one] for one in sorted(requests)}

    def unavailable(self, lost: Mapping[int, UnavailableError]) -> ShardUnavailableError:
        """Return the error for shards that do not answer."""
        reasons = "; ".join(f"{self.names[one]} ({error})" for one, error in lost.items())
        return ShardUnavailableError(
            f"{len(lost)} of {len(self.names)} shards cannot be asked: {reasons}. Ask again "
            "when they run, or open the shards with partial=True for answers without them",
            tuple(lost),
        )

    def _note_slow(self, lost: Iterable[int]) -> None:
        """Do without shards until they answer a request of a thread: no question waits for them."""
        with self._lock:
            new = set(lost) - self._lost_slowly
            self._lost_slowly |= new
        for shard in new:
            threading.Thread(
                target=self._wait_for, args=(shard,), name="e2graphrag-lost-shard", daemon=True
            ).start()

    def _wait_for(self, shard: int) -> None:
        try:
            while not self._closing.wait(_PROBE_PAUSE):
                answer = self._actors.ask({shard: Request("generation")})[shard]
                if not isinstance(answer, Exception):
                    break
        except ClosedError:
            return
        finally:  # after an error, the next question asks it again
            with self._lock:
                self._lost_slowly.discard(shard)

    def all(self, method: str, *arguments: Any) -> dict[int, Any]:
        """Return the results of the same request to all shards that are not missing."""
        request = Request(method, arguments)
        return self.ask(dict.fromkeys(range(len(self.names)), request))

    def one(self, shard: int, method: str, *arguments: Any) -> Any:
        """Return the result of a request to one shard, even if it is among the missing ones."""
        with self.without(self.missing - {shard}):
            return self.ask({shard: Request(method, arguments)})[shard]

    def close(self) -> None:
        """Stop the actors."""
        self._closing.set()
        self._actors.close()
