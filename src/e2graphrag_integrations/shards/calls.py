"""Requests to the shards: to one, to those that own some rows, or to all of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from e2graphrag_integrations.errors import ShardUnavailableError
from e2graphrag_integrations.shards.host import ShardSpec


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
        """Send each shard its request at once, and return the results, or `UnavailableError`.

        An actor that died is started again. A request may be repeated.

        Raises:
            Exception: The error of a request.
        """
        ...

    def close(self) -> None:
        """Stop all actors; idempotent."""
        ...


class ShardEngine(Protocol):
    """Where the actors of shards run."""

    def start(self, specs: Sequence[ShardSpec]) -> ShardActors:
        """Start an actor for each shard."""
        ...


class ShardCalls:
    """Asks shards, and knows which of them the current question does without.

    Args:
        actors: The running actors.
        names: The names of the shards, for error messages.
    """

    def __init__(self, actors: ShardActors, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._actors = actors
        self._local = threading.local()

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

    def ask(self, requests: Mapping[int, Request]) -> dict[int, Any]:
        """Return the results by shard, ascending, without those of missing shards.

        Raises:
            ShardUnavailableError: If a shard does not answer.
        """
        wanted = {one: request for one, request in requests.items() if one not in self.missing}
        if not wanted:
            return {}
        results = self._actors.ask(wanted)
        lost = [one for one in sorted(wanted) if isinstance(results[one], UnavailableError)]
        if lost:
            reasons = "; ".join(f"{self.names[one]} ({results[one]})" for one in lost)
            raise ShardUnavailableError(
                f"{len(lost)} of {len(self.names)} shards cannot be asked: {reasons}. Ask again "
                "when they run, or open the shards with partial=True for answers without them",
                tuple(lost),
            )
        return {one: results[one] for one in sorted(wanted)}

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
        self._actors.close()
