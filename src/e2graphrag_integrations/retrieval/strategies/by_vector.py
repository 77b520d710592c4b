"""A strategy that ranks chunks by their cosine similarity to a given vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from e2graphrag_integrations.errors import InvalidInputError
from e2graphrag_integrations.retrieval.reasons import Reason
from e2graphrag_integrations.retrieval.strategy import Candidate, Query
from e2graphrag_integrations.retrieval.trace import Trace
from e2graphrag_integrations.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class VectorStrategy:
    """Ranks chunks by the cosine similarity of their best window to a vector.

    The question is not read. Frameworks call this a search by vector.

    Args:
        vector: The vector, of the dimension of the index's embedder and of any length.
    """

    vector: Sequence[float]

    @property
    def name(self) -> str:
        """The name of the strategy in the trace."""
        return "vector"

    def needs_vector(self, query: Query, snapshot: Snapshot) -> bool:  # noqa: ARG002 - a protocol
        """Return False: the vector is given."""
        return False

    def rank(self, query: Query, snapshot: Snapshot) -> tuple[Sequence[Candidate], Trace]:
        """Return the `query.k` nearest chunks, best first, and the trace.

        Raises:
            InvalidInputError: If the vector is not a row of finite numbers, or has another
                dimension than the vectors of the index.
        """
        trace = Trace(query.question, self.name, query.mode, reason=Reason("by_vector"))
        unit = self._unit(snapshot)
        allowed = snapshot.is_chunk
        if query.allowed is not None:
            allowed = allowed & query.allowed
        found = snapshot.dense.search(unit, query.k, allowed) if unit.any() else []
        candidates = [
            Candidate(
                row,
                cosine,
                self.name,
                (Reason("cosine", cosine=cosine),),
                relevance=query.calibration(cosine),
            )
            for row, cosine in found
        ]
        return candidates, trace

    def _unit(self, snapshot: Snapshot) -> np.ndarray:
        try:
            vector = np.asarray(self.vector, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"the vector is no list of numbers: {error}") from error
        expected = int(snapshot.made_with.get("dimension", 0)) or len(vector.ravel())
        if vector.shape != (expected,) or not np.isfinite(vector).all():
            raise InvalidInputError(
                f"the vector has the shape {vector.shape}: pass {expected:,} finite numbers, as "
                "the embedding model of the index returns"
            )
        length = float(np.linalg.norm(vector))
        return vector / length if length else vector
