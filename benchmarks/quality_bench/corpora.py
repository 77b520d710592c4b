"""Data sets: documents, questions with gold answers, splits, and cached indexes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2graphrag_integrations import E2GraphRAG, SentenceTransformerEmbedder, SourceDocument
from e2graphrag_integrations.protocols import FloatArray

CACHE = Path(__file__).parents[1] / ".cache"
WORD_TOKENS = 1.3
"""Tokens per word, in every budget and for every system."""

_MIN_SILVER_RECALL = 0.6
"""Silver spans with a lower recall do not count as evidence (data/README.md)."""

_BATCH = 500
"""Documents per call of `add`."""


class Words:
    """Counts words, so that budgets do not depend on a tokenizer."""

    fingerprint = "words"
    _word = re.compile(r"\S+")

    def count(self, text: str) -> int:
        return len(text.split())

    def spans(self, text: str) -> list[tuple[int, int]]:
        return [match.span() for match in self._word.finditer(text)]


class CachingEmbedder(SentenceTransformerEmbedder):
    """The default model; embeds each question once for all systems."""

    def __init__(self) -> None:
        super().__init__()
        self._vectors: dict[str, FloatArray] = {}

    def embed_query(self, text: str) -> FloatArray:
        if text not in self._vectors:
            self._vectors[text] = super().embed_query(text)
        return self._vectors[text]


def in_words(tokens: int) -> int:
    return int(tokens / WORD_TOKENS)


@dataclass(frozen=True)
class Question:
    """A question and its gold answer.

    Attributes:
        text: The question.
        gold: Ids of the documents that answer it.
        spans: Character spans of the evidence in the document.
        evidence: Text of the evidence; the answer if there is none.
        kind: Type of the question in its data set.
        where: Metadata filter; None searches everything.
    """

    text: str
    gold: frozenset[str]
    spans: tuple[tuple[int, int], ...]
    evidence: str
    kind: str
    where: dict[str, Any] | None


@dataclass(frozen=True)
class Corpus:
    """A data set.

    Attributes:
        name: Name of the set and its folder.
        folder: Contains corpus.jsonl and questions.jsonl.
        long: True for long documents: measured by the gold characters in the context under a token
            budget, split by document. False for passages: measured by the gold passages among the
            first k, split by question.
        within: Whether a question searches only its own document.
    """

    name: str
    folder: Path
    long: bool
    within: bool

    def documents(self) -> list[SourceDocument]:
        return [
            SourceDocument(str(row["id"]), row["text"], title=row["title"])
            for row in _lines(self.folder / "corpus.jsonl")
        ]

    def questions(self, split: str) -> list[Question]:
        """Return half of the questions: even positions for "dev", odd ones for "report"."""
        half = 0 if split == "dev" else 1
        questions = list(_lines(self.folder / "questions.jsonl"))
        if self.long:
            order = [str(row["id"]) for row in _lines(self.folder / "corpus.jsonl")]
            chosen = set(order[half::2])
            rows = [row for row in questions if str(row["gold_ids"][0]) in chosen]
        else:
            rows = questions[half::2]
        return [self._question(row) for row in rows if row["gold_ids"]]

    def _question(self, row: dict[str, Any]) -> Question:
        gold = frozenset(str(id_) for id_ in row["gold_ids"])
        silver = [s for s in row.get("silver_spans", ()) if s["recall"] >= _MIN_SILVER_RECALL]
        spans = tuple((s["start"], s["end"]) for s in [*row.get("gold_spans", ()), *silver])
        where = {"document_id": next(iter(gold))} if self.within else None
        evidence = " ".join(row["evidence"]) or str(row["answer"])
        return Question(row["question"], gold, spans, evidence, row["type"], where)

    def index(self) -> E2GraphRAG:
        """Open the cached index of the set, or build it with extractive summaries."""
        CACHE.mkdir(exist_ok=True)
        options: dict[str, Any] = {"embedder": CachingEmbedder()}
        if self.long:
            sizes = {"chunk_size": 1200, "chunk_overlap": 100, "summary_tokens": 300}
            options |= {name: in_words(size) for name, size in sizes.items()}
            options["token_counter"] = Words()
        rag = E2GraphRAG.open(CACHE / f"{self.name}.e2g", **options)
        documents = self.documents()
        for start in range(0, len(documents), _BATCH):
            rag.add(documents[start : start + _BATCH])
            print(f"{self.name}: {min(start + _BATCH, len(documents))} of {len(documents)}")
        return rag


def corpora(data: Path, names: Sequence[str]) -> list[Corpus]:
    kinds = {  # long, within
        "hotpotqa": (False, False),
        "lihuaworld": (False, False),
        "qmsum": (True, True),
        "graphrag_bench_novel": (True, False),
    }
    return [Corpus(name, data / name, *kinds[name]) for name in names]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)
