"""`Replicas`: the actors of one shard, and the generations that each of them has."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from e2graphrag_integrations._utils.concurrency import process_lock
from e2graphrag_integrations.shards.calls import Request
from e2graphrag_integrations.shards.host import Directory

_KEPT = 8
"""Number of generations whose holders are remembered: more than a shard can answer from."""


class Replicas:
    """Chooses the actor of a shard that answers a request. Safe for concurrent use by threads.

    A question reads one generation. While documents change, only the actor that has sent it to the
    coordinator surely has it: any other would prepare the newest one first, which may be another.
    So the others prepare each generation in the background, and answer as soon as they have it.

    Args:
        ray: The module `ray`.
        actors: The handles of the actors. The first one writes.

    Attributes:
        actors: The handles.
    """

    def __init__(self, ray: Any, actors: list[Any]) -> None:
        self.actors = actors
        self._ray = ray
        self._lock = process_lock()  # guards the attributes below
        self._holders: OrderedDict[str, list[Any]] = OrderedDict()
        self._last = ""  # the generation that the coordinator has got last
        self._preparing: dict[Any, tuple[Any, str]] = {}  # actors, and `_last` at that time

    def choose(self, request: Request, turn: int) -> Any:
        """Return the actor that answers a request; `turn` counts the requests."""
        if request.writes:
            return self.actors[0]
        with self._lock:
            self._note_prepared()
            able = self._holders.get(request.generation) or self.actors
            return able[turn % len(able)]

    def note_answer(self, actor: Any, answer: Any) -> None:
        """Remember the actor that has sent a generation, and let the others prepare it."""
        if isinstance(answer, Directory):
            with self._lock:
                self._note_prepared()
                self._last = answer.snapshot.generation
                self._hold(self._last, actor)
                busy = [*self._holders[self._last], *(one for one, _ in self._preparing.values())]
                for other in self.actors:
                    if other not in busy:
                        self._prepare(other)

    def note_lost(self, actor: Any, successor: Any = None) -> None:
        """Forget what an actor has had that died, and put its successor in its place if any."""
        with self._lock:
            for holders in self._holders.values():
                if actor in holders:
                    holders.remove(actor)
            if successor is not None and actor in self.actors:
                self.actors[self.actors.index(actor)] = successor

    def _hold(self, generation: str, actor: Any) -> None:
        holders = self._holders.setdefault(generation, [])
        if actor not in holders:
            holders.append(actor)
        while len(self._holders) > _KEPT:
            self._holders.popitem(last=False)

    def _note_prepared(self) -> None:
        """Remember which actors have prepared a generation since the last request."""
        if not self._preparing:
            return
        references = list(self._preparing)
        done, _ = self._ray.wait(references, num_returns=len(references), timeout=0)
        for reference in done:
            actor, last = self._preparing.pop(reference)
            try:
                generation = self._ray.get(reference)
            except self._ray.exceptions.RayError:
                continue  # it died, or cannot read its shard: requests to it say so
            self._hold(generation, actor)
            if self._last not in {generation, last}:  # the coordinator has got a newer one since
                self._prepare(actor)

    def _prepare(self, actor: Any) -> None:
        self._preparing[actor.prepare.remote()] = actor, self._last
