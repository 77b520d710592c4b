"""Data sets: documents, questions with gold answers, splits, and cached indexes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from e2graphrag_integrations import (
    ChineseEntityExtractor,
    E2GraphRAG,
    SourceDocument,
    SpacyEntityExtractor,
)
from e2graphrag_integrations.entities.subjects import SUBJECT_RULES
from e2graphrag_integrations.options import grouped
from e2graphrag_integrations.protocols import EntityExtractor
from quality_bench.caches import CachedEmbedder, DiskCache
from quality_bench.embedders import DEFAULT, EMBEDDERS, MULTILINGUAL
from quality_bench.models import CachedExtractor
from quality_bench.worlds import write_world

CACHE = Path(__file__).parents[1] / ".cache"

Kind = Literal["passages", "spans", "pages"]
"""What a set measures: gold passages among the first k, gold characters in a token budget, or gold
documents in a token budget."""

Protocol = Literal["field", "text", "none"]
"""Where the title of a document is: in the title field, in the text's first line, or nowhere."""

PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)

_PASSAGES_ONLY = "text", "none"
"""Protocols of passage sets only. Gold spans are offsets in the text, which must not change."""

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
        answer: The answer.
        kind: Type of the question in its data set.
        where: Metadata filter; None searches everything.
        id: Its id in the data set.
    """

    text: str
    gold: frozenset[str]
    spans: tuple[tuple[int, int], ...]
    evidence: str
    answer: str
    kind: str
    where: dict[str, Any] | None
    id: str = ""


@dataclass(frozen=True)
class Corpus:
    """A data set in one protocol.

    Attributes:
        name: Name of the set and its folder.
        folder: Contains corpus.jsonl and questions.jsonl.
        kind: What the set measures. Passages and pages are split by question, spans by document.
        protocol: Where the title of a document is.
        within: Whether a question searches only its own document.
        control: Whether names are no help in finding its gold passages, so that the hybrid must
            only not lose.
        language: ISO 639-1 code of its texts and questions.
        headline: The measures in which the hybrid is compared with the baselines, main one first;
            empty for those of the kind.
        model: Name of the embedding model, a key of `EMBEDDERS`.
        default_extractors: Whether each document and question is read by the default extractor of
            its language, instead of one extractor that remembers the questions.
        case: `lower` or `upper` changes the letters of the questions; empty leaves them.
        cache: Folder of the index files and of the vectors.
    """

    name: str
    folder: Path
    kind: Kind
    protocol: Protocol = "field"
    within: bool = False
    control: bool = False
    language: str = "en"
    headline: tuple[str, ...] = ()
    model: str = DEFAULT
    default_extractors: bool = False
    case: str = ""
    cache: Path = CACHE

    @property
    def label(self) -> str:
        """The name of the set and the protocol, such as `hotpotqa-text`."""
        return self.name if self.protocol == "field" else f"{self.name}-{self.protocol}"

    @property
    def long(self) -> bool:
        """Whether the documents are long, so that the measures use token budgets."""
        return self.kind != "passages"

    def documents(self) -> list[SourceDocument]:
        return [self._document(row) for row in _lines(self.folder / "corpus.jsonl")]

    def _document(self, row: dict[str, Any]) -> SourceDocument:
        id_, title, text = str(row["id"]), row["title"] or None, row["text"]
        if self.protocol == "field":
            return SourceDocument(id_, text, title=title)
        with_title = self.protocol == "text" and title is not None
        return SourceDocument(id_, f"{title}\n{text}" if with_title else text)

    def questions(self, split: str) -> list[Question]:
        """Return half of the questions: even positions for "dev", odd ones for "report"."""
        half = 0 if split == "dev" else 1
        questions = list(_lines(self.folder / "questions.jsonl"))
        if self.kind == "spans":
            order = [str(row["id"]) for row in _lines(self.folder / "corpus.jsonl")]
            chosen = set(order[half::2])
            rows = [row for row in questions if str(row["gold_ids"][0]) in chosen]
        else:
            rows = questions[half::2]
        return [
            self._question(row)
            for row in rows
            # Two questions of zh_cmrc2018 are empty.
            if row["gold_ids"] and row.get("all_gold_here", True) and row["question"].strip()
        ]

    def _question(self, row: dict[str, Any]) -> Question:
        gold = frozenset(str(id_) for id_ in row["gold_ids"])
        silver = [s for s in row.get("silver_spans", ()) if s["recall"] >= _MIN_SILVER_RECALL]
        spans = tuple((s["start"], s["end"]) for s in [*row.get("gold_spans", ()), *silver])
        where = {"document_id": next(iter(gold))} if self.within else None
        answer = str(row.get("answer", ""))
        evidence = " ".join(row.get("evidence", ())) or answer
        own_id = str(row.get("id", ""))
        text = getattr(row["question"], self.case)() if self.case else row["question"]
        return Question(text, gold, spans, evidence, answer, row["type"], where, own_id)

    @cached_property
    def extractor(self) -> CachedExtractor:
        """The extractor of the language, which reads each question once for all systems."""
        return CachedExtractor(extractor_of(self.language))

    @cached_property
    def embedder(self) -> CachedEmbedder:
        """The model that all systems share."""
        vectors = DiskCache(self.cache / "vectors.sqlite")
        name, create = EMBEDDERS[self.model]
        return CachedEmbedder(create(), name, vectors)

    @property
    def path(self) -> Path:
        """The index file. Its name changes with the embedder and the rules of extraction."""
        rules = f"{self.extractor.fingerprint} {SUBJECT_RULES}"
        digest = hashlib.sha256(rules.encode()).hexdigest()[:8]
        model = "" if self.model == DEFAULT else f".{self.model}"
        routed = ".routed" if self.default_extractors else ""
        return self.cache / f"{self.label}{model}{routed}.{digest}.e2g"

    def index(self) -> E2GraphRAG:
        """Open the cached index of the set, or build it with extractive summaries."""
        options: dict[str, Any] = {"embedder": self.embedder}
        if not self.default_extractors:
            options["extractor"] = self.extractor
        if self.long:
            sizes = {"chunk_size": 1200, "chunk_overlap": 100, "summary_tokens": 300}
            options |= {name: in_words(size) for name, size in sizes.items()}
            options["token_counter"] = Words()
        rag = E2GraphRAG.open(self.path, **grouped(options))
        documents = self.documents()
        for start in range(0, len(documents), _BATCH):
            rag.add(documents[start : start + _BATCH])
            print(f"{self.label}: {min(start + _BATCH, len(documents))} of {len(documents)}")
        return rag


WORLD = "world"
"""The set that is generated instead of read."""

_CHINESE: dict[str, Any] = {"language": "zh", "default_extractors": True}

SETS: dict[str, dict[str, Any]] = {
    "hotpotqa": {"kind": "passages"},
    "lihuaworld": {"kind": "passages", "control": True},
    "multihop_rag_facts": {"kind": "passages", "control": True},
    WORLD: {"kind": "passages"},
    "qmsum": {"kind": "spans", "within": True},
    "graphrag_bench_novel": {"kind": "spans"},
    "wild_mathematics": {"kind": "pages"},
    "wild_philosophy": {"kind": "pages"},
    "zh_cmrc2018": {"kind": "passages", "headline": ("R@2", "R@5"), **_CHINESE},
    "zh_rgb": {"kind": "passages", "headline": ("R@10", "nDCG@10"), **_CHINESE},
}
"""The data sets by folder, with the fields of `Corpus` that describe them."""

LABELS = tuple(
    f"{name}{suffix}"
    for name, options in SETS.items()
    for suffix in (("-text", "", "-none") if options["kind"] == "passages" else ("",))
    if "language" not in options
)
"""Every English set in every protocol that it has, with the title in the text first."""

GROUPS: Mapping[str, tuple[str, ...]] = {
    "en": LABELS,
    "zh": ("zh_cmrc2018", "zh_rgb"),
}
"""Sets that are measured together. The passages of zh_rgb have no titles."""

MODELS: Mapping[str, str] = {"en": DEFAULT}
"""The embedding model of each language; that of all others is `MULTILINGUAL`."""


def extractor_of(language: str) -> EntityExtractor:
    """Return the extractor of a language."""
    return ChineseEntityExtractor() if language == "zh" else SpacyEntityExtractor()


def labels_of(names: Sequence[str]) -> list[str]:
    """Return the labels of sets and groups of sets."""
    return [label for name in names for label in GROUPS.get(name, (name,))]


def corpora(
    data: Path, names: Sequence[str], model: str | None = None, case: str = ""
) -> list[Corpus]:
    """Return sets by label: `hotpotqa` for the protocol `field`, or for example `hotpotqa-text`.

    Args:
        data: Folder of the sets.
        names: Labels, or names of groups.
        model: Name of the embedding model, a key of `EMBEDDERS`; None for that of the language.
        case: `lower` or `upper` changes the letters of the questions.
    """
    found = []
    for label in labels_of(names):
        name, _, protocol = label.partition("-")
        options = SETS[name]
        if protocol and (protocol not in _PASSAGES_ONLY or options["kind"] != "passages"):
            raise SystemExit(f"{label}: only passage sets have the protocols text and none")
        folder = data / name
        if name == WORLD:
            write_world(folder := CACHE / WORLD)
        own = model or MODELS.get(options.get("language", "en"), MULTILINGUAL)
        found.append(
            Corpus(name, folder, protocol=protocol or "field", model=own, case=case, **options)  # type: ignore[arg-type] # checked above
        )
    return found


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)
