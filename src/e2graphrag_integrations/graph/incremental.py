"""Updating the weights of the entity graph after a change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.strings import find_rows
from e2graphrag_integrations.entities.edits import EntityEdits
from e2graphrag_integrations.graph.entity_graph import EntityGraph, PairWeights


def updated_pairs(
    older: tuple[PairWeights, IntArray], newer: tuple[PairWeights, IntArray], removed: PairWeights
) -> PairWeights:
    """Return the pair weights after documents were removed and added.

    Args:
        older: The weights before the change, and the new row of each entity; -1 if it was removed.
        newer: The weights in the documents that were added, and the new row of each entity.
        removed: The weights in the documents that were removed, with rows as in `older`.
    """
    (before, older_rows), (added, newer_rows) = older, newer
    if np.array_equal(older_rows, np.arange(len(older_rows))):  # new names follow all others
        return before.changed(removed, added.renumbered(newer_rows))
    nothing = PairWeights.empty()
    left = before.changed(removed, nothing).renumbered(older_rows)
    return left.changed(nothing, added.renumbered(newer_rows))


def weights_of_sentences(
    entities: IntArray,
    sentence_sizes: IntArray,
    names: Sequence[str],
    graph: EntityGraph,
    edits: EntityEdits,
) -> PairWeights:
    """Return the pair weights of some sentences, with rows as in a graph that contains them.

    Args:
        entities: Rows in `names`, before the edits.
        sentence_sizes: Number of mentions per sentence.
        names: Normal forms before the edits.
        graph: The graph after the edits.
        edits: The edits.
    """
    if not edits:
        return PairWeights.from_mentions(entities, sentence_sizes)
    distinct = np.unique(entities)
    resolved = [edits.resolve(names[row]) for row in distinct.tolist()]
    rows = find_rows(graph.index, resolved)[np.searchsorted(distinct, entities)]
    sentences = np.repeat(np.arange(len(sentence_sizes)), sentence_sizes)[rows >= 0]
    sizes = np.bincount(sentences, minlength=len(sentence_sizes))
    return PairWeights.from_mentions(rows[rows >= 0], sizes)
