"""The newest generation of an index, as far as it is known without asking the database."""

from __future__ import annotations

import math
from dataclasses import dataclass

from e2graphrag_integrations._utils.concurrency import process_lock


@dataclass(frozen=True, slots=True)
class KnownGeneration:
    """A generation that was the newest when it was read.

    Attributes:
        name: Name of the generation; empty if none has been read.
        complete_until: The generation contains all changes that were committed before this time of
            `time.monotonic`.
    """

    name: str
    complete_until: float


class NewestGeneration:
    """The newest generation that a statement has read; safe to share between threads.

    A notice of a change is not recorded here. It can be late, so its absence proves nothing: only
    a statement shows that there was no change.
    """

    def __init__(self) -> None:
        self._lock = process_lock()
        self.known = KnownGeneration("", -math.inf)
        """The newest generation that is known."""

    def learn(self, name: str, began: float) -> bool:
        """Record that a statement read the name of the newest generation.

        Args:
            name: The name.
            began: Time of `time.monotonic` before the statement was sent. It must not run in a
                read transaction, which can show an older state.

        Returns:
            Whether the name was unknown.
        """
        with self._lock:
            before = self.known
            if began <= before.complete_until:  # a later statement has read it, too
                return False
            self.known = KnownGeneration(name, began)
        return name != before.name
