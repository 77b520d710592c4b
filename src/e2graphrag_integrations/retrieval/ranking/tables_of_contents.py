"""Tables of contents rank below the sections that they name."""

from __future__ import annotations

import re

import numpy as np

from e2graphrag_integrations._utils.arrays import IntArray
from e2graphrag_integrations.retrieval.ranking.relevance import Relevance
from e2graphrag_integrations.search.bm25 import BM25Index
from e2graphrag_integrations.search.fusion import Floats
from e2graphrag_integrations.text.contents import CONTENTS

_CONTENTS_FACTOR = 0.25
"""Factor of the score of a table of contents. It comes after about three sections that match."""

_ASKED = re.compile(
    r"\b(?:contents|chapters|sections|parts|topics|headings|toc|outline|structured?|kapitel"
    r"|chapitres|capítulos|capitoli|главы|разделы)\b|目[录錄次]|[哪几幾]\w?[章节節]|章节|章節",
    re.IGNORECASE,
)
"""Words of a question that a table of contents answers."""


def contents_factors(question: str, bm25: BM25Index, windows: IntArray) -> Floats:
    """Return the factor of the score of each window, shape (n,).

    Args:
        question: The question.
        bm25: The terms of all windows.
        windows: Window numbers, shape (n,).
    """
    if _ASKED.search(question):
        return np.ones(len(windows))
    [are_contents] = bm25.contain([CONTENTS], windows)
    return np.where(are_contents, _CONTENTS_FACTOR, 1.0)


def without_contents_first(
    relevance: Relevance, rows: IntArray, scores: Floats
) -> tuple[IntArray, Floats]:
    """Return nodes, best first, and their scores, of which tables of contents have a lower one.

    Args:
        relevance: The relevance of windows. The most relevant window of a node decides.
        rows: Node rows, best first, shape (n,).
        scores: Their scores, shape (n,).
    """
    windows, found = relevance.best_windows(rows)
    if not found.any():
        return rows, scores
    factors = contents_factors(relevance.query.question, relevance.snapshot.bm25, windows)
    lowered = np.where(found, scores * factors, scores)
    order = np.lexsort((rows, -lowered))
    return rows[order], lowered[order]
