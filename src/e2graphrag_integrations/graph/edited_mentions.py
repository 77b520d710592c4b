"""Applying the user's entity edits to the mentions of an index."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from e2graphrag_integrations.entities.edits import EntityEdits
from e2graphrag_integrations.graph.builder import MentionTable


def apply_edits(
    names: Sequence[str], mentions: MentionTable, edits: EntityEdits
) -> tuple[Sequence[str], MentionTable]:
    """Return the names of the entities after the edits, sorted, and their mentions.

    Mentions of an alias become mentions of its entity. Those of stopped names are omitted.

    Args:
        names: Distinct normal forms, sorted.
        mentions: The mentions; their `entities` refer to rows in `names`.
        edits: The edits.
    """
    if not edits:
        return names, mentions
    entities = [edits.resolve(name) for name in names]
    new_names = sorted({entity for entity in entities if entity})
    rows = {entity: row for row, entity in enumerate(new_names)}
    new_row = np.asarray([rows.get(entity, -1) for entity in entities], dtype=np.int64)
    moved = new_row[mentions.entities]
    kept = moved >= 0
    sentences = np.repeat(np.arange(len(mentions.sentence_sizes)), mentions.sentence_sizes)
    sizes = np.bincount(sentences[kept], minlength=len(mentions.sentence_sizes))
    return new_names, MentionTable(
        moved[kept],
        mentions.label_numbers[kept],
        sizes.astype(np.int64),
        mentions.chunk_sizes,
        mentions.labels,
    )
