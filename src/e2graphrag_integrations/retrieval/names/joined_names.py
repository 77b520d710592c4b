"""Chunks of long texts that join several names of the question.

"What did Weena give to the Time Traveller?" has two names. In a novel, each of them is in
dozens of chunks, and few chunks have both. Among short passages, the evidence for two names is
often in two passages, so these are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.retrieval.names.seeds import Seed, Seeds
from e2graphrag_integrations.snapshot.snapshot import Snapshot

_MIN_CHUNKS = 10
"""Minimum number of chunks of a long text."""

_MAX_NAMES = 6
"""Number of names, rarest first, that may join."""


def joined_names(seeds: Seeds, snapshot: Snapshot) -> tuple[IntArray, IntArray]:
    """Return the allowed chunks of long texts with two or more names, and their number of names.

    A name within a longer one ("Anna" and "Anna Krog") does not count beside it, and the title of a
    text counts only in the chunks that mention it.
    """
    nothing = np.empty(0, dtype=np.int64)
    graph = snapshot.graph
    mentioned = [one for one in seeds.ranked[:_MAX_NAMES] if one.entity < len(graph.names)]
    names = _apart(mentioned, snapshot.subjects.names)
    if len(names) < 2:  # noqa: PLR2004 - joins two names
        return nothing, nothing
    found = np.concatenate([seeds.allowed_among(graph.chunks(one.entity)[0]) for one in names])
    chunks, counts = np.unique(found, return_counts=True)
    chunks, counts = chunks[counts > 1], counts[counts > 1]
    documents = snapshot.chunk_documents
    own = documents[chunks]
    sizes = np.searchsorted(documents, own, side="right") - np.searchsorted(documents, own)
    is_long = sizes >= _MIN_CHUNKS
    return chunks[is_long], counts[is_long]


def _apart(seeds: Sequence[Seed], names: Sequence[str]) -> list[Seed]:
    """Return the seeds whose name is in no other seed's name."""
    return [
        one
        for one in seeds
        if not any(one is not other and names[one.entity] in names[other.entity] for other in seeds)
    ]
