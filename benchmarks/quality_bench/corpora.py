"""The sets: their documents, questions, gold and splits, and their indexes, kept in a cache."""

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
"""Tokens that a word counts for, in every budget and for every system."""

_LEAST_RECALL = 0.6
"""Of silver spans: below it the span is no evidence (data/README.md)."""

_BATCH = 500


class Words:
    """Counts words, so that budgets are the same for every system and every tokenizer."""

    fingerprint = "words"
    _word = re.compile(r"\S+")

    def count(self, text: str) -> int:
        return len(text.split())

    def spans(self, text: str) -> list[tuple[int, int]]:
        return [match.span() for match in self._word.finditer(text)]


class OnceEmbedder(SentenceTransformerEmbedder):
    """The default model, which embeds each question once for all systems."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[str, FloatArray] = {}

    def embed_query(self, text: str) -> FloatArray:
        if text not in self._known:
            self._known[text] = super().embed_query(text)
        return self._known[text]


def in_words(tokens: int) -> int:
    return int(tokens / WORD_TOKENS)


@dataclass(frozen=True)
class Question:
    """A question, what answers it, and where it may be looked for."""

    text: str
    gold: frozenset[str]
    spans: tuple[tuple[int, int], ...]
    evidence: str
    kind: str
    where: dict[str, Any] | None


@dataclass(frozen=True)
class Corpus:
    """One set of the data folder.

    Attributes:
        name: Of the set and its folder.
        long: Whether it is measured by the characters of gold spans in a context under a budget,
            and split by document; else by gold passages among the first k, split by question.
        within: Whether a question is asked of its own document alone.
    """

    name: str
    folder: Path
    long: bool
    within: bool

    def documents(self) -> list[SourceDocument]:
        return [
            SourceDocument(str(one["id"]), one["text"], title=one["title"])
            for one in _lines(self.folder / "corpus.jsonl")
        ]

    def questions(self, split: str) -> list[Question]:
        """Return the half of the questions: even positions are dev, odd ones report."""
        half = 0 if split == "dev" else 1
        everything = list(_lines(self.folder / "questions.jsonl"))
        if self.long:
            order = [str(one["id"]) for one in _lines(self.folder / "corpus.jsonl")]
            inside = set(order[half::2])
            asked = [one for one in everything if str(one["gold_ids"][0]) in inside]
        else:
            asked = everything[half::2]
        return [self._question(one) for one in asked if one["gold_ids"]]

    def _question(self, one: dict[str, Any]) -> Question:
        gold = frozenset(str(id_) for id_ in one["gold_ids"])
        silver = [s for s in one.get("silver_spans", ()) if s["recall"] >= _LEAST_RECALL]
        spans = tuple((s["start"], s["end"]) for s in [*one.get("gold_spans", ()), *silver])
        where = {"document_id": next(iter(gold))} if self.within else None
        told = " ".join(one["evidence"]) or str(one["answer"])
        return Question(one["question"], gold, spans, told, one["type"], where)

    def index(self) -> E2GraphRAG:
        """Open the index of the set, made at first: extractive summaries, no language model."""
        CACHE.mkdir(exist_ok=True)
        options: dict[str, Any] = {"embedder": OnceEmbedder()}
        if self.long:
            sizes = {"chunk_size": 1200, "chunk_overlap": 100, "summary_tokens": 300}
            options |= {name: in_words(size) for name, size in sizes.items()}
            options["token_counter"] = Words()
        rag = E2GraphRAG.open(CACHE / f"{self.name}.e2g", **options)
        documents = self.documents()
        for at in range(0, len(documents), _BATCH):
            rag.add(documents[at : at + _BATCH])
            print(f"{self.name}: {min(at + _BATCH, len(documents))} of {len(documents)}")
        return rag


def corpora(data: Path, names: Sequence[str]) -> list[Corpus]:
    known = {
        "hotpotqa": (False, False),
        "lihuaworld": (False, False),
        "qmsum": (True, True),
        "graphrag_bench_novel": (True, False),
    }
    return [Corpus(name, data / name, *known[name]) for name in names]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)
