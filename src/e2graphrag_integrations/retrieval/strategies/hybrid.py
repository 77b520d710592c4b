"""The hybrid strategy: dense vectors, BM25 and the entity graph, fused by reciprocal rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.failures import CodedText
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations._utils.validation import (
    check_bool,
    check_choice,
    check_int,
    check_protocol,
    short_repr,
)
from e2graphrag_integrations.embedders.calibration import Calibration, check_calibration
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.protocols import Reranker
from e2graphrag_integrations.retrieval.names.background import Background
from e2graphrag_integrations.retrieval.names.bridges import NAME as BRIDGES
from e2graphrag_integrations.retrieval.names.bridges import (
    BridgedQuestion,
    find_bridges,
    parts_of_name,
)
from e2graphrag_integrations.retrieval.names.code_matches import CodeMatches
from e2graphrag_integrations.retrieval.names.namesakes import find_namesakes
from e2graphrag_integrations.retrieval.names.seeds import Seeds, joined_names, specificity
from e2graphrag_integrations.retrieval.ranking.breadth import cover_question, is_overview
from e2graphrag_integrations.retrieval.ranking.candidates import (
    WeightedList,
    found_by_and_reasons,
    fuse,
    window_candidates,
)
from e2graphrag_integrations.retrieval.ranking.question_terms import QuestionTerms
from e2graphrag_integrations.retrieval.ranking.relevance import Relevance
from e2graphrag_integrations.retrieval.routing import choose_route
from e2graphrag_integrations.retrieval.strategy import Candidate, Query
from e2graphrag_integrations.retrieval.trace import (
    FollowedName,
    FollowedSubject,
    Listing,
    Mixture,
    RankedLists,
    Trace,
)
from e2graphrag_integrations.search.fusion import Floats, top_rows
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.text.contents import CONTENTS
from e2graphrag_integrations.text.words import has_unspaced, terms_of

_UNSPACED_NAMES = 0.3
"""Weight of names in a question in a script without spaces, relative to others. No capital tells
them from common words there, and a part of one may be found in any text."""

_MIN_LIST_LENGTH = 200
"""Minimum number of nodes or windows per list; a larger k increases it. A node outside a list gets
no score from that list."""

MAX_POOL = 1000
"""Largest number of nodes from which the result may be selected, unless `k` is larger."""

_FULL_NAME = 0.8
"""Minimum factor for the covered share of a question with a full name that few chunks have. Words
cannot tell the texts with both words of a name from those with the name."""

_LEAST_NAME = 0.3
"""Least factor of a name that the question only mentions. It may lead to the answer."""

_REORDERED = 20
"""Number of chunks in the list of the entity graph that relevance reorders."""

BudgetSummaries = Literal["never", "overview", "flat"]
"""The questions for which a token budget holds summaries."""

_FLOAT_RANGES = {
    "rrf_k": (0, 1000),
    "gate": (0, 1000),
    "coverage_factor": (0, 1000),
    "dense_weight": (0, 1000),
    "bm25_weight": (0, 1000),
    "entity_weight": (0, 1000),
    "title_link_weight": (0, 1000),
    "bridge_weight": (0, 1000),
    "joined_weight": (0, 1000),
    "code_weight": (0, 1000),
    "sentence_weight": (0, 1000),
    "idf_power": (0, 10),
    "relevance_power": (0.1, 10),
    "neighbor_decay": (0, 1),
    "diversity": (0, 1),
    "damping": (0, 1),
}
_INT_RANGES = {
    "title_link_sources": (0, 1000),
    "n_iter": (1, 1000),
    "diversity_pool": (1, MAX_POOL),
    "rerank_top_n": (1, 1000),
}


@dataclass(frozen=True, slots=True)
class HybridStrategy:
    """Fusion of dense and BM25 search with the entity graph, weighted by entity specificity.

    Nodes are ranked by weighted reciprocal rank fusion (Cormack et al. 2009) of three lists::

        score(node) = 1 / (rrf_k + rank by relevance)
                    + specificity ** gate * entity_weight / (rrf_k + rank by PageRank)
                    + link * title_link_weight / (rrf_k + rank by title links)

    Relevance combines cosine similarity and BM25 per window, and smooths over neighboring windows;
    a node has the relevance of its best window (`ranking/relevance.py`). Personalized PageRank
    starts at the entities that the query names and ranks chunks (`graph/pagerank.py`). Title links
    lead from the best chunks to other documents (`names/title_links.py`); `link` is the score
    of the best title link, at most 1. With a small `rrf_k`, the top of one list outweighs
    agreement between lists.

    Bridges then lift chunks that share a specific name with one of the best chunks, but never above
    that chunk (`names/bridges.py`).

    The paper (arXiv 2505.24226) chooses between local and global retrieval. Here, the specificity
    of the query's entities, in [0, 1], sets the weight of local evidence. The specificity is 0 if
    there is no entity or every chunk mentions it, and 1 if a single chunk mentions it
    (`names/seeds.py`).
    `mode="local"` uses the entity lists only, with specificity 1; `mode="global"` uses relevance
    only.

    Two more lists have the chunks with the codes of the query, such as a version or a date, which
    vectors cannot tell apart (`names/code_matches.py`).

    With a token budget, windows are ranked instead of nodes, so that the budget is spent on the
    relevant parts of chunks. docs/constants.md lists the effect of halving and doubling each
    default.

    Args:
        rrf_k: Constant added to each rank in the fusion.
        gate: Exponent of the entity specificity; 0 gives the entity lists their full weight.
        coverage_factor: The weight of the entity lists is multiplied by this factor times the share
            of the question that its linked names cover, but at most by 1; 0 ignores the share.
        dense_weight: Weight of cosine similarity in the relevance; 0 skips dense search.
        bm25_weight: Weight of BM25 in the relevance; 0 skips BM25.
        entity_weight: Weight of the lists from the entity graph; 0 leaves them out.
        title_link_weight: Weight of the title links; 0 leaves them out.
        bridge_weight: Weight of the names that lead from the best chunks to chunks of other
            documents; 0 follows none.
        joined_weight: Weight of the chunks of long texts that join names of the question
            (`seeds.joined_names`), times their specificity to the power of `gate`.
        code_weight: Weight of the chunks with the codes of the question, such as a version or a
            date, and again of those where a line begins with one (`names/code_matches.py`),
            times the specificity of the rarest code to the power of `gate`; 0 leaves them out.
        sentence_weight: Under a token budget, how much more a window counts that alone among those
            of its document has the whole question in one sentence or row
            (`ranking/question_parts.py`); 0 compares no sentences.
        idf_power: Exponent of an extra IDF factor per BM25 term; 0 gives plain BM25.
        relevance_power: Exponent of the relevance before smoothing; above 1 favors a few good
            windows over many fair ones.
        neighbor_decay: Fraction of its relevance that a window adds to each adjacent window in its
            document. A window two positions away gets the square of this fraction, and so on.
        title_link_sources: Number of top chunks from which title links are followed.
        damping: Probability that PageRank follows an edge instead of restarting at a query entity.
        n_iter: Number of power iterations of PageRank.
        diversity: Weight of breadth (`ranking/breadth.py`); 0 ranks each node for itself. Nodes
            are selected so that they together contain the words of the question. Under a token
            budget, further windows of a document are discounted unless it dominates the ranking,
            and an overview question ("Summarize the meeting") gets windows on many topics.
        diversity_pool: Number of the best nodes from which the result is selected; at least `k`.
        include_summaries: Whether summaries compete with chunks. A token budget is filled with
            windows of chunks only, unless `budget_summaries` says otherwise.
        budget_summaries: The questions for which a token budget is filled with a mixture of
            summaries and windows (`results/tree_budget.py`): `never`; `overview`, for questions
            about an entire text ("Summarize the meeting"); or `flat`, also for questions without a
            known name whose best windows have similar scores. It needs summaries by a language
            model: extractive summaries make these answers worse (docs/retrieval.md).
        use_aliases: Whether surnames, initials and misspellings link to entities.
        use_path_chunks: Whether chunks along the shortest paths between the query's entities form
            an additional list with the same weight as the PageRank list.
        reranker: Scores the best texts against the query and sets their final order; None keeps
            the fused order.
        rerank_top_n: Number of texts that the reranker reads.
        relevance_calibration: Maps the cosine of a node to its relevance, such as
            `RelevanceCalibration(slope, intercept)`; None uses the mapping that was fitted for the
            embedder, or `clipped_cosine` if there is none. It affects the order only where fewer
            than 200 windows are searched (`Relevance.dense_confidence`).

    Raises:
        InvalidInputError: If a number is out of range, `reranker` has no method `rerank`, or
            `relevance_calibration` is not a function.
    """

    rrf_k: float = 1.0
    gate: float = 2.0
    coverage_factor: float = 2.0
    dense_weight: float = 1.0
    bm25_weight: float = 1.0
    entity_weight: float = 1.0
    title_link_weight: float = 1.0
    bridge_weight: float = 1.5
    joined_weight: float = 1.5
    code_weight: float = 3.0
    sentence_weight: float = 2.0
    idf_power: float = 1.0
    relevance_power: float = 2.0
    neighbor_decay: float = 0.5
    title_link_sources: int = 8
    damping: float = 0.5
    n_iter: int = 10
    diversity: float = 0.3
    diversity_pool: int = 20
    include_summaries: bool = True
    budget_summaries: BudgetSummaries = "never"
    use_aliases: bool = True
    use_path_chunks: bool = False
    reranker: Reranker | None = None
    rerank_top_n: int = 30
    relevance_calibration: Calibration | None = None

    def __post_init__(self) -> None:
        for name, (least, most) in _FLOAT_RANGES.items():
            value = getattr(self, name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not least <= value <= most:
                raise InvalidInputError(
                    CodedText(
                        "no_number",
                        "{name}={value} must be a number from {least} to {most}",
                        name=name,
                        value=short_repr(value),
                        least=least,
                        most=most,
                    )
                )
        for name, (least, most) in _INT_RANGES.items():
            check_int(name, getattr(self, name), least, most)
        for name in ("include_summaries", "use_aliases"):
            check_bool(name, getattr(self, name))
        check_choice("budget_summaries", self.budget_summaries, get_args(BudgetSummaries))
        if self.reranker is not None:
            check_protocol("reranker", self.reranker, Reranker)
        check_calibration(self.relevance_calibration)

    @property
    def name(self) -> str:
        """The name of the strategy in the trace."""
        return "hybrid"

    def needs_vector(self, query: Query, snapshot: Snapshot) -> bool:
        """Return whether dense search runs; it does not if `mode="local"`."""
        has_windows = bool(len(snapshot.dense.window_nodes))
        return query.mode != "local" and self.dense_weight > 0 and has_windows

    def rank(self, query: Query, snapshot: Snapshot) -> tuple[Sequence[Candidate], Trace]:
        """Rank nodes, or windows if `query.packs_windows` is set.

        Returns:
            Candidates, best first, and the trace: up to `query.k` nodes (or `rerank_top_n`
            nodes, if there is a reranker and that is more), or all relevant windows.
        """
        search = _HybridSearch(self, query, snapshot)
        lists = search.weighted_lists()
        # `mode="local"` has no relevance list, so it has no windows to rank.
        if query.packs_windows and query.mode != "local":
            windows = window_candidates(
                lists, search.relevance, self.rrf_k, snapshot, self.diversity
            )
            return search.with_sentences(windows), search.trace(lists, cut=0)
        rows, scores = fuse(lists, self.rrf_k, len(snapshot.nodes.ids))
        top = query.k if self.reranker is None else max(query.k, self.rerank_top_n)
        cut = len(rows[top:])
        # `mode="local"` has no vector, which the relevance needs.
        is_local = query.mode == "local"
        if not is_local and snapshot.bm25.doc_freq(CONTENTS):
            from e2graphrag_integrations.retrieval.ranking.tables_of_contents import (
                without_contents_first,
            )

            rows, scores = without_contents_first(search.relevance, rows, scores)
        rows, scores = search.select(rows, scores, top)
        best = rows[:top]
        spans = [None] * len(best) if is_local else search.relevance.best_spans(best)
        candidates = [
            Candidate(
                row,
                score,
                *found_by_and_reasons(row, lists, self.rrf_k),
                best_span=span,
                relevance=None if is_local else search.relevance.of_node(row),
            )
            for row, score, span in zip(best.tolist(), scores[:top].tolist(), spans, strict=True)
        ]
        return candidates, search.trace(lists, cut)


class _HybridSearch:
    """The steps of the algorithm for one query."""

    def __init__(self, strategy: HybridStrategy, query: Query, snapshot: Snapshot) -> None:
        self.strategy = strategy
        self.query = query
        self.snapshot = snapshot
        self.list_length = max(_MIN_LIST_LENGTH, query.k)
        self.allowed = None if query.allowed is None else query.allowed[snapshot.chunk_nodes]
        # A budget is filled with windows of chunks, unless the filter lets only summaries through.
        has_chunks = self.allowed is None or bool(self.allowed.any())
        self.seeds = Seeds(query, snapshot, self.allowed, use_aliases=strategy.use_aliases)
        self.relevance = Relevance(
            query,
            snapshot,
            QuestionTerms(query, snapshot.bm25, strategy.idf_power, self.seeds.written_out),
            dense_weight=strategy.dense_weight,
            bm25_weight=strategy.bm25_weight,
            relevance_power=strategy.relevance_power,
            neighbor_decay=strategy.neighbor_decay,
            list_length=self.list_length,
            leaves_only=(query.packs_windows and has_chunks) or not strategy.include_summaries,
            namesakes=find_namesakes(self.seeds.linking.links, snapshot),
        )
        self.codes = CodeMatches(query, snapshot, self.allowed)
        self.specificity = self.graph_weight = 0.0
        self.trust = _UNSPACED_NAMES if has_unspaced(query.question) else 1.0
        self.followed: tuple[FollowedSubject, ...] = ()
        self.bridged: tuple[FollowedName, ...] = ()
        if strategy.entity_weight and self.seeds.ranked:
            self.specificity = 1.0 if query.mode == "local" else self.seeds.specificity
            self.graph_weight = self.trust * float(self.specificity**strategy.gate)
            if strategy.coverage_factor and query.mode != "local":
                share = strategy.coverage_factor * self.seeds.coverage
                least = _FULL_NAME if self.seeds.has_full_name else 0.0
                self.graph_weight *= min(1.0, max(least, share))

    def select(self, rows: IntArray, scores: Floats, count: int) -> tuple[IntArray, Floats]:
        """Return the nodes that together cover the question, best first, and their scores."""
        pool = rows[: max(self.strategy.diversity_pool, count)]
        is_off = not self.strategy.diversity or self.query.mode == "local"
        if is_off or len(pool) < 2:  # noqa: PLR2004 - nothing to choose from
            return rows[:count], scores[:count]
        windows, owners = self.snapshot.dense.windows_of(pool)
        places, values = cover_question(
            self.relevance.terms,
            scores[: len(pool)],
            windows,
            owners,
            diversity=self.strategy.diversity,
            count=count,
        )
        return pool[places], np.asarray(values)

    def with_sentences(self, windows: Sequence[Candidate]) -> Sequence[Candidate]:
        """Return windows, best first, reordered by what their sentences contain of the question."""
        weight, texts = self.strategy.sentence_weight, self.query.texts
        if not weight or texts is None or len(windows) < 2:  # noqa: PLR2004 - nothing to compare
            return windows
        from e2graphrag_integrations.retrieval.ranking.question_parts import (
            QuestionParts,
            prefer_sentences,
        )

        question = QuestionParts(self.relevance.terms, self.seeds.linking.links)
        return prefer_sentences(windows, question, texts, self.snapshot, weight)

    def weighted_lists(self) -> list[WeightedList]:
        """Return the lists to fuse."""
        strategy, mode, lists = self.strategy, self.query.mode, []
        if mode != "local":
            rows, _, scores = self.relevance.nodes
            top = slice(self.list_length)
            lists = [WeightedList("relevance", "relevance", 1.0, "global", rows[top], scores[top])]
        weight = self.graph_weight * strategy.entity_weight
        if weight:
            ranked = self.chunks_near_names()
            lists.append(
                WeightedList(
                    "entities",
                    "personalized_pagerank",
                    weight,
                    "local",
                    *ranked,
                    factors=self.asked_share(
                        ranked[0], self.background.weight_of_names, _LEAST_NAME
                    ),
                )
            )
        # `mode="local"` has no relevance, which says which of many chunks with both names is best.
        if mode != "local" and strategy.joined_weight and (joined := self.joined_names()):
            lists.append(joined)
        if weight and strategy.use_path_chunks:
            from e2graphrag_integrations.retrieval.names.paths import path_closeness

            entities = [seed.entity for seed in self.seeds.paired]
            closeness = path_closeness(self.snapshot.graph, entities)
            ranked = self.best_chunks(np.arange(len(closeness)), closeness)
            lists.append(WeightedList("paths", "closeness", weight, "local", *ranked))
        if strategy.code_weight and self.codes.found:
            lists += self.code_lists()
        follows = strategy.title_link_weight > 0 and strategy.title_link_sources > 0
        if mode == "auto" and follows and self.snapshot.subjects.can_link:
            lists.append(self.title_links(lists))
        if mode == "auto" and strategy.bridge_weight:
            lists.append(self.bridges(lists))
        return lists

    def bridges(self, lists: Sequence[WeightedList]) -> WeightedList:
        """Follow the names of the best chunks of the other lists."""
        strategy, index = self.strategy, self.snapshot.subjects.index
        links = self.seeds.linking.links
        question = BridgedQuestion(
            self.relevance,
            names={
                index[part] for one in links for part in parts_of_name(one.entity) if part in index
            },
            # A single word may be a common noun, which says what is asked.
            name_words={w for one in links if len(own := terms_of(one.mention)) > 1 for w in own},
            allowed=self.allowed,
            texts=self.query.texts,
        )
        found = find_bridges(
            *fuse(lists, strategy.rrf_k, len(self.snapshot.nodes.ids)),
            self.snapshot,
            question,
            # The more names a question gives, the fewer remain to be found.
            weight=self.trust * strategy.bridge_weight / max(1, len(self.seeds.ranked)),
            rrf_k=strategy.rrf_k,
        )
        self.bridged = found.followed(self.snapshot)
        return WeightedList(
            BRIDGES, "gain", 1.0, "local", found.rows, found.gains, gains=found.gains
        )

    def joined_names(self) -> WeightedList | None:
        """Return the chunks of long texts that join names of the question, most relevant first."""
        chunks, counts = joined_names(self.seeds, self.snapshot)
        total = self.seeds.allowed_count
        if not len(chunks) or total < 2:  # noqa: PLR2004 - the specificity needs two chunks
            return None
        scores = counts + self.relevance.of_chunks(chunks) / 10
        rarity = specificity(len(chunks), total) ** self.strategy.gate
        ranked = self.best_chunks(chunks, scores)
        weight = self.strategy.joined_weight * rarity
        return WeightedList("joined_names", "names", weight, "local", *ranked)

    def chunks_near_names(self) -> tuple[IntArray, Floats]:
        """Return the node rows of the best chunks by PageRank, best first, and their PageRank.

        Chunks that mention the same name have similar PageRanks, so relevance reorders the first
        of them. It at most doubles a PageRank.
        """
        reached = self.seeds.personalized_pagerank(self.strategy.damping, self.strategy.n_iter)
        rows, scores = self.best_chunks(*reached)
        if self.query.mode == "local" or not len(rows):
            return rows, scores
        first = rows[:_REORDERED]
        relevance = self.relevance.of_chunks(np.searchsorted(self.snapshot.chunk_nodes, first))
        factors = 1 + relevance / max(float(relevance.max()), 1e-9)
        order = np.argsort(-scores[:_REORDERED] * factors, kind="stable")
        places = np.concatenate([order, np.arange(len(first), len(rows))])
        return rows[places], scores[places]

    def best_chunks(self, chunks: IntArray, scores: Floats) -> tuple[IntArray, Floats]:
        """Return the node rows of the best allowed chunks, best first, and their scores."""
        allowed = None if self.allowed is None else self.allowed[chunks]
        best = top_rows(scores, self.list_length, allowed)
        return self.snapshot.chunk_nodes[chunks[best]], scores[best]

    def code_lists(self) -> list[WeightedList]:
        """Return the chunks with the codes of the question, and those where a line begins with one.

        A code has the weight of its specificity, as a name has.
        """
        local = self.query.mode == "local"
        specificity = 1.0 if local else self.codes.specificity
        weight = self.strategy.code_weight * specificity**self.strategy.gate
        lists = []
        for name, at_start in (("codes", False), ("code_lines", True)):
            chunks, scores = self.codes.ranked(at_start=at_start)
            if len(chunks):
                if not local:  # of chunks with equal codes, the more relevant one is better
                    scores += self.relevance.of_chunks(chunks) / 1000
                ranked = self.best_chunks(chunks, scores)
                factors = self.asked_share(ranked[0], self.background.weight_of_codes)
                lists.append(
                    WeightedList(
                        name,
                        "specificity",
                        weight,
                        "local",
                        *ranked,
                        self.codes.windows,
                        factors=factors,
                    )
                )
        return lists

    def asked_share(self, rows: IntArray, weight: float, least: float = 0.0) -> Floats | None:
        """Return how much the names or codes in nodes count, if others have the rest of the words.

        Only the first nodes are compared, because the others contribute little.
        """
        if self.query.mode == "local":
            return None
        factors = np.ones(len(rows))
        first = rows[:_REORDERED]
        factors[: len(first)] = np.maximum(least, self.background.factors(first, weight))
        return factors

    @lazy
    def background(self) -> Background:
        """Compares the nodes with names and codes by the rest of the question."""
        return Background(self.relevance, self.seeds.linking.links, self.codes)

    def title_links(self, lists: Sequence[WeightedList]) -> WeightedList:
        """Follow title links from the best chunks of the other lists.

        The best link's score, at most 1, scales the weight of the list, so weak links have little
        influence.
        """
        from e2graphrag_integrations.retrieval.names.title_links import title_links

        nodes = self.snapshot.nodes
        rows, scores = fuse(lists, self.strategy.rrf_k, len(nodes.ids))
        best = np.flatnonzero(nodes.level[rows] == 0)[: self.strategy.title_link_sources]
        sources = list(zip(rows[best].tolist(), scores[best].tolist(), strict=True))
        index = self.snapshot.subjects.index
        asked = [index[one.entity] for one in self.seeds.linking.links if one.entity in index]
        links = title_links(sources, self.snapshot, self.relevance.of_chunks, self.allowed, asked)
        self.followed = links.followed
        order = np.lexsort((links.rows, -links.scores))[: self.list_length]
        linked, scores = links.rows[order], links.scores[order]
        strength = min(1.0, float(scores[0])) if len(scores) else 0.0
        weight = self.strategy.title_link_weight * strength
        return WeightedList("title_links", "score", weight, "local", linked, scores)

    @property
    def has_no_names(self) -> bool:
        """Whether the question has no name that is in the index."""
        return self.query.mode != "local" and not self.seeds.ranked

    @property
    def is_overview(self) -> bool:
        """Whether the question asks about an entire text."""
        return is_overview(self.query.question, self.snapshot.bm25, self.query.carried_terms)

    def mixture(self) -> Mixture | None:
        """Return why summaries are added to a token budget; None if they are not."""
        wanted = self.strategy.budget_summaries
        if wanted == "never" or not self.query.packs_windows or not self.has_no_names:
            return None
        if self.is_overview:
            return Mixture("overview")
        if wanted != "flat":
            return None
        from e2graphrag_integrations.retrieval.results.tree_budget import is_flat

        return Mixture("flat") if is_flat(-np.sort(-self.relevance.windows[1])) else None

    def trace(self, lists: Sequence[WeightedList], cut: int) -> Trace:
        """Return the trace, in which the dense and BM25 lists rank nodes by best window.

        Args:
            lists: The fused lists.
            cut: Number of nodes below the cut.
        """
        query, seeds, ids = self.query, self.seeds, self.snapshot.nodes.ids
        chosen = choose_route(query, seeds, self.codes, self.snapshot)
        is_wide = self.has_no_names and self.strategy.diversity > 0
        listings: dict[str, Listing] = {}
        if query.mode != "local":
            owners = self.snapshot.dense.window_nodes
            listings["dense"] = Listing(ids, "cosine", *self.relevance.dense, owners)
            listings["bm25"] = Listing(ids, "bm25", *self.relevance.bm25, owners)
        listings |= {one.name: Listing(ids, one.score_name, one.rows, one.scores) for one in lists}
        return Trace(
            question=query.question,
            strategy=self.strategy.name,
            mode=query.mode,
            route=chosen.route,
            reason=chosen.reason,
            specificity=self.specificity,
            graph_weight=self.graph_weight,
            mentions=query.names,
            codes=tuple(one.text for one in self.codes.found),
            links=seeds.linking.links,
            unlinked=seeds.linking.unlinked,
            ties=seeds.linking.ties,
            overview=is_wide and self.is_overview,
            mixture=self.mixture(),
            title_links=self.followed,
            bridges=self.bridged,
            lists=RankedLists({name: one for name, one in listings.items() if len(one.rows)}),
            cuts={"k": cut},
        )
