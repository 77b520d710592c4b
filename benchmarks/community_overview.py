r"""Measure whether communities help with overview questions, on the dev halves.

From the repository's root, after `make bench-quality` has built the indexes:

    python benchmarks/community_overview.py --data ../shared/data \
        --out benchmarks/results/community_overview.json

Asks the general questions of qmsum and the "Contextual Summarize" questions of graphrag_bench_novel
under token budgets. The measure is the share of the content words of the reference answer in the
context. Compared with the hybrid are

- an additional list in its fusion, which takes windows from one community after the other, either
  of all communities or, as the package would have to, only of those visible under the filter, and
- a context of which half consists of extractive reports, of the communities with the most weight
  that are visible under the question's filter.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from e2graphrag_integrations import E2GraphRAG, HybridStrategy
from e2graphrag_integrations.retrieval.strategy import Candidate, Query
from e2graphrag_integrations.retrieval.trace import Trace
from e2graphrag_integrations.snapshot.snapshot import Snapshot
from quality_bench.corpora import Question, corpora, in_words
from quality_bench.evaluate import BROAD
from quality_bench.measures import content_words, interval
from runs import this_run, write_result

BUDGETS = (2000, 4000)
EVERY = {"qmsum": 1, "graphrag_bench_novel": 4}
_WINDOWS = 200
"""Number of windows that are ranked again, as many as `cover_topics` selects from."""


@dataclass(frozen=True)
class CommunityList:
    """Adds a list to the hybrid that takes windows from one community after the other.

    Args:
        level: Level of the communities.
        weight: Weight of the list; that of the list by relevance is 1.
        all_communities: Whether communities count that are not visible under the filter.
        inner: The hybrid.
    """

    level: int
    weight: float
    all_communities: bool = False
    inner: HybridStrategy = field(default_factory=HybridStrategy)

    @property
    def name(self) -> str:
        return "hybrid with communities"

    @property
    def diversity(self) -> float:
        return self.inner.diversity

    def rank(self, query: Query, snapshot: Snapshot) -> tuple[list[Candidate], Trace]:
        candidates, trace = self.inner.rank(query, snapshot)
        top = list(candidates[:_WINDOWS])
        allowed = None if self.all_communities else query.allowed
        own = _community_of_chunks(snapshot, self.level, _Mask(allowed))
        labels = own[snapshot.nodes.first_leaf[[one.row for one in top]]]
        taken: dict[int, int] = {}
        rounds = []
        for label in labels.tolist():
            rounds.append(taken.get(label, 0) if label >= 0 else 0)
            taken[label] = rounds[-1] + 1
        turn = np.lexsort((np.arange(len(top)), rounds))
        place = np.empty(len(top))
        place[turn] = np.arange(len(top))
        k = self.inner.rrf_k
        scores = 1 / (k + 1 + np.arange(len(top))) + self.weight / (k + 1 + place)
        order = np.argsort(-scores, kind="stable").tolist()
        best = [replace(top[n], score=float(scores[n])) for n in order]
        return [*best, *candidates[_WINDOWS:]], trace


@dataclass(frozen=True)
class _Mask:
    """A mask of nodes that can be a key of a cache."""

    allowed: Any = field(compare=False)
    key: bytes = field(init=False)

    def __post_init__(self) -> None:
        key = b"" if self.allowed is None else np.packbits(self.allowed).tobytes()
        object.__setattr__(self, "key", key)


@cache
def _community_of_chunks(snapshot: Snapshot, level: int, mask: _Mask) -> Any:
    """Return the most specific visible community of each chunk, or -1 if there is none."""
    chunks = snapshot.communities(0).evidence(level).chunks
    if mask.allowed is not None:
        hidden = chunks @ (~mask.allowed[snapshot.chunk_nodes]).astype(float)
        kept = np.repeat(hidden == 0, np.diff(chunks.indptr))
        chunks = chunks.copy()
        chunks.data = chunks.data * kept
    weights = chunks.copy()
    frequency = np.repeat(np.diff(chunks.indptr), np.diff(chunks.indptr))
    weights.data = weights.data * np.log(1 + chunks.shape[1] / frequency)
    best = np.asarray(weights.tocsc().argmax(axis=0)).reshape(-1)
    return np.where(np.asarray(weights.max(axis=0).todense()).reshape(-1) > 0, best, -1)


def with_list(rag: E2GraphRAG, question: Question, budget: int, strategy: Any) -> str:
    return rag.retrieve(
        question.text, strategy=strategy, token_budget=in_words(budget), where=question.where
    ).context()


def with_reports(rag: E2GraphRAG, question: Question, budget: int, level: int) -> str:
    """Return a context of which half consists of reports."""
    reports = _reports(rag, level, None if question.where is None else str(question.where))
    words = " ".join(reports).split()[: in_words(budget) // 2]
    rest = in_words(budget) - len(words)
    found = rag.retrieve(question.text, token_budget=rest, where=question.where)
    return f"{' '.join(words)} {found.context()}"


@cache
def _reports(rag: E2GraphRAG, level: int, where: str | None) -> list[str]:
    import ast

    condition = None if where is None else ast.literal_eval(where)
    found = rag.communities(level, top=20, where=condition)
    return [one.report or "" for one in found]


def contexts() -> dict[str, Callable[[E2GraphRAG, Question, int], str]]:
    """Return the compared contexts by name."""
    hybrid = HybridStrategy()
    named: dict[str, Any] = {"hybrid": lambda r, q, b: with_list(r, q, b, hybrid)}
    for level, weight, everything in product((0, 2), (0.5, 1.0), (False, True)):
        strategy = CommunityList(level, weight, everything)
        which = "all" if everything else "visible"
        name = f"list of {which} communities of level {level}, weight {weight:g}"
        named[name] = lambda r, q, b, s=strategy: with_list(r, q, b, s)
    for level in (0, 2):
        named[f"half reports of level {level}"] = lambda r, q, b, n=level: with_reports(r, q, b, n)
    return named


def measure(rag: E2GraphRAG, questions: Sequence[Question]) -> dict[str, Any]:
    """Return the mean coverage of each context, and its difference to the hybrid."""
    scores: dict[str, dict[int, list[float]]] = {}
    for name, context in contexts().items():
        scores[name] = {
            budget: [_coverage(one, context(rag, one, budget)) for one in questions]
            for budget in BUDGETS
        }
        print(name, {b: round(statistics.mean(s), 4) for b, s in scores[name].items()}, flush=True)
    return {
        name: {
            f"C@{budget}": {"mean": round(statistics.mean(found), 4)}
            | interval(found, scores["hybrid"][budget])
            for budget, found in of_budget.items()
        }
        for name, of_budget in scores.items()
    }


def _coverage(question: Question, context: str) -> float:
    gold = content_words(question.evidence)
    return len(gold & content_words(context)) / len(gold)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    sets = {}
    for corpus in corpora(options.data, list(EVERY)):
        with corpus.index() as rag:
            broad = [q for q in corpus.questions("dev") if q.kind == BROAD[corpus.name]]
            questions = broad[:: EVERY[corpus.name]]
            sets[corpus.name] = {"questions": len(questions), "contexts": measure(rag, questions)}
    write_result(this_run() | {"sets": sets}, options.out)


if __name__ == "__main__":
    main()
