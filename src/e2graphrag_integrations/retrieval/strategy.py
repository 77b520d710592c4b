"""The interface of a strategy, which ranks the nodes of a snapshot."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from e2graphrag_integrations._utils.validation import short_repr
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.protocols import Reranker
from e2graphrag_integrations.retrieval.query import Query
from e2graphrag_integrations.retrieval.trace import Route, Trace
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.types import Span


@dataclass(frozen=True, slots=True)
class Candidate:
    """A ranked node, or one window of a node.

    Attributes:
        row: Row of the node in the snapshot.
        score: Higher is better.
        route: The side that found it.
        reasons: Why it was found, in words.
        best_span: The characters of the node's text that match best, None if unknown.
        is_window: Whether the candidate is only `best_span` instead of the complete node. A node
            may then appear several times.
    """

    row: int
    score: float
    route: Route
    reasons: tuple[str, ...]
    best_span: Span | None = None
    is_window: bool = False


class Strategy(Protocol):
    """Ranks the nodes of a snapshot for a query; holds settings and no state."""

    @property
    def name(self) -> str:
        """Name of the strategy in the trace."""
        ...

    def rank(self, query: Query, snapshot: Snapshot) -> tuple[Sequence[Candidate], Trace]:
        """Return the candidates, best first, and the trace.

        Complete nodes number at most `query.k`. If `query.packs_windows`, the strategy may return
        all windows instead, because the token budget makes the cut.
        """
        ...


@runtime_checkable
class RerankingStrategy(Strategy, Protocol):
    """A strategy whose best candidates a reranker reads.

    `rank` returns up to `max(query.k, rerank_top_n)` candidates. The pipeline reranks them and then
    cuts to `query.k`.
    """

    @property
    def reranker(self) -> Reranker | None:
        """The reranker, None to keep the strategy's order."""
        ...

    @property
    def rerank_top_n(self) -> int:
        """Number of candidates that the reranker reads."""
        ...


def check_strategy(strategy: object) -> None:
    """Check that an object can rank.

    Raises:
        InvalidInputError: For a class, or for an object without a method `rank`.
    """
    if inspect.isclass(strategy) or not callable(getattr(strategy, "rank", None)):
        raise InvalidInputError(
            f"strategy={short_repr(strategy)} has no method rank(): pass an object such as "
            "PaperStrategy()"
        )
