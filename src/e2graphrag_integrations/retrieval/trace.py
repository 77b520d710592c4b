"""Why a result is what it is: every step of a retrieval, as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.entities.linking import Link
from e2graphrag_integrations.search.fusion import first_occurrences

Route = Literal["local", "global"]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two linked entities: how many edges apart (None: beyond `max_hops`), and shared chunks."""

    a: str
    b: str
    hops: int | None
    shared_chunks: int


@dataclass(frozen=True, slots=True)
class HopStep:
    """One value of h: how many pairs lie within it and how many chunks those share."""

    h: int
    pairs: int
    chunks: int


@dataclass(frozen=True, slots=True)
class Ranked:
    """A node's place in one list, best first from 1, and the figures it was ranked by."""

    node_id: str
    rank: int
    figures: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Listing:
    """A ranked list as arrays: rows of nodes, best first, and the figure that ranked each.

    Attributes:
        ids: Of all nodes.
        figure: What the scores are.
        rows: Into `ids`; into `owners`, if there are any.
        scores: One a row.
        owners: Of windows, the row of each one's node, which is listed by its best window alone.
    """

    ids: Sequence[str]
    figure: str
    rows: IntArray
    scores: NDArray[np.floating[Any]]
    owners: IntArray | None = None

    def ranked(self) -> tuple[Ranked, ...]:
        """Return the list, written out."""
        rows, scores = self.rows, self.scores
        if self.owners is not None:
            best = first_occurrences(self.owners[rows])
            rows, scores = self.owners[rows[best]], scores[best]
        return tuple(
            Ranked(self.ids[row], rank, {self.figure: round(score, 6)})
            for rank, (row, score) in enumerate(zip(rows.tolist(), scores.tolist(), strict=True), 1)
        )


class RankedLists(Mapping[str, tuple[Ranked, ...]]):
    """Ranked lists by name, written out when somebody looks at them."""

    def __init__(self, listings: Mapping[str, Listing]) -> None:
        self._listings = dict(listings)
        self._written: dict[str, tuple[Ranked, ...]] = {}

    def __getitem__(self, name: str) -> tuple[Ranked, ...]:
        """Return a list, best first."""
        if name not in self._written:
            self._written[name] = self._listings[name].ranked()
        return self._written[name]

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self._listings)

    def __len__(self) -> int:
        """Return how many lists there are."""
        return len(self._listings)

    def __repr__(self) -> str:
        """Return the lists, written out."""
        return repr(dict(self))


@dataclass(frozen=True, slots=True)
class Trace:
    """What one retrieval did.

    Attributes:
        question: As it was asked.
        strategy: Name of the strategy.
        mode: As it was asked for.
        route: Where the result came from.
        reason: Why that route, in words.
        mentions: Names and nouns found in the question.
        links: The entities they stand for.
        unlinked: Mentions that stand for none.
        pairs: Pairs of linked entities (local).
        hop_steps: What each tried h gave, in the order tried (local).
        chosen_h: The h whose chunks were taken (local).
        lists: Each list that was ranked, by name, before it was cut.
        cuts: Nodes dropped, by what dropped them.
        timings: Seconds by step.
    """

    question: str
    strategy: str
    mode: str
    route: Route = "global"
    reason: str = ""
    mentions: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    unlinked: tuple[str, ...] = ()
    pairs: tuple[Pair, ...] = ()
    hop_steps: tuple[HopStep, ...] = ()
    chosen_h: int | None = None
    lists: Mapping[str, tuple[Ranked, ...]] = field(default_factory=dict)
    cuts: Mapping[str, int] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict)

    def with_cut(self, stage: str, count: int) -> Trace:
        """Return the trace with more nodes cut by a stage."""
        return replace(self, cuts={**self.cuts, stage: self.cuts.get(stage, 0) + count})

    def to_dict(self) -> dict[str, Any]:
        """Return the trace as plain JSON values."""
        return asdict(replace(self, lists=dict(self.lists)))

    def explain(self) -> str:
        """Return the trace as text for people."""
        lines = [f"route: {self.route}", f"why: {self.reason}", f"entities: {self._entities()}"]
        if self.unlinked:
            lines.append(f"not in the index: {', '.join(self.unlinked)}")
        for pair in self.pairs:
            hops = "beyond reach" if pair.hops is None else f"{pair.hops} hop(s)"
            lines.append(f"pair: {pair.a} - {pair.b}: {hops}, {pair.shared_chunks} shared chunk(s)")
        for step in self.hop_steps:
            taken = "  <- taken" if step.h == self.chosen_h else ""
            lines.append(f"h = {step.h}: {step.pairs} pair(s), {step.chunks} chunk(s){taken}")
        lines += [f"list {name}: {len(ranked)} node(s)" for name, ranked in self.lists.items()]
        lines += [f"cut by {what}: {count} node(s)" for what, count in self.cuts.items() if count]
        steps = ", ".join(f"{name} {1000 * s:.1f} ms" for name, s in self.timings.items())
        return "\n".join([*lines, f"time: {steps}"])

    def _entities(self) -> str:
        if self.mode == "global":
            return "not looked up"
        if not self.links:
            return "none linked"
        return ", ".join(
            link.entity
            if link.how == "exact"
            else f"{link.entity} ({link.how} of {link.mention!r})"
            for link in self.links
        )
