"""The codes of a question, and the chunks that contain them.

A code names one thing exactly: a version, a clause, a part, a day. Vectors do not tell `2.10.1`
from `2.1.10`, and few words of such a question are rare. So the chunks with its codes are a ranked
list of their own (`text/codes.py` has the rules). A code in many chunks has little weight, as a
name in many chunks has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.retrieval.names.seeds import specificity
from e2graphrag_integrations.retrieval.strategy import Query
from e2graphrag_integrations.search.bm25 import BM25Index
from e2graphrag_integrations.search.fusion import Floats
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from e2graphrag_integrations.text.codes import MARK, START, QuestionCode

_MAX_CODES = 32
"""Maximum number of codes of a question that are looked up."""

_LEAST = 1e-3
"""What a code in every chunk adds to the score of a chunk."""


@dataclass(frozen=True, slots=True)
class CodeMatch:
    """A code of the question that the index contains.

    Attributes:
        text: The code as written in the question.
        term: Its term in the index.
        chunks: The allowed chunks that contain it, ascending.
        starts: Whether a line of each chunk begins with it, shape (chunks,).
        windows: The windows of these chunks that contain it, ascending.
    """

    text: str
    term: str
    chunks: IntArray
    starts: NDArray[np.bool_]
    windows: IntArray


class CodeMatches:
    """The codes of one question in an index.

    Args:
        query: The query.
        snapshot: The search index.
        allowed: Mask over chunks, shape (chunks,); None allows all.

    Attributes:
        found: The codes that allowed chunks contain.
        specificity: The specificity of the rarest one, in [0, 1], as that of a name
            (`Seeds.specificity`); 0 without codes.
    """

    def __init__(self, query: Query, snapshot: Snapshot, allowed: NDArray[np.bool_] | None) -> None:
        self._total = len(snapshot.chunk_nodes) if allowed is None else int(allowed.sum())
        codes = query.codes[:_MAX_CODES] if query.mode != "global" else []
        found = (_match(one, snapshot, allowed) for one in codes)
        self.found: Sequence[CodeMatch] = [one for one in found if one is not None]
        self.specificity = max((self._specificity_of(one) for one in self.found), default=0.0)

    def ranked(self, *, at_start: bool = False) -> tuple[IntArray, Floats]:
        """Return the chunks with codes, ascending, and the sum of the specificity of their codes.

        Where a line begins with a code, a clause is written and not cited, so it counts for more.

        Args:
            at_start: Whether only such chunks are returned.
        """
        empty = np.empty(0, dtype=np.int64)
        places = (one.chunks[one.starts] if at_start else one.chunks for one in self.found)
        chunks = np.unique(np.concatenate([empty, *places]))
        scores = np.zeros(len(chunks))
        for one in self.found:
            value = max(self._specificity_of(one), _LEAST)
            scores[np.isin(chunks, one.chunks)] += value
            scores[np.isin(chunks, one.chunks[one.starts])] += value / 2
        return chunks, scores

    @property
    def windows(self) -> IntArray:
        """The windows of chunks that contain at least one of the codes, ascending."""
        empty = np.empty(0, dtype=np.int64)
        return np.unique(np.concatenate([empty, *(one.windows for one in self.found)]))

    def _specificity_of(self, match: CodeMatch) -> float:
        if self._total < 2:  # noqa: PLR2004 - the formula needs two chunks
            return 1.0
        return specificity(len(match.chunks), self._total)


def _match(
    code: QuestionCode, snapshot: Snapshot, allowed: NDArray[np.bool_] | None
) -> CodeMatch | None:
    for term in code.terms:
        chunks = _chunks_with(term, snapshot, allowed)
        if len(chunks):
            at_start = _chunks_with(START + term.removeprefix(MARK), snapshot, allowed)
            windows = snapshot.bm25.texts_with(term)
            own = np.isin(snapshot.dense.window_nodes[windows], snapshot.chunk_nodes[chunks])
            return CodeMatch(code.text, term, chunks, np.isin(chunks, at_start), windows[own])
    return None


def _chunks_with(term: str, snapshot: Snapshot, allowed: NDArray[np.bool_] | None) -> IntArray:
    bm25: BM25Index = snapshot.bm25
    nodes = snapshot.dense.window_nodes[bm25.texts_with(term)]
    chunks = np.flatnonzero(np.isin(snapshot.chunk_nodes, nodes)) if len(nodes) else nodes
    return chunks if allowed is None else chunks[allowed[chunks]]
