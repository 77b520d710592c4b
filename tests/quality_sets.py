"""Tiny data sets in the layout of ../shared/data, for the tests of the benchmarks."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from e2graphrag_integrations import HashingEmbedder, SourceDocument
from quality_bench.caches import CachedEmbedder, DiskCache
from quality_bench.corpora import corpora
from quality_bench.models import CachedExtractor

PASSAGES = [
    SourceDocument("dune", "Dune is by Herbert. Critics praised Dune."),
    SourceDocument("herbert", "Herbert was born in Tacoma. Herbert liked Ferns."),
    SourceDocument("tacoma", "Tacoma has a Harbour. Ferns grow there."),
    SourceDocument("other", "Anna met Bert. Bert left."),
]


def make_set(folder, name):
    (folder / name).mkdir()
    rows = [{"id": d.id, "title": d.id.title(), "text": d.text} for d in PASSAGES]
    asked = [
        ("Who wrote Dune?", "dune", "Herbert"),
        ("Where was Herbert born?", "herbert", "Tacoma"),
    ]
    questions = [
        {"question": q, "gold_ids": [gold], "answer": answer, "type": "bridge"}
        for q, gold, answer in asked * 2
    ]
    for file, lines in (("corpus", rows), ("questions", questions)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / name / f"{file}.jsonl").write_text(text, encoding="utf-8")


def tiny(folder, label, extractor):
    """Return a set whose models are fakes."""
    [one] = corpora(folder, [label])
    one = replace(one, cache=folder / "cache")
    vars(one)["embedder"] = CachedEmbedder(
        HashingEmbedder(), "hashing", DiskCache(folder / "cache" / "vectors.sqlite")
    )
    vars(one)["extractor"] = CachedExtractor(extractor)
    return one
