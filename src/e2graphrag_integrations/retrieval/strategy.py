"""What every strategy is given and gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.protocols import FloatArray
from e2graphrag_integrations.retrieval.trace import Route, Trace
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.types import Mention, Node, Span

Mode = Literal["auto", "local", "global"]
MODES: tuple[Mode, ...] = ("auto", "local", "global")


@dataclass(frozen=True)
class Query:
    """A question prepared for ranking.

    Attributes:
        question: As asked.
        mode: Side asked for.
        k: Candidates wanted.
        mentions: Names and nouns found in the question, each once.
        embed: Makes the question's unit vector; called only if a strategy needs it.
        allowed: Mask over the snapshot's nodes, None where all may be seen.
        read: Returns the texts of nodes, by their rows.
        parts: Whether parts of nodes are wanted (a token budget packs them), not whole ones.
    """

    question: str
    mode: Mode
    k: int
    mentions: tuple[Mention, ...]
    embed: Callable[[], FloatArray]
    allowed: NDArray[np.bool_] | None
    read: Callable[[Sequence[int]], list[str]]
    parts: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Return the mentions as the question has them."""
        return tuple(mention.entity for mention in self.mentions)

    @lazy
    def vector(self) -> FloatArray:
        """Return the question's unit vector, made once."""
        return self.embed()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A ranked node, or part of one.

    Attributes:
        row: Of the node in the snapshot.
        score: Higher is better.
        route: The side that found it.
        reasons: Why it is here, in words.
        best: The span of its text that earned its place, where the strategy knows.
        part: Whether that span alone is meant: a node may then be there several times.
    """

    row: int
    score: float
    route: Route
    reasons: tuple[str, ...]
    best: Span | None = None
    part: bool = False


NodeFilter = Callable[[Snapshot], NDArray[np.bool_]]
"""Makes the mask over a snapshot's nodes that a question may see."""


class NodeSource(Protocol):
    """Where the texts of nodes are read from."""

    def nodes_at(self, generation: str, ids: Sequence[str]) -> Mapping[str, Node]:
        """Return nodes from the state that a snapshot was derived from.

        Raises:
            NodeGoneError: If that state is no more, or a node is not there.
        """
        ...


class Strategy(Protocol):
    """Ranks the nodes of a snapshot for a question; holds settings, never state."""

    @property
    def name(self) -> str:
        """How the trace calls it."""
        ...

    def rank(self, query: Query, snapshot: Snapshot) -> tuple[Sequence[Candidate], Trace]:
        """Return at most `query.k` candidates, best first, and what was done."""
        ...
