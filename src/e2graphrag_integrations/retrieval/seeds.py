"""Seeds: the question's names that the index knows, and how specific they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations._utils.lazy import lazy
from e2graphrag_integrations.entities.linking import Linking, link
from e2graphrag_integrations.retrieval.strategy import Query
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.types import NOUN

_MOST = 32
_PAIRED = 16
"""Names of a question, the rarest, that are walked from, and that are looked at in pairs."""


@dataclass(frozen=True, slots=True)
class Seed:
    """A name of the question: its row among the subjects, its link's score, the chunks it is in."""

    entity: int
    score: float
    held: int


class Seeds:
    """Where a walk through the entity graph starts.

    Args:
        query: The question.
        snapshot: Of the index.
        seen: Mask over chunks, None where all may be seen.
        aliases: Whether surnames, initials and misspellings are looked up.
    """

    def __init__(
        self, query: Query, snapshot: Snapshot, seen: NDArray[np.bool_] | None, *, aliases: bool
    ) -> None:
        self._snapshot = snapshot
        self._seen = seen
        self.linking = self._linked(query, aliases=aliases)

    def _linked(self, query: Query, *, aliases: bool) -> Linking:
        """Return the links of the question's names; nouns are left to the words."""
        if not query.mentions:
            return Linking((), ())
        snapshot, subjects = self._snapshot, self._snapshot.subjects
        found = link(query.mentions, subjects.index, snapshot.aliases if aliases else None)
        known = len(snapshot.graph.names)
        rows = {one.entity: subjects.index[one.entity] for one in found.links}
        named = {
            entity
            for entity, row in rows.items()
            if row >= known or snapshot.graph.named[row] or row in subjects.documents
        }
        nouns = {mention.entity for mention in query.mentions if mention.label == NOUN}
        return Linking(
            tuple(one for one in found.links if one.entity in named),
            tuple(name for name in found.unlinked if name not in nouns),
        )

    @lazy
    def all(self) -> Sequence[Seed]:
        """Return the names that a chunk that may be seen holds, the rarest first."""
        index = self._snapshot.subjects.index
        found = []
        for one in self.linking.links:
            entity = index[one.entity]
            held = self._count(self._snapshot.walk.chunks_of(entity))
            if held:
                found.append(Seed(entity, one.score, held))
        return sorted(found, key=lambda seed: seed.held)[:_MOST]

    @property
    def paired(self) -> Sequence[Seed]:
        """Return those of them that are looked at in pairs."""
        return self.all[:_PAIRED]

    @lazy
    def specificity(self) -> float:
        """Return max of s ln((N + 1) / (df + 1)) / ln((N + 1) / 2), in [0, 1].

        Over names, and over pairs of them that share chunks, as the paper's local side asks for. N
        and df count the chunks that may be seen; what one of them alone holds has all of s.
        """
        chunks = len(self._snapshot.chunk_nodes) if self._seen is None else int(self._seen.sum())
        if not self.all or chunks < 2:  # noqa: PLR2004 - of one chunk nothing is specific
            return 0.0
        pairs = (
            (min(a.score, b.score), shared)
            for a, b in combinations(self.paired, 2)
            if (shared := self._shared(a, b))
        )
        return max(
            float(score * np.log((chunks + 1) / (held + 1)) / np.log((chunks + 1) / 2))
            for score, held in [*((seed.score, seed.held) for seed in self.all), *pairs]
        )

    def walk(self, damping: float, steps: int) -> tuple[IntArray, NDArray[np.float64]]:
        """Return chunks and their shares of a walk from the seeds, the rarer the stronger."""
        start = {seed.entity: seed.score / seed.held for seed in self.all}
        return self._snapshot.walk.rank(start, damping=damping, steps=steps, seen=self._seen)

    def _shared(self, a: Seed, b: Seed) -> int:
        chunks_of = self._snapshot.walk.chunks_of
        few, many = sorted((chunks_of(a.entity), chunks_of(b.entity)), key=len)
        at = np.minimum(np.searchsorted(many, few), len(many) - 1)
        return self._count(few[many[at] == few])

    def _count(self, chunks: IntArray) -> int:
        return len(chunks) if self._seen is None else int(self._seen[chunks].sum())
