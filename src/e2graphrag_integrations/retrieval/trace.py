"""The trace of a retrieval: every step and decision, as data and as text."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.display import block, heading, preformatted, printable
from e2graphrag_integrations.entities.matching.linking import Link
from e2graphrag_integrations.graph.subjects import SubjectSource
from e2graphrag_integrations.languages.language import ENGLISH, describe_language
from e2graphrag_integrations.reports import Freshness
from e2graphrag_integrations.retrieval.reasons import Reason
from e2graphrag_integrations.search.fusion import first_occurrences

if TYPE_CHECKING:
    from e2graphrag_integrations.retrieval.history.turns import Carried
    from e2graphrag_integrations.search.vector_index import VectorUse

Route = Literal["local", "global"]

RelevanceKind = Literal["calibrated", "cosine", "names", "words"]

_DIGITS = 6
"""Decimals of the scores in a ranked list."""

_MAX_SHOWN = 5
"""Maximum number of subjects of title links, and of names of bridges, that `explain` names."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two linked entities.

    Attributes:
        a, b: The entities.
        hops: Number of edges between them, or None if it exceeds `max_hops`.
        shared_chunks: Number of chunks that mention both.
    """

    a: str
    b: str
    hops: int | None
    shared_chunks: int


@dataclass(frozen=True, slots=True)
class HopStep:
    """One value of h that `PaperStrategy` tried.

    Attributes:
        h: Maximum number of edges between two entities.
        pairs: Number of pairs within h edges.
        chunks: Number of chunks that these pairs share.
    """

    h: int
    pairs: int
    chunks: int


@dataclass(frozen=True, slots=True)
class TreeLayer:
    """One layer of a tree traversal (`TreeTraversalStrategy`).

    Attributes:
        layer: Number of the layer; 1 contains the roots.
        nodes: Number of nodes that were compared with the question.
        selected: Number of nodes whose children form the next layer.
    """

    layer: int
    nodes: int
    selected: int


@dataclass(frozen=True, slots=True)
class Ranked:
    """A node in a ranked list.

    Attributes:
        node_id: Id of the node.
        rank: Position in the list; 1 is the best.
        figures: The scores that determine the rank, by name.
    """

    node_id: str
    rank: int
    figures: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Listing:
    """A ranked list as arrays.

    Attributes:
        ids: Ids of all nodes in the snapshot.
        figure: Name of the score.
        rows: Nodes as indices into `ids`, best first. If `owners` is given, windows as indices into
            `owners` instead.
        scores: Scores, one per row.
        owners: The node of each window, for a list of windows. Each node is listed once and ranked
            by its best window.
    """

    ids: Sequence[str]
    figure: str
    rows: IntArray
    scores: NDArray[np.floating[Any]]
    owners: IntArray | None = None

    def ranked(self) -> tuple[Ranked, ...]:
        """Return the list as `Ranked` objects."""
        rows, scores = self.rows, self.scores
        if self.owners is not None:
            best = first_occurrences(self.owners[rows])
            rows, scores = self.owners[rows[best]], scores[best]
        return tuple(
            Ranked(self.ids[row], rank, {self.figure: round(score, _DIGITS)})
            for rank, (row, score) in enumerate(zip(rows.tolist(), scores.tolist(), strict=True), 1)
        )


class RankedLists(Mapping[str, tuple[Ranked, ...]]):
    """Ranked lists by name, built from arrays on each access."""

    def __init__(self, listings: Mapping[str, Listing]) -> None:
        self._listings = listings

    def __getitem__(self, name: str) -> tuple[Ranked, ...]:
        return self._listings[name].ranked()

    def rows_with_score_of(self, name: str, rows: IntArray) -> IntArray:
        """Return the other rows of a list of nodes with the score of one of these; empty if none.

        Scores are equal if no list would show a difference.
        """
        listing = self._listings.get(name)
        if listing is None:
            return np.empty(0, dtype=np.int64)
        listed = listing.rows if listing.owners is None else listing.owners[listing.rows]
        # For integers, NumPy's own choice allocates their range, which may be that of all nodes.
        own = np.isin(listed, rows, kind="sort")
        scores = np.round(listing.scores, _DIGITS)
        equal: IntArray = listed[np.isin(scores, scores[own]) & ~own]
        return equal

    def __iter__(self) -> Iterator[str]:
        return iter(self._listings)

    def __len__(self) -> int:
        return len(self._listings)

    def __repr__(self) -> str:
        # The lists have all nodes of the index, and a notebook shows the repr of every result.
        sizes = {name: len(ranked) for name, ranked in self.items()}
        return f"RankedLists(sizes={sizes})"


@dataclass(frozen=True, slots=True)
class Mixture:
    """A token budget that is filled with summaries and windows of chunks.

    Attributes:
        reason: `overview` if the question is about an entire text, or `flat` if it has no known
            name and the best windows have similar scores.
        summaries: Number of summaries in the result.
        chunks: Number of chunks in the result.
    """

    reason: Literal["overview", "flat"]
    summaries: int = 0
    chunks: int = 0


@dataclass(frozen=True, slots=True)
class FollowedSubject:
    """The subject of a document or section whose title links were followed.

    Attributes:
        subject: The normal form of its name.
        source: Where the name comes from: `title`, `metadata`, `heading`, `file`, `definition` or
            `section`.
        chunks: Number of chunks that the links lead to.
    """

    subject: str
    source: SubjectSource | None
    chunks: int


@dataclass(frozen=True, slots=True)
class FollowedName:
    """A name that led from one of the best chunks to another chunk.

    Attributes:
        name: The normal form of the name.
        source: Id of the node from which it leads.
        target: Id of the node to which it leads.
    """

    name: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class AppliedBoosts:
    """The boosts of a retrieval; the list `boosted` has the factor of each node.

    Attributes:
        settings: The settings that were used.
        candidates: Number of candidates that were considered.
        changed: Number of candidates whose factor is not 1.
    """

    settings: Mapping[str, Any]
    candidates: int
    changed: int


@dataclass(frozen=True, slots=True)
class Trace:
    """The steps of one retrieval.

    Attributes:
        question: The question as asked.
        strategy: Name of the strategy.
        mode: The mode as requested.
        route: `local` if the question is about something particular, such as a name that the index
            knows; `global` if it is about a text as a whole. The strategy decides it.
        reason: Why this route was chosen: a `Reason`, unless a strategy of the user states a
            plain text.
        mentions: Names and nouns in the question, and names carried over.
        carried: What was carried over from earlier turns, and why; None without a history.
        specificity: Specificity of the rarest name of the question, in [0, 1] (`HybridStrategy`).
        graph_weight: Weight of the graph's list in the fusion, which it determines.
        codes: Codes of the question that the index contains, such as versions and dates.
        links: Mentions linked to entities in the index.
        unlinked: Mentions without an entity in the index.
        ties: The entities that some of these mean equally well, by mention. None of them is linked.
        pairs: Pairs of linked entities (`PaperStrategy`, local).
        hop_steps: Each h that was tried, in order (`PaperStrategy`, local).
        chosen_h: The h whose chunks were used (`PaperStrategy`, local).
        overview: Whether the question asks about an entire text, so that a token budget is filled
            with windows that together cover the topics (`HybridStrategy`).
        ending: Whether the question asks how a text ends, so that its last part comes first
            (`HybridStrategy`).
        mixture: The mixture of summaries and windows that fills a token budget; None if only
            windows do (`HybridStrategy(budget_summaries=)`).
        title_links: The subjects whose title links were followed, strongest first
            (`HybridStrategy`).
        bridges: The names that led from the best chunks to others, strongest first, at most 20
            (`HybridStrategy`).
        layers: The layers that were visited, from the roots down (`TreeTraversalStrategy`).
        boosts: The user's boosts, if there are any.
        lists: The ranked lists by name, before any cut.
        cuts: Number of nodes dropped, by the limit that dropped them.
        timings: Seconds per step.
        question_languages: The languages whose extractors read the question; empty if none did.
        languages: Number of nodes in the result by the language of their documents.
        foreign_language: The language of the question, if no document is in it; else empty.
        freshness: How old the answer is; None if it does not come from an index file.
        vectors: How far a vector index (`vectors=`) was used; None if there is none.
        missing_shards: The shards that the answer does without, if it was asked for in parts.
        relevance_kind: The meaning of the nodes' relevance: a `calibrated` probability, a `cosine`,
            or, if the question has no vector, the fraction of its `names` that the node mentions or
            of its `words`, weighted by BM25.
    """

    question: str
    strategy: str
    mode: str
    route: Route = "global"
    reason: str = ""
    mentions: tuple[str, ...] = ()
    carried: Carried | None = None
    specificity: float = 0.0
    graph_weight: float = 0.0
    codes: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    unlinked: tuple[str, ...] = ()
    ties: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    pairs: tuple[Pair, ...] = ()
    hop_steps: tuple[HopStep, ...] = ()
    chosen_h: int | None = None
    overview: bool = False
    ending: bool = False
    mixture: Mixture | None = None
    title_links: tuple[FollowedSubject, ...] = ()
    bridges: tuple[FollowedName, ...] = ()
    layers: tuple[TreeLayer, ...] = ()
    boosts: AppliedBoosts | None = None
    lists: Mapping[str, tuple[Ranked, ...]] = field(default_factory=dict)
    cuts: Mapping[str, int] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict)
    question_languages: tuple[str, ...] = ()
    languages: Mapping[str, int] = field(default_factory=dict)
    foreign_language: str = ""
    freshness: Freshness | None = field(default=None, compare=False)
    vectors: VectorUse | None = field(default=None, compare=False)
    missing_shards: tuple[str, ...] = ()
    relevance_kind: RelevanceKind = "calibrated"

    @property
    def relevance_name(self) -> str:
        """The name of the relevance for people: `relevance`, `names found` or `words found`."""
        known = ("calibrated", "cosine")
        return "relevance" if self.relevance_kind in known else f"{self.relevance_kind} found"

    def with_cut(self, limit: str, count: int) -> Trace:
        """Return a copy of the trace with `count` more nodes dropped by `limit`."""
        return replace(self, cuts={**self.cuts, limit: self.cuts.get(limit, 0) + count})

    def to_dict(self) -> dict[str, Any]:
        """Return the trace as JSON values."""
        return asdict(replace(self, lists=dict(self.lists)))

    def explain(self) -> str:
        """Return the trace as text, one fact per line; control characters are escaped."""
        return "\n".join(map(printable, self.steps()))

    def steps(self) -> tuple[Reason, ...]:
        """Return the lines of `explain` with their codes and values."""
        steps = [
            Reason("route", route=self.route),
            Reason("why", reason=self.reason),
            Reason("entities", names=self._describe_links()),
        ]
        steps += [Reason("codes", codes=", ".join(self.codes))] if self.codes else []
        if self.graph_weight:
            steps.append(
                Reason("graph", weight=self.graph_weight, specificity=self.specificity),
            )
        if self.carried is not None:
            names = tuple(self.carried.names)[:_MAX_SHOWN]
            used = "history_names" if names else "history"
            code = used if self.carried.turns else "history_unused"
            steps.append(Reason(code, text=self.carried.describe(), names=names))
        if self.unlinked:
            unknown = (
                f"{name} ({' or '.join(self.ties[name])}?)" if name in self.ties else name
                for name in self.unlinked
            )
            steps.append(Reason("unlinked", names=", ".join(unknown)))
        steps += self._paper_steps()
        steps += [
            Reason("selected", layer=one.layer, selected=one.selected, nodes=one.nodes)
            for one in self.layers
        ]
        steps += [Reason("overview")] if self.overview else []
        steps += [Reason("end_first")] if self.ending else []
        if self.mixture:
            mixture = self.mixture
            counts = {"summaries": mixture.summaries, "chunks": mixture.chunks}
            steps.append(Reason("mixture", why=mixture.reason, **counts))
        steps += self._followed_steps()
        if self.boosts is not None:
            settings = ", ".join(f"{name}={one}" for name, one in self.boosts.settings.items())
            counts = {"changed": self.boosts.changed, "candidates": self.boosts.candidates}
            steps.append(Reason("boosts", settings=settings, **counts))
        steps += [
            Reason("list", list=name, count=len(ranked)) for name, ranked in self.lists.items()
        ]
        steps += self._language_steps()
        steps += [] if self.vectors is None else [Reason("vectors", text=self.vectors.describe())]
        if self.missing_shards:
            steps.append(Reason("incomplete", shards=", ".join(self.missing_shards)))
        freshness = self.freshness
        if freshness is not None and not (freshness.is_newest and not freshness.waited):
            steps.append(Reason("freshness", text=freshness.describe()))
        steps += [
            Reason("cut", limit=limit, count=count) for limit, count in self.cuts.items() if count
        ]
        timings = ", ".join(f"{name} {1000 * s:.1f} ms" for name, s in self.timings.items())
        return (*steps, Reason("time", timings=timings))

    def _repr_html_(self) -> str:
        return block(heading(self.question), preformatted(self.explain()))

    def _paper_steps(self) -> list[Reason]:
        steps = [
            Reason("far_pair", a=one.a, b=one.b, chunks=one.shared_chunks)
            if one.hops is None
            else Reason("pair", a=one.a, b=one.b, hops=one.hops, chunks=one.shared_chunks)
            for one in self.pairs
        ]
        for one in self.hop_steps:
            code = "chosen_hops" if one.h == self.chosen_h else "tried_hops"
            steps.append(Reason(code, hops=one.h, pairs=one.pairs, chunks=one.chunks))
        return steps

    def _followed_steps(self) -> list[Reason]:
        titles = [
            f"{one.subject} ({one.source}, {one.chunks} chunk(s))" for one in self.title_links
        ]
        names = Counter(one.name for one in self.bridges)
        bridges = [f"{name} ({count} chunk(s))" for name, count in names.items()]
        parts = {
            "title_links": (titles, tuple(one.subject for one in self.title_links)),
            "bridges": (bridges, tuple(names)),
        }
        return [
            Reason(code, text=_first_of(found), names=shown[:_MAX_SHOWN])
            for code, (found, shown) in parts.items()
            if found
        ]

    def _language_steps(self) -> list[Reason]:
        steps = []
        if {*self.languages, *self.question_languages} - {ENGLISH}:
            read = ", ".join(self.question_languages) or "not read"
            counts = ", ".join(f"{code} {count}" for code, count in self.languages.items())
            steps.append(Reason("languages", question=read, nodes=counts or "none"))
        if self.foreign_language:
            steps.append(Reason("foreign", language=describe_language(self.foreign_language)))
        return steps

    def _describe_links(self) -> str:
        if self.mode == "global":
            return "not looked up"
        if not self.links:
            return "none linked"
        return ", ".join(
            link.entity
            if link.how == "exact"
            else f"{link.entity} ({link.how} of {link.mention!r}{_or_others(link)})"
            for link in self.links
        )


def _or_others(link: Link) -> str:
    """Return the other entities that a mention may mean."""
    return f", or {', '.join(link.others)}" if link.others else ""


def _first_of(described: Sequence[str]) -> str:
    more = len(described) - _MAX_SHOWN
    return ", ".join([*described[:_MAX_SHOWN], *([f"{more} more"] if more > 0 else [])])


@contextmanager
def measure(step: str, timings: dict[str, float]) -> Iterator[None]:
    """Add the seconds spent in a `with` body, excluding nested steps, to `timings[step]`."""
    timings.setdefault(step, 0.0)
    start = time.perf_counter() - sum(timings.values())
    try:
        yield
    finally:
        timings[step] += time.perf_counter() - sum(timings.values()) - start
