"""Tree traversal: from the roots of all trees downward, along the nodes nearest to the question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from e2graphrag_integrations._utils.arrays import IntArray, concatenated_ranges
from e2graphrag_integrations._utils.lazy import LazySequence
from e2graphrag_integrations._utils.validation import check_int, short_repr
from e2graphrag_integrations.embedders.calibration import Calibration, check_calibration
from e2graphrag_integrations.entities.matching.linking import link
from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.retrieval.reasons import Reason
from e2graphrag_integrations.retrieval.strategy import Candidate, Query
from e2graphrag_integrations.retrieval.trace import Listing, RankedLists, Trace, TreeLayer
from e2graphrag_integrations.search.fusion import Floats, first_occurrences
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.types import Span

_MANY_NODES = 1000
"""From this number of nodes in a layer, such as the roots of many documents, the vector search is
faster than reading the vectors of all nodes."""


_FEW_NODES = 16
"""Up to this number of ranges, Python joins them faster than NumPy."""


@dataclass(frozen=True, slots=True)
class TreeTraversalStrategy:
    """The tree traversal of RAPTOR (arXiv 2401.18059, section 3).

    The first layer consists of the roots of all documents. Of each layer, the nodes with the
    highest cosine similarity to the question are selected, and their children form the next layer.
    The result consists of the nodes selected in all layers, ordered by cosine. A document of one
    chunk has no summary: its root is the chunk.

    A node that a filter excludes is not compared with the question. The matching nodes below it
    take its place.

    With a token budget, the windows of the selected chunks are ranked instead of complete chunks;
    summaries are not split. The mode has no effect, because the traversal uses no entities. Names
    in the question are still looked up, so that the result shows which nodes mention them.

    Args:
        per_level: Number of nodes to select in each layer; None means no limit.
        threshold: Minimum cosine of a selected node, from -1 to 1; None means no minimum.
        max_depth: Number of layers; None continues to the chunks.
        relevance_calibration: Maps the cosine of a node to its relevance, as for `HybridStrategy`.

    Raises:
        InvalidInputError: If a number is out of range, if both `per_level` and `threshold` are
            None, or if `relevance_calibration` is not a function.
    """

    per_level: int | None = 5
    threshold: float | None = None
    max_depth: int | None = None
    relevance_calibration: Calibration | None = None

    def __post_init__(self) -> None:
        for name, value in (("per_level", self.per_level), ("max_depth", self.max_depth)):
            if value is not None:
                check_int(name, value)
        if self.threshold is not None:
            is_number = isinstance(self.threshold, int | float | np.floating)
            if isinstance(self.threshold, bool) or not is_number or not -1 <= self.threshold <= 1:
                raise InvalidInputError(
                    f"threshold={short_repr(self.threshold)} must be a cosine from -1 to 1, or None"
                )
        elif self.per_level is None:
            raise InvalidInputError(
                "per_level=None and threshold=None select every node: set at least one of them"
            )
        check_calibration(self.relevance_calibration)

    @property
    def name(self) -> str:
        """The name of the strategy in the trace."""
        return "tree_traversal"

    def needs_vector(self, query: Query, snapshot: Snapshot) -> bool:  # noqa: ARG002 - see `VectorOptionalStrategy`
        """Return whether the index has any nodes."""
        return bool(len(snapshot.dense.window_nodes))

    def rank(self, query: Query, snapshot: Snapshot) -> tuple[Sequence[Candidate], Trace]:
        """Return the selected nodes, best first, and the trace.

        Returns:
            At most `query.k` nodes; or all selected summaries and the windows of all selected
            chunks, if `query.packs_windows` is set.
        """
        linking = link(query.mentions, snapshot.graph.index, edits=snapshot.edits)
        layers = _Traversal(self, query, snapshot).layers()
        nodes, ids = _Selected(layers, query, snapshot), snapshot.nodes.ids
        candidates = nodes.windows() if query.packs_windows else nodes.best()
        listings = {
            f"layer_{one.number}": Listing(ids, "cosine", one.rows, one.cosines) for one in layers
        }
        trace = Trace(
            question=query.question,
            strategy=self.name,
            mode=query.mode,
            reason=Reason("roots", count=layers[0].compared if layers else 0),
            mentions=query.names,
            links=linking.links,
            unlinked=linking.unlinked,
            layers=tuple(TreeLayer(one.number, one.compared, len(one.rows)) for one in layers),
            lists=RankedLists(listings),
            cuts={} if query.packs_windows else {"k": len(nodes.rows) - len(candidates)},
        )
        return candidates, trace


@dataclass(frozen=True, eq=False, slots=True)
class _Layer:
    """The nodes selected in one layer.

    Attributes:
        number: Number of the layer, from 1.
        compared: Number of nodes in the layer that were compared with the question.
        rows: The selected nodes, best first.
        cosines: Their cosines.
    """

    number: int
    compared: int
    rows: IntArray
    cosines: Floats


class _Traversal:
    """The steps of the algorithm for one query."""

    def __init__(self, strategy: TreeTraversalStrategy, query: Query, snapshot: Snapshot) -> None:
        self.strategy = strategy
        self.query = query
        self.nodes = snapshot.nodes
        self.dense = snapshot.dense
        self.all_cosines: Floats | None = None

    def layers(self) -> list[_Layer]:
        """Return the layers, from the roots to the chunks."""
        layers: list[_Layer] = []
        most = self.strategy.max_depth
        nodes = self.matching(self.nodes.roots)
        if len(nodes):
            self.all_cosines = self.dense.cosines_of_all_nodes(self.query.unit_vector)
        while len(nodes) and (most is None or len(layers) < most):
            layers.append(_Layer(len(layers) + 1, len(nodes), *self.nearest(nodes)))
            nodes = self.matching(self.children(np.sort(layers[-1].rows)))
        return layers

    def matching(self, nodes: IntArray) -> IntArray:
        """Replace nodes that the filter excludes with the matching nodes below them, ascending."""
        allowed = self.query.allowed
        if allowed is None:
            return nodes
        found: list[IntArray] = []
        while len(nodes):
            matches = allowed[nodes]
            found.append(nodes[matches])
            nodes = self.children(nodes[~matches])
        return np.sort(np.concatenate(found)) if found else nodes

    def children(self, nodes: IntArray) -> IntArray:
        first, counts = self.nodes.children
        if len(nodes) > _FEW_NODES:
            return concatenated_ranges(first[nodes], counts[nodes])
        starts, sizes = first[nodes].tolist(), counts[nodes].tolist()
        ranges = (range(s, s + size) for s, size in zip(starts, sizes, strict=True))
        return np.fromiter(chain.from_iterable(ranges), np.int64, sum(sizes))

    def nearest(self, nodes: IntArray) -> tuple[IntArray, Floats]:
        """Return the nodes to select, best first, and the cosines of their best windows."""
        count = len(nodes) if self.strategy.per_level is None else self.strategy.per_level
        if self.all_cosines is not None or len(nodes) < _MANY_NODES:
            cosines = self.cosines(nodes)
            order = np.argsort(-cosines, kind="stable")[:count]
            rows, best = nodes[order], cosines[order]
        else:
            mask = np.zeros(len(self.nodes.ids), dtype=np.bool_)
            mask[nodes] = True
            found = self.dense.search(self.query.unit_vector, count, mask)
            rows = np.asarray([row for row, _ in found], dtype=np.int64)
            best = np.asarray([cosine for _, cosine in found])
        if self.strategy.threshold is not None:
            passes = int(np.count_nonzero(best >= self.strategy.threshold))
            rows, best = rows[:passes], best[:passes]
        return rows, best

    def cosines(self, nodes: IntArray) -> Floats:
        """Return the cosine of each node's best window; every node has at least one."""
        if self.all_cosines is not None:
            return self.all_cosines[nodes]
        windows, owners = self.dense.windows_of(nodes)
        cosines = self.dense.exact_cosines(self.query.unit_vector, windows)
        best: Floats = np.maximum.reduceat(cosines, first_occurrences(owners))
        return best


class _Selected:
    """The selected nodes of all layers as candidates."""

    def __init__(self, layers: Sequence[_Layer], query: Query, snapshot: Snapshot) -> None:
        self.query = query
        self.snapshot = snapshot
        self.layers = layers
        sizes = [len(one.rows) for one in layers]
        rows = [np.empty(0, dtype=np.int64), *(one.rows for one in layers)]
        cosines = [np.empty(0), *(one.cosines for one in layers)]
        self.rows: IntArray = np.concatenate(rows)
        self.cosines: Floats = np.concatenate(cosines)
        self.layer = np.repeat(np.arange(len(layers)), sizes)
        self.rank = concatenated_ranges(np.ones(len(sizes), dtype=np.int64), np.asarray(sizes, int))

    def best(self) -> list[Candidate]:
        """Return the `k` nodes with the highest cosines, best first."""
        order = np.lexsort((self.rows, -self.cosines))[: self.query.k]
        if not len(order):
            return []
        windows, owners, cosines = self._windows(order)
        first_best = np.lexsort((windows, -cosines, owners))
        first_best = first_best[first_occurrences(owners[first_best])]
        spans = self.snapshot.window_spans[windows[first_best]].tolist()
        return [
            self._candidate(place, self.cosines[place], Span(*span))
            for place, span in zip(order.tolist(), spans, strict=True)
        ]

    def windows(self) -> Sequence[Candidate]:
        """Return the windows of the chunks, and the summaries, by their cosines, best first."""
        places = np.arange(len(self.rows))
        if not len(places):
            return []
        windows, owners, cosines = self._windows(places)
        # A summary is packed in full, so only its best window counts.
        is_summary = self.snapshot.nodes.level[self.rows[owners]] > 0
        order = np.lexsort((windows, -cosines))
        seen: set[int] = set()
        ranked = []
        for window in order.tolist():
            owner = int(owners[window])
            if not is_summary[window] or owner not in seen:
                seen.add(owner)
                ranked.append(window)

        def candidate(number: int) -> Candidate:
            window = ranked[number]
            span = Span(*self.snapshot.window_spans[windows[window]].tolist())
            return self._candidate(int(owners[window]), cosines[window], span, is_window=True)

        return LazySequence(len(ranked), candidate)

    def _windows(self, places: IntArray) -> tuple[IntArray, IntArray, Floats]:
        """Return the windows of some nodes, their positions in `places`, and their cosines."""
        windows, owners = self.snapshot.dense.windows_of(self.rows[places])
        return windows, owners, self.snapshot.dense.exact_cosines(self.query.unit_vector, windows)

    def _candidate(
        self, place: int, score: float, span: Span, *, is_window: bool = False
    ) -> Candidate:
        layer, cosine = self.layers[self.layer[place]], float(self.cosines[place])
        return Candidate(
            row=int(self.rows[place]),
            score=float(score),
            found_by="tree",
            reasons=(
                Reason(
                    "layer",
                    layer=layer.number,
                    rank=int(self.rank[place]),
                    total=layer.compared,
                ),
                Reason("cosine", cosine=cosine),
            ),
            best_span=span,
            is_window=is_window,
            relevance=self.query.calibration(cosine),
        )
