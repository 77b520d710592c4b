"""The mentions in a chunk as the entity graph counts them.

This module is separate from those of the graph, because the workers of an engine import it and need
no graph.
"""

from __future__ import annotations

from e2graphrag_integrations.entities.edits import NO_EDITS, EntityEdits
from e2graphrag_integrations.entities.subjects import split_subjects
from e2graphrag_integrations.types import Sentences


def normalize_mentions(
    sentences: Sentences, cache: dict[str, str] | None = None, edits: EntityEdits = NO_EDITS
) -> list[list[tuple[str, bool]]]:
    """Return `(normal form, named)` for each mention in a chunk, grouped by sentence.

    Mentions with an empty normal form and candidates for the subject are omitted.

    Args:
        sentences: The mentions of each sentence.
        cache: Known normal forms by surface form. New normal forms are added to it.
        edits: Tell names apart that differ only in capitals. No other edit is applied.
    """
    forms = {} if cache is None else cache
    _, sentences = split_subjects(sentences)
    for sentence in sentences:
        for mention in sentence:
            if mention.entity not in forms:
                forms[mention.entity] = edits.form(mention.entity)
    return [
        [(forms[m.entity], m.named) for m in sentence if forms[m.entity]] for sentence in sentences
    ]
