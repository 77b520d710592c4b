"""The sizes of trees, and a plain reimplementation of RAPTOR's tree traversal.

`TreeTraversalStrategy` is compared with the latter. It follows the six steps of the paper (arXiv
2401.18059, section 3, "tree traversal"): it walks along the nodes' own parent ids and compares
every node of a layer with the question.
"""

from __future__ import annotations

from itertools import pairwise

_TIE = 1e-5
"""Cosines that differ by less may be ordered either way, because of rounding."""


def level_sizes(chunks: int, group_size: int = 5) -> list[int]:
    """Return the number of nodes on each level with fixed groups, starting with the chunks.

    Level h + 1 has one summary for each group of up to `group_size` nodes on level h. Levels are
    added while the highest has more than `group_size` nodes. A document of two or more chunks has
    at least one summary.
    """
    if chunks <= 0:
        return []
    sizes = [chunks]
    while sizes[-1] > group_size or (len(sizes) == 1 and chunks > 1):
        sizes.append(-(-sizes[-1] // group_size))
    return sizes


class Oracle:
    """Plain tree traversal over the stored nodes of an index."""

    def __init__(self, rag, embedder):
        self.snapshot = rag._session.snapshot()
        ids = list(self.snapshot.nodes.ids)
        self.nodes = rag.nodes(ids)
        self.vectors = {id_: [] for id_ in ids}
        for row, vector in zip(
            self.snapshot.dense.window_nodes, self.snapshot.dense.vectors, strict=True
        ):
            self.vectors[ids[row]].append(vector)
        self.children = {id_: [] for id_ in ids}
        for node in self.nodes.values():
            if node.parent_id is not None:
                self.children[node.parent_id].append(node.id)
        self.had_ties = False
        self.embed = embedder.embed_query

    def cosine(self, id_, question):
        vector = self.embed(question)
        return max(
            sum(float(a) * float(b) for a, b in zip(window, vector, strict=True))
            for window in self.vectors[id_]
        )

    def matching(self, ids, allowed):
        found = []
        for id_ in ids:
            if id_ in allowed:
                found.append(id_)
            else:
                found += self.matching(self.children[id_], allowed)
        return found

    def layers(self, question, top_k=None, threshold=None, depth=None, allowed=None):
        allowed = set(self.nodes) if allowed is None else allowed
        layer = self.matching([i for i, n in self.nodes.items() if n.parent_id is None], allowed)
        selected = []
        while layer and len(selected) != depth:
            cosines = {id_: self.cosine(id_, question) for id_ in layer}
            best = sorted(layer, key=lambda id_: -cosines[id_])
            if threshold is not None:
                best = [id_ for id_ in best if cosines[id_] >= threshold]
            scores = sorted(cosines.values())
            self.had_ties |= any(b - a < _TIE for a, b in pairwise(scores))
            best = best[:top_k]
            selected.append({id_: cosines[id_] for id_ in best})
            below = [child for id_ in best for child in self.children[id_]]
            layer = self.matching(below, allowed)
        return selected


def layers_of(result):
    """Return the selected nodes and their cosines, one dictionary for each layer."""
    lists = result.trace.lists
    return [
        {one.node_id: one.figures["cosine"] for one in lists[f"layer_{number}"]}
        for number in range(1, len(lists) + 1)
    ]
