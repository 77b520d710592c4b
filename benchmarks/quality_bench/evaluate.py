"""Scores of systems on sets, one process per set, and their comparison with the baselines."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quality_bench.corpora import Corpus, Question, corpora
from quality_bench.embedders import MULTILINGUAL
from quality_bench.measures import coverage, interval, score
from quality_bench.passage_graph import PassageGraph
from quality_bench.systems import BASELINES, systems

HEADLINE: Mapping[str, tuple[str, ...]] = {
    "passages": ("R@5", "all@5"),
    "spans": ("R@2000", "R@4000"),
    "pages": ("G@2000", "G@4000"),
    "coverage": ("C@2000", "C@4000"),
}
"""The measures in which the hybrid is compared with the baselines, unless the set has its own. The
first is the main one."""

BROAD = {"qmsum": "general", "graphrag_bench_novel": "Contextual Summarize"}
"""Type of the questions about an entire document, which the summary tree is meant for."""

Rows = dict[str, list[dict[str, float]]]
"""For each system, the measures of each question."""


@dataclass(frozen=True)
class Scores:
    """The scores of all systems on one set.

    Attributes:
        label: The set and its protocol, such as `hotpotqa-text`.
        name: Name of the set.
        kind: What it measures, a key of `HEADLINE`.
        control: Whether names are no help there.
        rows: The measures.
        extra: Further figures: the number of nodes, and the seconds.
        headline: The measures in which the hybrid is compared with the baselines, main one first;
            empty for those of the kind.
    """

    label: str
    name: str
    kind: str
    control: bool
    rows: Rows
    extra: dict[str, Any] = field(default_factory=dict)
    headline: tuple[str, ...] = ()

    def summary(self) -> dict[str, Any]:
        """Return the means, and the paired differences of the hybrid to the best baseline."""
        means = {name: measure_means(scores) for name, scores in self.rows.items() if scores}
        questions = len(next(iter(self.rows.values()), []))
        answers = sum("A@2000" in row for row in next(iter(self.rows.values()), []))
        result: dict[str, Any] = {
            "questions": questions,
            **({"answers": answers} if answers else {}),
            "kind": self.kind,
            "control": self.control,
            "systems": means,
        }
        baselines = [name for name in BASELINES if name in means]
        if baselines and "hybrid" in means:
            result["against best baseline"] = {
                measure: self.against_best(self.rows["hybrid"], measure)
                for measure in self.headline or HEADLINE[self.kind]
            }
        return result | self.extra

    def mean(self, name: str, measure: str) -> float:
        """Return the mean of a measure of a system."""
        return statistics.mean(row[measure] for row in self.rows[name])

    def best_baseline(self, measure: str) -> str:
        """Return the baseline with the highest mean."""
        names = [name for name in BASELINES if name in self.rows]
        return max(names, key=lambda name: self.mean(name, measure))

    def against_best(self, rows: Sequence[Mapping[str, float]], measure: str) -> dict[str, Any]:
        """Return the mean difference to the best baseline, with its interval."""
        best = self.best_baseline(measure)
        return {"baseline": best} | interval(
            [row[measure] for row in rows], [row[measure] for row in self.rows[best]]
        )


def measure_means(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each measure over the questions that have it."""
    measures = dict.fromkeys(measure for row in rows for measure in row)
    return {m: round(statistics.mean(row[m] for row in rows if m in row), 4) for m in measures}


def evaluate(corpus: Corpus, names: Sequence[str], split: str, every: int = 1) -> list[Scores]:
    """Return the scores on a set, and those on its questions about entire documents.

    Args:
        corpus: The set.
        names: Names of systems; those for passages only are left out elsewhere.
        split: `dev` or `report`.
        every: Use every n-th question.
    """
    began = time.perf_counter()
    with corpus.index() as rag:
        # The graphs embed each sentence, which the multilingual model does too slowly.
        has_graph = corpus.kind == "passages" and corpus.model != MULTILINGUAL
        graph = (lambda: PassageGraph.of(rag, corpus.embedder)) if has_graph else None
        compared = systems(names, graph)
        questions = corpus.questions(split)[::every]

        def scores(
            asked: Sequence[Question], scored: Callable[[Question, Any], dict[str, float]]
        ) -> Rows:
            return {name: [scored(q, one) for q in asked] for name, one in compared.items()}

        local = [q for q in questions if q.spans] if corpus.kind == "spans" else questions
        extra: dict[str, Any] = {"nodes": rag.stats().chunks + rag.stats().summaries}
        rows = scores(local, score(corpus, rag))
        about = corpus.label, corpus.name, corpus.kind, corpus.control
        found = [Scores(*about, rows, extra, corpus.headline)]
        broad = [q for q in questions if q.kind == BROAD.get(corpus.name)]
        if broad:
            rows = scores(broad, lambda question, one: coverage(rag, question, one))
            label = f"{corpus.label} coverage"
            found.append(Scores(label, corpus.name, "coverage", corpus.control, rows))
    extra["seconds"] = round(time.perf_counter() - began, 1)
    return found


def evaluate_all(
    data: Path,
    labels: Sequence[str],
    names: Sequence[str],
    split: str,
    *,
    model: str | None = None,
    every: int = 1,
    workers: int = 2,
    case: str = "",
) -> Iterator[list[Scores]]:
    """Yield the scores on each set as it is done; the order of the sets varies.

    Args:
        data: Folder of the sets.
        labels: Sets with protocols.
        names: Names of systems.
        split: `dev` or `report`.
        model: Name of the embedding model; None for that of each set's language.
        every: Use every n-th question.
        workers: Number of processes, each with one thread.
        case: `lower` or `upper` changes the letters of the questions.
    """
    if workers == 1:
        for corpus in corpora(data, labels, model, case):
            yield evaluate(corpus, names, split, every)
        return
    os.environ["OMP_NUM_THREADS"] = "1"  # inherited by the processes
    ordered = sorted(corpora(data, labels, model, case), key=_when)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        jobs = [pool.submit(evaluate, corpus, names, split, every) for corpus in ordered]
        for job in as_completed(jobs):
            yield job.result()


def _when(corpus: Corpus) -> tuple[int, int]:
    """Return the key by which sets are ordered: large ones first, as they take longest.

    The protocols of a set are apart, so that two processes do not embed the same texts at once.
    """
    protocols = ("text", "field", "none") if corpus.kind == "passages" else ("field",)
    size = (corpus.folder / "corpus.jsonl").stat().st_size
    return protocols.index(corpus.protocol), -size


def pooled(label: str, parts: Sequence[Scores]) -> Scores:
    """Return the scores on the questions of several small sets together."""
    systems_of_all = [name for name in parts[0].rows if all(name in part.rows for part in parts)]
    rows = {name: [row for part in parts for row in part.rows[name]] for name in systems_of_all}
    return Scores(label, label, parts[0].kind, all(part.control for part in parts), rows)
