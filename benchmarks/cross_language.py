r"""Measure questions in one language over documents in another, with and without a glossary.

English questions over Chinese passages, and Chinese questions over English passages, are compared
with the same questions in the language of the passages. `cross_language_questions.json` has the
translations, says how they were made, and has the glossary: the names in the questions as the
passages write them, which `edit_entities(alias=...)` takes.

    python benchmarks/cross_language.py --data ../shared/data \
        --out benchmarks/results/cross_language.json

The figures are recall among the first k passages. A ratio is the figure of the translations divided
by that of the originals.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from e2graphrag_integrations import E2GraphRAG
from e2graphrag_integrations.errors import UnknownEntityError
from goals import Goal, exit_if_missed
from quality_bench.corpora import Corpus, Question, corpora
from quality_bench.embedders import EMBEDDERS, MULTILINGUAL
from quality_bench.evaluate import measure_means
from quality_bench.measures import interval, passages
from quality_bench.systems import systems
from runs import this_run, write_result

QUESTIONS = Path(__file__).parent / "cross_language_questions.json"

SYSTEMS = ("dense", "bm25", "rrf", "paper", "hybrid")

_MIN_RATIO = 0.8

Rows = Mapping[str, Sequence[Mapping[str, float]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--split", choices=("dev", "report"), default="report")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    names = options.systems.split(",")
    translated = json.loads(QUESTIONS.read_text(encoding="utf-8"))["sets"]
    sets = {}
    for corpus in corpora(options.data, list(translated), MULTILINGUAL):
        own = translated[corpus.label]
        routed = replace(corpus, default_extractors=True)
        sets[corpus.label] = measure(routed, own, options.split, names)
    found = [
        Goal(f"{label}: R@5 of the hybrid, ratio to the same language{end}", one[key], min=limit)
        for label, one in sets.items()
        for key, end, limit in (
            ("ratio", "", _MIN_RATIO),
            ("ratio with the glossary", ", with the glossary", _MIN_RATIO),
        )
    ]
    result = {
        **this_run(),
        "embedder": EMBEDDERS[MULTILINGUAL][0],
        "split": options.split,
        "sets": sets,
        "goals": [goal.to_dict() for goal in found],
    }
    write_result(result, options.out)
    exit_if_missed(found)


def measure(
    corpus: Corpus, translated: Mapping[str, Any], split: str, names: Sequence[str]
) -> dict[str, Any]:
    """Return the figures of the translated questions of a set, and of the originals."""
    texts = translated["questions"][split]
    originals = [one for one in corpus.questions(split) if one.id in texts]
    translations = [replace(one, text=texts[one.id]) for one in originals]
    with corpus.index() as rag:
        same = scores(rag, originals, names)
        cross = scores(rag, translations, names)
    with tempfile.TemporaryDirectory() as folder, copied(corpus, Path(folder)).index() as rag:
        known = add_glossary(rag, translated["glossary"])
        with_glossary = scores(rag, translations, ["hybrid"])
    same_recall = mean(same["hybrid"])
    return {
        "questions": len(originals),
        "from": translated["language"],
        "to": corpus.language,
        "glossary": {"names": len(translated["glossary"]), "in the index": known},
        "same language": {name: measure_means(rows) for name, rows in same.items()},
        "translated": {name: measure_means(rows) for name, rows in cross.items()},
        "translated, with the glossary": {
            n: measure_means(rows) for n, rows in with_glossary.items()
        },
        "ratio": round(mean(cross["hybrid"]) / same_recall, 4),
        "ratio with the glossary": round(mean(with_glossary["hybrid"]) / same_recall, 4),
        "R@5, translated minus the same language": difference(cross, same),
        "R@5, gain of the glossary": difference(with_glossary, cross),
    }


def copied(corpus: Corpus, folder: Path) -> Corpus:
    """Return the set with a copy of its index, so that edits do not change the cached one."""
    copy = replace(corpus, cache=folder)
    copy.__dict__["embedder"] = corpus.embedder
    shutil.copy(corpus.path, copy.path)
    snapshots = Path(f"{corpus.path}.snapshot")
    if snapshots.exists():
        shutil.copytree(snapshots, f"{copy.path}.snapshot")
    return copy


def add_glossary(rag: E2GraphRAG, glossary: Mapping[str, str]) -> int:
    """Make each name an alias, unless the index lacks its entity; return the number of aliases."""
    known = 0
    for name, entity in glossary.items():
        try:
            rag.edit_entities(alias={name: entity})
            known += 1
        except UnknownEntityError as error:
            print(error)
    return known


def scores(rag: E2GraphRAG, questions: Sequence[Question], names: Sequence[str]) -> Rows:
    return {
        name: [passages(rag, one, strategy) for one in questions]
        for name, strategy in systems(names).items()
    }


def mean(rows: Sequence[Mapping[str, float]]) -> float:
    return sum(row["R@5"] for row in rows) / len(rows)


def difference(rows: Rows, baseline: Rows) -> dict[str, float]:
    """Return the mean difference of the hybrid's R@5, with its interval."""
    ours, theirs = ([row["R@5"] for row in one["hybrid"]] for one in (rows, baseline))
    return interval(ours, theirs)


if __name__ == "__main__":
    main()
